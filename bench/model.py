"""A model server that costs nearly nothing: it neither checks nor thinks, and notes when what came.

It speaks the Responses API on one connection at a time. Replies are made before the clock runs.
"""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Sequence
from types import TracebackType

from tests.model_forms import Reply, frames
from tests.model_memory import Memory

HEAD = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: "


class Model:
    """Use as a context manager. `arrived` and `answered` are in seconds of `time.monotonic`, one a request."""

    def __init__(self, replies: Sequence[Reply]) -> None:
        body = {"model": "bench", "input": [], "tools": [], "instructions": ""}
        memory = Memory()
        self._replies = [b"".join(frames("responses", body, each, memory)) for each in replies]
        self._socket = socket.create_server(("127.0.0.1", 0))
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self.arrived: list[float] = []
        self.answered: list[float] = []
        self.bodies: list[bytes] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._socket.getsockname()[1]}/v1"

    def __enter__(self) -> Model:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self._socket.close()

    def request(self, number: int) -> dict[str, object]:
        parsed: dict[str, object] = json.loads(self.bodies[number])
        return parsed

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            with connection:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                while (body := _read(connection)) is not None and len(self.answered) < len(self._replies):
                    self.arrived.append(time.monotonic())
                    self.bodies.append(body)
                    reply = self._replies[len(self.answered)]
                    connection.sendall(HEAD + str(len(reply)).encode() + b"\r\n\r\n" + reply)
                    self.answered.append(time.monotonic())


def _read(connection: socket.socket) -> bytes | None:
    """One request's body; None at the connection's end."""
    got = bytearray()
    while (end := got.find(b"\r\n\r\n")) < 0:
        if not (more := connection.recv(65536)):
            return None
        got += more
    head = bytes(got[:end]).lower()
    length = int(head.split(b"content-length:")[1].split(b"\r\n")[0])
    while len(got) < end + 4 + length:
        if not (more := connection.recv(1 << 20)):
            return None
        got += more
    return bytes(got[end + 4 :])
