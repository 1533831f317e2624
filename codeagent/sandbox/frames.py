"""Bytes of a container's attached stream, taken apart: the engine's stream headers, then the guest's frames.

Both parsers take bytes as they arrive, cut anywhere. The frame format is described in `sandbox/guest/protocol.py`;
this is the host's own reading of it, and it believes nothing.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Mapping
from enum import IntEnum
from typing import Any, Literal

VERSION = 1
MAX_PAYLOAD = 64 * 1024
FRAME_HEADER = struct.Struct("!IIB")
STREAM_HEADER = struct.Struct("!BxxxI")
STREAMS: Mapping[int, Literal["stdout", "stderr"]] = {1: "stdout", 2: "stderr"}


_ENCODER = json.JSONEncoder(separators=(",", ":"))  # `dumps` would make one each time


class Kind(IntEnum):
    CALL = 1
    BODY = 2
    END = 3
    CANCEL = 4
    PING = 5


class Garbled(Exception):
    """The stream does not follow the protocol; nothing after this point can be trusted."""


def frame(request_id: int, kind: Kind, payload: bytes | memoryview = b"") -> bytes:
    """One frame as bytes."""
    return FRAME_HEADER.pack(len(payload), request_id, kind) + payload


def request(
    request_id: int, op: str, args: Mapping[str, Any], body: bytes = b"", state: int | None = None
) -> Iterator[bytes]:
    """The frames of one request, the small ones joined."""
    call = _ENCODER.encode({"op": op, "args": args, "state": state}).encode("ascii")
    if len(call) > MAX_PAYLOAD:
        raise ValueError(f"the arguments of {op} take {len(call)} bytes; long values belong into the body")
    waiting = frame(request_id, Kind.CALL, call)
    view = memoryview(body)
    for offset in range(0, len(body), MAX_PAYLOAD):
        if len(waiting) > MAX_PAYLOAD:
            yield waiting
            waiting = b""
        waiting += frame(request_id, Kind.BODY, view[offset : offset + MAX_PAYLOAD])
    yield waiting + frame(request_id, Kind.END)


class Demultiplexer:
    """Takes the engine's 8-byte headers off: feed raw bytes, get (stream, bytes)."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._left = 0
        self._stream: Literal["stdout", "stderr"] = "stdout"

    def feed(self, raw: bytes) -> Iterator[tuple[Literal["stdout", "stderr"], bytes]]:
        self._buffer += raw
        while self._buffer:
            if not self._left:
                if len(self._buffer) < STREAM_HEADER.size:
                    return
                number, self._left = STREAM_HEADER.unpack_from(self._buffer)
                if number not in STREAMS:
                    raise Garbled(f"the engine sent a header for the unknown stream {number}")
                self._stream = STREAMS[number]
                del self._buffer[: STREAM_HEADER.size]
                continue
            piece = bytes(self._buffer[: self._left])
            del self._buffer[: len(piece)]
            self._left -= len(piece)
            yield self._stream, piece


class FrameParser:
    """Feed bytes of the guest's stdout, get (request id, kind, payload)."""

    def __init__(self) -> None:
        self._buffer = bytearray()

    def feed(self, piece: bytes) -> Iterator[tuple[int, Kind, bytes]]:
        buffer = self._buffer
        buffer += piece
        start = 0
        try:
            while len(buffer) - start >= FRAME_HEADER.size:
                length, request_id, number = FRAME_HEADER.unpack_from(buffer, start)
                if length > MAX_PAYLOAD:
                    raise Garbled(f"the guest announced a frame of {length} bytes")
                if number not in (Kind.BODY, Kind.END, Kind.PING):
                    raise Garbled(f"the guest sent a frame of kind {number}")
                body = start + FRAME_HEADER.size
                if len(buffer) - body < length:
                    return
                start = body + length
                yield request_id, Kind(number), bytes(buffer[body:start])
        finally:
            del buffer[:start]

    @property
    def torn(self) -> bool:
        """Whether the stream so far ends inside a frame."""
        return bool(self._buffer)


def load(payload: bytes) -> dict[str, Any]:
    """The JSON object of an END frame."""
    try:
        value = json.loads(payload)
    except (ValueError, RecursionError):
        raise Garbled("the guest sent malformed JSON") from None
    if not isinstance(value, dict):
        raise Garbled("the guest sent JSON that is not an object")
    return value
