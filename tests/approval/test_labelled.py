"""Commands with the class that is right for them, among them two for every entry of the table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from codeagent.approval.classify import classify
from codeagent.approval.git import COMMANDS
from codeagent.approval.grammar import Unclear
from codeagent.approval.readonly import known_programs
from codeagent.approval.shell import parse
from tests.clocks import processor_time_below

LABELLED = [json.loads(line) for line in (Path(__file__).parent / "commands.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("label", ["read_only", "ask", "forbidden"])
def test_every_labelled_command_has_its_class(label: str) -> None:
    wrong = {
        entry["command"]: f"{found.class_.label}: {found.reason}"
        for entry in LABELLED
        if entry["class"] == label and (found := classify(entry["command"])).class_.label != label
    }
    assert wrong == {}


def named(label: str) -> set[str]:
    """The programs, and git's sub-commands as `git log`, that the labelled commands of one class begin with."""
    names: set[str] = set()
    for entry in LABELLED:
        try:
            commands = parse(entry["command"]).commands if entry["class"] == label else ()
        except Unclear:
            continue
        for command in commands:
            names.add(command.argv[0])
            names.update(f"git {' '.join(command.argv[1:end])}" for end in (2, 3) if command.argv[0] == "git")
    return names


def test_every_program_of_the_table_is_allowed_by_an_example() -> None:
    assert known_programs() - named("read_only") == set()
    assert {f"git {name}" for name in COMMANDS} - named("read_only") == set()


def test_every_program_of_the_table_is_asked_for_with_an_argument_that_is_not_in_it() -> None:
    without_effect = {"true", "false", ":", "echo", "expr"}
    assert known_programs() - named("ask") - without_effect == set()
    assert {f"git {name}" for name in COMMANDS} - named("ask") == set()


def test_reasons_name_the_part_that_decided() -> None:
    assert {
        command: classify(command).reason
        for command in ("sort -o a b", "git log --output=x", "uniq a b", "ls; frob x", "ls > a", "ls $x", "mount a")
    } == {
        "sort -o a b": "sort: -o is not known to be harmless",
        "git log --output=x": "git log: --output is not known to be harmless",
        "uniq a b": "uniq: b is one operand too many",
        "ls; frob x": "frob is not known to be read-only",
        "ls > a": "it redirects to a",
        "ls $x": "not understood: a variable expands",
        "mount a": "mount never runs",
    }


def test_every_dangerous_flag_is_refused_wherever_it_stands() -> None:
    dangerous = [
        ("sort", "-o x"),
        ("sort", "--output=x"),
        ("sort", "--compress-program=x"),
        ("rg", "--pre=x"),
        ("rg", "-z"),
        ("git log", "--output=x"),
        ("git diff", "--ext-diff"),
        ("git grep", "-Ox"),
        ("git branch", "-D"),
        ("find .", "-delete"),
        ("find .", "-exec x"),
        ("sed -n 1p", "-i"),
        ("tree", "-o x"),
        ("file", "-C"),
        ("date", "-s x"),
        ("nm", "--plugin=x"),
        ("diff", "-l"),
        ("jq .", "-L x"),
    ]
    forms = ("{0} {1} a", "{0} a {1}", "ls && {0} {1} a", "ls | {0} a {1} 2>/dev/null", "({0} {1} a)")
    let_through = [
        script
        for program, flag in dangerous
        for form in forms
        if classify(script := form.format(program, flag)).class_.label == "read_only"
    ]
    assert let_through == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "script",
    [
        "<" * 60_000,
        "'" * 60_000,
        "(" * 60_000,
        "a;" * 30_000,
        "f() " * 15_000,
        "sudo " * 12_000,
        "env -S " * 8_000,
        "find -exec " * 5_000,
        "sh -c " * 10_000,
        "[ a " + "-a b " * 10_000 + "]",
        "sed -n '" + "1p;" * 20_000 + "'",
        "jq '" + '"\\(' * 15_000 + "'",
        "git log --format='" + "%(trailers:" * 5_000 + "'",
        "git for-each-ref --format='" + "%(if:" * 10_000 + "'",
        "\0" * 60_000,
    ],
    ids=lambda script: script[:8],
)
def test_no_script_takes_long_or_breaks_the_judgement(script: str) -> None:
    with processor_time_below(20):
        assert classify(script).class_.label == "ask"


@pytest.mark.slow
def test_a_forbidden_command_is_found_beside_what_no_parser_finishes() -> None:
    assert classify("mount x; " + "<" * 100_000).reason == "mount never runs"
    assert classify("<" * 100_000 + "; rm -rf /").reason == "rm -r of / never runs"
