"""One hash over everything in a repository that a write has nothing to do with, to compare before and after."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress

from codeagent.beneath import stat_beneath

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


class Rest:
    """Every file and link below `root` but `paths`, git's folder included.

    What goes into the hash is each one's name, type, permissions, owner, inode, size and times of change to the
    nanosecond: nothing can write to a file, or set its time back, and leave all of that as it was. Files that share
    their content with one of `paths` (hard links) go in by content, because their count of links changes.
    """

    def __init__(self, root: int, paths: Collection[str]) -> None:
        self._root = root
        self._paths = frozenset(paths)
        found = [_status(root, path) for path in paths]
        self._linked = {status.st_ino for status in found if status is not None and status.st_nlink > 1}

    def hash(self) -> str:
        """SHA-256, hexadecimal, of all of it as it is now."""
        whole = hashlib.sha256()
        for path, status, folder, name in _walk(self._root, ""):
            if path in self._paths:
                continue
            facts = [status.st_mode, status.st_uid, status.st_gid, status.st_ino, status.st_size, status.st_mtime_ns]
            shares = stat.S_ISREG(status.st_mode) and status.st_ino in self._linked
            proof = _content(folder, name) if shares else str(status.st_ctime_ns)
            whole.update(b"%s\0%s %s\0" % (os.fsencode(path), " ".join(map(str, facts)).encode(), proof.encode()))
        return whole.hexdigest()


def _status(root: int, path: str) -> os.stat_result | None:
    with suppress(OSError):
        return stat_beneath(root, path)
    return None


def _walk(folder: int, path: str) -> Iterator[tuple[str, os.stat_result, int, str]]:
    """Every entry that is no folder, in a fixed order, with the opened folder that holds it."""
    with os.scandir(folder) as entries:
        names = sorted(entry.name for entry in entries)
    for name in names:
        inner = f"{path}/{name}" if path else name
        with suppress(OSError):  # it went away meanwhile, or is closed to us: then it is to our writes too
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if not stat.S_ISDIR(status.st_mode):
                yield inner, status, folder, name
                continue
            below = os.open(name, _FOLDER, dir_fd=folder)
            try:
                yield from _walk(below, inner)
            finally:
                os.close(below)


def _content(folder: int, name: str) -> str:
    content = hashlib.sha256()
    fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    with os.fdopen(fd, "rb") as file:
        while piece := file.read(1 << 20):
            content.update(piece)
    return content.hexdigest()
