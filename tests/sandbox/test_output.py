"""A command's output on its way to the model and to its file."""

from __future__ import annotations

import stat
import tracemalloc
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.sandbox import output
from codeagent.sandbox.frames import Garbled
from codeagent.sandbox.output import Output, OutputKeeper, Segment, saved_name

OUT, ERR = b"\x01", b"\x02"


def kept(path: Path, pieces: Sequence[bytes]) -> Output:
    keeper = OutputKeeper(path)
    for piece in pieces:
        keeper.take(piece)
    return keeper.finish()


def test_a_small_output_is_kept_whole_in_order_and_told_apart(tmp_path: Path) -> None:
    path = tmp_path / "outputs" / "a.txt"
    pieces = [OUT + b"a\n", ERR + b"b\n", OUT + b"c\n", OUT + b"d\n"]
    segments: tuple[Segment, ...] = (("stdout", "a\n"), ("stderr", "b\n"), ("stdout", "c\nd\n"))
    assert kept(path, pieces) == Output(segments, 3, 0, True)
    assert path.read_text() == "a\nb\nc\nd\n"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_no_output_makes_no_file(tmp_path: Path) -> None:
    assert kept(tmp_path / "a.txt", []) == Output((), 0, 0, False)
    assert not (tmp_path / "a.txt").exists()


def test_head_and_tail_are_cut_between_lines_and_the_rest_is_counted(tmp_path: Path) -> None:
    lines = [f"line {number}\n".encode() for number in range(20_000)]
    found = kept(tmp_path / "a.txt", [OUT + line for line in lines])
    head, tail = found.segments[0][1], found.segments[1][1]
    assert found.head_segments == 1
    assert head.startswith("line 0\n") and head.endswith("\n")
    assert tail.startswith("line ") and tail.endswith("line 19999\n")
    assert len(head) + found.omitted_bytes + len(tail) == sum(map(len, lines))
    assert len(head) <= output.HEAD_BYTES and len(tail) <= output.TAIL_BYTES
    assert (tmp_path / "a.txt").read_bytes() == b"".join(lines)


def test_output_without_line_ends_is_cut_where_it_must_be(tmp_path: Path) -> None:
    found = kept(tmp_path / "a.txt", [OUT + b"x" * 50_000])
    assert [len(text) for _, text in found.segments] == [output.HEAD_BYTES, output.TAIL_BYTES]
    assert found.omitted_bytes == 50_000 - output.HEAD_BYTES - output.TAIL_BYTES


@given(st.lists(st.tuples(st.booleans(), st.text(max_size=400)), max_size=60), st.integers(1, 7))
def test_text_survives_any_cut_and_what_is_shown_and_left_out_adds_up(
    tmp_path_factory: pytest.TempPathFactory, written: list[tuple[bool, str]], step: int
) -> None:
    path = tmp_path_factory.mktemp("outputs") / "a.txt"
    text = "".join(each for _, each in written) * 20
    data = text.encode("utf-8", "replace")
    found = kept(path, [OUT + data[start : start + step] for start in range(0, len(data), step)])
    expected = data.decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
    shown = "".join(text for _, text in found.segments)
    assert len(shown.encode()) + found.omitted_bytes == len(expected.encode())
    if not found.omitted_bytes:
        assert shown == expected
    if data:
        assert path.read_bytes().decode() == expected


def test_each_stream_is_decoded_for_itself(tmp_path: Path) -> None:
    smile = "é😀".encode()
    pieces = [OUT + smile[:3], ERR + smile[:1], OUT + smile[3:], ERR + smile[1:]]
    assert kept(tmp_path / "a.txt", pieces).segments == (("stdout", "é😀"), ("stderr", "é😀"))


def test_bytes_that_are_no_text_become_replacement_characters(tmp_path: Path) -> None:
    found = kept(tmp_path / "a.txt", [OUT + b"a\0b\xffc\xc3"])
    assert found.segments == (
        ("stdout", "a\N{REPLACEMENT CHARACTER}b\N{REPLACEMENT CHARACTER}c\N{REPLACEMENT CHARACTER}"),
    )


def test_what_the_guest_left_out_is_counted_and_marked_in_the_file(tmp_path: Path) -> None:
    gap = b"\0" + (10**9).to_bytes(8, "big")
    found = kept(tmp_path / "a.txt", [OUT + b"head\n" * 4_000, gap, OUT + b"tail\n" * 4_000])
    shown = sum(len(text) for _, text in found.segments)
    assert shown + found.omitted_bytes == 10**9 + 2 * 20_000
    assert found.problem == "only the first 16 MiB and the end of the output are kept"
    assert "\n[1000000000 bytes are not kept]\n" in (tmp_path / "a.txt").read_text()


@pytest.mark.parametrize("piece", [b"", b"\x03x", b"\0", b"\0\0", b"\xff"])
def test_a_malformed_piece_is_refused(tmp_path: Path, piece: bytes) -> None:
    with pytest.raises(Garbled):
        OutputKeeper(tmp_path / "a.txt").take(piece)


def test_an_output_that_cannot_be_saved_is_still_shown(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    found = kept(tmp_path / "file" / "a.txt", [OUT + b"hello\n"])
    assert found.segments == (("stdout", "hello\n"),)
    assert not found.saved
    assert found.problem.startswith("the output could not be kept in full (")


def test_a_link_in_the_files_place_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / "victim").write_text("mine")
    (tmp_path / "a.txt").symlink_to("victim")
    assert kept(tmp_path / "a.txt", [OUT + b"x"]).saved
    assert (tmp_path / "victim").read_text() == "mine"


def test_memory_stays_flat_whatever_is_printed(tmp_path: Path) -> None:
    keeper = OutputKeeper(tmp_path / "a.txt")
    piece = OUT + b"y\n" * 30_000
    tracemalloc.start()
    for _ in range(300):
        keeper.take(piece)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    keeper.finish()
    assert peak < 2_000_000


@pytest.mark.parametrize("call_id", ["../../etc/passwd", "a/b", "", "x" * 200, "é", "\ud83d", "a.b", ".."])
def test_a_call_id_never_leads_out_of_the_folder(call_id: str) -> None:
    name = saved_name(call_id)
    assert len(name) == 36 and "/" not in name and name.endswith(".txt")


def test_an_ordinary_call_id_is_the_files_name() -> None:
    assert saved_name("call_abc-1") == "call_abc-1.txt"
