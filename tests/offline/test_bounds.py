"""What is not shown, not read or not to be written as it is: the answer says so, and stays exact."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.conversation import ToolOutput, unanswered
from codeagent.errors import ErrorKind, ToolError
from codeagent.evidence.citations import mentions
from codeagent.providers.offline.transcript import place
from tests.fixtures_expected import USER_SERVICE
from tests.offline.machine import Machine, repository
from tests.offline.small_repositories import NO_MODEL, PYTHON

ODD = (b"my file.py", b'a b/it\'s, "so".py', b"app/[id]/a.py", b"a+b.py", b"\xe7\x94\xa8\xe6\x88\xb7 1.py")
UNWRITTEN = (
    b"a\x1b[31mb.py",
    b"new\nline.py",
    b"caf\xe9.py",
    b"back`tick.py",
    b"back\\slash.py",
    b"c:1:d.py",
    b"a=b.py",
)


@pytest.mark.parametrize("without_rg", [False, True])
@pytest.mark.parametrize("question", ["why does Alpha return None", "where is Alpha"])
def test_a_name_of_a_file_is_written_so_that_it_is_read_whole_or_left_out(
    tmp_path: Path, without_rg: bool, question: str
) -> None:
    code = "class Alpha:\n    def get(self):\n        return None\n"
    root = repository(tmp_path, {os.fsdecode(name): code for name in ODD + UNWRITTEN})
    found = Machine(root, without_rg).ask(question)
    assert sorted(mention.paths[0] for mention in mentions(found.answer)) == sorted(name.decode() for name in ODD)
    assert "".join(found.answer.split("\n")).isprintable()
    (line,) = (line for line in found.answer.splitlines() if "cannot be written exactly: " in line)
    assert line.count("`, ") + int(line.rpartition("+")[2].rstrip(").")) == len(UNWRITTEN)


def test_what_is_only_in_files_that_are_left_out_is_not_called_missing(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, {"back`tick.py": "class Alpha:\n    pass\n"})).ask("where is Alpha")
    assert found.answer == (
        "Nothing found: no `Alpha` is defined in this repository, nor mentioned, as far as it was searched.\n\n"
        "What limited this:\n- Left out, as names or lines cannot be written exactly: `` back`tick.py ``.\n\n"
        f"{NO_MODEL}\n"
    )


def test_a_place_or_a_control_character_in_a_quoted_line_is_none_of_the_answer(tmp_path: Path) -> None:
    files = {"a.md": "Alpha \x1b[1m is in nowhere.py:30\n", "long.md": "Alpha " + "x " * 300 + "\n"}
    found = Machine(repository(tmp_path, files)).ask("where is Alpha")
    assert "\n- a.md:1: `Alpha …[1m is in nowhere.py:…`\n\n" in found.answer
    assert "\n- Left out, as names or lines cannot be written exactly: `long.md`.\n" in found.answer
    assert [mention.paths[0] for mention in mentions(found.answer)] == ["a.md"]


@pytest.mark.parametrize("count", [10, 25])
def test_all_candidates_are_listed_or_counted(tmp_path: Path, count: int) -> None:
    code = "class Alpha:\n    def get(self, x):\n        if x:\n            return None\n        return 1\n"
    found = Machine(repository(tmp_path, {f"a{at:02}.py": code for at in range(count)})).ask(
        "why does Alpha return None"
    )
    assert found.citations[::2] == [f"a{at:02}.py:4" for at in range(min(count, 20))]
    assert "\n9. a08.py:4 in `Alpha.get`: `return None`\n   - when" in found.answer
    assert "\n10. a09.py:4 in `Alpha.get`: `return None`\n    - when" in found.answer
    unread = (
        "- Files that matched and were not read to their end: `a20.py`, `a21.py`, `a22.py`, `a23.py`, `a24.py`.\n"
    )
    assert (unread in found.answer) == ("What limited this" in found.answer) == (count > 20)


def test_places_and_notes_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    ways = "    if x:\n        return None\n"
    code = f"def many(x):\n{ways * 24}    return 1\n\n\ndef few(x):\n{ways * 11}    return None\n"
    machine = Machine(repository(tmp_path, {"a.py": code}))
    assert "\n    - when `x` (a.py:40)\n\n… (+4)\n\n" in machine.ask("why does many return None").answer
    assert f"\n    - … (+3)\n\n{NO_MODEL}" in machine.ask("why does few return None").answer


def test_functions_that_are_too_far_down_are_named(tmp_path: Path) -> None:
    code = (
        "".join(f"def f{at}(x):\n    return f{at + 1}(x)\n\n\n" for at in range(9)) + "def f9(x):\n    return None\n"
    )
    machine = Machine(repository(tmp_path, {"a.py": code}))
    assert "- Functions further down, not looked at: `f6`.\n" in machine.ask("why does f0() return None").answer
    assert "- Functions further down, not looked at: `f4`.\n" in machine.ask("why does f0() raise KeyError").answer


@given(
    st.text(st.sampled_from("ab7_.-/ ()[]'\"`\\:,;#=é用\n\x1b\ufffd"), min_size=1, max_size=12),
    st.sampled_from(["", ".py"]),
)
def test_a_place_is_read_whole_or_not_written(name: str, suffix: str) -> None:
    path = os.path.normpath(name.strip("/") + suffix)
    if written := place(path, "3-4"):
        for text in (f"1. {written} in `f`: `return x`", f"- when `x` ({written})", f"   - `a` → `b` ({written})"):
            (mention,) = mentions(text)
            assert (mention.paths[0], mention.start_line, mention.end_line) == (path, 3, 4)


def test_a_quoted_line_is_exact_for_whoever_checks_it(tmp_path: Path) -> None:
    lines = ["def find(x):  # see `other`", "    return None  # as ``find`` and `a`", "``find``"]
    found = Machine(repository(tmp_path, {"a.py": "\n".join([*lines[:2], ""]), "b.md": lines[2] + "\n"})).ask(
        "where is `find`"
    )
    quotes = {mention.start_line: mention.quote for mention in mentions(found.answer) if mention.paths[0] == "a.py"}
    assert quotes[1] == " ".join(lines[0].split())
    assert quotes[2].strip("` ")
    assert quotes[2].strip("` ") in " ".join(lines[1].split())
    assert "- a.py:1: `` def find(x): # see `other` ``\n" in found.answer
    assert "- b.md:1: ``` ``find`` ```\n" in found.answer


def test_a_place_far_down_a_long_file_is_read_where_it_is(tmp_path: Path) -> None:
    filler = "".join(f"def filler_{number}():\n    return {number}\n\n\n" for number in range(1_000))
    code = "def deep(x):\n    if x:\n        return helper(x)\n    return None\n\n\ndef helper(x):\n    return None\n"
    found = Machine(repository(tmp_path, {"long.py": filler + code})).ask("why does deep() return None")
    assert found.cites("long.py", 4_004)
    assert found.cites("long.py", 4_008)
    starts = [json.loads(call.arguments)["start_line"] for call in found.calls if call.name == "read_file"]
    assert starts == [None, 2001, 3501]


@pytest.mark.slow
def test_a_long_file_is_read_to_its_end(tmp_path: Path) -> None:
    filler = "".join(f"    int filler{number}() {{\n        return {number};\n    }}\n" for number in range(2_000))
    code = f"class Long extends Base {{\n    Item get() {{\n        return null;\n    }}\n{filler}}}\n"
    base = "class Base {\n    Item get() {\n        return null;\n    }\n}\n"
    found = Machine(repository(tmp_path, {"Long.java": code, "Base.java": base})).ask("why does Long.get return null")
    assert found.citations == ["Long.java:3"]
    reads = [json.loads(call.arguments) for call in found.calls if call.name == "read_file"]
    assert [read["start_line"] for read in reads if read["path"] == "Long.java"] == [
        None,
        2001,
        3501,
        5001,
    ]  # a class that is cut may be no class


def test_a_file_that_is_too_long_is_named(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, {"a.py": "def find(x):\n    return None\n" + "x = 1\n" * 200}))
    read_file = machine.read_file

    def short(arguments: Mapping[str, int | str | None]) -> str:
        last = int(arguments["start_line"] or 1) + 19
        return read_file({**arguments, "end_line": min(last, int(arguments["end_line"] or last))})

    machine.read_file = short  # type: ignore[method-assign]
    found = machine.ask("why does find() return None")
    assert "\n- Files that matched and were not read to their end: `a.py`.\n" in found.answer


def test_more_results_than_a_call_returns_are_read_from_where_they_are_kept(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, {"a.py": "def find(x):\n    return None\n"}))
    (tmp_path / "outputs").mkdir()
    run_command, read_file = machine.run_command, machine.read_file

    def cut(arguments: Mapping[str, str]) -> str:
        (tmp_path / "outputs/1.txt").write_text(run_command(arguments).partition("\n")[2])
        return "[exit code 0; 0.01 s]\n[… 70,000 bytes left out; the whole output: read_file /outputs/1.txt …]\n"

    machine.run_command = cut  # type: ignore[method-assign]
    machine.read_file = lambda arguments: read_file({**arguments, "path": str(arguments["path"]).lstrip("/")})  # type: ignore[method-assign]
    found = machine.ask("why does find() return None")
    assert found.cites("a.py", 2)
    assert "A search had more results" not in found.answer


def test_denied_commands_are_named_in_the_answer(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, PYTHON), denied=("rg ",)).ask("where is power_for")
    assert "Some calls failed, and their part is missing" in found.answer
    assert found.rounds <= 2


def test_when_calls_are_no_longer_allowed_it_says_what_it_has() -> None:
    found = Machine(USER_SERVICE.root).ask(USER_SERVICE.question, tool_choice_at=3)
    assert found.rounds == 3
    assert found.cites("src/main/java/com/acme/users/service/UserService.java", 19)
    assert "The search ended at its limit after 3 rounds" in found.answer


def test_a_call_that_did_not_come_to_its_end_is_made_again() -> None:
    machine = Machine(USER_SERVICE.root)
    whole = machine.ask(USER_SERVICE.question)
    kinds = (ErrorKind.INTERRUPTED, ErrorKind.CANCELLED, ErrorKind.SANDBOX_FAILED)
    places = [at for at, item in enumerate(whole.items) if isinstance(item, ToolOutput)]
    assert len(places) > len(kinds)
    for count, at in enumerate(places):
        item, kind = whole.items[at], kinds[count % len(kinds)]
        assert isinstance(item, ToolOutput)
        cut = [*whole.items[:at], ToolOutput(item.call_id, ToolError(kind, "it was ended").text(), kind)]
        cut += whole.items[at + 1 : at + 1 + len(unanswered(cut))]
        again = machine.go_on(cut)
        assert again.answer == whole.answer
        assert again.calls[0].name == next(one.name for one in whole.calls if one.call_id == item.call_id)


def test_recursion_and_circles_come_to_an_end(tmp_path: Path) -> None:
    code = "def one(x):\n    return two(x)\n\n\ndef two(x):\n    return one(x) if x else two(None)\n"
    found = Machine(repository(tmp_path, {"a.py": code})).ask("why does one() return None")
    assert found.rounds <= 6
    assert "Nothing found" in found.answer


def test_a_search_that_failed_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "nonesuch", without_rg=True)
    machine.list_dir = lambda _: ""  # type: ignore[method-assign, assignment]
    machine.run_command = lambda _: "[exit code 127; 0 s; cwd /workspace]\nsh: not found"  # type: ignore[method-assign, assignment]
    found = machine.ask("where is power_for")
    assert "Some calls failed, and their part is missing: `grep -rnE …: exit code 127`." in found.answer
    assert found.rounds <= 4
