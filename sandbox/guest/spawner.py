"""The process that forks supervisors. It has one thread, so a fork copies no lock that another thread holds.

It is forked from the guest before the guest starts threads. It is a subreaper itself: what a supervisor that was
killed leaves behind falls to it and is ended by it.
"""

from __future__ import annotations

import contextlib
import gc
import os
import platform
import resource
import signal
import socket
from collections.abc import Mapping
from typing import NoReturn

from guest import ids, processes, protocol, syscalls
from guest.beginning import Terms
from guest.commands import MAX_MESSAGE, Job
from guest.limits import Counters
from guest.supervisor import CANCEL, Supervisor

KEPT = 8
"""How many supervisors wait for commands at most; the last one that came back is the next to be taken."""


class Spawner:
    """The guest's end: hands jobs to supervisors that wait, and asks the process for more of them."""

    def __init__(self, writers: Mapping[str, str], readers: Mapping[str, str], owner: ids.Owner) -> None:
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._control.close()
            try:
                _serve(control, writers, readers, owner)
            finally:
                os._exit(1)
        control.close()
        self._waiting = [self._supervisor()]

    def start(self, job: Job) -> socket.socket:
        """A packet socket that the frames of the reply come from; `cancel` ends the command.

        Raises OSError when the spawner is gone.
        """
        message = job.message()
        while self._waiting:
            connection = self._waiting.pop()
            try:
                connection.send(message)
            except OSError:  # killed while it waited
                connection.close()
            else:
                return connection
        return self._supervisor(message)

    def finished(self, connection: socket.socket) -> None:
        """Takes a supervisor back that has sent the end of its reply."""
        if len(self._waiting) < KEPT:
            self._waiting.append(connection)
        else:
            connection.close()

    def _supervisor(self, first: bytes = b"") -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            socket.send_fds(self._control, [NEW + first], [theirs.fileno()])
        return ours


NEW = b"+"


def cancel(connection: socket.socket) -> None:
    """Ends the command that runs behind `connection`."""
    with contextlib.suppress(OSError):  # it is ending anyway
        connection.send(CANCEL, socket.MSG_DONTWAIT)


def find_shell(path: str) -> str:
    """The image's `sh`."""
    candidates = [os.path.join(entry, "sh") for entry in path.split(":")]
    return next((one for one in candidates if os.access(one, os.X_OK)), "/bin/sh")


def _serve(
    control: socket.socket, writers: Mapping[str, str], readers: Mapping[str, str], owner: ids.Owner
) -> NoReturn:
    # Opened once: a command of root's could replace /dev/null. Commands inherit descriptor 0 as their stdin.
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    _settle_for_commands()
    # What is shared with the children stays shared: no collector writes into it.
    gc.disable()
    gc.freeze()
    # 5.5 is the first kernel that can let an announced call go on.
    terms = Terms.build(owner, _kernel() >= (5, 5), find_shell(writers["PATH"]), writers, readers)
    counters = Counters()
    supervisors: set[int] = set()
    signal.signal(signal.SIGCHLD, lambda _number, _frame: _end_orphans(supervisors))
    while True:
        message, fds, _flags, _address = socket.recv_fds(control, MAX_MESSAGE, 1)
        if not message:
            os._exit(0)
        # A received descriptor would be inherited: a command could write replies of its own with it.
        os.set_inheritable(fds[0], False)
        with socket.socket(fileno=fds[0]) as connection:
            first = message.removeprefix(NEW)
            # Who has ended before it is in the set would be taken for somebody's orphan.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            try:
                pid = os.fork()
            except OSError:
                _refuse(connection, first)
            else:
                if pid == 0:
                    control.close()
                    _be_supervisor(connection, first, terms, counters)
                supervisors.add(pid)
            finally:
                signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _settle_for_commands() -> None:
    """Sets once, for the processes below, what every command inherits: doing it anew for each takes longer."""
    for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)
    os.umask(0o022)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    syscalls.prctl(syscalls.PR_SET_NO_NEW_PRIVS, 1)


def _refuse(connection: socket.socket, first: bytes) -> None:
    if first:
        sentence = "no further process can be started in the container: its limit is reached"
        reply = protocol.dump({"error": {"kind": "sandbox_failed", "sentence": sentence}})
        with contextlib.suppress(OSError):
            frame = protocol.frame(Job.of(first).request_id, protocol.Kind.END, reply)
            connection.send(frame, socket.MSG_NOSIGNAL)


def _be_supervisor(connection: socket.socket, first: bytes, terms: Terms, counters: Counters) -> NoReturn:
    status = 1
    try:
        syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
        supervisor = Supervisor(connection, terms, counters)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        supervisor.serve(first)
        status = 0
    finally:
        os._exit(status)


def _end_orphans(supervisors: set[int]) -> None:
    """Reaps what has ended, and kills what a supervisor that was killed has left to us."""
    ended, left = processes.reap()
    killed = any(os.WIFSIGNALED(status) for pid, status in ended.items() if pid in supervisors)
    supervisors -= ended.keys()
    if not (left and killed):
        return
    spared = set(supervisors)
    for supervisor in supervisors:
        spared |= processes.descendants(supervisor)
    for pid in processes.descendants(os.getpid()) - spared:
        processes.send_signal(pid, signal.SIGKILL)


def _kernel() -> tuple[int, int]:
    major, minor = platform.release().split(".")[:2]
    return int(major), int("".join(character for character in minor if character.isdigit()) or 0)
