"""The host's end of the connection to a guest: calls from any thread, many in flight, no call left hanging.

Who waits for a reply reads it: a reply that is handed from one thread to another takes half as long again. Where
several wait, one of them reads for all, and leaves it to the next when its own reply has come. One thread looks after
the pulse. `docker pause`, a stopped engine and a guest that was killed all look like silence at first, so after a
second of silence the owner of the container is asked what has become of it (`diagnose`).
"""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from _thread import allocate_lock
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.frames import FrameParser, Garbled, Kind, frame, load, request
from codeagent.sandbox.pending import ChannelLost, Pending, drop
from codeagent.sandbox.seam import Flag

READ_SIZE = 64 * 1024
"""Larger buffers are mapped and unmapped by the kernel each time, which takes longer than a small reply."""
AWAKE_SECONDS = 0.0004
"""A small reply is there within this time; to sleep and be woken again takes a tenth of a call."""
PULSE_SECONDS = 0.5
SILENCE_SECONDS = 1.0
IDLE_PULSE_SECONDS = 20.0
CANCEL_POLL_SECONDS = 0.05
CANCEL_GRACE_SECONDS = 3.0


class Connection(Protocol):
    """What a guest's frames come through.

    `recv` returns b"" at the end, and None when what had come was not of the guest's frames. `pending`, where it is
    not None, says how many bytes can be received that do not show at the descriptor. `attend` is called now and then:
    it takes what comes beside the frames. `diagnostics` is the end of what the guest wrote to its stderr.
    """

    def fileno(self) -> int: ...
    def recv(self, size: int, /) -> bytes | None: ...
    def sendall(self, data: bytes, /) -> None: ...
    def shutdown(self, how: int, /) -> None: ...
    def close(self) -> None: ...
    def attend(self) -> None: ...
    @property
    def pending(self) -> Callable[[], int] | None: ...
    @property
    def diagnostics(self) -> str: ...


class Channel:
    """Owns `connection`. `diagnose()` says in words why the container is lost, or "" when it lives."""

    def __init__(self, connection: Connection, diagnose: Callable[[], str] = lambda: "") -> None:
        self._connection = connection
        self._diagnose = diagnose
        self._sending = threading.Lock()
        self._state = threading.Lock()
        self._pending: dict[int, Pending] = {}
        self._abandoned: set[int] = set()
        self._next_id = 1
        self._lost = ""
        self._closed = threading.Event()
        self._heard = self._pinged = time.monotonic()
        self._greeting = Pending(None)
        self._pending[0] = self._greeting
        self._pulse = threading.Thread(target=self._watch, name="guest-pulse", daemon=True)
        # Held by the one thread that reads; what follows is used by that one alone.
        self._reading = allocate_lock()
        self._arrival = select.poll()
        self._arrival.register(connection.fileno(), select.POLLIN)
        self._hidden = connection.pending
        self._frames = FrameParser()

    def start(self) -> None:
        """Begins to look after the guest; call it once, when the container is about to start."""
        self._pulse.start()

    def greeting(self, timeout: float) -> dict[str, Any]:
        """What the guest says of itself when it is ready. Raises ChannelLost, also after `timeout` seconds."""
        return self._await(self._greeting, None, time.monotonic() + timeout, 0)[0]

    def call(
        self,
        op: str,
        args: Mapping[str, Any],
        body: bytes = b"",
        on_body: Callable[[bytes], None] | None = None,
        cancel: Flag | None = None,
        timeout: float | None = None,
        state: int | None = None,
        leave: Flag | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """One request: the reply's fields and its body.

        `on_body` gets the body's pieces as they arrive, in whatever thread reads them, instead of collecting them.
        Setting `cancel` asks the guest to end early; its reply still counts. After `timeout` seconds the guest is
        taken for broken. With `state`, nothing is done unless the guest's masks are in that state. Setting `leave`
        raises ToolError(cancelled) without waiting for the reply. Raises ToolError when the guest refuses, Outdated,
        and ChannelLost when it is out of reach.
        """
        pending = Pending(on_body)
        with self._state:
            if self._lost:
                raise ChannelLost(self._lost)
            request_id = self._next_id
            self._next_id += 1
            self._pending[request_id] = pending
        try:
            for piece in request(request_id, op, args, body, state):
                self._send(piece)
            deadline = None if timeout is None else time.monotonic() + timeout
            return self._await(pending, cancel, deadline, request_id, leave)
        finally:
            if not pending.over:
                self._forget(request_id, pending)

    def close(self) -> None:
        """Hangs up; the guest ends by that. Calls in flight raise ChannelLost."""
        self._fail("the sandbox was closed")

    def loss(self) -> str:
        """Why the guest is out of reach, or "" while it is not as far as can be seen without waiting."""
        self._look()
        return self._lost

    @property
    def diagnostics(self) -> str:
        """The end of what the guest wrote to its stderr: for logs and reports, never for the model."""
        return self._connection.diagnostics

    # Callers' threads

    def _send(self, piece: bytes) -> None:
        with self._sending:
            try:
                self._connection.sendall(piece)
            except OSError as error:
                self._fail(self._diagnose() or _broke(error))
                raise ChannelLost(self._lost) from None
            except BaseException:
                # Left by a signal, perhaps inside a frame: the guest could not find the next one.
                self._fail("a request was interrupted while it was sent")
                raise

    def _await(
        self,
        pending: Pending,
        cancel: Flag | None,
        deadline: float | None,
        request_id: int,
        leave: Flag | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        asked = False
        pending.waiting = True
        while not pending.over:
            self._wait(pending, _patience(leave or (None if asked else cancel), deadline))
            if pending.over:
                break
            now = time.monotonic()
            if leave is not None and leave.is_set():
                raise ToolError(ErrorKind.CANCELLED, "the call was cancelled before its result was there")
            if cancel is not None and not asked and cancel.is_set():
                self._send(frame(request_id, Kind.CANCEL))
                asked = True
                deadline = min(deadline or now + CANCEL_GRACE_SECONDS, now + CANCEL_GRACE_SECONDS)
            elif deadline is not None and now >= deadline:
                self._fail(self._diagnose() or "the container does not answer")
        if pending.error is not None:
            raise pending.error
        return pending.fields, bytes(pending.body)

    def _wait(self, pending: Pending, seconds: float) -> None:
        """Until the reply is whole, or for `seconds` (-1: for ever), or until it is this thread's turn to read."""
        if not self._reading.acquire(blocking=False):
            pending.wait(seconds)
            return
        try:
            self._read(pending, seconds)
        finally:
            self._stop_reading()

    def _forget(self, request_id: int, pending: Pending) -> None:
        # A call that is left early (an exception, Ctrl-C) still has an answer to come, which nobody waits for.
        with self._state:
            if self._pending.pop(request_id, None) is None:
                return
            pending.on_body = drop
            self._abandoned.add(request_id)
        with contextlib.suppress(ChannelLost):
            self._send(frame(request_id, Kind.CANCEL))
        self._wake_reader()

    # The thread that reads

    def _look(self) -> None:
        """Takes what has arrived while nobody was waiting."""
        if self._reading.acquire(blocking=False):
            try:
                self._read(None, 0)
            finally:
                self._stop_reading()

    def _stop_reading(self) -> None:
        self._reading.release()
        if self._lost:
            self._hang_up()
        elif self._pending:
            self._wake_reader()

    def _wake_reader(self) -> None:
        """Has one of those who wait take over; when somebody reads already, it waits on."""
        waiting = next((each for each in tuple(self._pending.values()) if each.waiting), None)
        if waiting is not None:
            waiting.wake()

    def _read(self, pending: Pending | None, seconds: float) -> None:
        """Takes what arrives, until `pending` is over, or for `seconds` (-1: for ever)."""
        until = time.monotonic() + seconds
        try:
            while not self._lost and not (pending is not None and pending.over):
                left = -1.0 if seconds < 0 else max(0.0, until - time.monotonic())
                if not self._arrived(left):
                    return
                raw = self._connection.recv(READ_SIZE)
                if raw is None:
                    continue
                if not raw:
                    torn = self._frames.torn
                    reason = "the reply of the container was cut short" if torn else "the container has ended"
                    self._fail(self._diagnose() or reason)
                    return
                self._heard = time.monotonic()
                for request_id, kind, payload in self._frames.feed(raw):
                    self._take(request_id, kind, payload)
        except Garbled as garbled:
            self._fail(f"the container does not follow the protocol: {garbled}")
        except OSError as error:
            self._fail(self._diagnose() or _broke(error))

    def _arrived(self, seconds: float) -> bool:
        if self._hidden is not None and self._hidden():
            return True
        awake = time.monotonic() + AWAKE_SECONDS
        while seconds and time.monotonic() < awake:
            if self._arrival.poll(0):
                return True
            os.sched_yield()
        return bool(self._arrival.poll(-1 if seconds < 0 else seconds * 1000))

    def _take(self, request_id: int, kind: Kind, payload: bytes) -> None:
        if kind is Kind.PING:
            return
        pending = self._pending.get(request_id)
        if pending is None:
            if request_id not in self._abandoned:
                raise Garbled(f"the guest answered the unknown request {request_id}")
            if kind is Kind.END:
                self._abandoned.discard(request_id)
            return
        if kind is Kind.BODY:
            pending.take(payload)
            return
        fields = load(payload)
        with self._state:
            self._pending.pop(request_id, None)
        pending.finish(fields)

    # The pulse's thread

    def _watch(self) -> None:
        asked: float | None = None
        while not self._closed.wait(PULSE_SECONDS):
            # Callers may all be busy sending, to a guest that waits until somebody takes what it has to say.
            self._look()
            self._connection.attend()
            now = time.monotonic()
            if asked is not None and self._heard > asked:
                asked = None
            if asked is not None and now - asked >= SILENCE_SECONDS - PULSE_SECONDS:
                if reason := self._diagnose():
                    self._fail(reason)
                asked = now
            elif (self._pending and now - self._heard >= PULSE_SECONDS) or now - self._pinged >= IDLE_PULSE_SECONDS:
                asked = asked or now
                self._ping()

    def _ping(self) -> None:
        self._pinged = time.monotonic()
        # A caller that is stuck in sending holds the lock: then the silence goes on, which is what counts.
        if self._sending.acquire(timeout=PULSE_SECONDS):
            try:
                self._connection.sendall(frame(0, Kind.PING))
            except OSError as error:
                self._fail(self._diagnose() or _broke(error))
            finally:
                self._sending.release()

    def _fail(self, reason: str) -> None:
        with self._state:
            if self._lost:
                return
            self._lost = reason
            pending, self._pending = list(self._pending.values()), {}
        self._closed.set()
        # It wakes whoever is blocked in recv or sendall; close alone does not.
        with contextlib.suppress(OSError):
            self._connection.shutdown(2)
        for one in pending:
            one.fail(ChannelLost(reason))
        self._hang_up()

    def _hang_up(self) -> None:
        """Closes the connection, unless somebody is reading still: the descriptor would be another file's by then."""
        if self._reading.acquire(blocking=False):
            with contextlib.suppress(OSError):
                self._connection.close()
            self._reading.release()


def _broke(error: OSError) -> str:
    return f"the connection to the container broke ({error.strerror or error})"


def _patience(cancel: Flag | None, deadline: float | None) -> float:
    """How long to wait before looking again, in seconds; -1 is for ever."""
    if cancel is not None:
        return CANCEL_POLL_SECONDS
    return -1 if deadline is None else max(0.0, deadline - time.monotonic())
