"""run_command: its arguments, and how a result reads."""

from __future__ import annotations

from collections.abc import Sequence
from threading import Event
from typing import Any

import pytest

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.seam import Command, CommandResult, Ending, Flag
from codeagent.tools.result import TextShown, ToolResult
from codeagent.tools.run_command import Arguments, parse, rendered, run


def args(command: str = "make", workdir: str = "") -> Arguments:
    return Arguments(command, workdir, 120, None)


def shown(result: CommandResult, command: str = "make", workdir: str = "") -> ToolResult:
    return rendered(args(command, workdir), "call_1", result, 120.0)


def test_nulls_stand_for_the_defaults() -> None:
    given = '{"command": "ls", "workdir": null, "timeout_seconds": null, "writes": null}'
    assert parse(given) == Arguments("ls", "", 120, None)


def test_everything_can_be_chosen() -> None:
    given = '{"command": "ls", "workdir": "src", "timeout_seconds": 5, "writes": false}'
    assert parse(given) == Arguments("ls", "src", 5, False)


@pytest.mark.parametrize(
    "given",
    [
        '{"command": " \\n"}',
        '{"command": null}',
        '{"command": "ls", "timeout_seconds": 0}',
        '{"command": "ls", "timeout_seconds": 99999}',
        '{"command": "ls", "cwd": "src"}',
    ],
)
def test_bad_arguments_are_refused(given: str) -> None:
    with pytest.raises(ToolError) as refused:
        parse(given)
    assert refused.value.kind is ErrorKind.INVALID_ARGUMENTS


def test_a_command_that_ran_is_no_error_whatever_its_exit_code() -> None:
    result = CommandResult(Ending.EXITED, 7, 1234, (("stdout", "a\n"), ("stderr", "b\n")), 2, 0, 4, True)
    assert shown(result) == ToolResult(
        "[exit code 7; 1.23 s; cwd /workspace]\na\nb\n",
        None,
        (TextShown("a\nb\n", False),),
        (("stdout", "a\n"), ("stderr", "b\n")),
    )


def test_a_silent_command_says_so() -> None:
    assert shown(CommandResult(Ending.EXITED, 0, 5), workdir="src").text == (
        "[exit code 0; 0.01 s; cwd /workspace/src]\n(no output)"
    )


def test_a_cut_output_says_how_much_is_missing_and_where_the_whole_is() -> None:
    result = CommandResult(Ending.EXITED, 0, 5, (("stdout", "head"), ("stdout", "tail\n")), 1, 99_000, 99_009, True)
    assert shown(result).text == (
        "[exit code 0; 0.01 s; cwd /workspace; output cut, 99,000 bytes left out]\n"
        "head\n[… 99,000 bytes left out; the whole output: read_file /outputs/call_1.txt …]\ntail\n"
    )
    assert shown(result).facts == (TextShown("", True), TextShown("", True))


def test_lines_that_may_have_been_cut_were_not_shown() -> None:
    """A cut within a line leaves the ends of two lines, which are not one line together."""
    tail = "b" * 9_000 + "\nthree\nfour\n"
    result = CommandResult(
        Ending.EXITED, 0, 5, (("stdout", "one\ntwo\n" + "a" * 9_000), ("stdout", tail)), 1, 99, 27_123, True
    )
    assert shown(result).facts == (TextShown("one\ntwo\n", True), TextShown("three\nfour\n", True))
    lines = "".join(f"line {number}\n" for number in range(900))
    result = CommandResult(Ending.EXITED, 0, 5, (("stdout", lines), ("stdout", lines)), 1, 99, 99_999, True)
    assert shown(result).facts == (TextShown(lines, True), TextShown(lines, True))


@pytest.mark.parametrize(
    ("ending", "code", "first", "kind"),
    [
        (Ending.SIGNALLED, 137, "[exit code 137 (ended by signal 9); ", None),
        (Ending.MEMORY, 137, "[exit code 137 (killed: out of memory); ", None),
        (Ending.FULL, None, "[killed: it wrote too much; ", None),
        (Ending.TIMEOUT, None, "error: timeout: the command was ended after 120 s; ", ErrorKind.TIMEOUT),
        (Ending.CANCELLED, None, "error: cancelled: the command was ended because ", ErrorKind.CANCELLED),
    ],
)
def test_each_ending_has_words_of_its_own(
    ending: Ending, code: int | None, first: str, kind: ErrorKind | None
) -> None:
    found = shown(CommandResult(ending, code, 5, (("stdout", "so far\n"),), 1, 0, 7))
    assert found.text.startswith(first)
    assert found.text.endswith("\nso far\n")
    assert found.error_kind is kind


def test_notes_stand_below_the_header() -> None:
    found = shown(CommandResult(Ending.EXITED, 0, 5, notes=("one", "two")))
    assert found.text.splitlines()[1:] == ["note: one", "note: two", "(no output)"]


@pytest.mark.parametrize(
    ("command", "stage"),
    [
        ("pytest -q | tail -3", "tail -3"),
        ("false | cat", "cat"),
        ("cd x; a | b", "b"),
        ("a && b | c > x", "c"),
        ("{ a | b; }", "b"),
        ("yes | head -1 # a | c", "head -1"),
    ],
)
def test_of_a_pipeline_it_says_whose_exit_code_it_is(command: str, stage: str) -> None:
    found = shown(CommandResult(Ending.EXITED, 0, 5), command)
    said = f"[exit code 0 of the pipeline's last stage ({stage}); what the stages before it returned is not known; "
    assert found.text.startswith(said)


@pytest.mark.parametrize("command", ["a | b; c", "echo 'x | y'", "a || b", "a", "echo 'open | x", "a | b &"])
def test_other_commands_have_one_exit_code(command: str) -> None:
    assert shown(CommandResult(Ending.EXITED, 0, 5), command).text.startswith("[exit code 0; ")


class Recorder:
    """A sandbox that only notes what it is asked to run."""

    def __init__(self) -> None:
        self.commands: list[Command] = []

    def run(self, command: Command, cancel: Flag) -> CommandResult:
        self.commands.append(command)
        return CommandResult(Ending.EXITED, 0, 5)

    def __getattr__(self, name: str) -> Any:
        raise AssertionError(f"{name} is not asked for")


@pytest.mark.parametrize(("left", "timeout"), [(900.0, 120.0), (30.5, 30.5), (-3.0, 1.0)])
def test_a_command_runs_as_it_was_typed_within_what_the_turn_has_left(left: float, timeout: float) -> None:
    sandbox = Recorder()
    script = "cat <<'EOF' # é\nhi\nEOF"
    run(args(script, "src"), "call_1", sandbox, Event(), True, left)
    expected: Sequence[Command] = [Command("call_1", script, "src", timeout, True)]
    assert sandbox.commands == expected
