"""A stored answer against the repository as it is now."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from codeagent.cli.main import run
from codeagent.events import SessionStarted, ToolCalled, ToolFinished, TurnEnded, TurnStarted
from codeagent.evidence.host import HostTree
from codeagent.evidence.landmark import Landmark, as_json, landmark
from codeagent.evidence.lines import lines_of, sha256, text_sha256
from codeagent.evidence.recheck import Cited, Rechecked, last_answer, recheck
from codeagent.sandbox.seam import FileLine, FilePage
from codeagent.session.store import Session
from codeagent.tools.read_file import render
from tests.clocks import processor_time_below
from tests.evidence.repo import CODE, write
from tests.evidence.repo import Session as Observed

CITED = [
    {"path": "a.py", "start_line": 4, "end_line": 5, "state": "read", "call_ids": ["one"]},
    {"path": "a.py", "start_line": 10, "end_line": 10, "state": "read", "call_ids": ["two"]},
    {"path": "a.py", "start_line": 13, "end_line": 13, "state": "unread", "call_ids": []},
]


RETURNED = [text_sha256(lines_of(CODE.encode())[start - 1 : end]) for start, end in ((4, 5), (10, 10))] + [""]


def place(start: int, end: int) -> dict[str, Any]:
    return {"path": "a.py", "start_line": start, "end_line": end, "state": "read"}


def page(content: bytes) -> str:
    lines = tuple(FileLine(number, text) for number, text in enumerate(lines_of(content)[:8], 1))
    return render(FilePage("a.py", lines, len(lines_of(content)), len(content), sha256(content)))


def events(
    repo: Path, cited: Sequence[Any], answer: str | None = "because", misquoted: Sequence[str] = ()
) -> list[Any]:
    return [
        SessionStarted(str(repo), "m", "p", "i", "1"),
        TurnStarted("why?"),
        ToolCalled("one", "read_file", json.dumps({"path": "a.py"})),
        ToolFinished("one", "ok", None, page(CODE.encode()), 1),
        ToolCalled("two", "run_command", json.dumps({"command": "grep -n second a.py"})),
        ToolFinished("two", "ok", None, "[exit code 0; 0.01 s; cwd /workspace]\n10:def second(x):\n", 1),
        TurnEnded(
            *("answered", answer, None, list(cited), {"status": "not_requested"}, 1, {}, 0),
            cited_sha256=[RETURNED[CITED.index(one)] if one in CITED else "" for one in cited],
            misquoted=list(misquoted),
        ),
    ]


def records(repo: Path, cited: Sequence[Any], misquoted: Sequence[str] = ()) -> list[dict[str, Any]]:
    from codeagent.events import body

    return [{"type": event.type, **body(event)} for event in events(repo, cited, misquoted=misquoted)]


def checked(repo: Path, text: str) -> list[tuple[str, int]]:
    write(repo, "a.py", text)
    answer = last_answer(records(repo, CITED))
    assert answer is not None
    with HostTree(repo) as tree:
        return [(one.now, one.line) for one in recheck(answer, tree)]


def test_lines_that_are_as_they_were_hold(tmp_path: Path) -> None:
    assert checked(tmp_path, CODE) == [("same", 4), ("same", 10), ("unproven", 0)]


def test_a_change_elsewhere_in_the_file_does_not_matter(tmp_path: Path) -> None:
    assert checked(tmp_path, CODE + "# end\n") == [("same", 4), ("same", 10), ("unproven", 0)]


def test_lines_that_moved_are_found_again_and_do_not_hold(tmp_path: Path) -> None:
    assert checked(tmp_path, "# new\n" + CODE)[0] == ("moved", 5)


def test_a_place_that_is_quoted_wrongly_does_not_hold_although_its_lines_are_there(tmp_path: Path) -> None:
    write(tmp_path, "a.py", CODE)
    answer = last_answer(records(tmp_path, CITED[:2], misquoted=["a.py:4-5"]))
    assert answer is not None
    with HostTree(tmp_path) as tree:
        assert [(one.now, one.holds) for one in recheck(answer, tree)] == [("misquoted", False), ("same", True)]


def test_changed_lines_do_not_hold(tmp_path: Path) -> None:
    assert checked(tmp_path, CODE.replace("first", "other").replace("second", "other")) == [
        ("changed", 0),
        ("changed", 0),
        ("unproven", 0),
    ]


def test_a_deleted_file_is_missing(tmp_path: Path) -> None:
    answer = last_answer(records(tmp_path, CITED[:1]))
    assert answer is not None
    with HostTree(tmp_path) as tree:
        assert recheck(answer, tree) == [Rechecked("a.py", 4, 5, "read", "missing", ())]


def test_a_citation_never_leads_out_of_the_repository(tmp_path: Path) -> None:
    write(tmp_path, "secret.txt", "x\n")
    repo = tmp_path / "repo"
    repo.mkdir()
    cited = [
        {"path": path, "start_line": 1, "end_line": 1, "state": "read", "call_ids": []} for path in ("../secret.txt",)
    ]
    answer = last_answer(records(repo, cited))
    assert answer is not None
    with HostTree(repo) as tree:
        assert [one.now for one in recheck(answer, tree)] == ["missing"]


def test_the_last_answer_counts_and_later_turns_without_one_do_not(tmp_path: Path) -> None:
    both = [*records(tmp_path, CITED[:1]), *records(tmp_path, CITED[1:2])]
    both.append({**both[-1], "answer": None, "citations": CITED})
    answer = last_answer(both)
    assert answer is not None
    assert answer.citations == (Cited("a.py", 10, 10, "read", RETURNED[1], Landmark(0, 0, RETURNED[1])),)
    assert last_answer([]) is None


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with a stored session about it."""
    monkeypatch.setenv("CODEAGENT_HOME", str(tmp_path / "home"))
    from codeagent import paths

    repo = tmp_path / "repo"
    write(repo, "a.py", CODE)
    with Session.create(paths.state_dir()) as session:
        session.journal.turn = 1
        for event in events(repo.resolve(), CITED[:2]):
            session.emit(event)
    monkeypatch.chdir(repo)
    return repo


def test_the_command_exits_0_when_all_hold(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["recheck"]) == 0
    out, err = capsys.readouterr()
    assert out == "a.py:4-5  holds\na.py:10  holds\n"
    assert err == "2 of 2 citations hold\n"


def test_without_an_id_the_latest_session_with_an_answer_is_meant(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from codeagent import paths

    with Session.create(paths.state_dir()) as session:
        session.journal.turn = 1
        for event in events(stored.resolve(), [], answer=None):
            session.emit(event)
    assert run(["recheck"]) == 0
    assert capsys.readouterr().err == "2 of 2 citations hold\n"
    assert run(["recheck", session.id]) == 2
    assert f"The session {session.id} has no answer." in capsys.readouterr().err


def test_the_command_exits_5_when_some_do_not(stored: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write(stored, "a.py", CODE.replace("first", "other"))
    assert run(["recheck", "--json"]) == 5
    out, err = capsys.readouterr()
    given = json.loads(out)
    assert len(given.pop("session_id")) > 4
    assert given == {
        "repo": str(stored.resolve()),
        "held": 1,
        "total": 2,
        "citations": [
            {
                "path": "a.py",
                "start_line": 4,
                "end_line": 5,
                "state": "read",
                "now": "changed",
                "line": 0,
                "places": [],
                "holds": False,
            },
            {
                "path": "a.py",
                "start_line": 10,
                "end_line": 10,
                "state": "read",
                "now": "same",
                "line": 10,
                "places": [10],
                "holds": True,
            },
        ],
    }
    assert err == ""


def test_the_command_says_where_lines_stand_of_which_none_can_be_told_to_be_the_one(
    stored: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(stored, "a.py", "# new\n" + CODE * 5)
    assert run(["recheck"]) == 5
    said = "the same text stands at lines {}; whether that is what was cited cannot be told"
    assert capsys.readouterr().out.splitlines() == [
        f"a.py:4-5  {said.format('5, 18, 31 and 2 more')}",
        f"a.py:10  {said.format('11, 24, 37 and 2 more')}",
    ]
    write(stored, "a.py", "# new\n" + CODE * 2)
    assert run(["recheck"]) == 5
    assert f"a.py:10  {said.format('11, 24')}\n" in capsys.readouterr().out


def test_another_checkout_can_be_looked_at(stored: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "clone").mkdir()
    assert run(["recheck", "--repo", str(tmp_path / "clone")]) == 5
    capsys.readouterr()
    assert run(["recheck", "--repo", str(tmp_path / "nonesuch")]) == 2
    assert f"There is no directory {tmp_path / 'nonesuch'}.\n" in capsys.readouterr().err
    assert run(["recheck", "--repo", str(stored / "a.py")]) == 2
    assert f"{stored / 'a.py'} is not a directory.\n" in capsys.readouterr().err


def test_a_repository_that_moved_is_named_and_looked_at_where_it_is(
    stored: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (session,) = (path.name for path in (tmp_path / "home/sessions").iterdir())
    moved = stored.rename(tmp_path / "moved")
    monkeypatch.chdir(tmp_path)
    assert run(["recheck", session]) == 2
    assert "Name a checkout of the repository with --repo PATH." in capsys.readouterr().err
    assert run(["recheck", session, "--repo", "moved"]) == 0
    (moved / "a.py").unlink()
    assert run(["recheck", session, "--repo", "moved"]) == 5
    assert "a.py:10  the file is not there\n" in capsys.readouterr().out


def later(repo: Path, cited: str, command: str, text: str) -> tuple[str, int, tuple[int, ...]]:
    """What a recheck says of a place that was cited after the command had run, once the file holds `text`."""
    from codeagent.events import body

    write(repo, "a.py", CODE)
    with Observed(repo) as session:
        session.run(command)
        citations = session.evidence.check(f"It gives nothing back (a.py:{cited}).")
    assert [citation.state for citation in citations] == ["read"]
    places: list[Mapping[str, Any]] = [one.published() for one in citations]
    ended = TurnEnded(
        *("answered", "because", None, places, {"status": "not_requested"}, 1, {}, 0),
        cited_sha256=[one.sha256 for one in citations],
        cited_within=[as_json(one.within) for one in citations],
    )
    answer = last_answer([json.loads(json.dumps({"type": "turn_ended", **body(ended)}))])
    assert answer is not None
    write(repo, "a.py", text)
    with HostTree(repo) as tree:
        (one,) = recheck(answer, tree)
    return one.now, one.line, one.places


@pytest.mark.parametrize("command", ["cat a.py", "sed -n 3,14p a.py", "tail -n +3 a.py"])
@pytest.mark.parametrize(
    ("text", "now", "line"),
    [
        (CODE, "same", 6),
        ("# new\n" + CODE, "moved", 7),
        (CODE.replace("import os\n", ""), "moved", 5),
        (CODE.replace("return None\n    return x", "return 0\n    return x"), "changed", 0),
        ("".join(reversed(CODE.splitlines(keepends=True))), "changed", 0),
    ],
)
def test_lines_that_were_printed_without_their_numbers_do_not_hold_where_others_stand_now(
    tmp_path: Path, command: str, text: str, now: str, line: int
) -> None:
    assert later(tmp_path, "6-7", command, text) == (now, line, (line,) if line else ())


@pytest.mark.parametrize(
    ("cited", "text", "now", "places"),
    [
        # `return None` stands at 6 and 12; the line after it tells them apart.
        ("6", "# new\n" + CODE, "moved", (7,)),
        ("12", "# new\n" + CODE, "moved", (13,)),
        ("12", CODE.replace("import os\n\n\n", ""), "moved", (9,)),
        ("6", CODE.replace("first", "other") + "\n\n" + CODE, "same", (6,)),
        ("6", "# new\n" + CODE.replace("return x", "return 0"), "ambiguous", (7, 13)),
        ("6", "# new\n" + CODE + CODE, "ambiguous", (7, 13, 20, 26)),
        # What is left is the other one, or nobody can tell.
        ("6", CODE.replace("return None\n    return x", "return 0\n    return x"), "ambiguous", (12,)),
        # It stood once, and was copied since.
        ("10", "# new\n" + CODE + CODE, "ambiguous", (11, 24)),
        ("6", CODE.replace("return None", "return 0"), "changed", ()),
    ],
)
def test_of_lines_that_stand_several_times_the_one_that_is_meant_is_found_by_what_stands_around_it(
    tmp_path: Path, cited: str, text: str, now: str, places: tuple[int, ...]
) -> None:
    line = places[0] if now != "ambiguous" and places else 0
    assert later(tmp_path, cited, "cat -n a.py", text) == (now, line, places)


def test_lines_that_are_alike_with_all_around_them_cannot_be_told_apart(tmp_path: Path) -> None:
    block = "".join(f"line {number}\n" for number in range(50))
    lines = (block * 2).splitlines()
    assert (landmark(lines, 25, 25), landmark(lines, 48, 52)) == (None, (0, 0, text_sha256(lines[47:52])))


def test_a_file_of_nothing_but_one_line_takes_no_time() -> None:
    with processor_time_below(1):
        assert landmark(["}"] * 300_000, 150_000, 150_000) is None


def test_a_session_without_a_record_of_what_stood_around_says_moved_of_what_stands_once(tmp_path: Path) -> None:
    cited = [place(6, 6), place(13, 13)]
    record = records(tmp_path, cited)[-1]
    record["cited_sha256"] = [text_sha256(CODE.splitlines()[number - 1 : number]) for number in (6, 13)]
    del record["cited_within"]
    answer = last_answer([record])
    assert answer is not None
    write(tmp_path, "a.py", "# new\n" + CODE)
    with HostTree(tmp_path) as tree:
        assert [(one.now, one.places) for one in recheck(answer, tree)] == [("ambiguous", (7, 13)), ("moved", (14,))]
