"""The paths that git tracks, read from its index file (versions 2 to 4; git's index-format documentation)."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass

MAX_INDEX = 256 << 20
STAT_BYTES = 40
EXTENDED = 0x4000
NAME_MASK = 0x0FFF
GITLINK = 0o160000
FOLDER = 0o040000  # in a sparse index


class BadIndex(Exception):
    """Not an index that this module can read."""


@dataclass(frozen=True, slots=True)
class Tracked:
    """Tracked files, and every folder that holds one (submodules and sparse folders among them)."""

    files: frozenset[bytes]
    folders: frozenset[bytes]


NOTHING = Tracked(frozenset(), frozenset())


def parse(content: bytes, shared: bytes = b"") -> Tracked:
    """The tracked paths. `shared` is the base of a split index. Raises BadIndex."""
    files: set[bytes] = set()
    folders: set[bytes] = set()
    for part in (shared, content):
        if part:
            _collect(part, files, folders)
    for path in files | folders:
        parent = path.rpartition(b"/")[0]
        while parent and parent not in folders:
            folders.add(parent)
            parent = parent.rpartition(b"/")[0]
    return Tracked(frozenset(files), frozenset(folders))


def _collect(content: bytes, files: set[bytes], folders: set[bytes]) -> None:
    try:
        signature, version, count = struct.unpack_from("!4sII", content)
        if signature != b"DIRC" or version not in (2, 3, 4):
            raise BadIndex(f"version {version}")
        if count:
            hash_bytes = _hash_bytes(content, version)
            _entries(content, version, count, hash_bytes, files, folders)
    except (struct.error, IndexError, ValueError) as error:
        raise BadIndex(str(error)) from None


def _hash_bytes(content: bytes, version: int) -> int:
    """20 for SHA-1, 32 for SHA-256: whichever makes the first entry's name as long as it says."""
    for size in (20, 32):
        flags_at = 12 + STAT_BYTES + size
        (flags,) = struct.unpack_from("!H", content, flags_at)
        name_at = flags_at + 2 + (2 if flags & EXTENDED else 0) + (1 if version == 4 else 0)
        length = content.index(b"\0", name_at) - name_at
        if length == flags & NAME_MASK or (flags & NAME_MASK == NAME_MASK and length >= NAME_MASK):
            return size
    raise BadIndex("unknown hash")


def _entries(
    content: bytes, version: int, count: int, hash_bytes: int, files: set[bytes], folders: set[bytes]
) -> None:
    place, path = 12, b""
    fixed = STAT_BYTES + hash_bytes + 2
    read_head = struct.Struct(f"!24xI{12 + hash_bytes}xH").unpack_from
    for _ in range(count):
        mode, flags = read_head(content, place)
        name_at = place + fixed + (2 if flags & EXTENDED else 0)
        if version == 4:
            strip, name_at = _offset(content, name_at)
            end = content.index(b"\0", name_at)
            path = path[: len(path) - strip] + content[name_at:end]
            place = end + 1
        else:
            length = flags & NAME_MASK
            end = name_at + length if length < NAME_MASK else content.index(b"\0", name_at)
            path = content[name_at:end]
            place += (end - place + 8) & ~7
        if mode & 0o170000 in (GITLINK, FOLDER):
            folders.add(path.rstrip(b"/"))
        elif path:
            files.add(path)


def _offset(content: bytes, place: int) -> tuple[int, int]:
    """git's offset encoding: how many bytes to drop from the previous path, and where the rest begins."""
    byte = content[place]
    value = byte & 127
    while byte & 128:
        place += 1
        byte = content[place]
        value = ((value + 1) << 7) | (byte & 127)
    return value, place + 1


def shared_name(content: bytes) -> bytes:
    """The file name of a split index's base, or nothing. Looked for in the extensions at the end."""
    at = content.rfind(b"link\0\0")
    if at < 0:
        return b""
    digest = content[at + 8 : at + 28]
    return b"sharedindex." + digest.hex().encode() if any(digest) else b""


def read_below(folder: int, name: bytes, limit: int = MAX_INDEX) -> bytes | None:
    """A whole regular file below `folder`, links not followed; None when there is none, or it is larger."""
    try:
        there = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return None
    try:
        size = os.fstat(there).st_size
        if size > limit:
            return None
        parts = []
        while part := os.read(there, 1 << 20):
            parts.append(part)
            if sum(map(len, parts)) > limit:
                return None
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(there)
