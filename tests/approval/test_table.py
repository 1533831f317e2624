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
SIGNED = ("%G?", "%+GG", "%-GS", "% GK", "%<(9)%Cred%%G?", "%(signature)", "%(*signature:grade)")
"""Formats that run gpg, if they are let through."""
_COMMIT = (
    "%H%h%T%t%P%p%an%aE%al%ad%aD%ar%at%ai%aI%as%ah%cn%d%D%S%s%f%b%B%N%e%m%gd%gD%gn%gs%n%x09%%%Cred%C(auto)%+h%-b% d"
    "%w(9,1,2)%<(9,trunc)%h%>|(40)%h%><(9)%h%(trailers:only,separator=%x2C)%(decorate:prefix=)%(describe:tags=true)"
)
_REF = (
    "%(refname:short)%(objecttype)%(objectsize:disk)%(objectname:short)%(deltabase)%(tree)%(parent)%(object)%(type)%(tag)"
    "%(author)%(committerdate:iso)%(taggername)%(creator)%(subject)%(body)%(contents:size)%(trailers)%(raw)"
    "%(upstream:track)%(push)%(symref)%(flag)%(HEAD)%(worktreepath)%(color:red)%(align:9)%(*refname)%(end)"
    "%(if)%(HEAD)%(then)a%(else)b%(end)%0a%%"
)
_ENTRY = "%(objectname)%(objectmode)%(objecttype)%(path)%n%x41"
OF_FLAG = {
    "--format": (*SIGNED, _COMMIT, _REF, _ENTRY, "%(stage)%(eolinfo:worktree)%(eolattr)", "%-5.1f", "+%s", "json"),
    "--pretty": (*SIGNED, "oneline", "reference", f"format:{_COMMIT}"),
    "--group": ("author", "trailer:a", "format:%G?", "%aN"),
    "--sort": ("signature", "-*signature:grade", "-*creatordate", "v:refname", "name"),
    "--diff-merges": ("r", "remerge", "dense-combined", "separate", "m"),
    "--batch": ("%(objectsize:disk)%(deltabase)%(rest)", "%(signature)"),
    "--batch-check": ("%(objectsize:disk)%(deltabase)%(rest)", "%(signature)"),
    "--encoding": ("latin1", "../x"),
    "-e": ('2/1 "%02x %_ad %_c" "\\n"', '"%n"'),
}
"""What can be said in the language that a flag's value is in."""


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
        for value in (*VALUES, *OF_FLAG.get(name, ())):
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


# What is left out on purpose and would be taken by an abbreviation, for the programs that take abbreviations.
LEFT_OUT = {
    "git log": "--output --ext-diff --textconv --show-signature --remerge-diff --submodule",
    "git diff": "--output --ext-diff --textconv --submodule",
    "git grep": "--open-files-in-pager --textconv --recurse-submodules",
    "git cat-file": "--textconv --filters --batch-command",
    "git describe": "--dirty --broken",
    "git branch": "--delete --move --copy --edit-description --set-upstream-to --unset-upstream --track --force",
    "git tag": "--delete --verify --annotate --sign --message --file --force --edit --cleanup",
    "git config": "--add --unset --replace-all --edit --rename-section --remove-section --file --blob",
    "sort": "--output --compress-program --files0-from --temporary-directory --random-source",
    "wc": "--files0-from",
    "du": "--files0-from",
    "df": "--sync",
    "diff": "--paginate --GTYPE-group-format --line-format",
    "date": "--set --file",
    "file": "--compile --magic-file --files-from --uncompress --uncompress-noreport --preserve-date --parameter",
    "nm": "--plugin --target --line-numbers",
    "objdump": "--plugin --target --dwarf --process-links",
    "size": "--plugin --target",
    "hexdump": "--format-file",
    "rg": "--pre --pre-glob --hostname-bin --search-zip",
    "sed -n 1p": "--in-place --file",
}

EXACT = {("git log", "--text"), ("git diff", "--text"), ("git grep", "--text"), ("git cat-file", "--batch")}
"""Flags of their own, in every version."""


def test_no_beginning_of_a_left_out_flag_runs_unasked() -> None:
    let_through = [
        command
        for prefix, flags in LEFT_OUT.items()
        for flag in flags.split()
        for end in range(3, len(flag) + 1)
        if (prefix, flag[:end]) not in EXACT
        for command in (f"{prefix} {flag[:end]}", f"{prefix} {flag[:end]}=./x", f"{prefix} {flag[:end]} ./x")
        if classify(command).class_ is CommandClass.READ_ONLY
    ]
    assert let_through == []
