"""An answer and the look at the masks in one request. `sandbox/guest/glance.py` is the other side."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.channel import Channel, checked
from codeagent.sandbox.frames import Garbled

LOOK = "scan"
"""The operation by which a layout finds out whether masks are missing."""

Reply = tuple[dict[str, Any], bytes]


class Glance:
    """A channel for one answer: sends the look along with the first other request, and keeps what came of it."""

    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._seen: Reply | None = None

    def call(self, op: str, args: Mapping[str, Any], body: bytes = b"") -> Reply:
        """See `Channel.call`. Raises ToolError(sandbox_failed) for an answer that makes no sense."""
        if self._seen is None and op != LOOK:
            self._seen, reply = _apart(*self._channel.call("glance", {"op": op, "args": args}, body))
            return reply()
        if self._seen is not None and op == LOOK:
            return self._seen
        return self._channel.call(op, args, body)


def _apart(fields: Mapping[str, Any], both: bytes) -> tuple[Reply, Callable[[], Reply]]:
    """What was seen, and what gives or raises the other answer."""
    seen, size, reply = fields.get("scan"), fields.get("size"), fields.get("reply")
    if (
        not isinstance(seen, dict)
        or not isinstance(reply, dict)
        or type(size) is not int
        or not 0 <= size <= len(both)
    ):
        raise _senseless()

    def answer() -> Reply:
        try:
            return checked(reply), both[size:]
        except Garbled:
            raise _senseless() from None

    return (seen, both[:size]), answer


def _senseless() -> ToolError:
    return ToolError(ErrorKind.SANDBOX_FAILED, "the container gave an answer that makes no sense")
