"""Every flag that the table calls harmless is tried for real: given a name, it must neither write it nor run it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from shlex import join

import pytest

from codeagent.approval.classify import classify
from codeagent.approval.flags import Program, known_flags
from codeagent.approval.git import COMMANDS
from codeagent.approval.readonly import PROGRAMS
from codeagent.approval.seam import CommandClass
from tests.approval.dangerous import plant, snapshot

OPERANDS: dict[str, list[list[str]]] = {
    "tr": [["a", "b"]],
    "date": [["+%s"], []],
    "seq": [["3"]],
    "grep": [["a", "a.txt", "src"]],
    "rg": [["a"], ["a", "a.txt"]],
    "comm": [["a.txt", "b.txt"]],
    "cmp": [["a.txt", "b.txt"]],
    "diff": [["a.txt", "b.txt"], ["src", "bin"]],
    "join": [["a.txt", "b.txt"]],
}
ENDLESS = ("tail -f", "tail -F", "tail --follow")
VALUES = ("new", "./x", "1")


def spelled(name: str, kind: str) -> Iterator[list[str]]:
    """A flag in each form that it may take, with each value."""
    if name == "-#":
        yield ["-5"]
    elif kind == "":
        yield [name]
    elif kind == "#":
        yield [name, "1"]
        yield [f"{name}1"]
    else:
        if kind in "?~":
            yield [name]
        for value in VALUES:
            if name.startswith("--"):
                yield [f"{name}={value}"]
            else:
                yield [f"{name}{value}"]
        if kind != "?":
            yield [name, "new"]


def commands(prefix: list[str], program: Program, operands: list[list[str]]) -> Iterator[str]:
    for name, kind in known_flags(program.flags).items():
        for flag in spelled(name, kind):
            for given in operands:
                yield join([*prefix, *flag, *given])


def harmless(prefix: list[str], program: Program, operands: list[list[str]]) -> Iterator[str]:
    """The commands that run unasked, but those that never end."""
    for command in dict.fromkeys(commands(prefix, program, operands)):
        if classify(command).class_ is CommandClass.READ_ONLY and not command.startswith(ENDLESS):
            yield command


CASES = [
    *(
        (name, [name], program, OPERANDS.get(name, [["a.txt"], ["a.txt", "src"], []]))
        for name, program in PROGRAMS.items()
    ),
    *(
        (f"git {name}", ["git", *name.split()], program, [[], ["HEAD"], ["a.txt"]])
        for name, program in COMMANDS.items()
    ),
]


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("table") / "repo"
    plant(root)
    return root


@pytest.mark.parametrize(
    ("prefix", "program", "operands"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_no_harmless_flag_writes_or_runs_what_it_is_given(
    prefix: list[str], program: Program, operands: list[list[str]], tree: Path
) -> None:
    reading = list(harmless(prefix, program, operands))
    environ = {
        "PATH": f"{tree}/bin:{os.environ['PATH']}",
        "HOME": "/nonexistent",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
    }
    before = snapshot(tree)
    script = "".join(f"{command} </dev/null >/dev/null 2>&1\n" for command in reading)
    subprocess.run(["/bin/sh", "-c", script], cwd=tree, env=environ, capture_output=True, timeout=120)
    changed = sorted(set(snapshot(tree).items()) ^ set(before.items()))
    assert changed == []
    assert len(reading) >= len(known_flags(program.flags)) // 3
