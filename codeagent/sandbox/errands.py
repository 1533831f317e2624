"""Requests to the engine that cannot be broken off, sent so that whoever waits for one may leave at any moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, wait
from typing import TypeVar

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.seam import Flag

WATCH_SECONDS = 0.05

T = TypeVar("T")


def await_result(made: Future[T], *flags: Flag) -> T:
    """The result when it is there. ToolError(cancelled) as soon as one of the flags is set."""
    while not (made.done() or wait([made], WATCH_SECONDS).done):
        if any(flag.is_set() for flag in flags):
            raise ToolError(ErrorKind.CANCELLED, "cancelled while the sandbox was made ready for it; nothing was run")
    return made.result()


class Errands:
    """Each is carried out in a thread of its own. One that nobody waits for any more is undone when it ends, and the
    next begins only then.
    """

    def __init__(self) -> None:
        self._left: list[threading.Thread] = []

    def run(self, begin: Callable[[], T], undo: Callable[[T], object], *flags: Flag) -> T:
        """What `begin` returns; raises as it does. Left when a flag is set (see `await_result`), or by an exception
        that a signal raises here.
        """
        made: Future[T] = Future()
        self._left = [thread for thread in self._left if thread.is_alive()]
        thread = threading.Thread(target=_carry_out, args=(made, tuple(self._left), begin, undo), daemon=True)
        thread.start()
        try:
            return await_result(made, *flags)
        except BaseException:
            if made.cancel():
                self._left.append(thread)
            elif made.exception() is None:
                undo(made.result())
            raise

    def settle(self, seconds: float) -> None:
        """Waits until what was left is undone, but not longer."""
        until = time.monotonic() + seconds
        for thread in self._left:
            thread.join(max(0.0, until - time.monotonic()))


def _carry_out(
    made: Future[T], before: Sequence[threading.Thread], begin: Callable[[], T], undo: Callable[[T], object]
) -> None:
    for thread in before:
        thread.join()
    if made.cancelled():
        return
    try:
        result = begin()
    except BaseException as error:
        if made.set_running_or_notify_cancel():
            made.set_exception(error)
    else:
        if made.set_running_or_notify_cancel():
            made.set_result(result)
        else:
            undo(result)
