"""The process that becomes a command. It is forked ahead of time, since that takes longer than all that follows.

Until it is told what to run, it has the guest's own ids, and is as much out of the commands' reach.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from guest import ids, landlock, seccomp, syscalls
from guest.commands import MAX_MESSAGE
from guest.streams import Outlet, Streams


@dataclass(frozen=True, slots=True)
class Walls:
    """What is put around each command: Landlock's rules where there are any, and a filter of system calls.

    There are two filters: one with announcements, and one without for where the kernel cannot announce.
    """

    rules: landlock.Ruleset | None
    announcing: syscalls.Filter | None
    plain: syscalls.Filter

    @classmethod
    def build(cls, announce: bool) -> Walls:
        announcing = syscalls.Filter(seccomp.program(notify=True)) if announce else None
        return cls(landlock.build(), announcing, syscalls.Filter(seccomp.program(notify=False)))


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for every command of this container. `environment` is complete, `shell` the path of its sh."""

    owner: ids.Owner
    walls: Walls
    shell: str
    environment: Mapping[str, str]


class StartFailed(Exception):
    """The command could not be started; the message is one sentence."""


class Leader:
    """A child of the calling process. `start` makes a command of it."""

    def __init__(self, terms: Terms) -> None:
        """Forks. Raises StartFailed when the container's processes are used up."""
        self._stdout, stdout = os.pipe2(os.O_CLOEXEC)
        self._stderr, stderr = os.pipe2(os.O_CLOEXEC)
        self._orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            self.pid = os.fork()
        except OSError as error:
            raise StartFailed(f"no further process can be started in the container ({error.strerror})") from None
        if self.pid == 0:
            self._orders.close()
            _become_command(terms, stdout, stderr, orders)
        for end in (stdout, stderr, orders.detach()):
            os.close(end)

    def start(self, directory: str, script: bytes, outlet: Outlet) -> Streams:
        """Has it run the script, and waits until it does. Raises StartFailed."""
        with self._orders:
            try:
                self._orders.send(os.fsencode(directory))
                self._orders.send(script)
            except OSError as error:
                raise StartFailed(f"the command could not be started ({error.strerror})") from None
            listener = self._started()
        for fd in (self._stdout, self._stderr):
            os.set_blocking(fd, False)
        return Streams(self._stdout, self._stderr, listener, outlet)

    def _started(self) -> int | None:
        """Waits for the exec; the listener of the command's filter, or None."""
        listener: int | None = None
        while True:
            message, fds, _flags, _address = socket.recv_fds(self._orders, 512, 1)
            if fds:
                listener = fds[0]
                os.set_inheritable(listener, False)
            elif not message:
                return listener
            else:
                os.waitpid(self.pid, 0)
                raise StartFailed(message.decode("utf-8", "replace"))


def _become_command(terms: Terms, stdout: int, stderr: int, orders: socket.socket) -> NoReturn:
    """The forked child's life up to exec. What goes wrong is reported as one sentence."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.umask(0o022)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        directory, script = orders.recv(MAX_MESSAGE), orders.recv(MAX_MESSAGE)
        if directory and script:
            ids.become_command(terms.owner)
            os.chdir(directory)
            _build_walls(terms.walls, orders)
            os.execve(terms.shell, [b"sh", b"-c", script], terms.environment)  # noqa: S606 - sh is the shell
    except BaseException as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        orders.send(f"the command could not be started ({reason})".encode("utf-8", "replace"))
    os._exit(127)


def _build_walls(walls: Walls, reporter: socket.socket) -> None:
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)
    if walls.rules is not None:
        walls.rules.restrict()
    if walls.announcing is not None:
        try:
            listener = walls.announcing.install(listener=True)
        except OSError:
            pass  # an engine that allows filters but no listener: the order of the streams is then approximate
        else:
            socket.send_fds(reporter, [b"listener"], [listener])
            os.close(listener)
            return
    walls.plain.install(listener=False)
