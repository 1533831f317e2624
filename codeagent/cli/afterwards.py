"""What is done between a turn's last text and its end. Whatever goes wrong there, the text is not lost for it."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from codeagent.cli.main import print_trace, report, unforeseen
from codeagent.errors import CodeagentError, Interrupted, StorageError, ToolError
from codeagent.events import Event
from codeagent.session.journal import Journal

Result = TypeVar("Result")


class Afterwards:
    """Carries out the steps, and keeps what went wrong in them until it can be told; `cause` went wrong before."""

    def __init__(self, journal: Journal, cause: CodeagentError | None = None) -> None:
        self._journal = journal
        self._failures: list[Exception] = [] if cause is None else [cause]
        self._told: set[str] = set()

    def attempt(self, what: str, step: Callable[[], Result], instead: Callable[[CodeagentError], Result]) -> Result:
        """What `step` gives; where it fails or is interrupted, what `instead` makes of the reason.

        `instead` may be another attempt, which is made with less.
        """
        try:
            return step()
        except (Interrupted, KeyboardInterrupt):
            return instead(CodeagentError(f"{what} was interrupted"))
        except Exception as error:
            self._failures.append(error)
            return instead(_reason(error))

    def record(self, event: Event, unstored: Event | None = None) -> bool:
        """Stores and shows an event; one that cannot be stored is shown all the same, as `unstored` if that is given.

        Whether it is stored.
        """
        try:
            self._journal.emit(event)
        except StorageError as error:
            self._failures.append(error)
            self._journal.show(unstored or event)
            return False
        return True

    @property
    def failed(self) -> bool:
        return bool(self._failures)

    @property
    def unstored(self) -> bool:
        """Whether something could not be stored."""
        return any(isinstance(failure, StorageError) for failure in self._failures)

    def tell(self, known: str = "", *, verbose: bool) -> None:
        """Reports what went wrong, each thing once; `known` is a reason that the turn's end gives anyway."""
        self._told.add(known)
        for failure in self._failures:
            reason = _reason(failure)
            if (sentence := reason.message.rstrip(".")) not in self._told:
                self._told.add(sentence)
                report(reason)
                if verbose and failure is not reason:
                    print_trace(failure)


def _reason(error: Exception) -> CodeagentError:
    if isinstance(error, CodeagentError):
        return error
    return CodeagentError(error.sentence) if isinstance(error, ToolError) else unforeseen(error)
