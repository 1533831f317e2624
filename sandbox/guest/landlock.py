"""A second wall around each command, where the kernel has Landlock: no writing below /proc, no signals to outside.

Entries of /proc belong to root, and so to a command that runs as uid 0 for a repository of root's: it could raise
the guest's weight for the kernel's choice of whom to kill when memory is short. With Landlock it cannot open them.
Since every command is in a domain of its own, it cannot signal the commands that run beside it either.
landlock(7).
"""

from __future__ import annotations

import os
import stat
import struct

from guest import syscalls

CREATE, ADD_RULE = 444, 445  # the same on every machine
VERSION_FLAG = 1
PATH_BENEATH = 1
WRITE_FILE, REFER = 1 << 1, 1 << 13
SCOPE_SIGNAL = 1 << 1
FIRST_WITH_REFER = 2
"""Before it, every ruleset forbids moving a file from one folder to another."""
FIRST_WITH_SCOPES = 6
CLOSED = ("proc", "sys")


def build() -> int | None:
    """A descriptor of the rules for commands; None where the kernel has no Landlock, or one that is in their way."""
    try:
        version = syscalls.call(CREATE, None, 0, VERSION_FLAG)
        if version < FIRST_WITH_REFER:
            return None
        attributes = struct.pack("=Q", WRITE_FILE | REFER)
        if version >= FIRST_WITH_SCOPES:
            attributes += struct.pack("=QQ", 0, SCOPE_SIGNAL)
        ruleset = syscalls.call(CREATE, attributes, len(attributes), 0)
    except OSError:
        return None
    os.set_inheritable(ruleset, False)
    for name in os.listdir("/"):
        if name not in CLOSED and stat.S_ISDIR(os.lstat(f"/{name}").st_mode):
            _open_below(ruleset, f"/{name}")
    return ruleset


def _open_below(ruleset: int, folder: str) -> None:
    fd = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        syscalls.call(ADD_RULE, ruleset, PATH_BENEATH, struct.pack("=Qi", WRITE_FILE | REFER, fd), 0)
    finally:
        os.close(fd)
