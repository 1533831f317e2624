"""A process that runs one command at a time: starts it, passes its output on, ends it in time, and leaves nothing.

It waits for the next one when nothing is left of the last.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any

from guest import ids, processes, protocol
from guest.beginning import StartFailed, Terms, begin
from guest.commands import MAX_MESSAGE, Job
from guest.environment import WORKSPACE
from guest.limits import CHECK_SECONDS, Counters, Quota
from guest.streams import Outlet

QUIET_SECONDS = 0.1
LINGER_SECONDS = 1.0
"""How long output may still come from what a command left in the background, before that is ended."""


@dataclass(slots=True)
class _Progress:
    """What has become of the command so far."""

    started: float = field(default_factory=time.monotonic)
    status: int | None = None
    ended: float = 0.0
    last_output: float = 0.0
    ending: str = ""
    """Why we ended it: `timeout`, `cancelled` or `full`; empty when it ended by itself."""


class HostGone(Exception):
    """Nobody is interested in the command any more."""


class Supervisor:
    """Takes jobs from `connection` (a packet socket) and sends the frames of the replies there.

    The calling process is a subreaper, and has no child between two commands.
    """

    def __init__(self, connection: socket.socket, terms: Terms, counters: Counters) -> None:
        self._connection = connection
        self._terms = terms
        self._counters = counters
        self._killed_first = ids.KilledFirst(terms.owner)
        self._wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)

    def serve(self, first: bytes) -> None:
        """Runs the job in `first`, unless it is empty, and then whatever comes, until the guest hangs up."""
        with contextlib.suppress(HostGone):
            while True:
                self._run(Job.of(first) if first else self._awaited())
                first = b""
        processes.end_all()

    def _awaited(self) -> Job:
        while message := self._connection.recv(MAX_MESSAGE):
            # A cancellation may have crossed the end of what it was for.
            if not message.startswith(CANCEL):
                return Job.of(message)
        raise HostGone

    def _run(self, job: Job) -> None:
        outbox = _Outbox(self._connection, job.request_id)
        before = self._counters.read()
        run = _Run(job, outbox, self._wake)
        try:
            run.start(self._terms, self._killed_first)
            fields = run.finish()
        except StartFailed as failed:
            outbox.end({"error": {"kind": "sandbox_failed", "sentence": str(failed)}})
            return
        after = self._counters.read()
        fields["memory_kills"] = after.memory_kills - before.memory_kills
        fields["refused_forks"] = after.refused_forks - before.refused_forks
        outbox.end({"ok": fields})


CANCEL = b"cancel"
"""Sent while a command runs, it ends it."""


class _Outbox:
    """Frames to the guest's main process, which may be slow to take them."""

    def __init__(self, connection: socket.socket, request_id: int) -> None:
        self.connection = connection
        self._request_id = request_id
        self._waiting: deque[bytes] = deque()

    @property
    def full(self) -> bool:
        return bool(self._waiting)

    def body(self, payload: bytes) -> None:
        self._waiting.append(protocol.frame(self._request_id, protocol.Kind.BODY, payload))
        self.flush(socket.MSG_DONTWAIT)

    def flush(self, flags: int) -> None:
        try:
            while self._waiting:
                self.connection.send(self._waiting[0], flags | socket.MSG_NOSIGNAL)
                self._waiting.popleft()
        except BlockingIOError:
            pass
        except OSError:
            raise HostGone from None

    def cancelled(self) -> bool:
        try:
            message = self.connection.recv(64, socket.MSG_DONTWAIT)
        except BlockingIOError:
            return False
        if not message:
            raise HostGone
        return True

    def end(self, reply: dict[str, Any]) -> None:
        self._waiting.append(protocol.frame(self._request_id, protocol.Kind.END, protocol.dump(reply)))
        self.flush(0)


class _Run:
    def __init__(self, job: Job, outbox: _Outbox, wake: int) -> None:
        self._job = job
        self._outbox = outbox
        self._outlet = Outlet(outbox.body)
        self._wake = wake
        self._progress = _Progress()
        self._deadline = self._progress.started + job.timeout
        self._quota = None if job.quota is None else Quota(WORKSPACE, job.quota)
        self._leader = 0
        self._children = True

    def start(self, terms: Terms, killed_first: ids.KilledFirst) -> None:
        """Raises StartFailed."""
        self._leader, self._streams = begin(terms, self._job, self._outlet, killed_first)

    def finish(self) -> dict[str, Any]:
        """Runs until all is over; what there is to tell."""
        while not self._over():
            self._turn()
        progress = self._progress
        background = 0
        if self._children:
            statuses = processes.end_all()
            background = len(statuses.keys() - {self._leader})
            if progress.status is None:
                progress.status = statuses.get(self._leader)
        self._streams.drain()
        self._outlet.finish()
        return {
            "ending": progress.ending or ("signalled" if os.WIFSIGNALED(progress.status or 0) else "exited"),
            "code": _exit_code(progress.status),
            "duration_ms": round(((progress.ended or time.monotonic()) - progress.started) * 1000),
            "total_bytes": self._outlet.total,
            "background": background,
        }

    def _over(self) -> bool:
        progress, now = self._progress, time.monotonic()
        if progress.status is None:
            if now >= self._deadline:
                progress.ending = "timeout"
            elif self._quota is not None and self._quota.exceeded(now):
                progress.ending = "full"
            return bool(progress.ending)
        quiet_since = max(progress.ended, progress.last_output)
        return self._streams.at_end or now - quiet_since >= QUIET_SECONDS or now - progress.ended >= LINGER_SECONDS

    def _turn(self) -> None:
        """Waits for the next event and acts on it."""
        poller = select.poll()
        poller.register(self._wake, select.POLLIN)
        connection = self._outbox.connection.fileno()
        # Output that nobody takes is not read either: the command waits, as it would on any slow pipe.
        blocked = self._outbox.full
        poller.register(connection, select.POLLIN | (select.POLLOUT if blocked else 0))
        watched = [] if blocked else self._streams.watched()
        for fd in watched:
            poller.register(fd, select.POLLIN)
        events = dict(poller.poll(self._patience() * 1000))
        if events.pop(self._wake, 0):
            self._reap()
        if happened := events.pop(connection, 0):
            if happened & select.POLLOUT:
                self._outbox.flush(socket.MSG_DONTWAIT)
            if happened & ~select.POLLOUT and self._outbox.cancelled() and self._progress.status is None:
                self._progress.ending = "cancelled"
        if not blocked and self._streams.ready(events):
            self._progress.last_output = time.monotonic()

    def _patience(self) -> float:
        now = time.monotonic()
        until = self._deadline if self._progress.status is None else now + QUIET_SECONDS
        if self._quota is not None:
            until = min(until, now + CHECK_SECONDS)
        owed = self._streams.patience()
        return max(0.0, until - now) if owed is None else min(owed, max(0.0, until - now))

    def _reap(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.read(self._wake, 4096)
        statuses, self._children = processes.reap()
        if self._leader in statuses:
            self._progress.status = statuses[self._leader]
            self._progress.ended = time.monotonic()


def _exit_code(status: int | None) -> int | None:
    """As a shell reports it."""
    if status is None:
        return None
    return 128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
