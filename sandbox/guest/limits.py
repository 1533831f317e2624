"""What the container's control group counted: processes killed for lack of memory, forks refused.

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


def counts(memory_files: tuple[str, ...] = MEMORY_FILES, pids_files: tuple[str, ...] = PIDS_FILES) -> Counts:
    return Counts(_value(memory_files, b"oom_kill"), _value(pids_files, b"max"))


def _value(paths: tuple[str, ...], key: bytes) -> int:
    for path in paths:
        try:
            fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            lines = os.read(fd, 4096).splitlines()
        finally:
            os.close(fd)
        for line in lines:
            name, _, value = line.partition(b" ")
            if name == key and value.strip().isdigit():
                return int(value)
    return 0
