"""Which lines of two texts differ: short where that is affordable, and always right.

Common beginnings and ends are cut off; small rests are compared by Myers' algorithm ("An O(ND) Difference Algorithm
and Its Variations", 1986); large ones are first divided at lines that are unique in both (patience). What is still
too different is replaced as one block.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from math import isqrt

MAX_DIFFERENCES = 300
SMALL = 4_000
"""Lines on both sides together up to which Myers' algorithm is tried at once."""
EFFORT = 1_000_000
"""Steps of Myers' algorithm for one pair of texts (about a second); the rest is replaced in larger blocks."""

Block = tuple[int, int, int, int]
"""Lines start..end of the old text are replaced by lines start..end of the new one."""


def changed_blocks(old: Sequence[bytes], new: Sequence[bytes]) -> list[Block]:
    """The blocks that differ, in order, with at least one equal line between neighbours."""
    numbers: dict[bytes, int] = {}
    a = [numbers.setdefault(line, len(numbers)) for line in old]
    b = [numbers.setdefault(line, len(numbers)) for line in new]
    blocks: list[Block] = []
    waiting = [(0, len(a), 0, len(b))]
    effort = EFFORT
    while waiting:
        part = _trimmed(a, b, waiting.pop())
        a_start, a_end, b_start, b_end = part
        if a_start == a_end or b_start == b_end:
            if part[0] != part[1] or part[2] != part[3]:
                blocks.append(part)
            continue
        small = a_end - a_start + b_end - b_start <= SMALL
        limit = min(MAX_DIFFERENCES, isqrt(effort)) if small else 0
        found, steps = _myers(a[a_start:a_end], b[b_start:b_end], limit) if limit else (None, 0)
        effort -= steps
        if found is not None:
            blocks += [(a_start + i, a_start + j, b_start + k, b_start + m) for i, j, k, m in found]
            continue
        between = _between_anchors(a, b, part)
        if len(between) > 1:
            waiting += between
        else:
            blocks.append(part)
    return _joined(sorted(blocks))


def _trimmed(a: list[int], b: list[int], part: Block) -> Block:
    a_start, a_end, b_start, b_end = part
    while a_start < a_end and b_start < b_end and a[a_start] == b[b_start]:
        a_start, b_start = a_start + 1, b_start + 1
    while a_start < a_end and b_start < b_end and a[a_end - 1] == b[b_end - 1]:
        a_end, b_end = a_end - 1, b_end - 1
    return a_start, a_end, b_start, b_end


def _joined(blocks: list[Block]) -> list[Block]:
    joined: list[Block] = []
    for block in blocks:
        if joined and joined[-1][1] == block[0] and joined[-1][3] == block[2]:
            joined[-1] = (joined[-1][0], block[1], joined[-1][2], block[3])
        else:
            joined.append(block)
    return joined


def _myers(a: list[int], b: list[int], limit: int) -> tuple[list[Block] | None, int]:
    """The shortest script, or None when it has more than `limit` differences; and the steps that it took."""
    furthest = {1: 0}
    trace: list[dict[int, int]] = []
    for differences in range(min(limit, len(a) + len(b)) + 1):
        trace.append(dict(furthest))
        for diagonal in range(-differences, differences + 1, 2):
            down = diagonal == -differences or (
                diagonal != differences and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
            )
            x = furthest[diagonal + 1] if down else furthest[diagonal - 1] + 1
            y = x - diagonal
            while x < len(a) and y < len(b) and a[x] == b[y]:
                x, y = x + 1, y + 1
            furthest[diagonal] = x
            if x >= len(a) and y >= len(b):
                return _script(trace, len(a), len(b)), differences * differences
    return None, limit * limit


def _script(trace: list[dict[int, int]], x: int, y: int) -> list[Block]:
    blocks: list[Block] = []
    for differences in range(len(trace) - 1, 0, -1):
        furthest, diagonal = trace[differences], x - y
        down = diagonal == -differences or (
            diagonal != differences and furthest.get(diagonal - 1, -1) < furthest.get(diagonal + 1, -1)
        )
        before = diagonal + 1 if down else diagonal - 1
        x = furthest[before]
        y = x - before
        blocks.append((x, x, y, y + 1) if down else (x, x + 1, y, y))
    return _joined(blocks[::-1])


def _between_anchors(a: list[int], b: list[int], part: Block) -> list[Block]:
    """The parts between lines that stand once in each text, in the same order in both."""
    a_start, a_end, b_start, b_end = part
    in_a, in_b = Counter(a[a_start:a_end]), Counter(b[b_start:b_end])
    place_in_b = {line: place for place, line in enumerate(b[b_start:b_end], b_start) if in_b[line] == 1}
    pairs = [
        (place, place_in_b[line])
        for place, line in enumerate(a[a_start:a_end], a_start)
        if in_a[line] == 1 and line in place_in_b
    ]
    parts: list[Block] = []
    last_a, last_b = a_start, b_start
    for place_a, place_b in _longest_increasing(pairs):
        parts.append((last_a, place_a, last_b, place_b))
        last_a, last_b = place_a + 1, place_b + 1
    return [*parts, (last_a, a_end, last_b, b_end)]


def _longest_increasing(pairs: list[tuple[int, int]]) -> list[tuple[int, int]]:
    ends: list[int] = []
    at: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        if length == len(ends):
            ends.append(place)
            at.append(index)
        else:
            ends[length] = place
            at[length] = index
        before.append(at[length - 1] if length else -1)
    found: list[tuple[int, int]] = []
    index = at[-1] if at else -1
    while index >= 0:
        found.append(pairs[index])
        index = before[index]
    return found[::-1]
