"""Time in tests, on a machine that other programs keep busy as well.

What computes is measured by the processor time that it takes. What has to happen is waited for, however long that
takes. What must not wait for something else is given far more time than it needs, and far less than the other takes.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

PATIENCE = 30.0
"""Seconds after which what should have happened at once is given up."""

GONE_SECONDS = 15.0
"""Seconds until nothing is left of a program; five are promised, for a machine that does nothing else."""


def wait_until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    began = time.monotonic()
    while not true():
        waited = time.monotonic() - began
        assert waited < seconds, f"not within {seconds} s"
        time.sleep(min(0.01 + waited / 10, 0.1))  # what is asked for long costs what is waited for its processor


@contextmanager
def processor_time_below(seconds: float) -> Iterator[None]:
    """Of this process, its threads together."""
    began = time.process_time()
    yield
    assert time.process_time() - began < seconds


@contextmanager
def once(true: Callable[[], object], act: Callable[[], object]) -> Iterator[None]:
    """Acts, beside what is done meanwhile, when something has become true."""

    def watch() -> None:
        wait_until(true)
        act()

    watching = threading.Thread(target=watch)
    watching.start()
    try:
        yield
    finally:
        watching.join()


@contextmanager
def at_once(seconds: float = PATIENCE / 2) -> Iterator[None]:
    """For what would last a minute if it waited for the other side."""
    began = time.monotonic()
    yield
    assert time.monotonic() - began < seconds
