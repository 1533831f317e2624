"""How a command begins: a small program of the toolbox takes the owner's ids, puts up the walls, becomes the shell.

See `sandbox/toolbox/begin.c`. It is spawned, not forked: none of the interpreter's memory is copied for it.
"""

from __future__ import annotations

import fcntl
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass

from guest import ids, landlock, seccomp
from guest.commands import Job
from guest.streams import Outlet, Streams

PROGRAM = "/codeagent/bin/begin"
REPORT, RULES, ANNOUNCING, PLAIN, ENVIRONMENT = 3, 4, 5, 6, 7
"""The descriptors that the program expects; the first is where it says what goes wrong."""
OUT_OF_THE_WAY = 64
"""Descriptors from here on are none of the low ones that a command begins with."""


@dataclass(frozen=True, slots=True)
class Walls:
    """What is put around each command, as descriptors: Landlock's rules where there are any, and filters of calls.

    There are two filters: one with announcements where the kernel has them, and one without.
    """

    rules: int | None
    announcing: int | None
    plain: int

    @classmethod
    def build(cls, announce: bool) -> Walls:
        code = seccomp.program(notify=True) if announce else b""
        rules = landlock.build()
        return cls(
            None if rules is None else _aside(rules),
            _file(code) if code else None,
            _file(seccomp.program(notify=False)),
        )


def _file(content: bytes) -> int:
    fd = os.memfd_create("codeagent", os.MFD_CLOEXEC)
    with open(fd, "wb", closefd=False) as file:
        file.write(content)
    return _aside(fd)


def _aside(fd: int) -> int:
    moved = fcntl.fcntl(fd, fcntl.F_DUPFD_CLOEXEC, OUT_OF_THE_WAY)
    os.close(fd)
    return moved


def _variables(environment: Mapping[str, str]) -> int:
    return _file(b"".join(os.fsencode(f"{name}={value}") + b"\0" for name, value in environment.items()))


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every command of this container. `shell` is the path of its sh; `writers` and `readers` are
    descriptors of the environment of commands that may write, and of those that may not.

    Umask, limits and signals are those of the process that starts it.
    """

    owner: ids.Owner
    walls: Walls
    shell: str
    writers: int
    readers: int

    @classmethod
    def build(
        cls, owner: ids.Owner, announce: bool, shell: str, writers: Mapping[str, str], readers: Mapping[str, str]
    ) -> Terms:
        return cls(owner, Walls.build(announce), shell, _variables(writers), _variables(readers))

    def places(self, job: Job) -> list[tuple[int, int]]:
        """Which descriptor goes where."""
        walls = self.walls
        places = (
            *((walls.rules, RULES), (walls.announcing, ANNOUNCING), (walls.plain, PLAIN)),
            (self.writers if job.writes else self.readers, ENVIRONMENT),
        )
        return [(fd, place) for fd, place in places if fd is not None]


class StartFailed(Exception):
    """The command could not be started; the message is one sentence."""


def begin(terms: Terms, job: Job, outlet: Outlet, killed_first: ids.KilledFirst) -> tuple[int, Streams]:
    """Starts a command as a child of the calling process, and waits until it runs: its pid and its output.

    Raises StartFailed.
    """
    stdout, stdout_end = os.pipe2(os.O_CLOEXEC)
    stderr, stderr_end = os.pipe2(os.O_CLOEXEC)
    report, report_end = socket.socketpair()
    try:
        try:
            with killed_first:
                pid = _spawn(terms, job, (stdout_end, stderr_end, report_end.fileno()))
        finally:
            _close(stdout_end, stderr_end, report_end.detach())
        listener = _started(pid, report)
    except StartFailed:
        _close(stdout, stderr)
        raise
    finally:
        report.close()
    for fd in (stdout, stderr):
        os.set_blocking(fd, False)
    return pid, Streams(stdout, stderr, listener, outlet)


def _spawn(terms: Terms, job: Job, ends: tuple[int, int, int]) -> int:
    owner, directory = terms.owner, os.fsencode(job.directory)
    argv = [b"begin", b"%d" % owner.uid, b"%d" % owner.gid, directory, os.fsencode(terms.shell), job.script]
    places = [*zip(ends, (1, 2, REPORT), strict=True), *terms.places(job)]
    actions = [(os.POSIX_SPAWN_DUP2, fd, place) for fd, place in places]
    try:
        return os.posix_spawn(PROGRAM, argv, {}, file_actions=actions)
    except OSError as error:
        raise StartFailed(f"no further process can be started in the container ({error.strerror})") from None


def _started(pid: int, report: socket.socket) -> int | None:
    """Waits for the shell; the listener of the command's filter, or None."""
    listener: int | None = None
    while True:
        message, fds, _flags, _address = socket.recv_fds(report, 512, 1)
        if fds:
            listener = fds[0]
            os.set_inheritable(listener, False)
        elif not message:
            return listener
        else:
            os.waitpid(pid, 0)
            if listener is not None:
                os.close(listener)
            raise StartFailed(f"the command could not be started ({message.decode('utf-8', 'replace')})")


def _close(*fds: int) -> None:
    for fd in fds:
        os.close(fd)
