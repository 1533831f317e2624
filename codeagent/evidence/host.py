"""Reads files of the real repository, which somebody else may be changing at the same time.

Every path is opened step by step beneath the root's own descriptor. A link is followed by hand, never out of the
root; nothing but a regular file of bounded size is read; a protected file never is.
"""

from __future__ import annotations

import os
import stat
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

MAX_READ = 16 << 20
MAX_LINKS = 40

_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY
_FOLDER = os.O_RDONLY | os.O_NOFOLLOW | os.O_DIRECTORY | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Signature:
    """What a stat says of a file's content: when all of it is the same, so is the content.

    The change time cannot be set back by a program that restores the modification time.
    """

    device: int
    inode: int
    size: int
    modified_ns: int
    changed_ns: int


class HostTree:
    """The repository on the host. `refused` names the paths (relative, `/`-separated) that are never opened."""

    def __init__(self, root: Path, refused: Callable[[str], bool] = lambda _path: False) -> None:
        self.root = Path(os.path.realpath(root))
        self._refused = refused
        self._fd = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    def __enter__(self) -> HostTree:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def signature(self, path: str) -> Signature | None:
        """None for what cannot be read: not there, no regular file, outside, refused."""
        fd = self._open(path)
        if fd is None:
            return None
        try:
            return _signature(os.fstat(fd))
        finally:
            os.close(fd)

    def glance(self, path: str) -> Signature | None:
        """The same by a single stat, which opens nothing and follows every link: only good to compare with a
        signature that `read` gave. None when there is nothing."""
        try:
            return _signature(os.stat(path, dir_fd=self._fd))
        except (OSError, ValueError):
            return None

    def read(self, path: str) -> tuple[bytes, Signature] | None:
        """The whole file and the stat that belongs to it; None as for `signature`, and for more than 16 MiB."""
        fd = self._open(path)
        if fd is None:
            return None
        try:
            for _ in range(3):
                before = os.fstat(fd)
                if before.st_size > MAX_READ:
                    return None
                content = _read_all(fd)
                after = _signature(os.fstat(fd))
                if content is not None and after == _signature(before):
                    return content, after
                os.lseek(fd, 0, os.SEEK_SET)  # it was written meanwhile
            return (content, after) if content is not None else None
        except OSError:
            return None
        finally:
            os.close(fd)

    def real(self, path: str) -> str:
        """The path of the file that a path leads to over links; the path itself when that is not beneath the root."""
        found = os.path.realpath(self.root / path)
        return os.path.relpath(found, self.root) if found.startswith(f"{self.root}{os.sep}") else path

    def folder(self, path: str) -> Path | None:
        """The real folder of a folder's path, for a watch; None when it does not lie beneath the root."""
        folder = os.path.realpath(self.root / path)
        inside = folder == str(self.root) or folder.startswith(f"{self.root}{os.sep}")
        return Path(folder) if inside else None

    def _open(self, path: str) -> int | None:
        try:
            return self._walk(path)
        except (OSError, ValueError):
            return None

    def _walk(self, path: str) -> int | None:
        """A descriptor of the regular file that `path` leads to, or None."""
        pending = deque(path.split("/"))
        folders, names = [os.dup(self._fd)], list[str]()
        links = 0
        try:
            if path.startswith("/") or self._refused(path):
                return None
            while pending:
                name = pending.popleft()
                if name in ("", "."):
                    continue
                if name == "..":
                    if not names:
                        return None
                    os.close(folders.pop())
                    names.pop()
                    continue
                found = os.stat(name, dir_fd=folders[-1], follow_symlinks=False)
                if stat.S_ISLNK(found.st_mode):
                    target = os.readlink(name, dir_fd=folders[-1])
                    links += 1
                    if target.startswith("/") or links > MAX_LINKS:
                        return None
                    pending.extendleft(reversed(target.split("/")))
                elif pending and any(part not in ("", ".") for part in pending):
                    folders.append(os.open(name, _FOLDER, dir_fd=folders[-1]))
                    names.append(name)
                else:
                    return self._file(name, "/".join([*names, name]), folders[-1], found)
            return None
        finally:
            for folder in folders:
                os.close(folder)

    def _file(self, name: str, path: str, folder: int, found: os.stat_result) -> int | None:
        if not stat.S_ISREG(found.st_mode) or self._refused(path):
            return None
        fd = os.open(name, _FILE, dir_fd=folder)
        if not stat.S_ISREG(os.fstat(fd).st_mode):
            os.close(fd)
            return None
        return fd


def _signature(found: os.stat_result) -> Signature:
    return Signature(found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def _read_all(fd: int) -> bytes | None:
    """All of a file; None when it has grown over the limit."""
    pieces, total = list[bytes](), 0
    while piece := os.read(fd, 64 * 1024):
        pieces.append(piece)
        total += len(piece)
        if total > MAX_READ:
            return None
    return b"".join(pieces)
