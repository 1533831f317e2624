"""Calls of one response: who carries them out, in which order they are answered, and what a signal does to them."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import pytest

from codeagent.agent.dispatch import Action, Dispatcher, Tool
from codeagent.agent.interrupts import Interrupts
from codeagent.agent.limits import Bounds, Clock, Limits
from codeagent.approval.seam import Approval, Classification, CommandClass, Review
from codeagent.conversation import ToolCall
from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.events import Event
from codeagent.inference import ToolSpec
from codeagent.outcome import Outcome
from codeagent.sandbox.seam import Flag
from codeagent.tools.result import ToolResult
from tests.clocks import PATIENCE, at_once, wait_until

Body = Callable[[Flag], ToolResult]


@dataclass
class Desk:
    """A dispatcher whose tools are functions of the test's: `look` only reads, `act` may do more.

    Whatever may do more is allowed, unless its check fails.
    """

    dispatcher: Dispatcher
    checks: dict[str, Callable[[], None]] = field(default_factory=dict)
    bodies: dict[str, Body] = field(default_factory=dict)
    observed: list[str] = field(default_factory=list)

    def dispatch(self, *names: str) -> tuple[list[tuple[str, str | None]], Outcome | None]:
        """`look:x` calls the tool `look`, with the test's body x; answers are (first line, error kind)."""
        done = self.dispatcher.dispatch([ToolCall(name, name.partition(":")[0], "{}") for name in names])
        return [(output.text.split("\n")[0], output.error_kind) for output in done.outputs], done.stop


@pytest.fixture
def desk() -> Iterator[Desk]:
    found: list[Desk] = []

    def prepare(call: ToolCall) -> Action:
        body = found[0].bodies[call.call_id]
        ask = Classification(CommandClass.ASK, "it may write")
        check = found[0].checks.get(call.call_id, lambda: None)
        review = Review(call.call_id, "run_command", "x", "", True, ask, check) if call.name == "act" else None
        return Action(lambda cancel, _left: body(cancel), review)

    def observe(call: ToolCall, _result: ToolResult) -> None:
        found[0].observed.append(call.call_id)

    def deaf(_event: Event) -> None:
        pass

    def allowed(review: Review) -> Approval:
        review.check()
        return Approval("allow", "flag")

    with Interrupts() as interrupts:
        dispatcher = Dispatcher(
            {name: Tool(ToolSpec(name, "", {}), prepare) for name in ("look", "act")},
            review=allowed,
            redact=lambda text: text,
            observe=observe,
            emit=deaf,
            limits=Limits(Bounds(), Clock()),
            interrupts=interrupts,
        )
        found.append(Desk(dispatcher))
        yield found[0]
        dispatcher.close()


def saying(text: str, seconds: float = 0.0) -> Body:
    def body(cancel: Flag) -> ToolResult:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if cancel.is_set():
                return ToolResult(f"{text} cancelled", ErrorKind.CANCELLED)
            time.sleep(0.005)
        return ToolResult(text)

    return body


def test_a_single_call_is_carried_out_by_the_thread_that_waits_for_it(desk: Desk) -> None:
    desk.bodies = {"look:a": lambda _cancel: ToolResult(threading.current_thread().name)}
    assert desk.dispatch("look:a") == ([(threading.current_thread().name, None)], None)


def test_calls_that_read_run_together_and_are_answered_in_their_order(desk: Desk) -> None:
    together = threading.Barrier(3, timeout=PATIENCE)
    turns = {"look:a": 0.2, "look:b": 0.0, "look:c": 0.1}

    def last_first(name: str) -> Body:
        def body(_cancel: Flag) -> ToolResult:
            together.wait()
            time.sleep(turns[name])
            return ToolResult(name)

        return body

    desk.bodies = {name: last_first(name) for name in turns}
    assert desk.dispatch(*turns) == ([(name, None) for name in turns], None)
    assert desk.observed == list(turns)


def test_what_has_ended_is_told_while_a_later_call_still_runs(desk: Desk) -> None:
    def told_before(_cancel: Flag) -> ToolResult:
        wait_until(lambda: desk.observed == ["look:a", "look:b"])
        return ToolResult(f"after {len(desk.observed)}")

    desk.bodies = {"look:a": saying("a"), "look:b": saying("b"), "look:c": told_before}
    assert desk.dispatch("look:a", "look:b", "look:c")[0][-1] == ("after 2", None)


def test_a_call_that_may_write_runs_alone_in_its_place(desk: Desk) -> None:
    running: list[str] = []
    seen: dict[str, tuple[str, ...]] = {}

    def noting(name: str) -> Body:
        def body(_cancel: Flag) -> ToolResult:
            running.append(name)
            time.sleep(0.05)
            seen[name] = tuple(running)
            running.remove(name)
            return ToolResult(name)

        return body

    names = ("look:a", "look:b", "act:c", "look:d", "look:e")
    desk.bodies = {name: noting(name) for name in names}
    answers, stop = desk.dispatch(*names)
    assert ([text for text, _ in answers], stop) == (list(names), None)
    assert seen["act:c"] == ("act:c",)
    assert list(seen) in (
        [*first, "act:c", *last]
        for first in (["look:a", "look:b"], ["look:b", "look:a"])
        for last in (["look:d", "look:e"], ["look:e", "look:d"])
    )


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_cancels_every_call_under_way_and_all_are_answered(desk: Desk, number: signal.Signals) -> None:
    under_way = threading.Barrier(3, timeout=PATIENCE)

    def until_cancelled(name: str) -> Body:
        def body(cancel: Flag) -> ToolResult:
            under_way.wait()
            return saying(name, 60)(cancel)

        return body

    def send() -> None:
        under_way.wait()
        os.kill(os.getpid(), number)

    desk.bodies = {"look:a": until_cancelled("a"), "look:b": until_cancelled("b"), "act:c": saying("c", 60)}
    threading.Thread(target=send).start()
    with at_once():
        answers, stop = desk.dispatch("look:a", "look:b", "act:c")
    assert answers == [
        ("a cancelled", ErrorKind.CANCELLED),
        ("b cancelled", ErrorKind.CANCELLED),
        (
            "error: cancelled: the turn was interrupted before this call was started; nothing was run",
            ErrorKind.CANCELLED,
        ),
    ]
    assert stop is Outcome.INTERRUPTED


def test_a_lost_sandbox_answers_its_call_and_stops_what_comes_after(desk: Desk) -> None:
    def lost(_cancel: Flag) -> ToolResult:
        raise SandboxError("The sandbox was lost.")

    desk.bodies = {"look:a": lost, "look:b": saying("b"), "act:c": saying("c")}
    answers, stop = desk.dispatch("look:a", "look:b", "act:c")
    assert [kind for _, kind in answers] == [ErrorKind.SANDBOX_FAILED, None, ErrorKind.CANCELLED]
    assert stop is Outcome.SANDBOX_FAILED


def raising(error: Exception) -> Callable[[], None]:
    def check() -> None:
        raise error

    return check


def test_a_call_that_cannot_be_carried_out_is_answered_with_why_and_the_others_run(desk: Desk) -> None:
    desk.bodies = {"act:a": saying("a"), "act:b": saying("b"), "look:c": saying("c")}
    desk.checks = {"act:a": raising(ToolError(ErrorKind.PATCH_FAILED, "it does not fit"))}
    assert desk.dispatch("act:a", "act:b", "look:c") == (
        [("error: patch_failed: it does not fit", ErrorKind.PATCH_FAILED), ("b", None), ("c", None)],
        None,
    )
    assert desk.observed == ["act:a", "act:b", "look:c"]


def test_a_sandbox_lost_at_the_question_keeps_the_outputs_before_it(desk: Desk) -> None:
    desk.bodies = {name: saying(name) for name in ("act:a", "act:b", "act:c")}
    desk.checks = {"act:b": raising(SandboxError("The sandbox was lost."))}
    answers, stop = desk.dispatch("act:a", "act:b", "act:c")
    assert answers == [
        ("act:a", None),
        ("error: sandbox_failed: The sandbox was lost.", ErrorKind.SANDBOX_FAILED),
        (
            "error: cancelled: the sandbox was lost before this call was started; nothing was run",
            ErrorKind.CANCELLED,
        ),
    ]
    assert stop is Outcome.SANDBOX_FAILED
