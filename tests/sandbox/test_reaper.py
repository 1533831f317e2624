"""What a program leaves is taken away when it ends, however it ends. On an engine: tests/docker/test_orphans.py."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.clocks import GONE_SECONDS, wait_until

PROGRAM = """
import sys
from pathlib import Path
from codeagent.sandbox.endpoints import Endpoint
from codeagent.sandbox.reaper import Reaper

reaper = Reaper(Endpoint("unix:///nowhere/docker.sock", "a test"))
with reaper.folder("codeagent-test-") as folder, reaper.passing(folder.parent / "a socket\\n"):
    (folder / "file").touch()
    (folder.parent / "a socket\\n").touch()
    if sys.argv[1:]:
        reaper.expect(*sys.argv[1:])
    print("ready", flush=True)
    sys.stdin.read()
reaper.close()
"""


@contextmanager
def running(temporary: Path, *expected: str) -> Iterator[subprocess.Popen[str]]:
    """A program that has a folder, a file beside it and, it says, something on an engine; ended by its stdin."""
    argv = [sys.executable, "-c", textwrap.dedent(PROGRAM), *expected]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        argv, stdin=pipe, stdout=pipe, text=True, env={**os.environ, "TMPDIR": str(temporary)}
    ) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "ready\n"
        yield program


def processes(temporary: Path) -> list[int]:
    """Those that have this temporary folder."""
    found = []
    for file in Path("/proc").glob("[0-9]*/environ"):
        with contextlib.suppress(OSError):
            if b"TMPDIR=" + os.fsencode(temporary) + b"\0" in file.read_bytes():
                found.append(int(file.parent.name))
    return found


def nothing_is_left(temporary: Path) -> None:
    """Both at once: a process that takes another's place while the list is read is not in it."""
    wait_until(lambda: not [*processes(temporary), *temporary.iterdir()], GONE_SECONDS)


def watcher_of(program: subprocess.Popen[str], temporary: Path) -> int:
    """The one process that is left when the shell has left its parent, which ends."""
    found: list[int] = []

    def alone() -> bool:
        found[:] = set(processes(temporary)) - {program.pid}
        return len(found) == 1 and parent_of(found[0]) not in (program.pid, None)

    wait_until(alone)
    return found[0]


def parent_of(pid: int) -> int | None:
    try:
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    except OSError:  # it has ended
        return None


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "with  two spaces ", "quo\"te'$HOME`*\\", "line\nfeed", "b\udcffyte"])
def test_a_killed_program_leaves_neither_folder_nor_file_nor_process(tmp_path: Path, name: str) -> None:
    temporary = tmp_path / name
    temporary.mkdir()
    with running(temporary) as program:
        assert len(list(temporary.iterdir())) == 2
        watcher = watcher_of(program, temporary)
        # As from a terminal, and from whoever ends all processes of a user in good order.
        for number in (signal.SIGINT, signal.SIGQUIT, signal.SIGHUP, signal.SIGTERM):
            os.kill(watcher, number)
        program.kill()
    nothing_is_left(temporary)


def test_the_watcher_is_in_no_group_and_no_session_of_the_program_s(tmp_path: Path) -> None:
    with running(tmp_path) as program:
        watcher = watcher_of(program, tmp_path)
        assert (os.getsid(watcher), os.getpgid(watcher)) != (os.getsid(program.pid), os.getpgid(program.pid))
        assert parent_of(watcher) != program.pid
        assert program.stdin is not None
        program.stdin.close()
    nothing_is_left(tmp_path)


@pytest.mark.parametrize("expected", [("container", "codeagent-reader-0"), ("volume", "v"), ("image", "i:t")])
def test_without_an_engine_it_ends_as_well(tmp_path: Path, expected: Sequence[str]) -> None:
    with running(tmp_path, *expected) as program:
        program.kill()
    nothing_is_left(tmp_path)
