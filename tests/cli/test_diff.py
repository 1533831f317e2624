"""`codeagent diff`, as a process: the stored patch, byte for byte."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codeagent.events import Applied, SessionStarted, TurnStarted
from codeagent.session.store import Session

PATCH = (
    b"diff --git a/caf\xc3\xa9 b/caf\xc3\xa9\nindex 1..2 100644\n--- a/caf\xc3\xa9\n+++ b/caf\xc3\xa9\n"
    b"@@ -1,2 +1,2 @@\n a\r\n-\xff\n+\x1b[2J\n"
    b"diff --git a/b b/b\nnew file mode 100644\nindex 0..1\n"
    b"GIT binary patch\nliteral 1\nIcmZPo000310RR91\n\nliteral 0\nHcmV?d00001\n\n"
)


@pytest.fixture
def session(tmp_path: Path) -> str:
    repo = tmp_path / "repo"
    (repo / ".git").mkdir(parents=True)
    with Session.create(tmp_path / "home") as made:
        made.emit(SessionStarted(str(repo.resolve()), "m", "p", "i", "v"))
        made.journal.turn = 1
        made.emit(TurnStarted("change it"))
        made.save_diff(PATCH)
    return made.id


def diff(tmp_path: Path, *arguments: str) -> tuple[int, bytes, str]:
    return run(tmp_path, "diff", *arguments)


def run(tmp_path: Path, *arguments: str, here: str = "repo") -> tuple[int, bytes, str]:
    environment = {**os.environ, "CODEAGENT_HOME": str(tmp_path / "home")}
    command = [sys.executable, "-c", "from codeagent.cli.main import main; main()", *arguments]
    done = subprocess.run(command, cwd=tmp_path / here, capture_output=True, env=environment)
    return done.returncode, done.stdout, done.stderr.decode()


def test_the_stored_patch_is_printed_byte_for_byte(tmp_path: Path, session: str) -> None:
    assert diff(tmp_path) == (0, PATCH, "")
    assert diff(tmp_path, session[-5:]) == (0, PATCH, "")


def test_stat_shows_one_line_a_path(tmp_path: Path, session: str) -> None:
    assert diff(tmp_path, "--stat") == (0, "       +1 -1  café\n      binary  b\n".encode(), "")


def test_a_session_that_changed_nothing_says_so(tmp_path: Path, session: str) -> None:
    (tmp_path / "home/sessions" / session / "diff.patch").unlink()
    assert diff(tmp_path) == (0, b"", f"Session {session} changed nothing.\n")


def test_a_change_before_a_session_without_one_is_named_until_it_is_applied(tmp_path: Path, session: str) -> None:
    with Session.create(tmp_path / "home") as later:
        later.emit(SessionStarted(str((tmp_path / "repo").resolve()), "m", "p", "i", "v"))
        later.journal.turn = 1
        later.emit(TurnStarted("and why?"))
    last_used(later)
    unchanged = f"Session {later.id} changed nothing"
    hint = "The latest change that was not applied: `codeagent {} {}`.\n"
    assert diff(tmp_path) == (0, b"", f"{unchanged}.\n{hint.format('diff', session)}")
    nothing = f"{unchanged}; there is nothing to apply.\n"
    assert run(tmp_path, "apply") == (0, b"", nothing + hint.format("apply", session))
    assert run(tmp_path, "apply", later.id) == (0, b"", nothing)
    with Session.open(tmp_path / "home/sessions" / session) as earlier:
        earlier.emit(Applied(False, ["b"], "x", "x"))
    last_used(later)
    assert diff(tmp_path) == (0, b"", f"{unchanged}.\n")


def last_used(session: Session) -> None:
    """Files that are written at once may have the same time."""
    soon = time.time() + 10
    os.utime(session.folder / "events.jsonl", (soon, soon))


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_session_of_another_repository_than_the_named_one_is_refused(
    tmp_path: Path, session: str, command: str
) -> None:
    other = tmp_path / "other"
    other.mkdir()
    code, output, error = run(tmp_path, command, session, "--repo", str(other))
    assert (code, output) == (2, b"")
    assert error.startswith(f"codeagent: error: Session {session} is about {tmp_path / 'repo'}, not about {other}.\n")


def test_the_repository_can_be_named_instead_of_a_session(tmp_path: Path, session: str) -> None:
    (tmp_path / "other/.git").mkdir(parents=True)
    assert run(tmp_path, "diff", "--repo", str(tmp_path / "repo"), here="other") == (0, PATCH, "")
    assert run(tmp_path, "diff", here="other")[0] == 2


def test_an_unknown_session_is_a_usage_error(tmp_path: Path, session: str) -> None:
    code, output, error = diff(tmp_path, "nothing-like-it")
    assert (code, output) == (2, b"")
    assert "There is no session" in error


@pytest.mark.parametrize("command", ["diff", "apply"])
def test_a_stored_patch_that_cannot_be_read_is_said(tmp_path: Path, session: str, command: str) -> None:
    file = tmp_path / "home/sessions" / session / "diff.patch"
    file.unlink()
    file.mkdir()
    code, output, error = run(tmp_path, command)
    assert (code, output) == (2, b"")
    assert error == f"codeagent: error: The diff of session {session} cannot be read: Is a directory.\n"
