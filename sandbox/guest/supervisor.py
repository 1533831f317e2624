"""One process a command: starts it, passes its output on, ends it in time, and leaves nothing of it behind."""

from __future__ import annotations

import contextlib
import os
import resource
import select
import signal
import socket
import time
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NoReturn

from guest import ids, landlock, limits, processes, protocol, seccomp, syscalls
from guest.environment import WORKSPACE
from guest.limits import CHECK_SECONDS, Quota
from guest.streams import Outlet, Streams

QUIET_SECONDS = 0.1
LINGER_SECONDS = 1.0
"""How long output may still come from what a command left in the background, before that is ended."""


@dataclass(frozen=True, slots=True)
class Job:
    """What to run, and as whom. `environment` is complete; `directory` an absolute path; `timeout` in seconds."""

    request_id: int
    script: bytes
    directory: str
    timeout: float
    shell: str
    environment: dict[str, str]
    owner: ids.Owner
    walls: Walls
    quota: int | None = None
    """How many bytes the file system of the repository may fill up while the command runs."""


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


class StartFailed(Exception):
    """The command could not be started; the message is one sentence."""


def supervise(job: Job, connection: socket.socket) -> None:
    """Runs `job` to its end and sends the frames of the reply over `connection` (a packet socket).

    Any message that arrives there, and its end, cancel the command. The calling process is a subreaper and has no
    other child.
    """
    outbox = _Outbox(connection, job.request_id)
    before = limits.counts()
    try:
        try:
            reply = {"ok": _Run(job, outbox).finish(before)}
        except StartFailed as failed:
            reply = {"error": {"kind": "sandbox_failed", "sentence": str(failed)}}
        outbox.end(reply)
    except HostGone:
        processes.end_all()


class _Outbox:
    """Frames to the guest's main process, which may be slow to take them."""

    def __init__(self, connection: socket.socket, request_id: int) -> None:
        self.connection = connection
        connection.setblocking(False)
        self._request_id = request_id
        self._waiting: deque[bytes] = deque()

    @property
    def full(self) -> bool:
        return bool(self._waiting)

    def body(self, payload: bytes) -> None:
        self._waiting.append(protocol.frame(self._request_id, protocol.Kind.BODY, payload))
        self.flush()

    def flush(self) -> None:
        try:
            while self._waiting:
                self.connection.send(self._waiting[0])
                self._waiting.popleft()
        except BlockingIOError:
            pass
        except OSError:
            raise HostGone from None

    def cancelled(self) -> bool:
        try:
            message = self.connection.recv(64)
        except BlockingIOError:
            return False
        if not message:
            raise HostGone
        return True

    def end(self, reply: dict[str, Any]) -> None:
        self.connection.setblocking(True)
        self.flush()
        with contextlib.suppress(OSError):
            self.connection.send(protocol.frame(self._request_id, protocol.Kind.END, protocol.dump(reply)))


class _Run:
    def __init__(self, job: Job, outbox: _Outbox) -> None:
        self._outbox = outbox
        self._outlet = Outlet(outbox.body)
        self._wake, woken = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        signal.signal(signal.SIGCHLD, lambda _number, _frame: None)
        signal.set_wakeup_fd(woken, warn_on_full_buffer=False)
        self._progress = _Progress()
        self._deadline = self._progress.started + job.timeout
        self._quota = None if job.quota is None else Quota(WORKSPACE, job.quota)
        self._leader, self._streams = _start(job, self._outlet)
        self._children = True

    def finish(self, before: limits.Counts) -> dict[str, Any]:
        """Runs until all is over; the fields of the reply."""
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
        after = limits.counts()
        return {
            "ending": progress.ending or ("signalled" if os.WIFSIGNALED(progress.status or 0) else "exited"),
            "code": _exit_code(progress.status),
            "duration_ms": round(((progress.ended or time.monotonic()) - progress.started) * 1000),
            "total_bytes": self._outlet.total,
            "background": background,
            "memory_kills": after.memory_kills - before.memory_kills,
            "refused_forks": after.refused_forks - before.refused_forks,
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
                self._outbox.flush()
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


def _start(job: Job, outlet: Outlet) -> tuple[int, Streams]:
    stdout, stdout_end = os.pipe2(os.O_CLOEXEC)
    stderr, stderr_end = os.pipe2(os.O_CLOEXEC)
    report, reporter = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        leader = os.fork()
    except OSError as error:
        raise StartFailed(f"no further process can be started ({error.strerror})") from None
    if leader == 0:
        _become_command(job, stdout_end, stderr_end, reporter)
    for end in (stdout_end, stderr_end, reporter.detach()):
        os.close(end)
    listener = _started(report, leader)
    for fd in (stdout, stderr):
        os.set_blocking(fd, False)
    return leader, Streams(stdout, stderr, listener, outlet)


def _started(report: socket.socket, leader: int) -> int | None:
    """Waits until the child has become the command; the listener of its filter, or None."""
    listener: int | None = None
    with report:
        while True:
            message, fds, _flags, _address = socket.recv_fds(report, 512, 1)
            if fds:
                listener = fds[0]
                os.set_inheritable(listener, False)
            elif not message:
                return listener
            else:
                os.waitpid(leader, 0)
                raise StartFailed(message.decode("utf-8", "replace"))


def _become_command(job: Job, stdout: int, stderr: int, reporter: socket.socket) -> NoReturn:
    """The rest of the forked child's life up to exec. What goes wrong is reported as one sentence."""
    try:
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGPIPE, signal.SIGXFSZ, signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGCHLD):
            signal.signal(number, signal.SIG_DFL)
        os.setsid()
        os.dup2(stdout, 1)
        os.dup2(stderr, 2)
        os.umask(0o022)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        ids.become_command(job.owner)
        os.chdir(job.directory)
        _build_walls(job.walls, reporter)
        os.execve(job.shell, [b"sh", b"-c", job.script], job.environment)  # noqa: S606 - sh is the shell
    except BaseException as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        reporter.send(f"the command could not be started ({reason})".encode("utf-8", "replace"))
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
