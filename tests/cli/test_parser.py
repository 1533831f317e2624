"""What a person reads who has mistyped a command line."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.cli.main import run

COMMANDS = "ask, chat, fix, resume, sessions, diff, apply, recheck, policy, sandbox, config, doctor, completion"
ASK = 'codeagent ask "why does UserService return null"'


@pytest.mark.parametrize(
    ("line", "sentence", "remedy"),
    [
        ("", f"codeagent needs a command: {COMMANDS}.", f"For example: {ASK}"),
        ("asks why", "There is no command 'asks'.", f"Did you mean ask? It is one of: {COMMANDS}."),
        ("bogus", "There is no command 'bogus'.", f"It is one of: {COMMANDS}."),
        ("ask why --bogus", "codeagent ask has no flag --bogus.", "`codeagent ask --help` shows how it is used."),
        ("ask", "codeagent ask needs QUESTION.", f"For example: {ASK}"),
        ("ask why --modle x", "codeagent ask has no flag --modle.", "Did you mean --model?"),
        ("ask why --zzz", "codeagent ask has no flag --zzz.", "`codeagent ask --help` shows how it is used."),
        (
            "ask why is that",
            "codeagent ask was given more words than it takes: is that.",
            f"Put quotes around what belongs together. For example: {ASK}",
        ),
        (
            "ask why --approve contain",
            "codeagent ask: --approve cannot be 'contain'.",
            "Did you mean contained? It is one of: ask, read-only, contained, all.",
        ),
        (
            "ask why --max-rounds",
            "codeagent ask: --max-rounds needs a value.",
            "`codeagent ask --help` shows how it is used.",
        ),
        (
            "sessions",
            "codeagent sessions needs an action: list, show, export, delete.",
            "For example: codeagent sessions list",
        ),
        (
            "sessions export k3f9x",
            "codeagent sessions export needs one of --html, --markdown, --json.",
            "For example: codeagent sessions export k3f9x --html report.html",
        ),
        ("completion tcsh", "codeagent completion: there is no shell 'tcsh'.", "It is one of: bash, zsh, fish."),
    ],
)
def test_one_sentence_says_what_is_wrong_and_one_what_to_do(
    line: str, sentence: str, remedy: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(line.split()) == 2
    assert capsys.readouterr() == ("", f"codeagent: error: {sentence}\n{remedy}\n")


def test_what_was_typed_cannot_act_on_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["ask", "why", "\x1b]0;mine\x07"]) == 2
    assert "more words than it takes: \\x1b]0;mine\\x07." in capsys.readouterr().err


def test_policy_errors_leave_the_codes_of_the_classes_free(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["policy", "check", "ls", "-l", "x"]) == 64
    assert run(["policy"]) == 64


def test_a_bad_value_is_refused_before_anything_large_is_loaded(tmp_path: Path) -> None:
    script = (
        "import sys; from codeagent.cli.main import run; run(sys.argv[1:]); "
        "print(sorted({'codeagent.cli.wiring', 'codeagent.providers.open', 'rich', 'docker'} & sys.modules.keys()))"
    )
    argv = [sys.executable, "-c", script, "ask", "why", "--model", "offline", "--max-rounds", "x"]
    environ = {**os.environ, "CODEAGENT_HOME": str(tmp_path)}
    done = subprocess.run(argv, capture_output=True, text=True, env=environ, timeout=60, check=False)
    assert (done.stdout, done.stderr.splitlines()[0]) == ("[]\n", "codeagent: error: --max-rounds x is not valid.")
