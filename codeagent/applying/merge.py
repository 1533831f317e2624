"""A merge of three versions by lines (`codeagent apply --3way`), and where the common one comes from.

Each change of either side takes its place; changes that overlap or touch are a conflict, unless both sides made the
same one. What a file was when the private copy was made is kept beside the stored diff, because neither the diff nor
the repository holds all of it any more when it is needed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from codeagent.beneath import opened_root, read_beneath
from codeagent.evidence.lines import differing
from codeagent.patches import FilePatch, Hunk, PatchError, is_blob, parse, split_lines

MAX_BASE = 1 << 20
MAX_KEPT = 16 << 20
"""Bytes of one file, and of all, that are kept to merge with."""

Lines = Sequence[bytes]
_Change = tuple[int, int, tuple[bytes, ...]]
"""Lines of the base from..to (ends excluded) that become others."""


def merged(base: bytes, patch: FilePatch, mine: bytes) -> bytes | int:
    """What the patch and the user made of the base; else the line of the base, from 1, at which they clash."""
    lines = split_lines(base)
    theirs = (change for hunk in patch.hunks for change in _changes(hunk.old, hunk.new, _first(hunk)))
    new: list[bytes] = []
    at, touching = 0, -1
    for start, end, replacement in sorted({*theirs, *_changes(lines, split_lines(mine))}):
        if start <= touching:
            return start + 1
        new += lines[at:start]
        new += replacement
        at = touching = end
    return b"".join([*new, *lines[at:]])


def _first(hunk: Hunk) -> int:
    # A hunk without old lines stands after its line; with some, it begins at it.
    return hunk.start - 1 if hunk.old else hunk.start


def _changes(base: Lines, new: Lines, first: int = 0) -> Iterator[_Change]:
    for start, end, new_start, new_end in differing(base, new):
        yield first + start, first + end, tuple(new[new_start:new_end])


def keep_bases(repo: Path, patch: bytes, folder: Path) -> None:
    """Keeps, under git's names of their contents, the text files that a diff changes, as they are on the host now.

    A convenience of a later merge: what cannot be read or kept, or is not any more what the diff compares with, is
    left out.
    """
    with suppress(OSError, PatchError), opened_root(repo) as root:
        wanted = [one for one in parse(patch) if one.old_path and one.old_blob and one.hunks]
        folder.mkdir(mode=0o700, exist_ok=True)
        room = MAX_KEPT - sum(entry.stat().st_size for entry in folder.iterdir())
        for one in wanted:
            file = folder / one.old_blob
            if room > 0 and not file.exists():
                with suppress(OSError):
                    content = read_beneath(root, str(one.old_path), min(MAX_BASE, room))
                    if content is not None and is_blob(content, one.old_blob):
                        _write(file, content)
                        room -= len(content)


def base_of(folder: Path | None, blob: str) -> bytes | None:
    """A kept content; None when there is none."""
    if folder is None or not blob.isalnum():
        return None
    with suppress(OSError):
        content = (folder / blob).read_bytes()
        if is_blob(content, blob):
            return content
    return None


def _write(file: Path, content: bytes) -> None:
    fd = os.open(file, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(fd, "wb") as stream:
        stream.write(content)
