"""What is asked of the engine and cannot be broken off: waited for, or left and undone."""

from __future__ import annotations

import threading
from functools import partial

import pytest

from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.sandbox.errands import Errands
from tests.clocks import PATIENCE, wait_until


def test_what_comes_of_an_errand_is_returned_and_not_undone() -> None:
    undone: list[int] = []
    assert Errands().run(lambda: 7, undone.append, threading.Event()) == 7
    assert undone == []


def test_an_errand_that_fails_raises_its_own_error() -> None:
    def fail() -> int:
        raise SandboxError("It cannot be started.")

    with pytest.raises(SandboxError, match="It cannot be started"):
        Errands().run(fail, lambda _: None)


def test_an_errand_that_is_left_is_undone_when_it_ends_and_the_next_begins_only_then() -> None:
    errands, leave, go_on = Errands(), threading.Event(), threading.Event()
    seen: list[str] = []

    def slow() -> str:
        leave.set()
        go_on.wait(PATIENCE)
        seen.append("made")
        return "undone"

    with pytest.raises(ToolError) as left:
        errands.run(slow, seen.append, leave)
    assert left.value.kind is ErrorKind.CANCELLED
    errands.settle(0)
    assert seen == []
    threading.Timer(0.1, go_on.set).start()
    errands.run(lambda: seen.append("next"), lambda _: None)
    assert seen == ["made", "undone", "next"]


def test_one_that_is_left_while_it_waits_for_another_never_begins() -> None:
    errands, leave, go_on = Errands(), threading.Event(), threading.Event()
    leave.set()
    begun: list[int] = []

    def slow(number: int) -> None:
        go_on.wait(PATIENCE)
        begun.append(number)

    for number in range(3):
        with pytest.raises(ToolError):
            errands.run(partial(slow, number), lambda _: None, leave)
    go_on.set()
    errands.settle(PATIENCE)
    assert begun == [0]


def test_an_exception_that_a_signal_raises_leaves_it_as_well() -> None:
    class Interrupting:
        def is_set(self) -> bool:
            raise KeyboardInterrupt

    errands, go_on = Errands(), threading.Event()
    undone: list[bool] = []
    with pytest.raises(KeyboardInterrupt):
        errands.run(lambda: go_on.wait(PATIENCE), undone.append, Interrupting())
    go_on.set()
    wait_until(lambda: undone == [True])
