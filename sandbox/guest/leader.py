"""The process that becomes a command. It is forked ahead of time, since that takes longer than all that follows.

What does not depend on the command is done ahead of time, too. Until it is told what to run, it has the guest's own
ids, and is as much out of the commands' reach.
"""

from __future__ import annotations

import os
import resource
import signal
import socket
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
    """What holds for every command of this container. `shell` is the path of its sh.

    Its environment is that of the processes that start it, so that none of it has to be made for a command.
    """

    owner: ids.Owner
    walls: Walls
    shell: str


class StartFailed(Exception):
    """The command could not be started; the message is one sentence."""


class Gone(Exception):
    """The waiting process was killed before it was told what to run."""


class Leader:
    """A child of the calling process. `start` makes a command of it."""

    def __init__(self, terms: Terms) -> None:
        """Forks. Raises StartFailed when the container's processes are used up."""
        self._stdout, stdout = os.pipe2(os.O_CLOEXEC)
        self._stderr, stderr = os.pipe2(os.O_CLOEXEC)
        self._orders, orders = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours, theirs = (self._stdout, self._stderr, self._orders), (stdout, stderr, orders)
        try:
            self.pid = os.fork()
        except OSError as error:
            _close(*ours, *theirs)
            raise StartFailed(f"no further process can be started in the container ({error.strerror})") from None
        if self.pid == 0:
            _close(self._orders)
            _become_command(terms, stdout, stderr, orders)
        _close(*theirs)
        for fd in (self._stdout, self._stderr):
            os.set_blocking(fd, False)

    def start(self, directory: str, script: bytes, outlet: Outlet) -> Streams:
        """Has it run the script, and waits until it does. Raises StartFailed, Gone."""
        with self._orders:
            try:
                self._orders.send(os.fsencode(directory) + b"\0" + script)
            except OSError:
                _close(self._stdout, self._stderr)
                raise Gone from None
            listener = self._started()
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
                _close(self._stdout, self._stderr, *([] if listener is None else [listener]))
                raise StartFailed(message.decode("utf-8", "replace"))


def _close(*ends: int | socket.socket) -> None:
    for end in ends:
        os.close(end) if isinstance(end, int) else end.close()


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
        ids.prepare_command(terms.owner)
        _build_walls(terms.walls, orders)
        directory, _, script = orders.recv(MAX_MESSAGE).partition(b"\0")
        if script:
            ids.become_command(terms.owner)
            os.chdir(directory)
            os.execv(terms.shell, [b"sh", b"-c", script])  # noqa: S606 - sh is the shell
    except BaseException as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        orders.send(f"the command could not be started ({reason})".encode("utf-8", "replace"))
    os._exit(127)


def _build_walls(walls: Walls, reporter: socket.socket) -> None:
    """They hold for the command; what is still to be done before it is not in their way."""
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
