"""The scripts in the shells they are for: what a person gets on pressing Tab."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pexpect
import pytest

pytestmark = pytest.mark.shells

PROGRAM = str(Path(sys.executable).with_name("codeagent"))
BASH = r"""
source "$1"
COMP_WORDS=("${@:2}"); COMP_CWORD=$(($# - 2)); COMP_LINE="${*:2}"; COMP_POINT=${#COMP_LINE}
$(complete -p codeagent | sed -E 's/.*-F ([^ ]+).*/\1/') codeagent "${COMP_WORDS[COMP_CWORD]}"
printf '%s\n' "${COMPREPLY[@]}"
"""


@pytest.fixture(scope="module")
def scripts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("completion")
    for shell, name in (("bash", "codeagent"), ("zsh", "_codeagent"), ("fish", "codeagent.fish")):
        command = [PROGRAM, "completion", shell]
        ran = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        (folder / name).write_text(ran.stdout, encoding="utf-8")
    (folder / "repository").mkdir()
    return folder


def bash(scripts: Path, *words: str) -> set[str]:
    command = ["bash", "-c", BASH, "bash", str(scripts / "codeagent"), *words]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=scripts)
    assert ran.stderr == ""
    return {line.strip() for line in ran.stdout.splitlines()}


def fish(scripts: Path, line: str) -> set[str]:
    script = f"source {scripts / 'codeagent.fish'}; complete -C {line!r}"
    env = {**os.environ, "HOME": str(scripts)}
    ran = subprocess.run(
        ["fish", "--no-config", "-c", script], capture_output=True, text=True, timeout=60, cwd=scripts, env=env
    )
    assert ran.stderr == ""
    return {line.partition("\t")[0] for line in ran.stdout.splitlines()}


def zsh(scripts: Path, line: str, shown: str) -> None:
    """Waits until zsh shows this for what was typed and a tab."""
    env = {**os.environ, "ZDOTDIR": str(scripts), "PS1": "ready> ", "TERM": "dumb", "HOME": str(scripts)}
    child = pexpect.spawn("zsh", ["-f", "-i"], env=env, cwd=str(scripts), encoding="utf-8", timeout=60)
    try:
        child.expect("ready> ")
        child.sendline(f"fpath=({scripts} $fpath); autoload -U compinit; compinit -u -D; PS1='set> '")
        child.expect("\nset> |\rset> ")
        child.send(f"{line}\t")
        seen = ""
        while shown not in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", seen).replace("\b", ""):
            child.expect(r"(?s).+")
            seen += str(child.after)
    finally:
        child.close(force=True)


def test_bash_completes_commands_flags_choices_and_folders(scripts: Path) -> None:
    assert {"ask", "chat", "fix", "resume", "doctor", "config", "completion"} <= bash(scripts, "codeagent", "")
    assert bash(scripts, "codeagent", "comp") == {"completion"}
    assert "--verify-repeat" in bash(scripts, "codeagent", "ask", "--ver")
    assert bash(scripts, "codeagent", "ask", "--approve", "con") == {"contained"}
    assert bash(scripts, "codeagent", "ask", "--repo", "repo") == {"repository"}
    assert bash(scripts, "codeagent", "config", "") >= {"show"}


def test_fish_completes_commands_flags_choices_and_folders(scripts: Path) -> None:
    assert {"ask", "chat", "fix", "resume", "doctor", "config", "completion"} <= fish(scripts, "codeagent ")
    assert "--verify-repeat" in fish(scripts, "codeagent ask --ver")
    assert fish(scripts, "codeagent ask --approve con") == {"contained"}
    assert "repository/" in fish(scripts, "codeagent ask --repo repo")


@pytest.mark.parametrize("line", ["codeagent ask --ap", "codeagent sessions show --fu", "codeagent apply --rev"])
def test_zsh_inserts_the_one_flag_that_fits_beside_free_text(scripts: Path, line: str) -> None:
    flag = {"--ap": "--approve", "--fu": "--full", "--rev": "--reverse"}[line.split()[-1]]
    zsh(scripts, line, f"{line.rpartition(' ')[0]} {flag} ")


@pytest.mark.parametrize(
    ("line", "shown"),
    [("codeagent ask --verify-", "verify-repeat"), ("codeagent ask --repo repo", "repository")],
)
def test_zsh_completes_flags_and_folders(scripts: Path, line: str, shown: str) -> None:
    zsh(scripts, line, shown)
