"""Events are a hint: they arrive for the watched folders only, and their absence changes nothing."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import pytest

from codeagent.evidence.watch import Watch
from tests.clocks import wait_until
from tests.evidence.repo import CODE, Session, write


def test_events_of_a_watched_folder_arrive_and_those_beneath_it_do_not(tmp_path: Path) -> None:
    write(tmp_path, "src/deep/c.py", "1")
    seen: set[str] = set()
    arrived = threading.Event()

    def hint(path: str) -> None:
        seen.add(path)
        if path == "src/last.py" and "src/a.py" in seen:
            arrived.set()

    watch = Watch(tmp_path, hint)
    watch.add(tmp_path / "src")
    try:
        for number in range(300):  # until the observer is up
            write(tmp_path, "src/deep/c.py", str(number))
            write(tmp_path, "src/a.py", str(number))
            write(tmp_path, "src/last.py", str(number))
            if arrived.wait(0.1):
                break
        assert "src/a.py" in seen
        assert "src/deep/c.py" not in seen
        assert watch.reason == ""
    finally:
        watch.close()
        watch.close()


def test_a_folder_that_cannot_be_watched_ends_the_watch_with_a_reason(tmp_path: Path) -> None:
    watch = Watch(tmp_path, lambda _: None)
    watch.add(tmp_path / "nonesuch")
    try:
        wait_until(lambda: watch.reason)
        assert watch.reason.startswith("FileNotFoundError")
    finally:
        watch.close()


def test_an_edit_is_noticed_without_any_event(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on file systems that send none: the observer cannot be started at all."""
    monkeypatch.setitem(sys.modules, "watchdog.observers", None)
    write(tmp_path, "a.py", CODE)
    with Session(tmp_path) as session:
        session.read("a.py")
        write(tmp_path, "a.py", "x = 1\n" + CODE)
        assert len(session.evidence.notes()) == 1


def test_nothing_heavy_is_imported_before_the_first_file_is_read() -> None:
    code = (
        "import sys, pathlib; from codeagent.evidence.evidence import Evidence;"
        "e = Evidence(None, pathlib.Path('.')); print('watchdog' in sys.modules); e.close()"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"
