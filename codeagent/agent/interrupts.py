"""SIGINT, SIGTERM, SIGHUP and the turn's deadline as exceptions, raised only where the program waits for something.

A signal may arrive between any two bytecodes. Raising there would tear the very code that keeps every call
answered and every event stored, so the handler raises inside a `waiting()` section and otherwise leaves a
mark that the next section finds. Sections are where time is spent: an inference, a tool run, a prompt.

Inside a section an interval timer ticks. The system gives a signal to any thread, and where several come at once
often to another one than the main thread, which then sleeps on in its system call, handlers unrun. A tick wakes it,
and brings a signal that came during an import or a callback, which must not be torn either.
"""

from __future__ import annotations

import math
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any

from codeagent.errors import Interrupted

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
TICK_SECONDS = 0.2


class DeadlinePassed(BaseException):
    """The seconds given to a `waiting` section are over."""


def ignores_hang_up(number: int) -> bool:
    """Whether the signal is SIGHUP and was ignored from the start (`nohup`): then it stays so."""
    return number == signal.SIGHUP and signal.getsignal(number) is signal.SIG_IGN


def _must_end(frame: FrameType | None) -> bool:
    """Whether a module is being imported below this frame, or a callback of an event loop is running.

    An import that is left in the middle may keep the lock of all imports, and other threads wait for ever. What a
    callback raises the loop takes for a fault of the callback (asyncio's `Handle._run`), and waits on.
    """
    while frame is not None:
        callback = frame.f_code.co_name == "_run" and frame.f_globals.get("__name__") == "asyncio.events"
        if callback or frame.f_code.co_filename.startswith("<frozen importlib"):
            return True
        frame = frame.f_back
    return False


class Interrupts:
    """Use as a context manager in the main thread; without entering it, no handler is installed."""

    def __init__(self) -> None:
        self._pending = False
        self._waiting = False
        self._deadline = math.inf  # of the section, on the monotonic clock
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            if not ignores_hang_up(number):
                self._before[number] = signal.signal(number, self._received)
        self._before[signal.SIGALRM] = signal.signal(signal.SIGALRM, self._ticked)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for number, handler in self._before.items():
            signal.signal(number, handler)
        self._before.clear()

    def _received(self, _number: int, frame: FrameType | None) -> None:
        self._pending = True
        self._raise_if_due(frame)

    def _ticked(self, _number: int, frame: FrameType | None) -> None:
        self._raise_if_due(frame)

    def _raise_if_due(self, frame: FrameType | None) -> None:
        late = time.monotonic() >= self._deadline
        if self._waiting and (self._pending or late) and not _must_end(frame):
            self._waiting = False  # one exception a section: its clean-up is not torn by a second signal
            raise Interrupted if self._pending else DeadlinePassed

    @property
    def pending(self) -> bool:
        """A signal came, and `clear` was not called since."""
        return self._pending

    def clear(self) -> None:
        """Forgets a signal that has been dealt with (`chat` goes on after one)."""
        self._pending = False

    @contextmanager
    def waiting(self, seconds: float | None = None) -> Iterator[None]:
        """Inside, a signal raises Interrupted (one that came before, at once), and the deadline DeadlinePassed."""
        if self._pending:
            raise Interrupted
        if seconds is not None and seconds <= 0:
            raise DeadlinePassed
        ticking = signal.SIGALRM in self._before
        self._deadline = math.inf if seconds is None else time.monotonic() + seconds
        self._waiting = True
        try:
            if ticking:
                first = TICK_SECONDS if seconds is None else min(seconds, TICK_SECONDS)
                signal.setitimer(signal.ITIMER_REAL, first, TICK_SECONDS)
            yield
        finally:
            self._waiting = False
            if ticking:
                signal.setitimer(signal.ITIMER_REAL, 0)
