"""read_file and list_dir as the model meets them: arguments in, text out."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from guest.quoting import quoted as quoted_by_the_guest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.errors import ErrorKind, ToolError
from codeagent.inference import ToolSpec
from codeagent.sandbox import files
from codeagent.sandbox.seam import Entry, EntryKind, Listing
from codeagent.tools import list_dir, read_file
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.paths import quoted, unquoted
from codeagent.tools.result import LinesShown, TextShown, ToolResult
from tests.guest.in_process import in_process
from tests.guest.trees import git, write


def short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]


def arguments(spec: ToolSpec, **given: Any) -> dict[str, Any]:
    return parse_arguments(spec, json.dumps(given))


def read(top: Path, path: str, start: int | None = None, end: int | None = None) -> ToolResult:
    given = arguments(read_file.SPEC, path=path, start_line=start, end_line=end)
    with in_process(top) as repository:
        return read_file.run(repository, top / ".outputs", given)


def listed(top: Path, path: str = ".", depth: int | None = None, offset: int | None = None, **prepared: Any) -> str:
    with in_process(top, **prepared) as repository:
        return list_dir.run(repository, arguments(list_dir.SPEC, path=path, depth=depth, offset=offset)).text


def test_a_page_is_numbered_and_says_what_it_is(tmp_path: Path) -> None:
    content = "".join(f"line {number}\n" for number in range(1, 121)).encode()
    write(tmp_path, {"src/a.py": content})
    result = read(tmp_path, "src/a.py", 9, 10)
    assert result.text == (
        f"src/a.py: lines 9-10 of 120, sha256 {short(content)}\n"
        " 9\tline 9\n10\tline 10\n[110 more lines; read on with start_line=11]"
    )
    assert result.facts == (
        LinesShown("src/a.py", hashlib.sha256(content).hexdigest(), {9: "line 9", 10: "line 10"}),
    )


def test_encoding_and_peculiarities_stand_in_the_first_line(tmp_path: Path) -> None:
    content = "größe\r\nende".encode("cp1252")
    write(tmp_path, {"a b.txt": content, "empty": b""})
    assert read(tmp_path, "a b.txt").text == (
        f"a b.txt: lines 1-2 of 2, sha256 {short(content)}, encoding cp1252"
        "; not valid UTF-8; the encoding cp1252 is a guess; lines end in CRLF; no newline at the end of the file\n"
        "1\tgröße\n2\tende"
    )
    assert read(tmp_path, "empty").text == f"empty: empty file, 0 lines, sha256 {short(b'')}"


def test_the_rest_of_a_long_line_can_be_reached(tmp_path: Path) -> None:
    write(tmp_path, {"-min.js": "x" * 120_000 + "\nend\n"})
    first = read(tmp_path, "-min.js")
    assert first.text.split("\n")[1] == (
        "1\t" + "x" * 2_000 + " … [118,000 more characters in this line; start_line=1 end_line=1 shows more of it]"
    )
    (fact,) = first.facts
    assert isinstance(fact, LinesShown)
    assert dict(fact.lines) == {2: "end"}
    alone = read(tmp_path, "-min.js", 1, 1).text.split("\n")[1]
    seen = alone.count("x") - 1  # the mark says "next"
    assert alone.endswith(
        f"[{120_000 - seen:,} more characters in this line; run_command `head -n 1 ./-min.js | tail -n 1 | "
        f"cut -b {seen + 1}-{seen + 30_000}` shows the next ones]"
    )
    assert 40_000 < len(alone) < 48 * 1024


PHRASES = {
    "utf-8": "wörld ",
    "utf-8-sig": "wörld ",
    "utf-16": "wörld ",
    "utf-16-le": "wörld ",
    "cp1252": "déjà vu ",
    "gb18030": "中文编码测试",
    "shift_jis": "日本語のテキスト",
    "euc_jp": "日本語のテキスト",
    "koi8_r": "Привет, мир ",
    "iso2022_jp": "日本語のテキスト",
}


@pytest.mark.parametrize("encoding", PHRASES)
def test_the_command_that_is_proposed_goes_on_where_the_page_ended(tmp_path: Path, encoding: str) -> None:
    whole = PHRASES[encoding] * (90_000 // len(PHRASES[encoding]))
    write(tmp_path, {"d/it's": f"{whole}\nend\n".encode(encoding)})
    shown, _, rest = read(tmp_path, "d/it's", 1, 1).text.split("\n")[1].removeprefix("1\t").partition(" … [")
    assert whole.startswith(shown)
    command = rest.partition("`")[2].partition("`")[0]
    done = subprocess.run(["sh", "-c", command], cwd=tmp_path, capture_output=True, check=True)
    following = done.stdout.decode("utf-8", "ignore").rstrip("\n")
    assert len(following) > 9_000
    assert whole[len(shown) :].startswith(following)


def test_the_rest_of_a_long_line_of_an_output_can_be_had_by_the_command_again(tmp_path: Path) -> None:
    write(tmp_path, {".outputs/one.txt": "a\n" + "y" * 60_000 + "\n"})
    line = read(tmp_path, "/outputs/one.txt", 2, 2).text.split("\n")[1]
    seen = line.count("y") - 1  # "by"
    assert line.endswith(
        f"more characters in this line; the command again, followed by `| head -n 2 | tail -n 1 | "
        f"cut -b {seen + 1}-{seen + 30_000}`, shows the next ones]"
    )


@pytest.mark.slow
@pytest.mark.parametrize("content", [b"x" * 100 + b"\n", "é\n".encode(), b"y" * 3_000 + b"\n", b"\n"])
def test_no_page_exceeds_48_kib(tmp_path: Path, content: bytes) -> None:
    write(tmp_path, {"f": content * 60_000})
    assert len(read(tmp_path, "f").text.encode()) <= 48 * 1024


def test_saved_outputs_are_paged_from_the_host(tmp_path: Path) -> None:
    write(tmp_path, {".outputs/call_1.txt": "".join(f"{number}\n" for number in range(5_000)), "x": ""})
    result = read(tmp_path, "/outputs/call_1.txt", 4_000, 4_001)
    assert result.text.split("\n")[1:] == [
        "4000\t3999",
        "4001\t4000",
        "[999 more lines; read on with start_line=4002]",
    ]
    assert result.facts == (TextShown("3999\n4000", True),)
    for path in ("/outputs/call_2.txt", "/outputs/../x", "/outputs/", "/outputs/a/b.txt", "/outputs/..%2fx.txt"):
        with pytest.raises(ToolError) as caught:
            read(tmp_path, path)
        assert caught.value.kind == ErrorKind.FILE_NOT_FOUND
    with pytest.raises(ToolError) as caught:
        read(tmp_path, "/outputs/call_1.txt", 5_001)
    assert caught.value.sentence == "line 5001 is past the end: the output has 5,000 lines"


def test_a_listing_has_one_line_an_entry(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {"src/a": "123", ".gitignore": "*.o\n", "x.o": "", ".env": "k", "b\nc": ""})
    (tmp_path / "link").symlink_to("src/a")
    os.mkfifo(tmp_path / "pipe")
    protect = [[r"^(?:.+/)?\.env(?:/|$)", True]]
    assert listed(tmp_path, depth=2, protect=protect).split("\n") == [
        ".: entries 1-7 of 7; 1 ignored by git not shown",
        "src/",
        "src/a  3",
        ".env  1  (protected)",
        ".gitignore  4",
        '"b\\nc"  0',
        "link -> src/a",
        "pipe  (no file: FIFO, socket or device)",
    ]
    assert listed(tmp_path, "src", offset=5) == "src: no entries from offset 5 on; there are 1"


@pytest.mark.slow
def test_pages_of_a_listing_follow_each_other(tmp_path: Path) -> None:
    for number in range(1_005):
        (tmp_path / f"f{number:04}").touch()
    first = listed(tmp_path).split("\n")
    assert (first[0], first[-1]) == (".: entries 1-1000 of 1005", "[5 more entries; read on with offset=1000]")
    assert listed(tmp_path, offset=1_000).split("\n")[1:] == [f"f{number}  0" for number in range(1_000, 1_005)]


def test_a_listing_that_was_not_counted_to_the_end_says_so() -> None:
    entries = tuple(Entry(f"d/{number}", EntryKind.FILE, 1) for number in range(3))
    shown = list_dir.render(Listing("d", entries, 0, 7, 2, counted=False)).split("\n")
    assert (shown[0], shown[-1]) == (
        "d: entries 1-3 of more than 7; 2 ignored by git not shown",
        "[more entries; read on with offset=3]",
    )


def test_a_quoted_name_from_a_listing_can_be_read(tmp_path: Path) -> None:
    names = [b"caf\xe9", b"x\ny", "e\u0301".encode(), b'"q"', b"a -> b", b" lead", "\u202egpj.exe".encode(), b"a\\b"]
    for name in names:
        Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + name)).write_bytes(name)
    shown = [line.rpartition("  ")[0] for line in listed(tmp_path).split("\n")[1:]]
    assert len(shown) == len(names)
    for shown_name in shown:
        assert shown_name.isascii()
        with in_process(tmp_path) as repository:
            assert repository.fetch(unquoted(shown_name)) == os.fsencode(unquoted(shown_name))


@given(
    st.binary(min_size=1, max_size=12).filter(lambda path: b"\0" not in path) | st.text(min_size=1).map(str.encode)
)
def test_host_and_guest_quote_alike_and_back(path: bytes) -> None:
    if b"\0" in path:
        return
    text = path.decode("utf-8", "surrogateescape")
    assert quoted(text) == quoted_by_the_guest(path)
    assert unquoted(quoted(text)) == text
    assert "\n" not in quoted(text)


class Lying:
    """A guest that answers what it likes."""

    def __init__(self, fields: dict[str, Any], body: bytes) -> None:
        self.answer = fields, body

    def call(
        self, op: str, args: Any, body: bytes = b"", on_body: Callable[[bytes], None] | None = None
    ) -> tuple[dict[str, Any], bytes]:
        return self.answer


PAGE: dict[str, Any] = {
    "path": "a",
    "first": 1,
    "count": 1,
    "omitted": [],
    "total_lines": 1,
    "size": 1,
    "sha256": "0",
    "encoding": "utf-8",
    "notes": [],
}


@pytest.mark.parametrize(
    ("changed", "body"),
    [
        ({"count": 2}, b"x"),
        ({"count": 9_999}, b"\n" * 9_998),
        ({"size": -1}, b"x"),
        ({"size": True}, b"x"),
        ({"total_lines": 1 << 70}, b"x"),
        ({"path": 5}, b"x"),
        ({"notes": "x"}, b"x"),
        ({"omitted": [[1]]}, b"x"),
        ({}, b"\xff"),
        ({}, b"x" * 100_000),
    ],
)
def test_a_guest_that_lies_is_an_error_and_not_believed(changed: dict[str, Any], body: bytes) -> None:
    with pytest.raises(ToolError) as caught:
        files.read_file(Lying({**PAGE, **changed}, body), "a", None, None)
    assert caught.value.kind == ErrorKind.SANDBOX_FAILED


@pytest.mark.parametrize("body", [b"{}", b"[1]", b'[["a","castle",1,null,false]]', b"[" * 90_000, b'[["a"]]', b"x"])
def test_a_listing_that_makes_no_sense_is_an_error(body: bytes) -> None:
    fields = {"path": "", "offset": 0, "total": 1, "ignored": 0, "counted": True, "notes": []}
    with pytest.raises(ToolError) as caught:
        files.list_dir(Lying(fields, body), ".", 1, 0)
    assert caught.value.kind == ErrorKind.SANDBOX_FAILED
