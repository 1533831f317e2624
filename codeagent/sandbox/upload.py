"""Sends the repository to a container whose engine does not see it, without the contents of protected files."""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.files import Calls
from codeagent.sandbox.protected import Found
from codeagent.sandbox.seam import Steps

BATCH_BYTES = 8 << 20
BATCH_ENTRIES = 2_000
WHAT = "sending the repository to the engine"


@dataclass(frozen=True, slots=True)
class _Thing:
    path: str
    mode: int
    size: int
    mtime: int


def upload(channel: Calls, repo: Path, found: Found, limit: int, steps: Steps) -> None:
    """Fills the guest's `upload` folder. ToolError(too_large) before anything is sent."""
    things = list(_things(repo, found))
    total = sum(thing.size for thing in things)
    if total > limit:
        raise ToolError(
            ErrorKind.TOO_LARGE,
            f"the repository has {total >> 20:,} MiB, more than the private copy's limit of {limit >> 20:,} MiB "
            "([sandbox] copy_limit)",
        )
    sent = 0
    for heads, content in _batches(repo, things):
        channel.call("receive", {}, json.dumps(heads).encode("ascii") + b"\n" + content)
        sent += len(content)
        steps(WHAT, sent, total)


def _things(repo: Path, found: Found) -> Iterator[_Thing]:
    """Everything in the repository, folders before what is in them; protected files empty."""
    empty, closed = {*found.files, *found.unmaskable}, set(found.folders)
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(repo / below if below else repo) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            path = below + entry.name
            seen = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode):
                yield _Thing(path, seen.st_mode, 0, seen.st_mtime_ns)
                if path not in closed:
                    waiting.append(path + "/")
            elif stat.S_ISLNK(seen.st_mode):
                yield _Thing(path, seen.st_mode, 0, seen.st_mtime_ns)
            elif stat.S_ISREG(seen.st_mode) and os.access(entry.path, os.R_OK):
                yield _Thing(path, seen.st_mode, 0 if path in empty else seen.st_size, seen.st_mtime_ns)


Head = tuple[str, int, int, int, int]
"""Path, mode, where the piece belongs in the file, its length, mtime in nanoseconds."""


def _batches(repo: Path, things: list[_Thing]) -> Iterator[tuple[list[Head], bytes]]:
    heads: list[Head] = []
    parts: list[bytes] = []
    size = 0
    for thing in things:
        for offset, piece in _pieces(repo, thing):
            heads.append((thing.path, thing.mode, offset, len(piece), thing.mtime))
            parts.append(piece)
            size += len(piece)
            if size >= BATCH_BYTES or len(heads) >= BATCH_ENTRIES:
                yield heads, b"".join(parts)
                heads, parts, size = [], [], 0
    if heads:
        yield heads, b"".join(parts)


def _pieces(repo: Path, thing: _Thing) -> Iterator[tuple[int, bytes]]:
    if stat.S_ISLNK(thing.mode):
        yield 0, os.fsencode((repo / thing.path).readlink())
        return
    if not thing.size:
        yield 0, b""
        return
    offset = 0
    with (repo / thing.path).open("rb") as file:
        while offset < thing.size and (piece := file.read(min(BATCH_BYTES, thing.size - offset))):
            yield offset, piece
            offset += len(piece)
