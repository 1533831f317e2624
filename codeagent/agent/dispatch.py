"""Every call of a response gets exactly one output: prepare, ask, run, in the order of the calls.

Calls that only read run at the same time. A call that may have side effects runs alone, in its place: what
stands before it has ended, what stands after it waits. Whoever waits for calls carries one of them out, so that a
single one is not handed to another thread and back.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass

from codeagent.agent.interrupts import Interrupts
from codeagent.agent.limits import WARN_AT, Clock, Limits
from codeagent.approval.seam import Approval, Review, Reviewer
from codeagent.conversation import ToolCall, ToolOutput
from codeagent.errors import ErrorKind, Interrupted, SandboxError, ToolError
from codeagent.events import Emit, ToolCalled, ToolFinished
from codeagent.inference import ToolSpec
from codeagent.outcome import Outcome
from codeagent.sandbox.seam import Flag
from codeagent.tools.result import ToolResult, refused

PARALLEL_CALLS = 16

Run = Callable[[Flag, float], ToolResult]
"""Carries a call out, in any thread. Takes the flag that cancels it and the seconds that the turn has left."""

Observe = Callable[[ToolCall, ToolResult], None]
"""Told of every call that was carried out or failed, in the order of the calls."""


Timed = tuple[ToolResult | SandboxError, int]
"""A call that has ended: its result, or why there is no sandbox any more, and its duration in milliseconds."""


@dataclass(frozen=True, slots=True)
class Action:
    """One parsed call. `review` is the question for the gate; None for a tool that can only read."""

    run: Run
    review: Review | None = None

    @property
    def reads_only(self) -> bool:
        return self.review is None or self.review.classification.class_ == 0


@dataclass(frozen=True, slots=True)
class Tool:
    """`prepare` parses the arguments once; it raises ToolError and has no effect."""

    spec: ToolSpec
    prepare: Callable[[ToolCall], Action]


@dataclass(frozen=True, slots=True)
class Dispatched:
    """The outputs, one a call and in the order of the calls, and the outcome when the turn must stop here."""

    outputs: tuple[ToolOutput, ...]
    stop: Outcome | None = None
    failure: SandboxError | None = None


class Dispatcher:
    """Carries out the calls of one turn."""

    def __init__(
        self,
        tools: Mapping[str, Tool],
        *,
        review: Reviewer,
        redact: Callable[[str], str],
        observe: Observe,
        emit: Emit,
        limits: Limits,
        interrupts: Interrupts,
    ) -> None:
        self._tools = tools
        self._review = review
        self._redact = redact
        self._observe = observe
        self._emit = emit
        self._limits = limits
        self._clock: Clock = limits.clock
        self._interrupts = interrupts
        self._pool = ThreadPoolExecutor(PARALLEL_CALLS, thread_name_prefix="call")

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def dispatch(self, calls: Sequence[ToolCall]) -> Dispatched:
        """Answers every call; an interruption or a stop answers the rest with the reason."""
        for call in calls:
            self._emit(ToolCalled(call.call_id, call.name, call.arguments))
        batch = _Batch(self)
        for call in calls:
            batch.take(call)
        batch.finish()
        return Dispatched(tuple(batch.outputs), batch.stop, batch.failure)

    def action(self, call: ToolCall) -> Action:
        """The parsed call. Raises ToolError for a defective call, an unknown tool, or bad arguments."""
        if call.defect:
            raise ToolError(ErrorKind.INVALID_ARGUMENTS, call.defect)
        tool = self._tools.get(call.name)
        if tool is None:
            known = ", ".join(self._tools)
            raise ToolError(ErrorKind.UNKNOWN_TOOL, f"there is no tool {call.name!r}; the tools are {known}")
        return tool.prepare(call)

    def ask(self, review: Review) -> Approval:
        """The gate's answer; waiting for a person does not use up the turn's time."""
        with self._clock.stopped(), self._interrupts.waiting():
            return self._review(review)

    def run(self, runs: Sequence[Run]) -> Iterator[Timed]:
        """Carries them out at the same time; each in its turn, when it has ended."""
        cancel, left = _Cancel(self._interrupts), self._limits.seconds_left()
        if len(runs) == 1:  # a call alone needs no other thread
            yield _timed(runs[0], cancel, left)
            return
        # Not even the last is carried out here: what has ended before it is told at once, not after it.
        for future in [self._pool.submit(_timed, run, cancel, left) for run in runs]:
            # An interruption has cancelled it; how it ended then is its result.
            with suppress(Interrupted), self._interrupts.waiting():
                wait([future])
            yield future.result()

    @property
    def interrupted(self) -> bool:
        return self._interrupts.pending

    def finished(self, call: ToolCall, result: ToolResult, duration_ms: int) -> ToolOutput:
        """The output as the model reads it: keys removed, a warning added when it repeats itself."""
        output = ToolOutput(call.call_id, self._redact(result.text), result.error_kind)
        if self._limits.repeated(call, output) == WARN_AT:
            output = ToolOutput(call.call_id, f"{output.text}\n{REPETITION_WARNING}", result.error_kind)
        streams = [[name, self._redact(text)] for name, text in result.streams] if result.streams else None
        self._emit(ToolFinished(call.call_id, output.status, result.error_kind, output.text, duration_ms, streams))
        self._observe(call, result)
        return output


REPETITION_WARNING = (
    "warning: this is the third time in a row that the same call, or the same cycle of calls, has had the same "
    "result. Do something different: once more ends the turn."
)


class _Batch:
    """The calls of one response on their way: the `waiting` ones only read, and run together.

    Outputs are taken in the order of the calls, whichever ends first, so that the log, the ledger and the next
    request do not depend on chance.
    """

    def __init__(self, dispatcher: Dispatcher) -> None:
        self._dispatcher = dispatcher
        self._waiting: list[tuple[ToolCall, Run]] = []
        self.outputs: list[ToolOutput] = []
        self.stop: Outcome | None = None
        self.failure: SandboxError | None = None

    def take(self, call: ToolCall) -> None:
        """Carries out a call that may do more than read, alone; one that only reads waits for others."""
        try:
            action = self._dispatcher.action(call)
        except ToolError as error:
            self._waiting.append((call, _answered(refused(error))))
            return
        if not action.reads_only:
            self.finish()
        refusal = self._refusal(action)
        self._waiting.append((call, _answered(refusal) if refusal else action.run))
        if not action.reads_only:
            self.finish()

    def _refusal(self, action: Action) -> ToolResult | None:
        """Why the call does not run: the turn has stopped, it cannot be carried out, or the gate says no."""
        if self.stop is None and action.review is not None:
            try:
                approval = self._dispatcher.ask(action.review)
            except Interrupted:
                self.stop = Outcome.INTERRUPTED
            except ToolError as error:
                return refused(error)
            except SandboxError as error:
                return self._lost(error)
            else:
                if approval.decision == "stop":
                    self.stop = Outcome.STOPPED_BY_USER
                if approval.decision != "allow":
                    return _error(ErrorKind.DENIED, approval.reason or "the user denied this call")
        return _error(ErrorKind.CANCELLED, _UNSTARTED[self.stop]) if self.stop is not None else None

    def finish(self) -> None:
        """Carries out what waits and takes every result, also when an interruption cancels it."""
        if not self._waiting:
            return
        calls, runs = zip(*self._waiting, strict=True)
        self._waiting.clear()
        for call, (result, duration_ms) in zip(calls, self._dispatcher.run(runs), strict=True):
            if isinstance(result, SandboxError):
                result = self._lost(result)
            if self._dispatcher.interrupted:
                self.stop = Outcome.INTERRUPTED
            self.outputs.append(self._dispatcher.finished(call, result, duration_ms))

    def _lost(self, error: SandboxError) -> ToolResult:
        self.failure, self.stop = error, self.stop or Outcome.SANDBOX_FAILED
        return _error(ErrorKind.SANDBOX_FAILED, error.message)


_UNSTARTED = {
    Outcome.INTERRUPTED: "the turn was interrupted before this call was started; nothing was run",
    Outcome.STOPPED_BY_USER: "the user stopped the turn before this call was started; nothing was run",
    Outcome.SANDBOX_FAILED: "the sandbox was lost before this call was started; nothing was run",
}


def _error(kind: ErrorKind, sentence: str) -> ToolResult:
    return ToolResult(ToolError(kind, sentence).text(), kind)


def _answered(result: ToolResult) -> Run:
    """A call that is answered without being carried out."""
    return lambda _cancel, _left: result


@dataclass(frozen=True, slots=True)
class _Cancel:
    """A flag that a signal sets."""

    interrupts: Interrupts

    def is_set(self) -> bool:
        return self.interrupts.pending


def _timed(run: Run, cancel: Flag, seconds_left: float) -> Timed:
    began = time.monotonic()
    result: ToolResult | SandboxError
    try:
        result = run(cancel, seconds_left)
    except ToolError as error:
        result = refused(error)
    except SandboxError as error:
        result = error
    return result, round((time.monotonic() - began) * 1000)
