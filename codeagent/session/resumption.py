"""Going on with a stored session: what must be recorded before the next request."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from codeagent.conversation import AssistantMessage, Item, Reasoning, UserMessage
from codeagent.errors import ErrorKind, StorageError, UsageError
from codeagent.events import Noted, SessionResumed, ToolFinished, TurnStarted
from codeagent.inference import Provider
from codeagent.outcome import Outcome
from codeagent.session.history import History, interrupted_output, rebuild
from codeagent.session.log import Log
from codeagent.session.retype import Retyping
from codeagent.session.store import EVENTS, Session

GOES_ON = "The turn was stopped here, and now it goes on. Continue with the task where you left it."
_NEEDS_A_MESSAGE = {
    Outcome.ANSWERED.value: "has answered",
    Outcome.NEEDS_INPUT.value: "has asked you a question",
}


@dataclass(frozen=True, slots=True)
class Setup:
    """With what the session goes on from here (see `events.SessionStarted`)."""

    repo: str
    provider: str
    model: str
    image: str
    version: str
    patching: bool = False
    verify: str | None = None
    verify_repeat: int = 1


def read_history(folder: Path) -> tuple[History, int]:
    """The conversation so far, and how many lines of the log could not be read. Raises StorageError."""
    log, retyping = Log(folder / EVENTS), Retyping()
    try:
        history = rebuild(log, retyping)
    except OSError as error:
        raise StorageError(f"The session {folder.name} cannot be read: {error.strerror}.") from error
    return replace(history, unreadable_items=retyping.left_out), log.damaged


def require_open_turn(session_id: str, history: History) -> None:
    """Raises UsageError when going on without a message would have nothing to go on with."""
    if history.pending:
        return
    if not history.message:
        raise UsageError(
            f"Session {session_id} has no turn to go on with.", 'Give a message: `codeagent resume "…"`.'
        )
    if state := _NEEDS_A_MESSAGE.get(history.outcome or ""):
        raise UsageError(
            f"The last turn of session {session_id} {state}; there is nothing to go on with.",
            f'Say what comes next: `codeagent resume "…" --session {session_id}`.',
        )


def take_up(session: Session, history: History, damaged: int, setup: Setup, message: str | None) -> list[Item]:
    """Records the resumption with its repairs, and returns the conversation to go on with.

    With a message the caller begins a turn about it; without one, the caller begins the turn that is still pending,
    or else the last turn goes on under its number.
    """
    journal = session.journal
    journal.turn, journal.round = history.turn, history.round
    calls = list(history.interrupted_calls)
    items = list(history.items)
    if message is not None and history.pending:  # what was asked first stands before what is said now
        journal.turn, journal.round = history.turn + 1, 0
        session.emit(TurnStarted(history.pending))
        items.append(UserMessage(history.pending))
    session.emit(
        SessionResumed(
            setup.repo,
            setup.model,
            setup.provider,
            setup.image,
            setup.version,
            interrupted_calls=calls,
            damaged_lines=damaged,
            message=message,
            patching=setup.patching,
            verify=setup.verify,
            verify_repeat=setup.verify_repeat,
            orphan_outputs=history.orphan_outputs,
            unreadable_items=history.unreadable_items,
        )
    )
    for call_id in calls:
        text = interrupted_output(call_id).text
        session.emit(ToolFinished(call_id, "error", ErrorKind.INTERRUPTED.value, text, 0))
    if message is None and not history.pending and items and _has_ended(items[-1]):
        session.emit(Noted("program", GOES_ON))
        items.append(UserMessage(GOES_ON, "program"))
    return items


def _has_ended(last: Item) -> bool:
    """Whether the model must be told that the turn goes on.

    No API takes a request that ends with the model's own words; and a note of the program's may be the one that told
    the model to come to an end.
    """
    if isinstance(last, UserMessage):
        return last.origin == "program"
    return isinstance(last, (AssistantMessage, Reasoning))


def readable(compaction: Sequence[Item], provider: Provider) -> Sequence[Item]:
    """What an API made of earlier rounds, where this provider and model made it; nothing otherwise."""
    author = (provider.api, provider.name, provider.model)
    sources = [source for item in compaction if (source := getattr(item, "source", None)) is not None]
    return compaction if all((each.api, each.provider, each.model) == author for each in sources) else ()
