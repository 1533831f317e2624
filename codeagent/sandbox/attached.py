"""The stream that the engine attaches to a container, taken apart: what the guest says, and what it complains of."""

from __future__ import annotations

import contextlib
import select
import socket
from typing import Any

from codeagent.sandbox.frames import Demultiplexer

READ_SIZE = 64 * 1024
MAX_DIAGNOSTICS = 4_096


class Attached:
    """A guest's connection through the engine. See `channel.Connection`.

    `opened` is what the Docker SDK returns: a file object around the socket where there is no TLS, otherwise the
    socket itself. It is kept, because its response would close the connection early, and keep it open late.
    """

    def __init__(self, opened: Any) -> None:
        self._opened = opened
        self._connection: socket.socket = getattr(opened, "_sock", opened)
        self._connection.settimeout(None)
        if self._connection.family in (socket.AF_INET, socket.AF_INET6):
            self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._streams = Demultiplexer()
        self._said = bytearray()
        self._complaints = bytearray()
        self._ended = False
        self.fileno = self._connection.fileno
        self.sendall = self._connection.sendall
        self.shutdown = self._connection.shutdown

    @property
    def spoken(self) -> bool:
        """Whether there is something to receive, an end included, that has been read already."""
        return bool(self._said) or self._ended

    @property
    def diagnostics(self) -> str:
        return self._complaints.decode("utf-8", "replace")

    def pending(self) -> int:
        """How many bytes are here that do not show at the socket any more."""
        decrypted = getattr(self._connection, "pending", None)
        return len(self._said) + (decrypted() if decrypted else 0)

    def recv(self, size: int = READ_SIZE) -> bytes | None:
        if not self.spoken:
            self._read(size)
        said = bytes(self._said)
        self._said.clear()
        return said if said or self._ended else None

    def attend(self) -> None:
        """Nothing comes beside the frames."""

    def drain(self, seconds: float = 0) -> None:
        """Reads what has come, and what comes until nothing does for so long. An error is an end."""
        try:
            while not self._ended and (self.pending() > len(self._said) or select.select([self], [], [], seconds)[0]):
                self._read(READ_SIZE)
        except (OSError, ValueError):  # ValueError: closed meanwhile
            self._ended = True

    def close(self) -> None:
        self._connection.close()
        # The response's own buffered reader holds the descriptor as well, and closes it.
        response = getattr(self._opened, "_response", None)
        with contextlib.suppress(OSError, ValueError):
            (response or self._opened).close()

    def _read(self, size: int) -> None:
        raw = self._connection.recv(size)
        self._ended = not raw
        for stream, piece in self._streams.feed(raw):
            if stream == "stdout":
                self._said += piece
            else:
                self._complaints = (self._complaints + piece)[-MAX_DIAGNOSTICS:]
