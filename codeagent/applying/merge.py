"""Puts a change into a file that somebody else has changed as well (`codeagent apply --3way`).

What the file was when the copy was made is not stored; what each hunk saw of it is. A hunk goes to the one place
where its lines stand now. Where the user has changed lines near it, its outer context may go, as in a merge of three
versions, but never the line next to the change: changes that touch are a conflict. A hunk whose result stands there
already was made by both.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from codeagent.patches import FilePatch, Hunk, PatchError, split_lines


def merged(patch: FilePatch, current: bytes) -> bytes:
    """The file with the patch's hunks in it. Raises PatchError naming the first hunk that has no one place."""
    lines = split_lines(current)
    new: list[bytes] = []
    at = shift = 0
    for number, hunk in enumerate(patch.hunks, 1):
        found = _found(lines, hunk, at, shift)
        if found is None:
            raise PatchError(
                f"{patch.path}: it was changed since the copy was made, and hunk {number} of {len(patch.hunks)} "
                f"(line {hunk.start}) does not fit any more"
            )
        start, fitting = found
        new += lines[at:start]
        new += fitting.new
        at = start + len(fitting.old)
        shift = start - _stated(fitting)
    return b"".join(new + lines[at:])


def _found(lines: Sequence[bytes], hunk: Hunk, first: int, shift: int) -> tuple[int, Hunk] | None:
    """Where the hunk goes, and as much of it as stands there."""
    before, after = _context(hunk)
    forms = [hunk, *_trimmed(hunk, before, after)]
    if before or after:  # without any, nothing says where it was made
        forms.insert(1, Hunk(hunk.start, hunk.new, hunk.new, hunk.start))
    for one in forms:
        place = _place(lines, one, first, shift)
        if place is not None:
            return place, one
    return None


def _context(hunk: Hunk) -> tuple[int, int]:
    """How many lines stand unchanged before and after the change."""
    before = _common(hunk.old, hunk.new)
    return before, _common(hunk.old[before:][::-1], hunk.new[before:][::-1])


def _trimmed(hunk: Hunk, before: int, after: int) -> Iterator[Hunk]:
    """The hunk with less and less outer context, down to the line next to the change."""
    for drop in range(1, max(before, after)):
        head, tail = min(drop, max(before - 1, 0)), min(drop, max(after - 1, 0))
        yield Hunk(
            hunk.start + head,
            hunk.old[head : len(hunk.old) - tail],
            hunk.new[head : len(hunk.new) - tail],
            hunk.new_start + head,
        )


def _common(one: Sequence[bytes], other: Sequence[bytes]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _stated(hunk: Hunk) -> int:
    # A hunk without old lines stands after its line; with some, it begins at it.
    return hunk.start - 1 if hunk.old else hunk.start


def _place(lines: Sequence[bytes], hunk: Hunk, first: int, shift: int) -> int | None:
    """The one place of the hunk's old lines; None for none, and for several of which none is the expected one."""
    if not hunk.old:
        return None if lines else 0
    size = len(hunk.old)
    places = [
        at
        for at in range(first, len(lines) - size + 1)
        if lines[at] == hunk.old[0] and tuple(lines[at : at + size]) == hunk.old
    ]
    if len(places) == 1:
        return places[0]
    expected = _stated(hunk) + shift
    return expected if expected in places else None
