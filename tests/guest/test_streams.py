"""What is passed on of a command's output, and how much of it is kept back."""

from __future__ import annotations

import os

from guest import streams
from hypothesis import given
from hypothesis import strategies as st


def kept(pieces: list[tuple[int, bytes]]) -> tuple[list[bytes], int]:
    sent: list[bytes] = []
    outlet = streams.Outlet(sent.append)
    for stream, piece in pieces:
        outlet.take(stream, piece)
    outlet.finish()
    return sent, outlet.total


def test_pieces_are_passed_on_as_they_come_with_their_stream() -> None:
    assert kept([(streams.STDOUT, b"a"), (streams.STDERR, b"b")]) == ([b"\x01a", b"\x02b"], 2)


def test_of_what_is_too_much_the_end_is_kept_and_the_rest_counted() -> None:
    piece = b"x" * 65_000
    sent, total = kept([(streams.STDOUT, piece)] * 1_000)
    gap = next(place for place, each in enumerate(sent) if each[0] == streams.GAP)
    left_out = int.from_bytes(sent[gap][1:], "big")
    before = sum(len(each) - 1 for each in sent[:gap])
    after = sum(len(each) - 1 for each in sent[gap + 1 :])
    assert total == 65_000_000
    assert before == streams.SAVE_LIMIT
    assert before + left_out + after == total
    assert streams.TAIL_LIMIT <= after < streams.TAIL_LIMIT + 65_000


@given(st.lists(st.tuples(st.sampled_from([1, 2]), st.binary(min_size=1, max_size=50)), max_size=30))
def test_nothing_of_a_small_output_is_lost(pieces: list[tuple[int, bytes]]) -> None:
    sent, total = kept(pieces)
    assert [(each[0], each[1:]) for each in sent] == pieces
    assert total == sum(len(piece) for _, piece in pieces)


def test_what_lies_in_both_pipes_at_the_end_is_read() -> None:
    stdout, stdout_end = os.pipe()
    stderr, stderr_end = os.pipe()
    for fd in (stdout, stderr):
        os.set_blocking(fd, False)
    sent: list[bytes] = []
    watched = streams.Streams(stdout, stderr, None, streams.Outlet(sent.append))
    os.write(stdout_end, b"out")
    os.write(stderr_end, b"err")
    os.close(stdout_end)
    os.close(stderr_end)
    watched.drain()
    assert sorted(sent) == [b"\x01out", b"\x02err"]
    assert watched.at_end
