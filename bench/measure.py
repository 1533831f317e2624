"""How things are timed: interleaved with what they are compared with, because the machine's speed drifts."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

PAUSE_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table. `reached` None: could not be measured, and `figures` says why."""

    number: int
    measure: str
    goal: str
    figures: str
    reached: bool | None


def timed(action: Callable[[], object]) -> float:
    """Seconds."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def side_by_side(rounds: int, *actions: Callable[[], object], block: int = 1) -> list[list[float]]:
    """The times of each action in seconds: `block` of the one, `block` of the next, and so on, `rounds` times.

    Everything runs once untimed first. What an engine has to clear up after a `docker exec` still costs time when it
    has returned, so blocks are followed by a pause.
    """
    for action in actions:
        action()
    times: list[list[float]] = [[] for _ in actions]
    for _ in range(rounds):
        for column, action in zip(times, actions, strict=True):
            if block > 1:
                time.sleep(PAUSE_SECONDS)
            column += [timed(action) for _ in range(block)]
    return times


def median(times: Sequence[float]) -> float:
    return statistics.median(times)


def p95(times: Sequence[float]) -> float:
    return sorted(times)[min(len(times) - 1, int(len(times) * 0.95))]


def process(*argv: str) -> Callable[[], object]:
    """Running a program to its end, output thrown away."""

    def run() -> None:
        subprocess.run(argv, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

    return run


def ms(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.01 else f"{seconds * 1000:.0f} ms"
