"""The process that forks supervisors. It has one thread, so a fork copies no lock that another thread holds.

It is forked from the guest before the guest starts threads. It is a subreaper itself: what a supervisor that was
killed leaves behind falls to it and is ended by it.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import platform
import signal
import socket
from collections.abc import Mapping
from dataclasses import asdict
from typing import NoReturn

from guest import ids, processes, protocol, syscalls
from guest.commands import MAX_MESSAGE, Order
from guest.leader import Leader, StartFailed, Terms, Walls
from guest.supervisor import Job, supervise


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


def _serve(control: socket.socket, environment: dict[str, str], owner: ids.Owner) -> NoReturn:
    # Opened once: a command of root's could replace /dev/null. Commands inherit descriptor 0 as their stdin.
    os.dup2(os.open("/dev/null", os.O_RDONLY), 0)
    os.dup2(os.open("/dev/null", os.O_WRONLY), 1)
    syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
    # What is shared with the children stays shared: no collector writes into it.
    gc.disable()
    gc.freeze()
    nursery = _Nursery(control, environment, owner)
    nursery.refill()
    while True:
        order, fds, _flags, _address = socket.recv_fds(control, MAX_MESSAGE, 1)
        if not order:
            os._exit(0)
        # A received descriptor would be inherited: a command could write replies of its own with it.
        os.set_inheritable(fds[0], False)
        with socket.socket(fileno=fds[0]) as connection:
            nursery.hand_over(order, connection)
        nursery.refill()


class _Nursery:
    """Keeps one supervisor waiting, with the child that will be the command: a command does not wait for forks."""

    def __init__(self, control: socket.socket, environment: dict[str, str], owner: ids.Owner) -> None:
        self._control = control
        # 5.5 is the first kernel that can let an announced call go on.
        walls = Walls.build(announce=_kernel() >= (5, 5))
        self._terms = Terms(owner, walls, find_shell(environment["PATH"]), environment)
        self._waiting: socket.socket | None = None
        self._children: set[int] = set()
        signal.signal(signal.SIGCHLD, lambda _number, _frame: _end_orphans(self._children))

    def hand_over(self, order: bytes, connection: socket.socket) -> None:
        """Gives an order to the waiting supervisor, or to a new one when that was killed."""
        for _ in range(2):
            if self._waiting is None:
                self.refill()
            if self._waiting is None:
                break
            with self._waiting as supervisor:
                self._waiting = None
                try:
                    socket.send_fds(supervisor, [order], [connection.fileno()])
                except OSError:
                    continue
                return
        sentence = "no further process can be started in the container: its limit is reached"
        reply = {"error": {"kind": "sandbox_failed", "sentence": sentence}}
        with contextlib.suppress(OSError):
            connection.send(protocol.frame(json.loads(order)["id"], protocol.Kind.END, protocol.dump(reply)))

    def refill(self) -> None:
        """Forks a supervisor that waits; does nothing when the container's processes are used up."""
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGCHLD})
        try:
            pid = os.fork()
        except OSError:
            ours.close()
        else:
            if pid == 0:
                ours.close()
                self._be_supervisor(theirs)
            self._children.add(pid)
            self._waiting = ours
        finally:
            theirs.close()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})

    def _be_supervisor(self, orders: socket.socket) -> NoReturn:
        status = 1
        try:
            self._control.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGCHLD})
            syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
            leader = _forked(self._terms)
            message, fds, _flags, _address = socket.recv_fds(orders, MAX_MESSAGE, 1)
            if message:
                os.set_inheritable(fds[0], False)
                with socket.socket(fileno=fds[0]) as connection:
                    order = json.loads(message)
                    script = connection.recv(MAX_MESSAGE)
                    job = Job(order["id"], script, order["directory"], order["timeout"], order["quota"])
                    supervise(job, leader, self._terms, connection)
            status = 0
        finally:
            os._exit(status)


def _forked(terms: Terms) -> Leader | None:
    try:
        return Leader(terms)
    except StartFailed:
        return None  # there may be room when there is something to run


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
