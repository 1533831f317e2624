"""Both readings of the frame format, the guest's and the host's, against each other and against damage."""

from __future__ import annotations

import io
from collections.abc import Sequence

import pytest
from guest import protocol
from hypothesis import given
from hypothesis import strategies as st

from codeagent.sandbox import frames

PAYLOADS = st.binary(max_size=300)
IDS = st.integers(min_value=0, max_value=2**32 - 1)


def test_both_sides_agree_on_the_constants() -> None:
    assert (protocol.VERSION, protocol.MAX_PAYLOAD) == (frames.VERSION, frames.MAX_PAYLOAD)
    assert protocol.HEADER.format == frames.FRAME_HEADER.format
    assert {kind.name: kind.value for kind in protocol.Kind} == {kind.name: kind.value for kind in frames.Kind}


@given(st.lists(st.tuples(IDS, st.sampled_from(["BODY", "END", "PING"]), PAYLOADS), max_size=5), st.data())
def test_the_host_reads_what_the_guest_writes_however_it_is_cut(
    sent: Sequence[tuple[int, str, bytes]], data: st.DataObject
) -> None:
    stream = b"".join(protocol.frame(number, protocol.Kind[kind], payload) for number, kind, payload in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=8)))
    parser = frames.FrameParser()
    received = [
        found
        for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True)
        for found in parser.feed(stream[start:end])
    ]
    assert received == [(number, frames.Kind[kind], payload) for number, kind, payload in sent]
    assert not parser.torn


@given(IDS, st.dictionaries(st.text(max_size=5), st.text(max_size=20), max_size=3), st.binary(max_size=200_000))
def test_the_guest_reads_what_the_host_writes(number: int, args: dict[str, str], body: bytes) -> None:
    stream = io.BytesIO(b"".join(frames.request(number, "run", args, body, 5)))
    received = []
    while (found := protocol.read_frame(stream.read)) is not None:
        received.append(found)
    assert [kind for _, kind, _ in received[:1] + received[-1:]] == [protocol.Kind.CALL, protocol.Kind.END]
    assert {each for each, _, _ in received} == {number}
    assert protocol.load(received[0][2]) == {"op": "run", "args": args, "state": 5}
    assert b"".join(payload for _, kind, payload in received if kind is protocol.Kind.BODY) == body


@pytest.mark.parametrize(
    ("stream", "reason"),
    [
        (b"\0\0\0", "the stream ended inside a frame's header"),
        (protocol.HEADER.pack(5, 1, protocol.Kind.BODY) + b"abc", "the stream ended inside a frame"),
        (protocol.HEADER.pack(2**31, 1, protocol.Kind.BODY), "a frame announces 2147483648 bytes"),
        (protocol.HEADER.pack(0, 1, 99), "a frame is of the unknown kind 99"),
    ],
)
def test_the_guest_refuses_a_damaged_stream(stream: bytes, reason: str) -> None:
    with pytest.raises(protocol.ProtocolError, match=reason):
        protocol.read_frame(io.BytesIO(stream).read)


def test_the_end_between_two_frames_is_the_end() -> None:
    assert protocol.read_frame(io.BytesIO(b"").read) is None


@pytest.mark.parametrize("payload", [b"", b"{", b"[]", b"5", b"\xff", b"[" * 100_000])
def test_a_payload_that_is_no_json_object_is_refused_by_both(payload: bytes) -> None:
    with pytest.raises(protocol.ProtocolError):
        protocol.load(payload)
    with pytest.raises(frames.Garbled):
        frames.load(payload)


def test_a_frame_over_the_limit_is_never_made() -> None:
    with pytest.raises(ValueError, match="65537 bytes"):
        protocol.frame(1, protocol.Kind.BODY, b"x" * 65_537)
    with pytest.raises(ValueError, match="long values belong into the body"):
        list(frames.request(1, "run", {"path": "x" * 70_000}))


@pytest.mark.parametrize(
    "stream",
    [frames.FRAME_HEADER.pack(65_537, 1, 2), frames.FRAME_HEADER.pack(0, 1, 1), frames.FRAME_HEADER.pack(0, 1, 9)],
)
def test_the_host_refuses_huge_frames_and_kinds_that_a_guest_never_sends(stream: bytes) -> None:
    with pytest.raises(frames.Garbled):
        list(frames.FrameParser().feed(stream))


@given(st.lists(st.tuples(st.sampled_from([1, 2]), PAYLOADS), max_size=6), st.integers(1, 20))
def test_the_engines_stream_headers_are_taken_off_however_the_stream_is_cut(
    sent: Sequence[tuple[int, bytes]], step: int
) -> None:
    stream = b"".join(frames.STREAM_HEADER.pack(number, len(payload)) + payload for number, payload in sent)
    demultiplexer = frames.Demultiplexer()
    received: dict[str, bytes] = {"stdout": b"", "stderr": b""}
    for start in range(0, len(stream), step):
        for name, piece in demultiplexer.feed(stream[start : start + step]):
            received[name] += piece
    for number, name in frames.STREAMS.items():
        assert received[name] == b"".join(payload for each, payload in sent if each == number)


def test_a_header_for_an_unknown_stream_is_refused() -> None:
    with pytest.raises(frames.Garbled, match="unknown stream 7"):
        list(frames.Demultiplexer().feed(frames.STREAM_HEADER.pack(7, 1)))
