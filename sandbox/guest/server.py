"""Answers the host's requests. A fixed number of threads wait for them: who has read a request answers it.

So a request is not handed from one thread to another, which would take as long as answering it: the kernel wakes one
thread for what arrives, and the next when that one has read its request. One more thread relays what commands print.
All are made at the start, because a command may use up every process that the container may have.
"""

from __future__ import annotations

import os
import select
import socket
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from guest import protocol
from guest.commands import plan
from guest.operations import Handler, Refusal, Root
from guest.protocol import Kind
from guest.spawner import Spawner, cancel

WORKERS = 20
"""More than the host asks for at the same time, so that one is always free to read."""
MAX_COMMANDS = 64
WATCHDOG_SECONDS = 600.0
"""A host that lives sends a PING at least every 20 s; this one is gone, and the engine has not noticed."""
ONE_ARRIVAL = select.EPOLLIN | select.EPOLLONESHOT


class Server:
    """Serves one host until it hangs up. `incoming` and `outgoing` are the two directions of the stream.

    `workspace` is the path of the root, where commands start; `steady` tells whether the masks are still in a state
    that `scan` has named.
    """

    def __init__(
        self,
        incoming: int,
        outgoing: int,
        root: Root,
        workspace: str,
        operations: Mapping[str, Handler],
        spawner: Spawner,
        steady: Callable[[int], bool],
    ) -> None:
        self._incoming = incoming
        self._arrivals = select.epoll()
        self._arrivals.register(incoming, ONE_ARRIVAL)
        self._output = _Output(outgoing)
        self._root = root
        self._operations = operations
        self._steady = steady
        self._relay = _Relay(self._output, spawner, workspace)
        self._requests: dict[int, _Request] = {}
        self._over = threading.Event()
        self._failure: protocol.ProtocolError | None = None
        self._heard = time.monotonic()

    def serve(self, greeting: dict[str, Any]) -> None:
        """Returns when the host has hung up; raises ProtocolError when it talks nonsense."""
        self._output.end(0, {"ok": greeting})
        for target in (*[self._work] * WORKERS, self._relay.run, self._watch):
            threading.Thread(target=target, daemon=True).start()
        self._over.wait()
        if self._failure is not None:
            raise self._failure

    def _work(self) -> None:
        while (request := self._next_request()) is not None:
            self._answer(request)

    def _next_request(self) -> _Request | None:
        """The next whole request for a worker; None when the host has hung up. Commands are started on the way."""
        self._arrivals.poll()  # wakes one thread, and no other before that one has asked for it
        read = protocol.reader(self._incoming)
        try:
            while not self._over.is_set():
                received = protocol.read_frame(read)
                if received is None:
                    break
                if request := self._take(*received):
                    self._arrivals.modify(self._incoming, ONE_ARRIVAL)
                    return request
        except protocol.ProtocolError as failure:
            self._failure = failure
        if not self._over.is_set():
            self._over.set()
            self._arrivals.register(os.eventfd(1), select.EPOLLIN)  # wakes every thread, for good
        return None

    def _take(self, request_id: int, kind: Kind, payload: bytes) -> _Request | None:
        self._heard = time.monotonic()
        if kind is Kind.PING:
            self._output.frame(0, Kind.PING)
        elif kind is Kind.CALL:
            self._requests[request_id] = _Request.of(request_id, protocol.load(payload))
        elif kind is Kind.BODY and request_id in self._requests:
            self._requests[request_id].take(payload)
        elif kind is Kind.CANCEL:
            self._requests.pop(request_id, None)
            self._relay.cancel(request_id)
        elif kind is Kind.END and (request := self._requests.pop(request_id, None)):
            if request.op != "run":
                return request
            # While it is our turn to read, so that a CANCEL that follows finds the command.
            self._answer(request)
        return None

    def _answer(self, request: _Request) -> None:
        try:
            if request.overlong:
                raise Refusal("too_large", "the request is too large")
            if request.state is not None and not self._steady(request.state):
                raise Refusal("outdated", "the masks are not as they were")
            if request.op == "run":
                self._relay.start(request.id, bytes(request.body), request.args)
                return
            handler = self._operations.get(request.op)
            if handler is None:
                raise Refusal("sandbox_failed", f"the guest has no operation {request.op!r}")
            fields, body = handler(self._root, request.args, bytes(request.body))
            self._output.reply(request.id, fields, body)
        except Refusal as refusal:
            self._output.refuse(request.id, refusal)
        except Exception as error:
            traceback.print_exc(file=sys.stderr)
            reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
            self._output.refuse(request.id, Refusal("sandbox_failed", f"{request.op} failed: {reason}"))

    def _watch(self) -> None:
        while True:
            time.sleep(WATCHDOG_SECONDS / 20)
            if time.monotonic() - self._heard > WATCHDOG_SECONDS:
                os._exit(3)


class _Request:
    __slots__ = ("args", "body", "id", "op", "overlong", "state")

    def __init__(self, request_id: int, op: str, args: dict[str, Any], state: int | None) -> None:
        self.id = request_id
        self.op = op
        self.args = args
        self.state = state
        self.body = bytearray()
        self.overlong = False

    @classmethod
    def of(cls, request_id: int, call: dict[str, Any]) -> _Request:
        op, args, state = call.get("op"), call.get("args"), call.get("state")
        if not isinstance(op, str) or not isinstance(args, dict) or not isinstance(state, int | None):
            raise protocol.ProtocolError("a call has no operation, no arguments or a malformed state")
        return cls(request_id, op, args, state)

    def take(self, payload: bytes) -> None:
        if len(self.body) + len(payload) > protocol.MAX_BODY:
            self.overlong = True
            self.body.clear()
        elif not self.overlong:
            self.body += payload


class _Output:
    """The way to the host: whole frames, from any thread."""

    def __init__(self, fd: int) -> None:
        self._fd = fd
        self._lock = threading.Lock()

    def write(self, frames: bytes) -> None:
        with self._lock:
            rest = memoryview(frames)
            while rest:
                rest = rest[os.write(self._fd, rest) :]

    def frame(self, request_id: int, kind: Kind, payload: bytes = b"") -> None:
        self.write(protocol.frame(request_id, kind, payload))

    def end(self, request_id: int, reply: dict[str, Any], before: bytes = b"") -> None:
        payload = protocol.dump(reply)
        if len(payload) > protocol.MAX_PAYLOAD:
            self.refuse(request_id, Refusal("sandbox_failed", "the reply's fields do not fit into a frame"))
            return
        self.write(before + protocol.frame(request_id, Kind.END, payload))

    def reply(self, request_id: int, fields: dict[str, Any], body: bytes | Iterator[bytes]) -> None:
        # The last piece goes out together with the end: a small reply is one write.
        waiting = b""
        for chunk in (body,) if isinstance(body, bytes) else body:
            for piece in protocol.pieces(chunk):
                if waiting:
                    self.write(waiting)
                waiting = protocol.frame(request_id, Kind.BODY, piece)
        self.end(request_id, {"ok": fields}, before=waiting)

    def refuse(self, request_id: int, refusal: Refusal) -> None:
        # Its words come from our own code, but may quote a long path.
        error = {"kind": refusal.kind, "sentence": refusal.sentence[:2000], "detail": refusal.detail[:8000]}
        self.end(request_id, {"error": error})


class _Relay:
    """Commands under way: passes their frames on, and cancellations back."""

    def __init__(self, output: _Output, spawner: Spawner, workspace: str) -> None:
        self._output = output
        self._spawner = spawner
        self._workspace = workspace
        self._poller = select.epoll()
        self._commands: dict[int, tuple[int, socket.socket]] = {}
        self._lock = threading.Lock()

    def start(self, request_id: int, script: bytes, args: dict[str, Any]) -> None:
        job = plan(request_id, script, args, self._workspace)
        with self._lock:
            if len(self._commands) >= MAX_COMMANDS:
                raise Refusal("sandbox_failed", f"{MAX_COMMANDS} commands are running already")
            try:
                connection = self._spawner.start(job)
            except OSError as error:
                raise Refusal("sandbox_failed", f"no command can be started ({error.strerror})") from None
            self._commands[connection.fileno()] = (request_id, connection)
        self._poller.register(connection.fileno(), select.EPOLLIN)

    def cancel(self, request_id: int) -> None:
        with self._lock:
            for known, connection in self._commands.values():
                if known == request_id:
                    cancel(connection)

    def run(self) -> None:
        while True:
            for fd, _events in self._poller.poll():
                request_id, connection = self._commands[fd]
                try:
                    message = connection.recv(protocol.HEADER.size + protocol.MAX_PAYLOAD)
                except OSError:
                    message = b""
                if not message:
                    self._forget(fd).close()
                    killed = Refusal(
                        "sandbox_failed", "the command and what watches over it were killed from outside"
                    )
                    self._output.refuse(request_id, killed)
                    continue
                if message[protocol.HEADER.size - 1] == Kind.END:
                    self._finished(fd)
                self._output.write(message)

    def _finished(self, fd: int) -> None:
        connection = self._forget(fd)
        with self._lock:
            self._spawner.finished(connection)

    def _forget(self, fd: int) -> socket.socket:
        self._poller.unregister(fd)
        with self._lock:
            return self._commands.pop(fd)[1]
