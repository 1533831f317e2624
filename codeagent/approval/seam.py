"""The gate's vocabulary: a command's class, the question put to a person, and what came of it.

Named tuples, not dataclasses: `policy check` must start fast, and importing dataclasses takes as long as judging
a hundred commands.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import IntEnum
from typing import Literal, NamedTuple


class CommandClass(IntEnum):
    """Ordered: the strictest of several wins (`max`)."""

    READ_ONLY = 0
    ASK = 1
    FORBIDDEN = 2

    @property
    def label(self) -> str:
        """The published name: `read_only`, `ask`, `forbidden`."""
        return self.name.lower()


class Classification(NamedTuple):
    """`commands` are the argv of every simple command, empty when the script was not understood."""

    class_: CommandClass
    reason: str
    commands: tuple[tuple[str, ...], ...] = ()
    rule: str = ""
    """The user's rule that decided, as written; empty when none did."""


def _can_be_tried() -> None:
    """Nothing is known beforehand that speaks against it."""


class Review(NamedTuple):
    """One question: may exactly this run, here?

    `subject` is the whole command, or the whole patch for apply_patch. `check` has no effect and raises ToolError
    for what could not be carried out, whatever the answer; it is called right before a person is asked.
    """

    call_id: str
    tool: Literal["run_command", "apply_patch"]
    subject: str
    workdir: str
    writable: bool
    classification: Classification
    check: Callable[[], None] = _can_be_tried


class Approval(NamedTuple):
    """What came of asking. `reason` reaches the model when denied."""

    decision: Literal["allow", "deny", "stop"]
    by: Literal["class", "user", "grant", "rule", "flag", "no_terminal"]
    reason: str = ""


Reviewer = Callable[[Review], Approval]
"""The only seam through which anything asks the user."""
