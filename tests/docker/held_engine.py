"""The engine behind a socket of the test's, which tells when a request or its answer passes and may hold it."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Literal

from codeagent.sandbox.engine import Engine

Moment = Literal["asked", "answered"]


class HeldEngine:
    """`url` is the engine's. `meanwhile` is called once: when a request whose first line contains `request` has come
    (after `skip` others), before it is passed on, or when its answer has, before that is passed back. `answered` is
    set when the engine is done with that request, whether or not anybody still waits for the answer.
    """

    def __init__(
        self,
        engine: Engine,
        folder: Path,
        request: str,
        moment: Moment,
        meanwhile: Callable[[], None],
        skip: int = 0,
    ) -> None:
        self._engine = engine.host.removeprefix("unix://")
        self._request = request.encode()
        self._moment = moment
        self._meanwhile = meanwhile
        self._requests = count()
        self._which = skip
        self.answered = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        path = folder / "held.sock"
        self._listener.bind(str(path))
        self._listener.listen(16)
        self.url = f"unix://{path}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self) -> None:
        # Only this wakes who waits in accept().
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._listener.accept()
                far = socket.socket(socket.AF_UNIX)
                far.connect(self._engine)
                asked = threading.Event()
                for pump in (self._pass_on, self._pass_back):
                    threading.Thread(target=pump, args=(near, far, asked), daemon=True).start()

    def _pass_on(self, near: socket.socket, far: socket.socket, asked: threading.Event) -> None:
        for piece in _pieces(near, far):
            if self._request in piece.partition(b"\r\n")[0] and next(self._requests) == self._which:
                asked.set()
                if self._moment == "asked":
                    self._meanwhile()
            with contextlib.suppress(OSError):  # nobody reads on: the engine hears of that by the end of the stream
                far.sendall(piece)

    def _pass_back(self, near: socket.socket, far: socket.socket, asked: threading.Event) -> None:
        for piece in _pieces(far, near):
            if asked.is_set() and not self.answered.is_set():
                if self._moment == "answered":
                    self._meanwhile()
                self.answered.set()
            with contextlib.suppress(OSError):
                near.sendall(piece)


def _pieces(source: socket.socket, sink: socket.socket) -> Iterator[bytes]:
    with source, contextlib.suppress(OSError):
        while piece := source.recv(1 << 16):
            yield piece
        sink.shutdown(socket.SHUT_WR)
