"""The state of a citation is what the record says, no more."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.errors import ErrorKind
from codeagent.evidence.findings import Findings
from codeagent.tools.result import ToolResult
from tests.evidence.repo import CODE, Session, write


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write(tmp_path, "src/a.py", CODE)
    write(tmp_path, "src/b.py", CODE)
    with Session(tmp_path, watch=False) as opened:
        yield opened


def test_lines_that_read_file_returned_are_read(session: Session) -> None:
    call = session.read("src/a.py", 4, 8)
    assert session.states("src/a.py:4-7, src/a.py:9, src/b.py:4, src/a.py:7-9, src/c.py:1, src/a.py:99") == [
        ("src/a.py", 4, 7, "read", (call,)),
        ("src/a.py", 9, 9, "unread", ()),
        ("src/b.py", 4, 4, "unread", ()),
        ("src/a.py", 7, 9, "unread", ()),
        ("src/c.py", 1, 1, "missing", ()),
        ("src/a.py", 99, 99, "missing", ()),
    ]


def test_a_range_may_be_read_by_several_calls(session: Session) -> None:
    first, second = session.read("src/a.py", 1, 4), session.read("src/a.py", 5, 7)
    assert session.states("src/a.py:3-6") == [("src/a.py", 3, 6, "read", (first, second))]


@pytest.mark.parametrize(
    "command",
    [
        "grep -n 'x is None' src/a.py",
        "grep -rn 'x is None' .",
        "grep -n -C1 'x is None' src/a.py",
        "cd src && grep -n 'x is None' a.py",
        "nl -ba src/a.py",
        "cat -n src/a.py",
        "cat src/a.py",
        "sed -n '4,6p' src/a.py",
        "head -6 src/a.py",
        "cat src/*.py",
        "awk '{print NR\": \"$0}' src/a.py",
        "git show HEAD:src/a.py",
        "git blame src/a.py",
        "git show HEAD -- src/a.py",
    ],
)
def test_a_line_counts_as_read_whatever_command_returned_it(session: Session, command: str) -> None:
    root = session.folders.repo
    for git in (["init", "-q"], ["add", "."], ["commit", "-q", "-m", "x"]):
        identity = ["-c", "user.name=Ann (A) Other", "-c", "user.email=a@b"]
        subprocess.run(["git", *identity, *git], cwd=root, check=True, env={**os.environ, "HOME": str(root)})
    call = session.run(command)
    assert session.states("src/a.py:5") == [("src/a.py", 5, 5, "read", (call,))]


RG = "src/a.py:5:    if x is None:\nsrc/a.py-6-        return None\n"


def test_output_of_rg_counts_by_its_numbers(session: Session) -> None:
    session.run("rg -n -A1 'if x' src", RG)
    assert [session.state(f"src/a.py:{line}") for line in (5, 6, 11, 12)] == ["read", "read", "unread", "unread"]
    assert session.state("src/b.py:5") == "unread"


def test_a_line_that_stands_twice_is_not_read_by_its_text_alone(session: Session) -> None:
    session.run("grep -h 'return None' src/a.py", "        return None\n")
    assert [session.state(f"src/a.py:{line}") for line in (6, 12)] == ["unread", "unread"]


def test_numbers_that_do_not_fit_the_text_show_nothing(session: Session) -> None:
    session.run("cat -n src/a.py", "     7\t    if x is None:\n")
    session.run("echo", "src/a.py:7:    if x is None:\n")
    assert [session.state(f"src/a.py:{line}") for line in (5, 7)] == ["unread", "unread"]


def test_a_cut_region_is_never_read(session: Session) -> None:
    lines = CODE.splitlines()
    shown = "\n".join([*lines[:5], "[… 40 bytes left out …]", *lines[9:]])
    session.run("cat src/a.py", shown, cut=True)
    assert session.state("src/a.py:4-5") == "read"
    assert session.state("src/a.py:5-10") == "unread"
    assert session.state("src/a.py:7") == "unread"


def test_a_line_of_which_a_part_was_shown_is_not_read(session: Session) -> None:
    session.run("cut -c1-20 src/a.py", "\n".join(line[:20] for line in CODE.splitlines()))
    assert session.state("src/a.py:13") == "unread"


def test_a_short_name_is_resolved_when_one_file_was_seen_by_it(session: Session) -> None:
    call = session.read("src/a.py")
    assert session.states("`a.py:4`") == [("src/a.py", 4, 4, "read", (call,))]


def test_a_quoted_text_that_stands_elsewhere_is_moved_there(session: Session) -> None:
    call = session.read("src/a.py")
    assert session.states('`src/a.py:4`: `return os.path.join(x, "second")`') == [
        ("src/a.py", 13, 13, "moved", (call,))
    ]
    assert session.state("`src/a.py:4`: `def first(x):`") == "read"
    assert session.state("`src/a.py:4`: `return None`") == "read"  # it stands at two places, and may be no quote
    assert session.state("`src/a.py:99`: `def second(x):`") == "moved"


@pytest.mark.parametrize(
    ("answer", "misquoted"),
    [
        ("`src/a.py:4`: `def first(x, surely):` is right.", ["src/a.py:4"]),
        ("src/a.py:5-6: `if x is None: return 0`", ["src/a.py:5-6"]),
        ("src/a.py:5-6: `if x is None: return None`", []),
        ("src/a.py:13: `return os.path.join(…)`", []),
        ("src/a.py:13: `return os.path.join(...`", []),
        ('src/a.py:13 `return … "second")`', []),
        ("src/a.py:5 — `ValueError` is never raised", []),
        ("`src/a.py:4` `first()` returns it, and `src/a.py:4` (`pkg.first(None)`) too", []),
        ("src/a.py:4 `other name.py:2`", []),
        ("src/a.py:5 should be `if not x:`", []),
    ],
)
def test_a_place_that_is_quoted_with_a_text_found_nowhere_is_named(
    session: Session, answer: str, misquoted: list[str]
) -> None:
    session.read("src/a.py")
    assert session.states(answer)[0][3] == "read"
    assert session.evidence.misquoted == misquoted


def test_a_quote_of_what_the_agent_has_replaced_since_is_one(session: Session, tmp_path: Path) -> None:
    session.read("src/a.py")
    copy = copied(session, tmp_path)
    write(copy, "src/a.py", CODE.replace("    return x\n", "    return x.strip()\n"))
    session.folders.changed = ("src/a.py",)
    assert session.state("src/a.py:4: `def first(x):`") == "read"
    assert session.evidence.misquoted == []
    assert session.state("src/a.py:4: `def first(x, y):`") == "read"
    assert session.evidence.misquoted == ["src/a.py:4"]


def test_a_turn_without_an_answer_cites_nothing_of_the_one_before(session: Session) -> None:
    session.read("src/a.py")
    before = session.evidence.findings("src/a.py:4: `def first(x, y):`. All tests pass.", answered=True)
    assert [(one.path, one.state) for one in before.citations] == [("src/a.py", "read")]
    assert (before.misquoted, before.unsupported) == (["src/a.py:4"], ["All tests pass."])
    assert session.evidence.findings("So far: src/a.py:4", answered=False) == Findings([], [], [], [], {})


def test_a_file_too_large_to_be_compared_that_the_agent_has_changed_is_its_own(
    session: Session, tmp_path: Path
) -> None:
    copy = copied(session, tmp_path)
    write(copy, "big.txt", "made up\n")
    session.read("big.txt")
    session.folders.errors = {"big.txt": ErrorKind.TOO_LARGE}
    assert session.state("big.txt:1") == "read"
    session.folders.changed = ("big.txt",)
    assert [session.state(f"big.txt:{line}") for line in (1, 2)] == ["own_change", "own_change"]


def test_an_edit_on_the_host_makes_what_was_read_stale(session: Session) -> None:
    call = session.read("src/a.py")
    grepped = session.run("grep -n os src/a.py")
    write(session.folders.repo, "src/a.py", CODE.replace("first", "other"))
    assert session.states("src/a.py:4 src/a.py:1") == [
        ("src/a.py", 4, 4, "stale", (call,)),
        ("src/a.py", 1, 1, "stale", (call, grepped)),
    ]
    again = session.read("src/a.py", 4, 4)
    assert session.states("src/a.py:4") == [("src/a.py", 4, 4, "read", (again,))]


def test_what_only_a_command_showed_gets_stale_too(session: Session) -> None:
    session.run("sed -n 1,8p src/a.py")
    write(session.folders.repo, "src/a.py", "# new\n" + CODE)
    assert session.state("src/a.py:4") == "stale"


def test_a_deleted_file_that_was_read_is_stale_and_another_one_missing(session: Session) -> None:
    session.read("src/a.py", 1, 3)
    (session.folders.repo / "src/a.py").unlink()
    assert [session.state(f"src/a.py:{line}") for line in (2, 5)] == ["stale", "missing"]


def test_protected_and_too_large_files_are_there_but_unread(session: Session) -> None:
    session.folders.errors = {"src/key.pem": ErrorKind.PROTECTED_PATH, "src/big.sql": ErrorKind.TOO_LARGE}
    assert [session.state("src/key.pem:1"), session.state("src/big.sql:1")] == ["unread", "unread"]


def copied(session: Session, tmp_path: Path) -> Path:
    copy = tmp_path / "copy"
    subprocess.run(["cp", "-r", session.folders.repo / "src", tmp_path / "src.copy"], check=True)
    copy.mkdir()
    (tmp_path / "src.copy").rename(copy / "src")
    session.folders.copy = copy
    return copy


def test_lines_that_the_agent_wrote_are_its_own(session: Session, tmp_path: Path) -> None:
    call = session.read("src/a.py")
    copy = copied(session, tmp_path)
    write(copy, "src/a.py", CODE.replace("    return x\n", "    x = x.strip()\n    return x\n"))
    write(copy, "src/new.py", "x = 1\n")
    session.folders.changed = ("src/a.py", "src/new.py")
    assert session.states("src/a.py:7 src/a.py:6-7 src/new.py:1 src/a.py:4 src/a.py:11 src/b.py:1") == [
        ("src/a.py", 7, 7, "own_change", ()),
        ("src/a.py", 6, 7, "own_change", ()),
        ("src/new.py", 1, 1, "own_change", ()),
        ("src/a.py", 4, 4, "read", (call,)),
        ("src/a.py", 11, 11, "read", (call,)),
        ("src/b.py", 1, 1, "unread", ()),
    ]


def test_lines_that_the_agent_wrote_into_ignored_files_are_its_own(tmp_path: Path) -> None:
    """The diff leaves such files out; the private copy knows that it does not take a host edit of them over."""
    write(tmp_path, "build/log.txt", "one\ntwo\n")
    write(tmp_path, "build/edited.txt", "one\n")
    touched = ("build/log.txt", "build/new.txt")
    with Session(tmp_path, watch=False, sync=lambda path: "kept" if path in touched else "taken") as session:
        copy = tmp_path / "copy"
        write(copy, "build/log.txt", "one\nmade up\n")
        write(copy, "build/new.txt", "made up\n")
        write(copy, "build/edited.txt", "before the edit\n")
        session.folders.copy = copy
        calls = [session.read(f"build/{name}.txt") for name in ("log", "new", "edited")]
        (note,) = session.evidence.notes()
        assert "build/edited.txt" in note
        assert "build/log.txt" not in note  # the agent's own change is no news
        assert session.states("build/log.txt:1 build/log.txt:2 build/new.txt:1 build/edited.txt:1") == [
            ("build/log.txt", 1, 1, "read", (calls[0],)),
            ("build/log.txt", 2, 2, "own_change", (calls[0],)),
            ("build/new.txt", 1, 1, "own_change", (calls[1],)),
            ("build/edited.txt", 1, 1, "stale", (calls[2],)),
        ]


def test_a_file_that_the_agent_deleted_can_still_be_cited_as_it_was(session: Session, tmp_path: Path) -> None:
    session.read("src/a.py", 1, 4)
    (copied(session, tmp_path) / "src/a.py").unlink()
    session.folders.changed = ("src/a.py",)
    assert [session.state(f"src/a.py:{line}") for line in (4, 5)] == ["read", "missing"]


def test_a_host_edit_beside_the_copy_is_stale_and_not_the_agents(session: Session, tmp_path: Path) -> None:
    session.read("src/a.py")
    copied(session, tmp_path)
    write(session.folders.repo, "src/a.py", "# new\n" + CODE)
    assert session.state("src/a.py:4") == "stale"


def test_line_ends_and_encodings_do_not_matter(session: Session) -> None:
    root = session.folders.repo
    (root / "crlf.txt").write_bytes(b"one\r\ntwo\r\n")
    (root / "wide.txt").write_bytes("eins\nzwei\n".encode("utf-16"))
    (root / "feed.txt").write_bytes(b"a\x0c\nb\xe2\x80\xa8c\nlast")
    for name in ("crlf.txt", "wide.txt", "feed.txt"):
        session.read(name)
    session.run("cat crlf.txt", "one\r\ntwo\r\n")
    assert [session.state(place) for place in ("crlf.txt:2", "wide.txt:2", "feed.txt:3")] == ["read"] * 3
    assert session.state("feed.txt:4") == "missing"


def test_what_is_no_file_is_no_citation(session: Session) -> None:
    assert session.states("localhost:8080 at 10:30, see http://a.b/c.py:3, key:10, example.com:443") == []


def test_limits_of_an_answer_are_named(session: Session) -> None:
    session.observe("read_file", {"path": "src/x.py"}, ToolResult("error", ErrorKind.FILE_NOT_FOUND))
    session.observe("run_command", {"command": "rm x"}, ToolResult("error", ErrorKind.DENIED))
    session.observe("run_command", {"command": "sleep 9"}, ToolResult("error", ErrorKind.TIMEOUT))
    session.observe("apply_patch", {"patch": "…"}, ToolResult("error", ErrorKind.DENIED))
    cited = session.run("cat src/a.py", CODE, cut=True)
    session.run("cat src/b.py", "nothing", cut=True)
    citations = session.evidence.check("src/a.py:4")
    assert [(limit.kind, limit.call_id, limit.subject) for limit in session.evidence.limits(citations)] == [
        ("not_found", "call_1", "src/x.py"),
        ("denied", "call_2", "rm x"),
        ("timeout", "call_3", "sleep 9"),
        ("denied", "call_4", "apply_patch"),
        ("cut_output", cited, "cat src/a.py"),
    ]


@pytest.mark.parametrize("by", ["apply_patch", "run_command"])
def test_a_passing_run_from_before_a_change_supports_no_claim(tmp_path: Path, by: str) -> None:
    change = [b"one"]
    with Session(tmp_path, watch=False, change=lambda: change[0]) as session:
        session.run("pytest -q", "3 passed in 0.1s\n")
        session.run("git status", "")
        assert session.evidence.unsupported("All tests pass.") == []
        change[0] = b"two"
        session.observe(by, {"patch": "…", "command": "sed -i s/a/b/ a.py"}, ToolResult("[exit code 0; 0.01 s]"))
        assert session.evidence.unsupported("All tests pass.") == ["All tests pass."]
        change[0] = b"three"
        session.run("sed -i s/b/c/ a.py && pytest -q", "3 passed in 0.1s\n")
        assert session.evidence.unsupported("All tests pass.") == []


SECRET = "".join(f"value_{number} = {number * number}\n" for number in range(1, 41)) + "}\n\n}\n"


def test_what_a_model_never_saw_is_not_read(tmp_path: Path) -> None:
    """Ways to be given credit for a line without having been shown it."""
    write(tmp_path, "a.py", SECRET)
    write(tmp_path, "b.py", SECRET.replace("value_7 ", "value_8 "))
    with Session(tmp_path, watch=False) as session:
        session.run("wc -l a.py; grep -c value a.py; ls -l a.py; sha256sum a.py")
        session.run("cut -c1-8 a.py")  # beginnings of lines
        session.run("head -c 40 a.py; echo; tail -c 9 a.py")  # the first lines whole, the others in part
        session.run("sed -n 5p b.py; sed 's/value/other/' a.py; tr a-z A-Z < a.py; rev a.py")
        session.run("grep -n value_30 b.py | sed 's/^30/31/'")  # the right text at a wrong number
        session.run("cat a.py", "value_20 = 400", cut=True)
        states = [session.state(f"a.py:{line}") for line in (3, 4, 10, 20, 30, 31, 41, 42)]
        assert states == ["read", "unread", "unread", "read", "unread", "unread", "unread", "unread"]
        assert session.state("a.py:1-3") == "read"
        assert session.state("a.py:1-4") == session.state("a.py:19-21") == "unread"
        assert session.state("a.py:1-9999999") == "missing"


def test_guessed_text_counts_when_it_is_what_stands_there(tmp_path: Path) -> None:
    """`read` says that a tool returned the text, not why: a command that prints a right guess returned it."""
    write(tmp_path, "a.py", SECRET)
    with Session(tmp_path, watch=False) as session:
        guess = session.run("printf 'a.py:9:value_9 = 81\\na.py:10:value_10 = 99\\n'")
        assert session.states("a.py:9 a.py:10") == [
            ("a.py", 9, 9, "read", (guess,)),
            ("a.py", 10, 10, "unread", ()),
        ]


def test_a_file_is_read_under_every_link_to_it_and_a_copy_is_another_file(tmp_path: Path) -> None:
    write(tmp_path, "src/a.py", CODE)
    write(tmp_path, "copy.py", CODE)
    (tmp_path / "link.py").symlink_to("src/a.py")
    (tmp_path / "folder").symlink_to("src")
    (tmp_path / "out.py").symlink_to("/etc/passwd")
    with Session(tmp_path, watch=False) as session:
        read = session.read("src/a.py", 1, 5)
        assert session.states("folder/a.py:4 link.py:5 src/a.py:6 copy.py:4") == [
            ("src/a.py", 4, 4, "read", (read,)),
            ("src/a.py", 5, 5, "read", (read,)),
            ("src/a.py", 6, 6, "unread", ()),
            ("copy.py", 4, 4, "unread", ()),
        ]
        assert session.states("out.py:1")[0][0] == "out.py"


def test_a_listing_that_names_a_file_shows_no_line_of_it_that_another_file_has_too(
    session: Session, tmp_path: Path
) -> None:
    write(tmp_path, "src/b.py", "import os\nimport re\n")
    session.run("cat src/a.py && ls src && cat -n src/a.py | head -3")
    assert session.state("src/a.py:1") == "read"
    assert session.state("src/b.py:1") == "unread"
    session.run("head -1 src/b.py")
    assert session.state("src/b.py:1") == "read"
