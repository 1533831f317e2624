"""Calls that wait for their replies, and what a reply may say."""

from __future__ import annotations

import contextlib
from _thread import allocate_lock
from collections.abc import Callable, Mapping
from typing import Any

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.frames import Garbled

MAX_REPLY = 64 * 1024 * 1024
"""The largest reply body that is collected in memory, in bytes."""
MAX_SENTENCE = 2_000


class ChannelLost(Exception):
    """The guest is out of reach for good; `reason` says why, in words that a user understands."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class Outdated(Exception):
    """The guest did nothing: its masks are no longer in the state that the call named."""


class Pending:
    """A call that waits for its reply. A bare lock is the fastest way in Python to wake one other thread."""

    __slots__ = ("_bell", "body", "error", "fields", "on_body", "over", "waiting")

    def __init__(self, on_body: Callable[[bytes], None] | None) -> None:
        self.on_body = on_body
        self.body = bytearray()
        self.fields: dict[str, Any] = {}
        self.error: Exception | None = None
        self.over = False
        self.waiting = False
        self._bell = allocate_lock()
        self._bell.acquire()

    def wait(self, seconds: float) -> None:
        """Until `wake` is called, or was called before; at most `seconds`, -1 is for ever."""
        self._bell.acquire(timeout=seconds)

    def wake(self) -> None:
        with contextlib.suppress(RuntimeError):  # woken already
            self._bell.release()

    def take(self, piece: bytes) -> None:
        if self.on_body is None:
            if len(self.body) + len(piece) > MAX_REPLY:
                raise Garbled(f"the guest sent a reply of more than {MAX_REPLY} bytes")
            self.body += piece
            return
        try:
            self.on_body(piece)
        except Garbled:
            raise
        except Exception as error:
            # The consumer's fault (a full disk), not the channel's: the call fails, the channel goes on.
            self.error, self.on_body = error, drop

    def finish(self, fields: dict[str, Any]) -> None:
        try:
            if self.error is None:
                self.fields = checked(fields)
        except (ToolError, Outdated) as error:
            self.error = error
        except Garbled as garbled:
            self.error = ChannelLost(f"the container does not follow the protocol: {garbled}")
            raise
        finally:
            self.over = True
            self.wake()

    def fail(self, error: Exception) -> None:
        self.error = self.error or error
        self.over = True
        self.wake()


def drop(_piece: bytes) -> None:
    """Takes the rest of a body that nobody wants any more."""


def checked(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The fields of `{"ok": {…}}`; raises the ToolError or Outdated of `{"error": {…}}`, else Garbled."""
    if set(fields) == {"ok"} and isinstance(fields["ok"], dict):
        return fields["ok"]
    error = fields.get("error")
    if set(fields) != {"error"} or not isinstance(error, dict):
        raise Garbled("the guest sent a reply that is neither a result nor an error")
    kind, sentence, detail = error.get("kind"), error.get("sentence"), error.get("detail", "")
    if not isinstance(kind, str) or not isinstance(sentence, str) or not isinstance(detail, str):
        raise Garbled("the guest sent a malformed error")
    if kind == "outdated":
        raise Outdated
    known = ErrorKind(kind) if kind in set(ErrorKind) else ErrorKind.SANDBOX_FAILED
    raise ToolError(known, sentence[:MAX_SENTENCE], detail)
