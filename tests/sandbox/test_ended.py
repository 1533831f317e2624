"""Killed by memory, by time, by us, by the command itself: four different endings."""

from __future__ import annotations

from typing import Any

import pytest

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.ended import command_result
from codeagent.sandbox.output import Output
from codeagent.sandbox.seam import CommandResult, Ending
from codeagent.settings import SandboxSettings

SAID = {
    "ending": "exited",
    "code": 0,
    "duration_ms": 5,
    "total_bytes": 2,
    "background": 0,
    "memory_kills": 0,
    "refused_forks": 0,
}
OUTPUT = Output((("stdout", "x\n"),), 1, 0, True)
MEMORY = "the kernel killed it or a part of it: the container's memory of 2048 MiB was used up"


def result(**said: Any) -> CommandResult:
    return command_result({**SAID, **said}, OUTPUT, SandboxSettings(), ())


def test_a_result_says_everything() -> None:
    assert result() == CommandResult(Ending.EXITED, 0, 5, (("stdout", "x\n"),), 1, 0, 2, True, ())


@pytest.mark.parametrize(
    ("said", "ending", "code", "notes"),
    [
        ({"ending": "signalled", "code": 137}, Ending.SIGNALLED, 137, ()),
        ({"ending": "exited", "code": 137}, Ending.EXITED, 137, ()),
        ({"ending": "signalled", "code": 137, "memory_kills": 1}, Ending.MEMORY, 137, (MEMORY,)),
        ({"ending": "exited", "code": 137, "memory_kills": 2}, Ending.MEMORY, 137, (MEMORY,)),
        ({"ending": "timeout", "code": 137}, Ending.TIMEOUT, None, ()),
        ({"ending": "cancelled", "code": 137}, Ending.CANCELLED, None, ()),
        (
            {"ending": "timeout", "code": 137, "memory_kills": 2},
            Ending.TIMEOUT,
            None,
            ("the kernel killed 2 processes of this container: the container's memory of 2048 MiB was used up",),
        ),
        (
            {"ending": "full", "code": 137},
            Ending.FULL,
            None,
            ("it was ended because it wrote more than the copy may grow (2048 MiB)",),
        ),
        (
            {"code": 2, "refused_forks": 3},
            Ending.EXITED,
            2,
            ("processes could not be started: the container's limit of 512 was reached",),
        ),
        ({"background": 1}, Ending.EXITED, 0, ("1 process left in the background ended with the command",)),
    ],
)
def test_endings_are_told_apart(
    said: dict[str, Any], ending: Ending, code: int | None, notes: tuple[str, ...]
) -> None:
    found = result(**said)
    assert (found.ending, found.exit_code, found.notes) == (ending, code, notes)


@pytest.mark.parametrize(
    "said",
    [
        {"ending": "fine"},
        {"ending": None},
        {"code": "0"},
        {"code": 256},
        {"code": True},
        {"duration_ms": -1},
        {"total_bytes": 1.5},
        {"memory_kills": None},
    ],
)
def test_words_that_make_no_sense_are_not_believed(said: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as refused:
        result(**said)
    assert refused.value.kind is ErrorKind.SANDBOX_FAILED
