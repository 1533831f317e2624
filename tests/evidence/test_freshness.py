"""A host edit becomes one note that names path and lines; everything else becomes none."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.evidence.freshness import Synced
from codeagent.evidence.lines import differing, ranges
from tests.evidence.repo import CODE, Session, write

HEAD = "Files changed in the repository after you were shown them:"


@pytest.fixture
def session(tmp_path: Path) -> Iterator[Session]:
    write(tmp_path, "src/a.py", CODE)
    write(tmp_path, "src/b.py", CODE)
    with Session(tmp_path, watch=False) as opened:
        yield opened


def settle(path: Path) -> None:
    """Makes a file look as if it had been written long ago, so that its stat alone is trusted."""
    os.utime(path, ns=(1_600_000_000_000_000_000,) * 2)
    time.sleep(0.15)


def test_an_edit_is_told_once_with_its_lines(session: Session) -> None:
    session.read("src/a.py")
    assert session.evidence.notes() == []
    write(
        session.folders.repo,
        "src/a.py",
        CODE.replace("def second", "def other").replace("import os\n", "import os, re\n"),
    )
    assert session.evidence.notes() == [
        f"{HEAD}\n- src/a.py: lines that differ now: 1, 10; what you were shown of it no longer holds."
    ]
    assert session.evidence.notes() == []


def test_a_pattern_of_a_command_is_not_looked_for_as_a_file(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[str] = []
    fetch = session.folders.fetch
    monkeypatch.setattr(session.folders, "fetch", lambda path: fetched.append(path) or fetch(path))  # type: ignore[func-returns-value]
    session.run("grep -rn -e '.*imp.*ort$' src/a.py")
    assert fetched == ["src/a.py"]


def test_files_that_were_not_read_are_not_told(session: Session) -> None:
    session.read("src/a.py")
    write(session.folders.repo, "src/b.py", "x = 1\n")
    assert session.evidence.notes() == []


def test_a_file_that_a_command_showed_counts_as_seen(session: Session) -> None:
    session.run("grep -n import src/a.py src/b.py")
    write(session.folders.repo, "src/b.py", CODE + "# end\n")
    assert session.evidence.notes() == [
        f"{HEAD}\n- src/b.py: lines that differ now: 14; what you were shown of it no longer holds."
    ]


def test_deleted_lines_are_named_by_what_is_around_them(session: Session) -> None:
    session.read("src/a.py")
    write(session.folders.repo, "src/a.py", CODE.replace("    return x\n\n\n", ""))
    assert "lines that differ now: 6-7;" in session.evidence.notes()[0]


def test_a_deleted_file_is_told(session: Session) -> None:
    session.read("src/a.py")
    (session.folders.repo / "src/a.py").unlink()
    assert session.evidence.notes() == [
        f"{HEAD}\n- src/a.py: no longer exists or cannot be read; what you were shown of it no longer holds."
    ]
    assert session.evidence.notes() == []


def test_several_edits_are_one_note(session: Session) -> None:
    session.read("src/a.py"), session.read("src/b.py")
    for name in ("src/a.py", "src/b.py"):
        write(session.folders.repo, name, "x = 1\n" + CODE)
    (note,) = session.evidence.notes()
    assert [line.split(":")[0] for line in note.splitlines()[1:]] == ["- src/a.py", "- src/b.py"]


def test_touching_reading_and_saving_the_same_content_are_no_change(session: Session) -> None:
    path = session.folders.repo / "src/a.py"
    session.read("src/a.py")
    settle(path)
    assert session.evidence.notes() == []
    path.read_bytes()
    path.touch()
    assert session.evidence.notes() == []
    other = write(session.folders.repo, "src/.a.py.swp", CODE)
    other.replace(path)
    assert session.evidence.notes() == []
    path.write_text("x")
    path.write_text(CODE)
    assert session.evidence.notes() == []
    path.chmod(0o600)
    assert session.evidence.notes() == []


def test_an_edit_that_restores_size_and_time_is_noticed(session: Session) -> None:
    path = session.folders.repo / "src/a.py"
    settle(path)
    session.read("src/a.py")
    before = path.stat()
    with path.open("r+b") as stream:
        stream.write(b"IMPORT")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert len(session.evidence.notes()) == 1


def test_two_writes_in_one_tick_of_the_clock_are_noticed(session: Session) -> None:
    path = write(session.folders.repo, "src/a.py", CODE)
    for number in range(50):
        session.read("src/a.py")
        path.write_text(CODE.replace("first", f"fir{number:02}"))
        assert len(session.evidence.notes()) == 1


def test_reading_again_before_the_note_makes_it_needless(session: Session) -> None:
    session.read("src/a.py")
    write(session.folders.repo, "src/a.py", "x = 1\n" + CODE)
    session.read("src/a.py")
    assert session.evidence.notes() == []


def test_a_change_between_reading_and_recording_is_told(session: Session) -> None:
    """The tool has returned the old content; when the result is recorded, the host has a new one."""
    old = session.folders.repo / "old"
    write(old, "src/a.py", CODE)
    session.folders.repo, host = old, session.folders.repo
    write(host, "src/a.py", CODE.replace("import os", "import sys"))
    session.read("src/a.py")
    assert "src/a.py: lines that differ now: 1;" in session.evidence.notes()[0]


def test_odd_names_stay_on_one_line(session: Session) -> None:
    write(session.folders.repo, "a\nb.py", CODE)
    session.read("a\nb.py")
    write(session.folders.repo, "a\nb.py", "x")
    (note,) = session.evidence.notes()
    assert note.splitlines()[1].startswith('- "a\\nb.py": lines that differ now: 1;')


class Copied:
    """A session with a private copy, and a `sync` that does what a sandbox does."""

    def __init__(self, root: Path) -> None:
        self.repo, self.copy = root / "repo", root / "copy"
        write(self.repo, "a.py", CODE)
        self.synced: list[str] = []
        self.session = Session(self.repo, watch=False, sync=self.sync)
        self.session.read("a.py")
        subprocess.run(["cp", "-r", self.repo, self.copy], check=True)
        self.session.folders.copy = self.copy

    def sync(self, path: str) -> Synced:
        source = self.repo / path
        if source.exists() and source.read_text() == CODE:
            return "unchanged"
        if (self.copy / path).read_text() != CODE:
            return "conflict"
        self.synced.append(path)
        (self.copy / path).write_bytes(source.read_bytes()) if source.exists() else (self.copy / path).unlink()
        return "taken"


def test_a_host_edit_is_taken_into_the_private_copy(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    write(copied.repo, "a.py", "# new\n" + CODE)
    assert copied.session.evidence.notes() == [
        f"{HEAD}\n- a.py: lines that differ now: 1; the private copy has the new version."
    ]
    assert (copied.copy / "a.py").read_text() == "# new\n" + CODE
    assert copied.session.evidence.notes() == []
    copied.session.evidence.close()


def test_an_edit_of_a_file_that_is_seen_only_later_is_told_then(tmp_path: Path) -> None:
    write(tmp_path / "repo", "b.py", CODE)
    copied = Copied(tmp_path)
    write(copied.repo, "b.py", "# new\n" + CODE)
    assert copied.session.evidence.notes() == []
    copied.session.read("b.py")
    assert copied.session.evidence.notes() == [
        f"{HEAD}\n- b.py: lines that differ now: 1; the private copy has the new version."
    ]
    assert copied.session.evidence.notes() == []
    copied.session.evidence.close()


def test_a_file_that_is_seen_only_after_the_agents_own_change_is_no_news(tmp_path: Path) -> None:
    write(tmp_path / "repo", "b.py", CODE)
    copied = Copied(tmp_path)
    write(copied.copy, "b.py", "# mine\n" + CODE)
    copied.session.read("b.py")
    assert copied.session.evidence.notes() == []
    write(copied.repo, "b.py", "# yours\n" + CODE)
    assert copied.session.evidence.notes() == [
        f"{HEAD}\n- b.py: lines that differ now: 1; conflict: you changed the same file in the private copy, "
        "which keeps your version."
    ]
    copied.session.evidence.close()


def test_the_agents_own_writes_are_no_change(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    write(copied.copy, "a.py", "# mine\n" + CODE)
    write(copied.copy, "new.py", "x = 1\n")
    copied.session.read("a.py"), copied.session.read("new.py")
    copied.session.run("cat a.py new.py")
    assert copied.session.evidence.notes() == []
    assert copied.synced == []
    copied.session.evidence.close()


def test_reading_ones_own_version_does_not_hide_a_change_on_the_host(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    write(copied.copy, "a.py", "# mine\n" + CODE)
    write(copied.repo, "a.py", CODE + "# yours\n")
    copied.session.read("a.py")
    assert "conflict" in copied.session.evidence.notes()[0]
    copied.session.evidence.close()


def test_both_sides_changing_one_file_is_a_named_conflict(tmp_path: Path) -> None:
    copied = Copied(tmp_path)
    write(copied.copy, "a.py", "# mine\n" + CODE)
    write(copied.repo, "a.py", CODE + "# yours\n")
    assert copied.session.evidence.notes() == [
        f"{HEAD}\n- a.py: lines that differ now: 14; conflict: you changed the same file in the private copy, "
        "which keeps your version."
    ]
    assert (copied.copy / "a.py").read_text() == "# mine\n" + CODE
    copied.session.evidence.close()


@pytest.mark.slow
def test_very_many_files_are_checked_in_turns_and_at_once_where_an_event_points(tmp_path: Path) -> None:
    for number in range(1_200):
        write(tmp_path, f"f{number}.py", f"x = {number}\n")
    with Session(tmp_path, watch=False) as session:
        for number in range(1_200):
            session.read(f"f{number}.py")
        session.evidence.notes()
        write(tmp_path, "f900.py", "changed\n")
        write(tmp_path, "f1190.py", "changed\n")
        session.evidence._freshness.hint("f1190.py")
        told = "\n".join(note for _ in range(3) for note in session.evidence.notes())
        assert told.count("f900.py") == 1
        assert told.count("f1190.py") == 1
        assert told.index("f1190.py") >= 0


LISTS = st.lists(st.integers(0, 4), max_size=30)


@given(LISTS, LISTS)
def test_blocks_turn_one_version_into_the_other(before: list[int], after: list[int]) -> None:
    result = list(before)
    for first, last, start, end in reversed(differing(before, after)):
        result[first:last] = after[start:end]
    assert result == after
    assert (differing(before, after) == []) == (before == after)


@given(st.lists(st.integers(1, 60)))
def test_ranges_name_every_number_once(numbers: list[int]) -> None:
    named: list[int] = []
    for part in filter(None, ranges(numbers).split(", ")):
        first, _, last = part.partition("-")
        named += range(int(first), int(last or first) + 1)
    assert named == sorted(set(numbers))
