"""One request instead of two: an operation that reads, and with it the look at the masks that belongs to each."""

from __future__ import annotations

from typing import Any

from guest.files import OPERATIONS
from guest.operations import Refusal, Reply, Root
from guest.server import refused


def glance(root: Root, args: dict[str, Any], body: bytes) -> Reply:
    """Fields: those of `scan` and its body's size, the operation's own or its refusal; the bodies in that order."""
    handler = OPERATIONS.get(args["op"])
    if handler is None:
        raise Refusal("sandbox_failed", f"the guest has no operation {args['op']!r}")
    seen, scanned = OPERATIONS["scan"](root, {}, b"")
    before = _whole(scanned)
    found: dict[str, Any] = {"scan": seen, "size": len(before)}
    try:
        fields, content = handler(root, args["args"], body)
    except Refusal as refusal:
        return {**found, "reply": {"error": refused(refusal)}}, before
    return {**found, "reply": {"ok": fields}}, before + _whole(content)


def _whole(body: Any) -> bytes:
    return body if isinstance(body, bytes) else b"".join(body)
