"""Frames between host and guest: one stream in each direction, many requests in flight.

A frame is a 9-byte header (payload length, request id, kind; network byte order) and a payload of at most
64 KiB, so that a small reply never waits long behind a big one.

    host → guest    CALL {"op", "args", "state"}  BODY*  END (empty) one request
                    CANCEL (empty)                                   the request should end early
                    PING (empty, id 0)                               the host is alive
    guest → host    END {…} with id 0                                once, at start: the guest is ready
                    BODY*   END {"ok": {…}} or {"error": {…}}        one reply

With a `state` that is not null, a request is carried out only while the masks are as when `scan` named that state;
else it is refused as `outdated`.

JSON is ASCII (`\\udcxx` escapes carry undecodable path bytes). What does not fit into one frame of JSON
travels in BODY frames.
"""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Callable, Iterator
from enum import IntEnum
from typing import Any

HEADER = struct.Struct("!IIB")
MAX_PAYLOAD = 64 * 1024
MAX_BODY = 64 * 1024 * 1024
"""The largest request body that is accepted, in bytes."""
VERSION = 1


class Kind(IntEnum):
    CALL = 1
    BODY = 2
    END = 3
    CANCEL = 4
    PING = 5


_ENCODER = json.JSONEncoder(separators=(",", ":"))  # `dumps` would make one each time
KINDS = {kind.value: kind for kind in Kind}


class ProtocolError(Exception):
    """The other side does not speak this protocol (any more); the connection is of no further use."""


def frame(request_id: int, kind: Kind, payload: bytes = b"") -> bytes:
    """One frame as bytes. Raises ValueError for a payload over MAX_PAYLOAD."""
    if len(payload) > MAX_PAYLOAD:
        raise ValueError(f"a payload of {len(payload)} bytes does not fit into a frame")
    return HEADER.pack(len(payload), request_id, kind) + payload


def dump(value: dict[str, Any]) -> bytes:
    """JSON for a frame's payload."""
    return _ENCODER.encode(value).encode("ascii")


def load(payload: bytes) -> dict[str, Any]:
    """The JSON object in a payload; ProtocolError for anything else."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        raise ProtocolError("a frame holds malformed JSON") from None
    if not isinstance(value, dict):
        raise ProtocolError("a frame holds JSON that is not an object")
    return value


def read_frame(read: Callable[[int], bytes]) -> tuple[int, Kind, bytes] | None:
    """The next frame as (request id, kind, payload); None at a clean end of the stream.

    `read(n)` returns exactly n bytes, fewer only at the end of the stream (`io.BufferedReader.read`, `reader`).
    """
    header = read(HEADER.size)
    if not header:
        return None
    if len(header) < HEADER.size:
        raise ProtocolError("the stream ended inside a frame's header")
    length, request_id, number = HEADER.unpack(header)
    if length > MAX_PAYLOAD:
        raise ProtocolError(f"a frame announces {length} bytes")
    kind = KINDS.get(number)
    if kind is None:
        raise ProtocolError(f"a frame is of the unknown kind {number}")
    payload = read(length) if length else b""
    if len(payload) < length:
        raise ProtocolError("the stream ended inside a frame")
    return request_id, kind, payload


def reader(fd: int) -> Callable[[int], bytes]:
    """Reads exactly as much as is asked for from a descriptor, and nothing ahead."""

    def read(count: int) -> bytes:
        found = os.read(fd, count)
        while len(found) < count and (more := os.read(fd, count - len(found))):
            found += more
        return found

    return read


def pieces(body: bytes) -> Iterator[bytes]:
    """`body` cut into payloads."""
    for start in range(0, len(body), MAX_PAYLOAD):
        yield body[start : start + MAX_PAYLOAD]
