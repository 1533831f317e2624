"""Sends the repository to a container whose engine does not see it, without the contents of protected files.

So is a git directory that lies outside of the repository, with a configuration of ours and without hooks.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.files import Calls
from codeagent.sandbox.protected import Found
from codeagent.sandbox.seam import Steps

BATCH_BYTES = 8 << 20
BATCH_ENTRIES = 2_000
WHAT = "sending the repository to the engine"


@dataclass(frozen=True, slots=True)
class HostTree:
    """What is sent: everything in `top`, but other `texts` for some files, and `closed` folders empty.

    Paths are relative to `top`; `name` is what it is called when it is too large.
    """

    top: Path
    name: str
    texts: Mapping[str, str] = field(default_factory=dict)
    closed: frozenset[str] = frozenset()


def repository_tree(repo: Path, found: Found) -> HostTree:
    """The repository without the contents of what is protected in it."""
    texts = dict.fromkeys((*found.files, *found.unmaskable), "")
    return HostTree(repo, "the repository", texts, frozenset(found.folders))


@dataclass(frozen=True, slots=True)
class _Thing:
    path: str
    mode: int
    size: int
    mtime: int
    text: bytes | None = None


def upload(channel: Calls, tree: HostTree, limit: int, steps: Steps, into: str = "") -> None:
    """Fills the guest's `upload` folder, or the one that it knows by the name `into`.

    ToolError(too_large) before anything is sent.
    """
    things = list(_things(tree))
    total = sum(thing.size for thing in things)
    if total > limit:
        raise ToolError(
            ErrorKind.TOO_LARGE,
            f"{tree.name} has {total >> 20:,} MiB, more than the private copy's limit of {limit >> 20:,} MiB "
            "([sandbox] copy_limit)",
        )
    sent = 0
    for heads, content in _batches(tree.top, things):
        channel.call("receive", {"into": into}, json.dumps(heads).encode("ascii") + b"\n" + content)
        sent += len(content)
        steps(WHAT, sent, total)


def _things(tree: HostTree) -> Iterator[_Thing]:
    """Folders before what is in them."""
    waiting = [""]
    while waiting:
        below = waiting.pop()
        try:
            with os.scandir(tree.top / below) as entries:
                listed = sorted(entries, key=lambda entry: entry.name)
        except OSError:
            continue
        for entry in listed:
            path = below + entry.name
            seen = entry.stat(follow_symlinks=False)
            if stat.S_ISDIR(seen.st_mode):
                yield _Thing(path, seen.st_mode, 0, seen.st_mtime_ns)
                if path not in tree.closed:
                    waiting.append(path + "/")
            elif stat.S_ISLNK(seen.st_mode):
                yield _Thing(path, seen.st_mode, 0, seen.st_mtime_ns)
            elif stat.S_ISREG(seen.st_mode) and path in tree.texts:
                text = tree.texts[path].encode()
                yield _Thing(path, seen.st_mode, len(text), seen.st_mtime_ns, text)
            elif stat.S_ISREG(seen.st_mode) and os.access(entry.path, os.R_OK):
                yield _Thing(path, seen.st_mode, seen.st_size, seen.st_mtime_ns)


Head = tuple[str, int, int, int, int]
"""Path, mode, where the piece belongs in the file, its length, mtime in nanoseconds."""


def _batches(top: Path, things: list[_Thing]) -> Iterator[tuple[list[Head], bytes]]:
    heads: list[Head] = []
    parts: list[bytes] = []
    size = 0
    for thing in things:
        for offset, piece in _pieces(top, thing):
            heads.append((thing.path, thing.mode, offset, len(piece), thing.mtime))
            parts.append(piece)
            size += len(piece)
            if size >= BATCH_BYTES or len(heads) >= BATCH_ENTRIES:
                yield heads, b"".join(parts)
                heads, parts, size = [], [], 0
    if heads:
        yield heads, b"".join(parts)


def _pieces(top: Path, thing: _Thing) -> Iterator[tuple[int, bytes]]:
    if thing.text is not None:
        yield 0, thing.text
        return
    if stat.S_ISLNK(thing.mode):
        yield 0, os.fsencode((top / thing.path).readlink())
        return
    if not thing.size:
        yield 0, b""
        return
    offset = 0
    with (top / thing.path).open("rb") as file:
        while offset < thing.size and (piece := file.read(min(BATCH_BYTES, thing.size - offset))):
            yield offset, piece
            offset += len(piece)
