"""The filter that every command gets on top of the engine's seccomp profile, and the notifications it sends.

It takes away what some engines still allow: io_uring (a second system call table that filters do not see), sockets
that reach past the container's network namespace (AF_VSOCK to the hypervisor) or into the kernel's crypto (AF_ALG),
namespaces of a command's own, in which it would be root and meet far more of the kernel, and the kernel's keys, which
know no container. And it announces writes to descriptor 2 and redirections of descriptor 1, which is how stdout and
stderr stay in order though they are two pipes (see `guest.streams`). seccomp(2), seccomp_unotify(2).
"""

from __future__ import annotations

import errno
import fcntl
import platform
import struct
from dataclasses import dataclass

ALLOW = 0x7FFF0000
NOTIFY = 0x7FC00000
ERRNO = 0x00050000
AF_ALG, AF_VSOCK = 38, 40
IO_URING = (425, 426, 427)
CLONE3 = 435
"""Its flags lie in memory, out of a filter's sight; libraries then use clone(2), as under Docker's own profile."""
NAMESPACES = 0x7E020000
"""CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET."""
SOCKETCALL_SOCKET = 1
X32_BIT = 0x40000000

LOAD, EQUAL, AT_LEAST, ANY_BIT, RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
NUMBER_OFFSET, ARCH_OFFSET, ARGUMENTS_OFFSET = 0, 4, 16


@dataclass(frozen=True, slots=True)
class Machine:
    """One system call table: its audit number, and the numbers of the calls that the filter looks at."""

    audit: int
    write: int
    writev: int
    socket: int
    dups: tuple[int, ...]
    """dup2 and dup3, as far as the table has them: both take the new descriptor second."""
    clone: int
    forbidden: tuple[int, ...]
    """unshare, setns, add_key, request_key, keyctl."""
    socketcall: int | None = None


X86_64 = Machine(
    0xC000003E, write=1, writev=20, socket=41, dups=(33, 292), clone=56, forbidden=(272, 308, 248, 249, 250)
)
I386 = Machine(
    0x40000003, write=4, writev=146, socket=359, dups=(63, 330), clone=120, forbidden=(310, 346, 286, 287, 288),
    socketcall=102,
)  # fmt: skip
AARCH64 = Machine(
    0xC00000B7, write=64, writev=66, socket=198, dups=(24,), clone=220, forbidden=(97, 268, 217, 218, 219)
)
ARM = Machine(
    0x40000028, write=4, writev=146, socket=281, dups=(63, 358), clone=120, forbidden=(337, 375, 309, 310, 311)
)
RISCV64 = Machine(
    0xC00000F3, write=64, writev=66, socket=198, dups=(24,), clone=220, forbidden=(97, 268, 217, 218, 219)
)
# The native table first, then the one of 32-bit programs on the same machine.
MACHINES = {"x86_64": (X86_64, I386), "aarch64": (AARCH64, ARM), "riscv64": (RISCV64,)}


def _instruction(code: int, value: int, if_true: int = 0, if_false: int = 0) -> bytes:
    return struct.pack("=HBBI", code, if_true, if_false, value)


def _when(number: int, action: int, argument: tuple[int, int] | None = None, test: int = EQUAL) -> bytes:
    """Return `action` for this call number (already loaded), if argument i passes the test with v for `(i, v)`."""
    if argument is None:
        return _instruction(EQUAL, number, 0, 1) + _instruction(RETURN, action)
    index, value = argument
    # Only the low half of an argument counts: descriptors and families are ints, and clone's flags lie in it.
    return (
        _instruction(EQUAL, number, 0, 4)
        + _instruction(LOAD, ARGUMENTS_OFFSET + 8 * index)
        + _instruction(test, value, 0, 1)
        + _instruction(RETURN, action)
        + _instruction(LOAD, NUMBER_OFFSET)
    )


def _table(machine: Machine, notify: bool) -> bytes:
    refuse = ERRNO | errno.ENOSYS
    rules = _instruction(LOAD, NUMBER_OFFSET)
    if machine is X86_64:
        rules += _instruction(AT_LEAST, X32_BIT, 0, 1) + _instruction(RETURN, refuse)
    if notify:
        rules += _when(machine.write, NOTIFY, (0, 2)) + _when(machine.writev, NOTIFY, (0, 2))
        rules += b"".join(_when(number, NOTIFY, (1, 1)) for number in machine.dups)
    for family in (AF_ALG, AF_VSOCK):
        rules += _when(machine.socket, ERRNO | errno.EAFNOSUPPORT, (0, family))
    if machine.socketcall is not None:
        # Its arguments lie in memory, out of a filter's sight; libraries then use socket(2) itself.
        rules += _when(machine.socketcall, refuse, (0, SOCKETCALL_SOCKET))
    for number in (*IO_URING, CLONE3):
        rules += _when(number, refuse)
    for number in machine.forbidden:
        rules += _when(number, ERRNO | errno.EPERM)
    rules += _when(machine.clone, ERRNO | errno.EPERM, (0, NAMESPACES), ANY_BIT)
    return rules + _instruction(RETURN, ALLOW)


def program(machine: str | None = None, *, notify: bool) -> bytes:
    """The filter as BPF instructions of 8 bytes; empty for a machine that it is not written for."""
    machines = MACHINES.get(machine or platform.machine(), ())
    if not machines:
        return b""
    code = _instruction(LOAD, ARCH_OFFSET)
    for one in machines:
        table = _table(one, notify)
        code += _instruction(EQUAL, one.audit, 0, len(table) // 8) + table
        # A table ends in a return, so what follows is reached only by the other architectures.
    return code + _instruction(RETURN, ERRNO | errno.ENOSYS)


NOTIFICATION = struct.Struct("=QIIiIQ6Q")
RESPONSE = struct.Struct("=QqiI")
RECEIVE, SEND = 0xC0502100, 0xC0182101
CONTINUE = 1


@dataclass(frozen=True, slots=True)
class Notification:
    """A write to descriptor 2, or a redirection of descriptor 1, that waits to be let go.

    `size` is how many bytes will be written at least: of a writev it is not known, but its first byte arrives
    together with the others.
    """

    id: int
    pid: int
    redirects: bool
    size: int


def receive(listener: int) -> Notification | None:
    """The next notification; None when its sender is gone already."""
    buffer = bytearray(NOTIFICATION.size)
    try:
        fcntl.ioctl(listener, RECEIVE, buffer, True)
    except OSError as error:
        if error.errno in (errno.ENOENT, errno.EINTR):
            return None
        raise
    identity, pid, _flags, number, arch, _ip, *arguments = NOTIFICATION.unpack(buffer)
    machine = next(one for one in MACHINES[platform.machine()] if one.audit == arch)
    redirects = number in machine.dups
    size = 0 if redirects else arguments[2] if number == machine.write else 1
    return Notification(identity, pid, redirects, size)


def let_go(listener: int, notification: Notification) -> None:
    """Lets the call happen as it was made."""
    try:
        fcntl.ioctl(listener, SEND, bytearray(RESPONSE.pack(notification.id, 0, 0, CONTINUE)), True)
    except OSError as error:
        if error.errno != errno.ENOENT:  # killed or interrupted meanwhile
            raise
