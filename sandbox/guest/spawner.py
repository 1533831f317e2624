"""The process that forks supervisors. It has one thread, so a fork copies no lock that another thread holds.

It is forked from the guest before the guest starts threads. It is a subreaper itself: what a supervisor that was
killed leaves behind falls to it and is ended by it.
"""

from __future__ import annotations

import contextlib
import json
import os
import platform
import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from guest import ids, processes, protocol, syscalls
from guest.commands import Order
from guest.supervisor import Job, supervise

MAX_MESSAGE = 256 * 1024


class Spawner:
    """The guest's end: `start` asks the process for a supervisor."""

    def __init__(self, environment: Mapping[str, str], owner: ids.Owner) -> None:
        self._control, control = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.pid = os.fork()
        if self.pid == 0:
            self._control.close()
            try:
                _serve(control, dict(environment), owner)
            finally:
                os._exit(1)
        control.close()

    def start(self, request_id: int, script: bytes, order: Order) -> socket.socket:
        """A packet socket that the frames of the reply come from; anything sent there cancels the command.

        Raises OSError when the spawner is gone.
        """
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            ours.send(script)
            message = protocol.dump({"id": request_id, **asdict(order)})
            socket.send_fds(self._control, [message], [theirs.fileno()])
        return ours


def find_shell(path: str) -> str:
    """The image's `sh`."""
    candidates = [os.path.join(entry, "sh") for entry in path.split(":")]
    return next((one for one in candidates if os.access(one, os.X_OK)), "/bin/sh")


def _serve(control: socket.socket, environment: dict[str, str], owner: ids.Owner) -> None:
    # Opened once: a command of root's could replace /dev/null. Commands inherit descriptor 0 as their stdin.
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    children: set[int] = set()
    signal.signal(signal.SIGCHLD, lambda _number, _frame: _end_orphans(children))
    shell = find_shell(environment["PATH"])
    notify = _kernel() >= (5, 5)  # the first that can let an announced call go on
    while True:
        message, fds, _flags, _address = socket.recv_fds(control, MAX_MESSAGE, 1)
        if not message:
            os._exit(0)
        order = json.loads(message)
        # A received descriptor would be inherited: a command could write replies of its own with it.
        os.set_inheritable(fds[0], False)
        with socket.socket(fileno=fds[0]) as connection:
            job = Job(
                request_id=order["id"],
                script=connection.recv(MAX_MESSAGE),
                directory=order["directory"],
                timeout=order["timeout"],
                shell=shell,
                environment=environment,
                owner=owner,
                notify=notify,
                quota=order["quota"],
            )
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
            _fork_supervisor(job, connection, control, children)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})


def _fork_supervisor(job: Job, connection: socket.socket, control: socket.socket, children: set[int]) -> None:
    try:
        pid = os.fork()
    except OSError as error:
        sentence = f"no further process can be started in the container ({error.strerror})"
        reply: dict[str, Any] = {"error": {"kind": "sandbox_failed", "sentence": sentence}}
        with contextlib.suppress(OSError):
            connection.send(protocol.frame(job.request_id, protocol.Kind.END, protocol.dump(reply)))
        return
    if pid:
        children.add(pid)
        return
    status = 1
    try:
        control.close()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
        supervise(job, connection)
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
