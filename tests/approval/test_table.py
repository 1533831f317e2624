"""Every flag that the table calls harmless, in each form that it takes. tests/docker/test_gate.py tries them."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from shlex import join

import pytest

from codeagent.approval.classify import classify
from codeagent.approval.flags import known_flags
from codeagent.approval.git import COMMANDS
from codeagent.approval.readonly import PROGRAMS
from codeagent.approval.seam import CommandClass

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
# Without a revision, these take HEAD; and those that are `git log` by another name are not tried with a path again.
OPERANDS |= {f"git {name}": [["HEAD"], ["a.txt"]] for name in ("log", "diff-tree", "rev-list")}
OPERANDS |= {f"git {name}": [["HEAD"]] for name in ("show", "whatchanged", "reflog")}
OPERANDS |= {"git stash list": [[]]}
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


def commands(case: str) -> Iterator[list[str]]:
    """For each flag, what is tried of it."""
    prefix, program = CASES[case]
    usual = [[], ["HEAD"], ["a.txt"]] if prefix[0] == "git" else [["a.txt"], ["a.txt", "src"], []]
    for name, kind in known_flags(program.flags).items():
        yield [join([*prefix, *flag, *given]) for flag in spelled(name, kind) for given in OPERANDS.get(case, usual)]


@cache
def harmless(case: str) -> list[list[str]]:
    """For each flag of one case, the commands that run unasked, but those that never end."""
    return [
        found
        for tried in commands(case)
        if (
            found := [
                command
                for command in tried
                if classify(command).class_ is CommandClass.READ_ONLY and not command.startswith(ENDLESS)
            ]
        )
    ]


CASES = {
    **{name: ([name], program) for name, program in PROGRAMS.items()},
    **{f"git {name}": (["git", *name.split()], program) for name, program in COMMANDS.items()},
}


@pytest.mark.parametrize("name", CASES)
def test_most_flags_of_a_program_run_unasked(name: str) -> None:
    """So that trying the harmless ones says something."""
    _, program = CASES[name]
    assert sum(map(len, harmless(name))) >= len(known_flags(program.flags)) // 3
