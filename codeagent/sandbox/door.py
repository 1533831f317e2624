"""A way from the guest to the host that does not lead through the engine: a call then takes a third less.

A socket that listens here is mounted into the container, and the guest connects to it before any command can run.
Once it has, nobody listens any more: what is left in the container is a name without anything behind it. Where that
cannot be (the engine is on another machine, in a virtual machine, or forbids it), the engine's own stream is used.
"""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from pathlib import Path

from codeagent.sandbox.attached import Attached
from codeagent.sandbox.hardening import Mount

TARGET = "/codeagent.host"
"""Where it is in the container; `sandbox/guest/main.py` looks there."""

LEARNS_SECONDS = 1.0


class Direct:
    """A guest's connection that came through a door. See `channel.Connection`."""

    def __init__(self, connection: socket.socket, attached: Attached) -> None:
        self._connection = connection
        self._attached = attached
        self._draining = threading.Lock()
        self.fileno = connection.fileno
        self.sendall = connection.sendall
        self.shutdown = connection.shutdown
        self.pending = None

    def recv(self, size: int) -> bytes:
        received = self._connection.recv(size)
        if not received:
            # The engine learns of a container's end a little later than we do here, and why it ended.
            with self._draining:
                self._attached.drain(LEARNS_SECONDS)
        return received

    def attend(self) -> None:
        """The guest would wait when nobody took its complaints."""
        with self._draining:
            self._attached.drain()

    @property
    def diagnostics(self) -> str:
        self.attend()
        return self._attached.diagnostics

    def close(self) -> None:
        self._connection.close()
        self._attached.close()


class Door:
    """Listens at `path`, in a folder only for its owner, until it is closed. Raises OSError if it cannot."""

    def __init__(self, path: Path) -> None:
        directory = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._path = path
        self._listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            # The way through /proc is short: a socket's own path may have no more than 107 bytes.
            self._listener.bind(f"/proc/self/fd/{directory}/{self._path.name}")
            # The guest is root without any capability, and so one of the others to whom the file does not belong.
            self._path.chmod(0o666)
            self._listener.listen(1)
        except BaseException:
            self.close()
            raise
        finally:
            os.close(directory)

    @property
    def mount(self) -> Mount:
        return Mount("bind", TARGET, str(self._path))

    def first(self, attached: Attached, seconds: float) -> Direct | Attached:
        """The connection that the guest speaks on: it has said something, or has ended, or `seconds` have passed."""
        until = time.monotonic() + seconds
        while not attached.spoken and (left := until - time.monotonic()) > 0:
            ready, _, _ = select.select([self._listener.fileno(), attached.fileno()], [], [], left)
            if self._listener.fileno() in ready:
                connection, _address = self._listener.accept()
                return Direct(connection, attached)
            attached.drain()
        return attached

    def close(self) -> None:
        self._listener.close()
        with contextlib.suppress(OSError):
            self._path.unlink()
