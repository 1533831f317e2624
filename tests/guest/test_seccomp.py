"""The filter of commands, run by a small interpreter of the instructions that it uses, for every machine."""

from __future__ import annotations

import errno
import struct

import pytest
from guest import seccomp

NATIVE = {"x86_64": seccomp.X86_64, "aarch64": seccomp.AARCH64, "riscv64": seccomp.RISCV64}
REFUSED = seccomp.ERRNO | errno.ENOSYS
NO_FAMILY = seccomp.ERRNO | errno.EAFNOSUPPORT


def decision(machine: str, audit: int, number: int, *arguments: int, notify: bool = True) -> int:
    """What the filter returns for one system call."""
    data = struct.pack("=IIQ6Q", number, audit, 0, *arguments, *[0] * (6 - len(arguments)))
    code = list(struct.iter_unpack("=HBBI", seccomp.program(machine, notify=notify)))
    at = accumulator = 0
    while True:
        operation, if_true, if_false, value = code[at]
        at += 1
        match operation:
            case seccomp.LOAD:
                (accumulator,) = struct.unpack_from("=I", data, value)
            case seccomp.EQUAL:
                at += if_true if accumulator == value else if_false
            case seccomp.AT_LEAST:
                at += if_true if accumulator >= value else if_false
            case seccomp.ANY_BIT:
                at += if_true if accumulator & value else if_false
            case seccomp.RETURN:
                return int(value)
            case _:
                raise AssertionError(f"unknown instruction {operation:#x}")


@pytest.mark.parametrize("machine", NATIVE)
def test_io_uring_and_what_no_filter_sees_through_is_refused_on_every_machine_and_for_its_32_bit_programs(
    machine: str,
) -> None:
    for table in seccomp.MACHINES[machine]:
        for number in (*seccomp.IO_URING, seccomp.CLONE3):
            assert decision(machine, table.audit, number) == REFUSED


@pytest.mark.parametrize("machine", NATIVE)
def test_no_command_has_namespaces_of_its_own_or_the_kernels_keys(machine: str) -> None:
    forbidden = seccomp.ERRNO | errno.EPERM
    for table in seccomp.MACHINES[machine]:
        assert {decision(machine, table.audit, number) for number in table.forbidden} == {forbidden}
        for flag in (0x20000, *(1 << bit for bit in range(25, 31))):
            assert decision(machine, table.audit, table.clone, flag | 17) == forbidden
        thread, fork, vfork = 0x3D0F00, 0x1200011, 0x4111
        for flags in (thread, fork, vfork, 17):
            assert decision(machine, table.audit, table.clone, flags) == seccomp.ALLOW


@pytest.mark.parametrize("machine", NATIVE)
@pytest.mark.parametrize("family", [seccomp.AF_ALG, seccomp.AF_VSOCK])
def test_sockets_to_the_hypervisor_and_the_kernels_crypto_are_refused(machine: str, family: int) -> None:
    for table in seccomp.MACHINES[machine]:
        assert decision(machine, table.audit, table.socket, family) == NO_FAMILY
        # The kernel takes an int: what stands above it does not count.
        assert decision(machine, table.audit, table.socket, family | 1 << 40) == NO_FAMILY
        assert decision(machine, table.audit, table.socket, 1) == seccomp.ALLOW


def test_other_ways_to_the_same_calls_are_refused() -> None:
    assert decision("x86_64", seccomp.X86_64.audit, 1 | seccomp.X32_BIT, 1) == REFUSED
    assert decision("x86_64", seccomp.I386.audit, 102, seccomp.SOCKETCALL_SOCKET) == REFUSED
    assert decision("x86_64", seccomp.I386.audit, 102, 3) == seccomp.ALLOW
    assert decision("x86_64", 0x12345678, 1) == REFUSED


@pytest.mark.parametrize("machine", NATIVE)
def test_writes_to_stderr_and_redirections_of_stdout_are_announced(machine: str) -> None:
    for table in seccomp.MACHINES[machine]:
        for number in (table.write, table.writev):
            assert decision(machine, table.audit, number, 2) == seccomp.NOTIFY
            assert decision(machine, table.audit, number, 1) == seccomp.ALLOW
            assert decision(machine, table.audit, number, 2, notify=False) == seccomp.ALLOW
        for number in table.dups:
            assert decision(machine, table.audit, number, 2, 1) == seccomp.NOTIFY
            assert decision(machine, table.audit, number, 1, 2) == seccomp.ALLOW


def test_everything_else_is_allowed() -> None:
    table = seccomp.X86_64
    watched = {table.write, table.writev, table.socket, *table.dups, *seccomp.IO_URING, seccomp.CLONE3}
    watched |= set(table.forbidden)
    for number in set(range(460)) - watched:
        assert decision("x86_64", table.audit, number, 2, 1) == seccomp.ALLOW


def test_an_unknown_machine_has_no_filter() -> None:
    assert seccomp.program("s390x", notify=True) == b""
