"""Engines that do not see the repository, that go away, and that fall silent: each a defined end, none a hang."""

from __future__ import annotations

import contextlib
import gc
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from threading import Event as Flag

import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox import image as images
from codeagent.sandbox.engine import connect
from codeagent.sandbox.sandbox import DockerSandbox, open_sandbox
from codeagent.sandbox.seam import Command
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings
from tests.clocks import at_once, wait_until

# docker-py leaves a socket open when it cannot connect it.
pytestmark = pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")


@pytest.fixture(autouse=True)
def collected() -> Iterator[None]:
    """What is left open is collected here, and not in somebody else's test."""
    yield
    gc.collect()


# An engine that does not see the path

UNSEEN = """
import sys, threading
from pathlib import Path
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import connect
from codeagent.sandbox.sandbox import open_sandbox
from codeagent.sandbox.seam import Command
from codeagent.settings import SandboxSettings

engine = connect()
silent = lambda what, done, total: None
with open_sandbox(
    engine, image.find(engine), toolbox.ensure(engine, silent), Path(sys.argv[1]), SandboxSettings(), sys.argv[2],
    Path(sys.argv[3]),
) as sandbox:
    print(sandbox.fetch("hello.txt").decode().strip(), sandbox.has_copy)
    script = "cat hello.txt .env; touch planted 2>/dev/null || echo read-only"
    result = sandbox.run(Command("a", script), threading.Event())
    print("".join(text for _, text in result.segments).replace("\\n", "|"))
    sandbox.run(Command("b", "echo more >> hello.txt", writable=True), threading.Event())
    print(sandbox.diff().paths)
"""


@pytest.mark.parametrize("there", ["another folder", "nothing"])
def test_a_repository_that_the_engine_does_not_see_is_copied_from_the_start(
    image: str, toolbox: Toolbox, tmp_path: Path, there: str
) -> None:
    parent = tmp_path / "parent"
    repo = parent / "project"
    repo.mkdir(parents=True) if there == "another folder" else parent.mkdir()
    if there == "another folder":
        (repo / "hello.txt").write_text("the engine's\n")
    # In a mount namespace of its own, the program sees something else at that path than the engine does. It is a part
    # of a repository, so that more than the folder itself is to be mounted.
    prepare = (
        f"mount -t tmpfs none '{parent}' && mkdir '{repo}' && git init -q '{parent}' "
        f"&& echo ours > '{repo}/hello.txt' && echo KEY=secret > '{repo}/.env' && exec \"$@\""
    )
    program = [sys.executable, "-c", UNSEEN, str(repo), f"test-unseen-{there[:3]}", str(tmp_path / "outputs")]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", prepare, "sh", *program], capture_output=True, text=True, timeout=60
    )
    assert (done.stdout.splitlines(), done.stderr[:0]) == (
        [
            "ours True",
            "ours|read-only|",
            "('hello.txt',)",
        ],
        "",
    ), done.stderr


# An engine that goes away


class Wire:
    """Stands between the program and the engine; it can be cut, and it can fall silent."""

    def __init__(self, path: Path, engine: str) -> None:
        self._engine = engine
        self._silent = threading.Event()
        self._connections: list[socket.socket] = []
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(path))
        self._listener.listen(50)
        self._accepting = threading.Thread(target=self._accept, daemon=True)
        self._accepting.start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                ours, _ = self._listener.accept()
                theirs = socket.socket(socket.AF_UNIX)
                self._connections += [ours, theirs]
                theirs.connect(self._engine)
                for source, sink in ((ours, theirs), (theirs, ours)):
                    threading.Thread(target=self._carry, args=(source, sink), daemon=True).start()

    def _carry(self, source: socket.socket, sink: socket.socket) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(65536):
                if self._silent.is_set():
                    return
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)

    def fall_silent(self) -> None:
        self._silent.set()

    def cut(self) -> None:
        # A listening socket wakes its accept only by shutdown.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._accepting.join(5)
        for connection in self._connections:
            with contextlib.suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            connection.close()


Wired = tuple[DockerSandbox, Wire]


@pytest.fixture
def wired(engine_host: str, toolbox: Toolbox, small_repo: Path, tmp_path: Path) -> Iterator[Wired]:
    if not engine_host.startswith("unix://"):
        pytest.fail("these tests stand between the program and an engine on a local socket")
    wire = Wire(tmp_path / "wire.sock", engine_host.removeprefix("unix://"))
    engine = connect(f"unix://{tmp_path}/wire.sock")
    found = images.find(engine)
    assert found is not None
    sandbox = open_sandbox(engine, found, toolbox, small_repo, SandboxSettings(), "test-wired", tmp_path / "outputs")
    sandbox.run(Command("a", "true"), Flag())
    yield sandbox, wire
    wire.cut()
    sandbox.close()
    engine.close()


def test_an_engine_that_stops_during_a_call_ends_it(wired: Wired) -> None:
    sandbox, wire = wired
    threading.Timer(0.3, wire.cut).start()
    with at_once(), pytest.raises(SandboxError) as lost:
        sandbox.run(Command("b", "sleep 60", timeout_seconds=60), Flag())
    assert lost.value.message == "The engine stopped answering while a container was started."


def test_an_engine_that_falls_silent_during_a_call_ends_it(wired: Wired) -> None:
    sandbox, wire = wired
    threading.Timer(0.3, wire.fall_silent).start()
    ended: list[str] = []

    def call() -> None:
        try:
            sandbox.run(Command("b", "sleep 60", timeout_seconds=60), Flag())
        except SandboxError as error:
            ended.append(error.message)

    calling = threading.Thread(target=call, daemon=True)
    calling.start()
    # The call is given up at once; a new container is asked for until the engine's own patience ends.
    wait_until(sandbox._reader.running.channel.loss)
    assert sandbox._reader.running.channel.loss() == "the engine does not answer"
    wire.cut()
    calling.join(60)
    assert ended == ["The engine stopped answering while a container was started."]
