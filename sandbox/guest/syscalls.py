"""The few system calls that Python has no function for, through ctypes and the toolbox's own libc."""

from __future__ import annotations

import ctypes
import os

PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_SET_DUMPABLE = 4

_libc = ctypes.CDLL(None, use_errno=True)


def _checked(result: int, what: str) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{what}: {os.strerror(number)}")
    return result


def prctl(option: int, value: int = 0) -> int:
    """prctl(2) with one argument; raises OSError."""
    return _checked(_libc.prctl(option, ctypes.c_ulong(value), 0, 0, 0), "prctl")


def call(number: int, *arguments: int | bytes | None) -> int:
    """Any system call, by its number on this machine; bytes are passed by their address. Raises OSError."""
    wide = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(_libc.syscall(ctypes.c_long(number), *wide), f"system call {number}")
