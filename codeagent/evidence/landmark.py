"""What tells cited lines from others of the same text, so that they are found again after they have moved."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from codeagent.evidence.lines import text_sha256

MOST_AROUND = 20
"""Lines of either side that are looked at; what is alike with more around it cannot be told apart."""
MOST_ALIKE = 10_000
"""Places of the same text that are told apart: with more, a file may hold nothing else, and it would take long."""


class Landmark(NamedTuple):
    """The fewest lines around a place that stand in its file once: how many before it and after it, and the hash of
    them all, the place's own among them (each ended by LF)."""

    before: int
    after: int
    sha256: str


def landmark(lines: Sequence[str], start: int, end: int) -> Landmark | None:
    """That of the lines from `start` to `end` (counted from 1) of a file; None where there is none."""
    cited = lines[start - 1 : end]
    # Few lines are like the first one, and comparing whole slices at each of half a million takes its time.
    firsts = [at for at, line in enumerate(lines, 1) if line == cited[0]]
    alike = [at for at in firsts if lines[at - 1 : at - 1 + len(cited)] == cited]
    if len(alike) > MOST_ALIKE:
        return None
    for around in range(MOST_AROUND + 1):
        before, after = min(around, start - 1), min(around, len(lines) - end)
        block = lines[start - 1 - before : end + after]
        alike = [at for at in alike if at > before and lines[at - 1 - before : end - start + at + after] == block]
        if len(alike) == 1:
            return Landmark(before, after, text_sha256(block))
    return None


def as_json(found: Landmark | None) -> list[int | str] | None:
    """The form in which it is stored."""
    return None if found is None else list(found)


def from_json(stored: Any) -> Landmark | None:
    """One that was stored; None for what is none."""
    match stored:
        case [int(before), int(after), str(sha256)] if before >= 0 and after >= 0:
            return Landmark(before, after, sha256)
        case _:
            return None
