"""The few system calls that Python has no function for, through ctypes and the toolbox's own libc."""

from __future__ import annotations

import ctypes
import os
import platform

PR_SET_CHILD_SUBREAPER = 36
PR_SET_NO_NEW_PRIVS = 38
PR_GET_DUMPABLE = 3
PR_SET_DUMPABLE = 4
CAPABILITY_VERSION_3 = 0x20080522
SECCOMP_SET_MODE_FILTER = 1
SECCOMP_FILTER_FLAG_NEW_LISTENER = 8
# System call numbers by machine; a machine that is missing here runs without the extra filter.
SECCOMP_NUMBERS = {"x86_64": 317, "aarch64": 277, "riscv64": 277}

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


_SELF = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
_NONE = (ctypes.c_uint32 * 6)()


def drop_capabilities() -> None:
    """Clears the caller's permitted, effective and inheritable capabilities."""
    _checked(_libc.capset(_SELF, _NONE), "capset")


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("filter", ctypes.c_void_p))


class Filter:
    """A seccomp filter, laid out in memory once, so that a forked child only has to make the call."""

    def __init__(self, instructions: bytes) -> None:
        self._instructions = ctypes.create_string_buffer(instructions, len(instructions))
        self._program = _Program(len(instructions) // 8, ctypes.cast(self._instructions, ctypes.c_void_p))
        self._number = SECCOMP_NUMBERS.get(platform.machine())

    def install(self, *, listener: bool) -> int:
        """Puts it on the calling thread; returns the listener's descriptor (close-on-exec), or 0.

        Raises OSError where the kernel, the machine or another filter does not allow it.
        """
        if self._number is None:
            raise OSError(f"no seccomp filter is known for {platform.machine()}")
        flags = SECCOMP_FILTER_FLAG_NEW_LISTENER if listener else 0
        arguments = (ctypes.c_ulong(SECCOMP_SET_MODE_FILTER), ctypes.c_ulong(flags), ctypes.byref(self._program))
        return _checked(_libc.syscall(ctypes.c_long(self._number), *arguments), "seccomp")
