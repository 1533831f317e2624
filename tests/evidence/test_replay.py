"""A resumed session knows what was shown before, from the texts of its log."""

from __future__ import annotations

import json
from pathlib import Path

from codeagent.conversation import Item, ToolCall, ToolOutput
from codeagent.evidence.claims import subject
from codeagent.evidence.lines import lines_of, sha256
from codeagent.evidence.replay import arguments_of, numbered, unquoted
from codeagent.sandbox.seam import FileLine, FilePage
from codeagent.tools.paths import quoted
from codeagent.tools.read_file import render
from tests.evidence.repo import CODE, Session, write


def read(path: str, content: bytes, call_id: str, last: int) -> list[Item]:
    lines = tuple(FileLine(number, text) for number, text in enumerate(lines_of(content)[:last], 1))
    page = FilePage(path, lines, len(lines_of(content)), len(content), sha256(content))
    return [ToolCall(call_id, "read_file", json.dumps({"path": path})), ToolOutput(call_id, render(page))]


def test_citations_of_an_earlier_process_are_checked(tmp_path: Path) -> None:
    write(tmp_path, "src/a.py", CODE)
    write(tmp_path, "b c.py", CODE)
    items = read("src/a.py", CODE.encode(), "one", 5) + read("b c.py", CODE.encode(), "two", 3)
    items += [
        ToolCall("three", "run_command", json.dumps({"command": "grep -n second src/a.py"})),
        ToolOutput("three", "[exit code 0; 0.01 s; cwd /workspace]\n10:def second(x):\n"),
        ToolCall("four", "read_file", json.dumps({"path": "src/a.py"})),
        ToolOutput("four", "error: denied: no", None),
    ]
    with Session(tmp_path, watch=False) as session:
        session.evidence.replay(items, {})
        assert session.states("src/a.py:5 src/a.py:6 src/a.py:10 `b c.py:2`") == [
            ("src/a.py", 5, 5, "read", ("one",)),
            ("src/a.py", 6, 6, "unread", ()),
            ("src/a.py", 10, 10, "read", ("three",)),
            ("b c.py", 2, 2, "read", ("two",)),
        ]
        write(tmp_path, "src/a.py", CODE + "#\n")
        assert session.state("src/a.py:5") == "stale"


def test_names_in_quotes_are_read_back() -> None:
    for name in ("a.py", "a\nb.py", 'a"b', "café.py", "a\\b", "caf\udce9", " a"):
        assert unquoted(quoted(name)) == name


def test_lines_that_were_cut_are_left_out() -> None:
    page = FilePage("a", (FileLine(9, "short"), FileLine(10, "long", 500)), 10, 1, "0" * 64)
    assert numbered(render(page)) == [(9, "short")]


def test_arguments_that_no_parser_can_follow_say_nothing() -> None:
    deep = '{"path":' + "[" * 100_000
    assert (arguments_of(deep), subject(deep)) == ({}, "")


def test_what_a_command_showed_is_known_with_its_content_by_the_next_process(tmp_path: Path) -> None:
    write(tmp_path, "a.py", CODE)
    with Session(tmp_path, watch=False) as first:
        call = first.run("cat a.py")
        shown = json.loads(json.dumps(first.evidence.take_shown()))
        assert shown == {call: {"a.py": {"sha256": sha256(CODE.encode()), "lines": "1-13"}}}
        assert first.evidence.take_shown() == {}
        (known,) = first.evidence.check("a.py:6")
    items: list[Item] = [
        ToolCall(call, "run_command", json.dumps({"command": "cat a.py"})),
        ToolOutput(call, f"[exit code 0; 0.01 s; cwd /workspace]\n{CODE}"),
    ]
    with Session(tmp_path, watch=False) as second:
        second.evidence.replay(items, shown)
        assert second.evidence.notes() == []
        assert second.evidence.check("a.py:6") == [known]
    write(tmp_path, "a.py", "# new\n" + CODE)
    with Session(tmp_path, watch=False) as third:
        third.evidence.replay(items, shown)
        (citation,) = third.evidence.check("a.py:6")
        assert (citation.state, citation.call_ids, citation.sha256) == ("stale", (call,), "")


def test_a_file_that_was_edited_between_two_processes_is_reported_by_the_second(tmp_path: Path) -> None:
    for name in ("a.py", "same.py", "back.py", "gone.py"):
        write(tmp_path, name, CODE)
    items: list[Item] = [
        item
        for number, name in enumerate(("a.py", "same.py", "gone.py"))
        for item in read(name, CODE.encode(), f"c{number}", 14)
    ]
    # What was read twice, with another content in between, is again what it was at first.
    items += read("back.py", CODE.encode(), "d1", 14) + read("back.py", b"other\n", "d2", 1)
    write(tmp_path, "a.py", "# new\n" + CODE)
    (tmp_path / "gone.py").unlink()
    with Session(tmp_path, watch=False) as session:
        session.evidence.replay(items, {})
        (said,) = session.evidence.notes()
        assert said.splitlines()[1:] == [
            "- a.py: lines that differ now: any; what you were shown of it no longer holds.",
            "- gone.py: no longer exists or cannot be read; what you were shown of it no longer holds.",
        ]
        assert session.evidence.notes() == []
