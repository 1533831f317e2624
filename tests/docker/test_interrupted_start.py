"""Ctrl-C while a container starts: the engine's requests cannot be broken off, and nobody waits for them."""

from __future__ import annotations

import contextlib
import json
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.engine import Engine, connect
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings
from tests.clocks import at_once, wait_until
from tests.docker.codeagent_cli import Program
from tests.docker.conftest import Opened, opening
from tests.docker.held_engine import HeldEngine
from tests.docker.test_orphans import owners, processes
from tests.model_script import Scripted, call, hang, reply
from tests.model_server import ModelServer

READING = reply(call("read_file", {"path": "hello.txt", "start_line": None, "end_line": None}, call_id="r1"))


class Hold:
    """Keeps a request from the engine, from `asked` on until `release` is called."""

    def __init__(self, engine: Engine, folder: Path, request: str, skip: int) -> None:
        self.asked = threading.Event()
        self._released = threading.Event()
        self.engine = HeldEngine(engine, folder, request, "asked", self._hold, skip)

    def _hold(self) -> None:
        self.asked.set()
        self._released.wait(60)

    def release(self) -> None:
        self._released.set()


@contextlib.contextmanager
def holding(engine: Engine, folder: Path, request: str, skip: int = 0) -> Iterator[Hold]:
    hold = Hold(engine, folder, request, skip)
    try:
        yield hold
    finally:
        hold.release()
        hold.engine.close()


@pytest.mark.parametrize(
    ("argv", "script", "request_", "numbers"),
    [
        (["ask", "why"], [hang()], "/containers/create", [signal.SIGINT]),
        (["ask", "why"], [hang()], "/start", [signal.SIGTERM]),
        (["ask", "why"], [READING, hang()], "/start", [signal.SIGINT, signal.SIGINT]),
        (["fix", "x", "--verify", "false"], [], "/volumes/create", [signal.SIGHUP, signal.SIGINT]),
    ],
    ids=["made", "started", "waited-for", "copied"],
)
def test_a_signal_while_a_container_starts_ends_the_program_at_once_and_nothing_is_left(
    engine: Engine,
    small_repo: Path,
    tmp_path: Path,
    argv: Sequence[str],
    script: list[Scripted],
    request_: str,
    numbers: list[signal.Signals],
) -> None:
    program = Program(tmp_path, engine)
    with holding(engine, tmp_path, request_) as hold, ModelServer(script) as server:
        url = hold.engine.url
        process = program.start(*argv, "--repo", str(small_repo), "--docker-host", url, "--json", server=server)
        assert hold.asked.wait(30)
        if script:
            wait_until(lambda: server.requests)
        time.sleep(0.3)
        with at_once():  # what the engine was asked, it does only after that
            for number in numbers:
                process.send_signal(number)
                time.sleep(0.05)
            out, err = process.communicate(timeout=30)
        hold.release()
        wait_until(lambda: not processes(url))
    events = [json.loads(line) for line in out.splitlines()]
    ended = events[-1]
    assert (process.returncode, ended["type"], ended["outcome"]) == (130, "turn_ended", "interrupted")
    assert "Traceback" not in err
    outputs = [event["output"] for event in events if event["type"] == "tool_output"]
    cancelled = "error: cancelled: cancelled while the sandbox was made ready for it; nothing was run"
    assert outputs == ([cancelled] if READING in script else [])
    wait_until(lambda: str(process.pid) not in owners(engine))
    assert not engine.client.api.volumes(filters={"label": f"codeagent.session={ended['session_id']}"})["Volumes"]


@contextlib.contextmanager
def held_sandbox(
    engine: Engine, toolbox: Toolbox, image: str, small_repo: Path, tmp_path: Path, request: str, skip: int = 0
) -> Iterator[tuple[Hold, Opened]]:
    with holding(engine, tmp_path, request, skip) as hold, contextlib.closing(connect(hold.engine.url)) as slow:
        outputs = tmp_path / "outputs"
        with opening(slow, toolbox, small_repo, outputs, image, SandboxSettings()) as opened:
            yield hold, opened


def cancelled(hold: Hold, opened: Opened, *, writable: bool) -> None:
    cancel = threading.Event()

    def interrupt() -> None:
        hold.asked.wait(30)
        time.sleep(0.1)
        cancel.set()

    threading.Thread(target=interrupt, daemon=True).start()
    with pytest.raises(ToolError) as raised:
        opened.run("true", writable=writable, cancel=cancel)
    assert raised.value.kind is ErrorKind.CANCELLED
    hold.release()


# Started are: the reader, what makes the copy, the writer, and, for the next call that reads, a reader on the copy.


def test_a_call_that_waits_for_the_first_container_can_be_cancelled_and_the_next_one_is_answered(
    engine: Engine, toolbox: Toolbox, image: str, small_repo: Path, tmp_path: Path
) -> None:
    with held_sandbox(engine, toolbox, image, small_repo, tmp_path, "/start") as (hold, opened):
        cancelled(hold, opened, writable=False)
        assert opened.output("cat hello.txt") == "hello\n"


def test_a_copy_can_be_cancelled_while_a_container_starts_and_the_next_call_goes_on(
    engine: Engine, toolbox: Toolbox, image: str, small_repo: Path, tmp_path: Path
) -> None:
    with held_sandbox(engine, toolbox, image, small_repo, tmp_path, "/start", 2) as (hold, opened):
        cancelled(hold, opened, writable=True)
        assert not opened.sandbox.has_copy
        assert opened.output("ls") == "hello.txt\nsrc\n"
        wait_until(lambda: opened.volumes() == [])
        assert opened.output("touch new; ls", writable=True) == "hello.txt\nnew\nsrc\n"
        assert opened.output("ls") == "hello.txt\nnew\nsrc\n"
        assert (len(opened.volumes()), len(opened.containers())) == (2, 2)


def test_a_call_that_waits_for_a_reader_on_the_copy_can_be_cancelled_and_the_next_one_is_answered(
    engine: Engine, toolbox: Toolbox, image: str, small_repo: Path, tmp_path: Path
) -> None:
    with held_sandbox(engine, toolbox, image, small_repo, tmp_path, "/start", 3) as (hold, opened):
        assert opened.output("touch new; ls", writable=True) == "hello.txt\nnew\nsrc\n"
        cancelled(hold, opened, writable=False)
        assert opened.output("ls") == "hello.txt\nnew\nsrc\n"
        assert (len(opened.volumes()), len(opened.containers())) == (2, 2)
