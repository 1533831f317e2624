"""A command's output on its way to the host: two pipes, one order, a bounded amount.

stdout and stderr are two pipes, so that they can be told apart; a plain poll would lose their order. The command's
seccomp filter therefore announces each write to descriptor 2, and each redirection of descriptor 1 (`echo x >&2` in
a shell redirects 1 and writes there), before it happens. At that moment everything that the process printed before
lies in the pipes: they are emptied first, the call is let go, and the bytes of a write are awaited before stdout is
read again. So what lies in stderr's pipe was always printed before what lies in stdout's. Writes to stdout cost
nothing; where notifications are not available, the order of what arrives at the same moment is not known, and stdout
goes first.
"""

from __future__ import annotations

import os
import select
import time
from collections import deque
from collections.abc import Callable

from guest import seccomp

STDOUT, STDERR, GAP = 1, 2, 0
"""The first byte of each body frame: whose output it is, or that the rest of the frame counts what is left out."""
CHUNK = 64 * 1024 - 1
SAVE_LIMIT = 16 * 1024 * 1024
TAIL_LIMIT = 64 * 1024
OWED_SECONDS = 0.02
DRAIN_LIMIT = 1024 * 1024


class Outlet:
    """Passes the first SAVE_LIMIT bytes on as they come, and of the rest the end, when all is over."""

    def __init__(self, send: Callable[[bytes], None]) -> None:
        self._send = send
        self.total = 0
        self._tail: deque[tuple[int, bytes]] = deque()
        self._tail_size = 0
        self._left_out = 0

    def take(self, stream: int, piece: bytes) -> None:
        room = max(0, SAVE_LIMIT - self.total)
        self.total += len(piece)
        if room:
            self._send(bytes((stream,)) + piece[:room])
        if len(piece) > room:
            self._keep(stream, piece[room:])

    def _keep(self, stream: int, piece: bytes) -> None:
        self._tail.append((stream, piece))
        self._tail_size += len(piece)
        while self._tail_size - len(self._tail[0][1]) >= TAIL_LIMIT:
            gone = len(self._tail.popleft()[1])
            self._tail_size -= gone
            self._left_out += gone

    def finish(self) -> None:
        if self._left_out:
            self._send(bytes((GAP,)) + self._left_out.to_bytes(8, "big"))
        for stream, piece in self._tail:
            self._send(bytes((stream,)) + piece)
        self._tail.clear()


class Streams:
    """The reading ends of a command's two pipes, and the listener of its filter (or None)."""

    def __init__(self, stdout: int, stderr: int, listener: int | None, outlet: Outlet) -> None:
        self._open = {stderr: STDERR, stdout: STDOUT}
        self._stdout, self._stderr, self._listener = stdout, stderr, listener
        self._pipe = os.fstat(stderr)
        self._outlet = outlet
        self._owed = 0
        self._owed_until = 0.0

    @property
    def at_end(self) -> bool:
        """Whether nobody holds a writing end any more."""
        return not self._open

    def watched(self) -> list[int]:
        """The descriptors to poll for reading now."""
        if self._owing():
            return [self._stderr]
        return [fd for fd in (*self._open, self._listener) if fd is not None]

    def patience(self) -> float | None:
        """Seconds after which `watched` may have changed without any event; None for never."""
        return max(0.0, self._owed_until - time.monotonic()) if self._owed else None

    def ready(self, events: dict[int, int]) -> bool:
        """Reads what the poll reported; whether there was any output."""
        before = self._outlet.total
        if self._owed or (self._listener is not None and self._stderr in events):
            # With notifications, what lies in stderr was written before what lies in stdout.
            self._drain(self._stderr)
        if not self._owing():
            self._read_all(events)
        return self._outlet.total > before

    def _read_all(self, events: dict[int, int]) -> None:
        if self._listener is not None and events.get(self._listener, 0):
            if events[self._listener] & select.POLLIN:
                self._announced(self._listener)
            else:
                self._listener = None  # every process with this filter is gone
            return
        for fd in (self._stdout, self._stderr):
            if fd in events and fd in self._open:
                self._read(fd)

    def _announced(self, listener: int) -> None:
        notification = seccomp.receive(listener)
        if notification is None:
            return
        ours = notification.redirects or self._is_ours(notification.pid)
        if ours:
            self._drain(self._stderr)
            self._drain(self._stdout)
        seccomp.let_go(listener, notification)
        if ours and notification.size:
            self._owed = notification.size
            self._owed_until = time.monotonic() + OWED_SECONDS

    def _owing(self) -> bool:
        if self._owed and (time.monotonic() >= self._owed_until or self._stderr not in self._open):
            self._owed = 0
        return bool(self._owed)

    def _is_ours(self, pid: int) -> bool:
        try:
            other = os.stat(f"/proc/{pid}/fd/2")
        except OSError:
            return False
        return (other.st_dev, other.st_ino) == (self._pipe.st_dev, self._pipe.st_ino)

    def drain(self) -> None:
        """Reads what is left in both pipes."""
        self._drain(self._stderr)
        self._drain(self._stdout)
        self._drain(self._stderr)

    def _drain(self, fd: int) -> None:
        size = 0
        while size < DRAIN_LIMIT and fd in self._open and (read := self._read(fd)):
            size += read

    def _read(self, fd: int) -> int:
        try:
            piece = os.read(fd, CHUNK)
        except BlockingIOError:
            return 0
        if not piece:
            del self._open[fd]
            return 0
        if fd == self._stderr and self._owed:
            self._owed = max(0, self._owed - len(piece))
            self._owed_until = time.monotonic() + OWED_SECONDS
        self._outlet.take(self._open[fd], piece)
        return len(piece)
