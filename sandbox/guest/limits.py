"""What the container's control group counted, and how much a command has written.

Both versions of control groups; a file that is not there counts as zero.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

MEMORY_FILES = ("/sys/fs/cgroup/memory.events", "/sys/fs/cgroup/memory/memory.oom_control")
PIDS_FILES = ("/sys/fs/cgroup/pids.events", "/sys/fs/cgroup/pids/pids.events")


@dataclass(frozen=True, slots=True)
class Counts:
    """Since the container's start."""

    memory_kills: int
    refused_forks: int


class Counters:
    """The counters' files, kept open: they are read before and after each command."""

    def __init__(
        self, memory_files: tuple[str, ...] = MEMORY_FILES, pids_files: tuple[str, ...] = PIDS_FILES
    ) -> None:
        self._memory = _opened(memory_files)
        self._pids = _opened(pids_files)

    def read(self) -> Counts:
        return Counts(_value(self._memory, b"oom_kill"), _value(self._pids, b"max"))


def _opened(paths: tuple[str, ...]) -> int | None:
    """The first of the files that is there."""
    for path in paths:
        try:
            return os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
    return None


def _value(file: int | None, key: bytes) -> int:
    """The number on the line that begins with `key`."""
    for line in () if file is None else os.pread(file, 4096, 0).splitlines():
        name, _, value = line.partition(b" ")
        if name == key and value.strip().isdigit():
            return int(value)
    return 0


CHECK_SECONDS = 0.25
QUOTA_FILES = 2_000_000


class Quota:
    """Bounds what is written below `path` from now on: volumes have no size of their own.

    Measured is the whole file system, so another program's writes count too: the bound protects the disk, it is no
    exact account.
    """

    def __init__(self, path: str, size: int) -> None:
        self._path = path
        self._size = size
        self._before = os.statvfs(path)
        self._next = 0.0

    def exceeded(self, now: float) -> bool:
        """Whether more was written; looks every CHECK_SECONDS. `now` is monotonic."""
        if now < self._next:
            return False
        self._next = now + CHECK_SECONDS
        found, before = os.statvfs(self._path), self._before
        grown = (before.f_bfree - found.f_bfree) * found.f_frsize
        return grown > self._size or before.f_ffree - found.f_ffree > QUOTA_FILES
