"""The session folder: who may use it, what it holds, and what happens when it cannot be written."""

from __future__ import annotations

import os
import re
import resource
import stat
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from codeagent.errors import StorageError
from codeagent.events import SessionStarted, ToolFinished, TurnStarted
from codeagent.session.log import Log
from codeagent.session.store import EVENTS, Session, delete, holder, new_id

STARTED = SessionStarted("/repo", "model", "provider", "image", "1.0")


def modes(folder: Path) -> dict[str, int]:
    return {str(path.relative_to(folder)): stat.S_IMODE(path.stat().st_mode) for path in folder.rglob("*")}


def test_a_session_is_private_to_its_user(tmp_path: Path) -> None:
    state = tmp_path / "deep" / "state"
    with Session.create(state) as session:
        session.emit(STARTED)
        session.save_diff(b"diff --git a/x b/x\n")
    assert stat.S_IMODE(state.stat().st_mode) == 0o700
    assert modes(state) == {
        "sessions": 0o700,
        f"sessions/{session.id}": 0o700,
        f"sessions/{session.id}/events.jsonl": 0o600,
        f"sessions/{session.id}/lock": 0o600,
        f"sessions/{session.id}/outputs": 0o700,
        f"sessions/{session.id}/diff.patch": 0o600,
    }


def test_ids_sort_by_time_and_differ(tmp_path: Path) -> None:
    ids = {new_id() for _ in range(200)}
    assert len(ids) == 200
    assert all(re.fullmatch(r"\d{8}-\d{6}-[a-z2-9]{5}", id_) for id_ in ids)


def test_a_session_without_an_event_leaves_nothing_behind(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        pass
    assert not session.folder.exists()


def test_a_second_process_is_refused_with_the_pid_of_the_first(tmp_path: Path) -> None:
    script = """
        import sys
        from pathlib import Path
        from codeagent.errors import StorageError
        from codeagent.session.store import Session, delete
        for action in (Session.open, delete):
            try:
                action(Path(sys.argv[1]))
            except StorageError as error:
                print(error.message, "|", error.remedy)
    """
    with Session.create(tmp_path) as session:
        session.emit(STARTED)
        done = subprocess.run(
            [sys.executable, "-c", textwrap.dedent(script), str(session.folder)],
            capture_output=True,
            text=True,
            check=True,
        )
        assert holder(session.folder) == os.getpid()
    line = (
        f"The session {session.id} is in use by another codeagent (process {os.getpid()}). | "
        "Wait until that process ends, or start a new session with `codeagent ask`.\n"
    )
    assert done.stdout == line * 2
    assert holder(session.folder) is None


def test_of_two_processes_that_open_a_session_at_once_one_gets_it(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.emit(STARTED)
    script = """
        import sys
        from pathlib import Path
        from codeagent.errors import StorageError
        from codeagent.session.store import Session
        try:
            with Session.open(Path(sys.argv[1])):
                print("mine", flush=True)
                sys.stdin.read()
        except StorageError:
            print("refused", flush=True)
    """
    command = [sys.executable, "-c", textwrap.dedent(script), str(session.folder)]
    both = [subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    words = []
    for process in both:
        assert process.stdout is not None
        words.append(process.stdout.readline().strip())
    for process in both:
        process.communicate("")
    assert sorted(words) == ["mine", "refused"]


def test_a_killed_process_gives_its_session_back(tmp_path: Path) -> None:
    script = """
        import os, signal, sys
        from pathlib import Path
        from codeagent.events import SessionStarted
        from codeagent.session.store import Session
        session = Session.create(Path(sys.argv[1]))
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
        print(session.folder, flush=True)
        os.kill(os.getpid(), signal.SIGKILL)
    """
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(script), str(tmp_path)], capture_output=True, text=True, check=False
    )
    folder = Path(done.stdout.strip())
    assert done.returncode == -9
    assert holder(folder) is None
    with Session.open(folder) as session:
        session.emit(TurnStarted("again"))
    assert [record["type"] for record in Log(folder / EVENTS)] == ["session_started", "turn_started"]


def test_deleting_removes_the_whole_folder(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.emit(STARTED)
        (session.outputs / "c.txt").write_text("x")
    delete(session.folder)
    assert list((tmp_path / "sessions").iterdir()) == []


@contextmanager
def file_size_limit(limit: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def test_a_full_disk_is_said_at_once_and_leaves_only_whole_lines(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.emit(STARTED)
        before = (session.folder / EVENTS).read_bytes()
        with file_size_limit(len(before) + 100), pytest.raises(StorageError) as full:
            session.emit(ToolFinished("c1", "ok", None, "x" * 5_000, 1))
        assert full.value.message.startswith("The disk is full: the session cannot be recorded in ")
        assert full.value.remedy.startswith("Free some space")
        assert (session.folder / EVENTS).read_bytes() == before
        with file_size_limit(3), pytest.raises(StorageError):
            session.save_diff(b"a diff longer than that")
        assert sorted(path.name for path in session.folder.iterdir()) == ["events.jsonl", "lock", "outputs"]
        session.emit(TurnStarted("space again"))
    log = Log(session.folder / EVENTS)
    assert [record["type"] for record in log] == ["session_started", "turn_started"]
    assert log.damaged == 0


def test_a_stored_diff_is_replaced_whole_or_not_at_all(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.emit(STARTED)
        session.save_diff(b"first")
        with file_size_limit(3), pytest.raises(StorageError):
            session.save_diff(b"second, too long")
        assert session.diff_file.read_bytes() == b"first"


def test_a_state_directory_that_cannot_be_written_is_an_error_with_its_remedy(tmp_path: Path) -> None:
    blocked = tmp_path / "state"
    blocked.write_text("a file where the folder should be")
    with pytest.raises(StorageError) as error:
        Session.create(blocked)
    assert error.value.message == f"The state directory is not writable: {blocked}: Not a directory."
    assert error.value.remedy == "Make it a folder that you may write to, or set CODEAGENT_HOME to one."


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"", "holds no readable event"),
        (b"\0" * 4096, "holds no readable event"),
        (b'{"type":"sess', "holds no readable event"),
        (
            b'{"type":"session_started","format":2,"repo":"/r"}\n',
            "was written by a newer codeagent (log format 2, not 1)",
        ),
    ],
    ids=["empty", "zeroed", "torn", "newer"],
)
def test_a_log_that_cannot_be_gone_on_with_is_refused_and_kept(tmp_path: Path, content: bytes, sentence: str) -> None:
    folder = tmp_path / "sessions" / "s1"
    folder.mkdir(parents=True)
    (folder / EVENTS).write_bytes(content)
    for _ in range(2):  # the refusal changes nothing, so it is the same each time
        with pytest.raises(StorageError) as refused:
            Session.open(folder)
        assert sentence in refused.value.message
        assert "codeagent ask" in refused.value.remedy
        assert (folder / EVENTS).read_bytes() == content
    assert holder(folder) is None


def test_a_folder_in_place_of_the_log_is_refused(tmp_path: Path) -> None:
    folder = tmp_path / "sessions" / "s1"
    (folder / EVENTS).mkdir(parents=True)
    with pytest.raises(StorageError) as refused:
        Session.open(folder)
    assert refused.value.message == "The session s1 cannot be read: Is a directory."


def test_an_unknown_session_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError) as unknown:
        Session.open(tmp_path / "sessions" / "nope")
    assert unknown.value.message == "There is no session nope."
