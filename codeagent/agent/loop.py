"""One turn: ask the model, answer its calls, until it answers or a limit stops it.

The invariant that everything leans on: no request leaves with an unanswered call. `run_turn` restores it on
every way out, so that what is stored can always be sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from typing import Protocol

from codeagent.agent.dispatch import Dispatcher
from codeagent.agent.interrupts import DeadlinePassed, Interrupts
from codeagent.agent.limits import Limits
from codeagent.conversation import Item, UserMessage, adopted, answer_all, text_of, unanswered
from codeagent.errors import (
    CodeagentError,
    ContextFull,
    ErrorKind,
    Interrupted,
    ModelError,
    SandboxError,
    StorageError,
)
from codeagent.events import Compacted, Emit, ModelResponse, Noted, Retried, ToolFinished
from codeagent.inference import (
    Compact,
    Finish,
    Inference,
    Progress,
    Provider,
    Request,
    RetryNotice,
    TextDelta,
    ToolSpec,
)
from codeagent.outcome import Outcome

NEEDS_INPUT = "NEEDS INPUT:"

CLOSING_NOTE = (
    "The turn ends here ({reason}). Do not call a tool. Say what you have found so far, with citations of lines "
    "that you have read, and what remains open."
)
TEXT_CALL_NOTE = (
    "Your last message contains a tool call written as text. Nothing was run. Make the call through the tool "
    "interface, or answer without it."
)

WINDOW_NOTE = (
    "Your last response was cut off because the context window was full; none of its calls was run. Older outputs "
    "were cleared to make room. Go on from there, in shorter steps."
)

_REASONS = {
    Outcome.ROUND_LIMIT: "the limit of rounds is reached",
    Outcome.TIME_LIMIT: "the time limit is reached",
    Outcome.TOKEN_LIMIT: "the token limit is reached",
    Outcome.REPEATED_CALLS: "the same calls kept giving the same results",
    Outcome.TOO_MANY_ERRORS: "every call failed for many rounds",
}


class Fitting(Protocol):
    """Keeps requests inside the model's window (see `agent/context.py`)."""

    def fit(self, items: Sequence[Item], compact: Compact) -> tuple[Sequence[Item], Compacted | None]:
        """What is sent of the conversation so far, and what was taken out just now.

        `compact` is asked for what stands for rounds that have to go; what it raises is passed on.
        """

    def shorten(self, items: Sequence[Item]) -> tuple[Sequence[Item], Compacted | None]:
        """The same after the server found the request too long, or had no room left for its response.

        Compacted is None when nothing could go, or when that did not help the last time.
        """

    def used(self, inference: Inference) -> None:
        """Learns from what the server counted."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why the turn stopped, and its text: the answer when the outcome is `answered` or `needs_input`."""

    outcome: Outcome
    text: str = ""
    error: CodeagentError | None = None


@dataclass(frozen=True)
class Turn:
    """What a turn is made of. `notes` gives what the model must be told before its next inference."""

    conversation: list[Item]
    instructions: str
    tools: tuple[ToolSpec, ...]
    cache_key: str
    provider: Provider
    context: Fitting
    dispatcher: Dispatcher
    limits: Limits
    interrupts: Interrupts
    notes: Callable[[], Sequence[str]]
    begin_round: Callable[[int], None]
    emit: Emit
    progress: Progress


def run_turn(turn: Turn) -> Ending:
    """Runs rounds until there is an ending. Never raises Interrupted, nor a CodeagentError but StorageError, when
    what a round did cannot be recorded; a text that ends the turn is its ending all the same."""
    streamed = _Streamed(turn)
    first = len(turn.conversation)
    try:
        ending = None
        while ending is None:
            ending = _round(turn, streamed)
    except Interrupted:
        ending = Ending(Outcome.INTERRUPTED)
    except DeadlinePassed:
        ending = Ending(Outcome.TIME_LIMIT)
    except ModelError as error:
        ending = Ending(Outcome.MODEL_FAILED, error=error)
    except SandboxError as error:
        ending = Ending(Outcome.SANDBOX_FAILED, error=error)
    finally:
        _answer_open_calls(turn)
    if ending.text or ending.outcome in (Outcome.EMPTY, Outcome.ANSWERED):
        return ending
    return replace(
        ending, text=_closing(turn, ending, streamed) or streamed.text or text_of(turn.conversation[first:])
    )


def _round(turn: Turn, streamed: _Streamed) -> Ending | None:
    """One inference and the outputs of all its calls."""
    turn.limits.rounds += 1
    turn.begin_round(turn.limits.rounds)
    for note in turn.notes():
        add_note(turn.conversation, turn.emit, note)
    inference = _infer(turn, streamed)
    calls = unanswered(inference.items)
    unstored = _record(turn, inference)
    if unstored is not None and (calls or inference.finish is not Finish.COMPLETE):
        raise unstored
    if inference.finish is not Finish.COMPLETE:
        return _incomplete(turn, inference)
    if not calls:
        ending = _final(turn, inference)
        return replace(ending, error=unstored) if ending is not None and unstored is not None else ending
    dispatched = turn.dispatcher.dispatch(calls)
    turn.conversation.extend(dispatched.outputs)
    turn.limits.close_round(dispatched.outputs)
    if dispatched.stop is not None:
        return Ending(dispatched.stop, error=dispatched.failure)
    reached = turn.limits.reached()
    return Ending(reached) if reached else None


def _infer(turn: Turn, streamed: _Streamed, tool_choice: str = "auto") -> Inference:
    """One inference, its items kept; a request that the server finds too long is shortened once."""
    items, compacted = turn.context.fit(turn.conversation, partial(_compact, turn, streamed))
    while True:
        if compacted is not None:
            turn.emit(compacted)
        streamed.start()
        request = Request(
            turn.instructions, items, turn.tools, turn.cache_key, "none" if tool_choice == "none" else "auto"
        )
        try:
            with turn.interrupts.waiting(turn.limits.seconds_left()):
                inference = turn.provider.infer(request, streamed)
            break
        except ContextFull:
            items, compacted = turn.context.shorten(turn.conversation)
            if compacted is None:
                raise
    streamed.start()
    # Of the whole conversation, not only of what was sent: an id may be one of rounds that were summarised.
    inference = replace(inference, items=adopted(inference.items, turn.conversation))
    turn.conversation.extend(inference.items)
    turn.limits.spend(inference.usage)
    turn.context.used(inference)
    return inference


def _record(turn: Turn, inference: Inference) -> StorageError | None:
    """Records the response, or tells why that cannot be done: nothing may follow from it then but the turn's end."""
    try:
        turn.emit(_response(inference, turn.provider))
    except StorageError as error:
        return error
    return None


def _compact(turn: Turn, streamed: _Streamed, items: Sequence[Item]) -> Inference | None:
    """What the API itself makes of rounds that have to go; None where the budget is for an answer alone."""
    if not turn.limits.affords(2):
        return None
    request = Request(turn.instructions, items, turn.tools, turn.cache_key)
    with turn.interrupts.waiting(turn.limits.seconds_left()):
        compaction = turn.provider.compact(request, streamed)
    if compaction is not None:
        turn.limits.spend(compaction.usage)
    return compaction


def _response(inference: Inference, provider: Provider) -> ModelResponse:
    status = {Finish.COMPLETE: "completed", Finish.PAUSED: "completed", Finish.FAILED: "failed"}
    return ModelResponse(
        status=status.get(inference.finish, "incomplete"),  # type: ignore[arg-type]  # the three published words
        finish=inference.finish_word,
        usage=asdict(inference.usage),
        text=text_of(inference.items),
        items=list(inference.raw),
        api=provider.api,
        provider=provider.name,
        model=provider.model,
    )


def _incomplete(turn: Turn, inference: Inference) -> Ending | None:
    """A response that is not whole: none of its calls runs, and its text is no answer."""
    _answer_open_calls(
        turn, ErrorKind.CANCELLED, "the response was cut off before it was complete; this call was not run"
    )
    text = text_of(inference.items)
    match inference.finish:
        case Finish.PAUSED:
            reached = turn.limits.reached()
            return Ending(reached) if reached else None
        case Finish.REFUSED:
            return Ending(Outcome.REFUSED, text or inference.detail)
        case Finish.FAILED:
            error = ModelError(
                f"The model's server failed: {inference.detail or inference.finish_word}.", "Try again."
            )
            return Ending(Outcome.MODEL_FAILED, text, error)
        case Finish.CONTEXT_FULL:
            return _out_of_room(turn, text)
        case _:
            unusable = ModelError(f"The response cannot be used: {inference.detail}.") if inference.detail else None
            return Ending(Outcome.TRUNCATED, text, unusable)


def _out_of_room(turn: Turn, text: str) -> Ending | None:
    """The window was full before the response was whole: once, another one is asked for with more room."""
    _, compacted = turn.context.shorten(turn.conversation)
    if compacted is None:
        error = ContextFull(
            "The model's context window was full before its response was complete, and nothing more can be left out.",
            "Ask a shorter question, start a new session, or use a model with a larger window.",
        )
        return Ending(Outcome.TRUNCATED, text, error)
    turn.emit(compacted)
    add_note(turn.conversation, turn.emit, WINDOW_NOTE)
    reached = turn.limits.reached()
    return Ending(reached) if reached else None


def _final(turn: Turn, inference: Inference) -> Ending | None:
    """A complete response without calls: an answer, a question, or nothing."""
    if inference.text_call:
        add_note(turn.conversation, turn.emit, TEXT_CALL_NOTE)
        turn.limits.close_round(())
        reached = turn.limits.reached()
        return Ending(reached) if reached else None
    text = text_of(inference.items)
    if not text.strip():
        refused = any(getattr(item, "refusal", False) for item in inference.items)
        return Ending(Outcome.REFUSED, inference.detail) if refused else Ending(Outcome.EMPTY)
    last_line = text.rstrip().rsplit("\n", 1)[-1].strip()
    return Ending(Outcome.NEEDS_INPUT if last_line.startswith(NEEDS_INPUT) else Outcome.ANSWERED, text)


def _closing(turn: Turn, ending: Ending, streamed: _Streamed) -> str:
    """After one of the program's own bounds: one more inference without tools says what is known."""
    if ending.outcome not in _REASONS or not turn.limits.budget_left():
        return ""
    add_note(turn.conversation, turn.emit, CLOSING_NOTE.format(reason=_REASONS[ending.outcome]))
    try:
        inference = _infer(turn, streamed, tool_choice="none")
        _record(turn, inference)  # what cannot be stored is shown, and the turn's end meets the same error
    except (ModelError, Interrupted, DeadlinePassed):
        return ""
    finally:
        _answer_open_calls(turn, ErrorKind.CANCELLED, "the turn has ended; this call was not run")
    return text_of(inference.items)


def add_note(conversation: list[Item], emit: Emit, text: str) -> None:
    """A message of the program's own to the model, recorded as such."""
    emit(Noted("program", text))
    conversation.append(UserMessage(text, "program"))


def _answer_open_calls(
    turn: Turn,
    kind: ErrorKind = ErrorKind.INTERRUPTED,
    sentence: str = "the turn was interrupted; this call may or may not have run",
) -> None:
    for output in answer_all(turn.conversation, kind, sentence):
        turn.conversation.append(output)
        turn.emit(ToolFinished(output.call_id, "error", output.error_kind, output.text, 0))


class _Streamed:
    """Passes progress on, and keeps the text of the response under way in case it is cut by a stop."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn
        self._pieces: list[str] = []

    @property
    def text(self) -> str:
        return "".join(self._pieces).strip()

    def start(self) -> None:
        self._pieces.clear()

    def __call__(self, progress: TextDelta | RetryNotice) -> None:
        if isinstance(progress, TextDelta):
            self._pieces.append(progress.text)
        else:
            self._pieces.clear()
            self._turn.emit(Retried(progress.attempt, progress.reason, progress.delay_ms))
        self._turn.progress(progress)
