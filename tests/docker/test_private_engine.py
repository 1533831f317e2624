"""codeagent's own engine, really started: found again, stopped and started by the lines that it prints."""

from __future__ import annotations

import os
import shlex
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codeagent.cli.install import connect_or_install
from codeagent.errors import SandboxError
from codeagent.sandbox import image as images
from codeagent.sandbox.endpoints import endpoints, socket_failure
from codeagent.sandbox.engine import connect, first
from codeagent.sandbox.private_engine import PrivateEngine, install_and_start
from tests.conftest import silent


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    # A short path: a Unix socket's has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ca") as home:
        yield {"CODEAGENT_HOME": home, "HOME": home, "XDG_RUNTIME_DIR": home, "PATH": os.environ["PATH"]}


@pytest.fixture(scope="module")
def own(environ: dict[str, str]) -> Iterator[PrivateEngine]:
    assert os.geteuid() == 0, "starting an engine needs root"
    said: list[str] = []
    url = install_and_start(said.append, environ)
    engine = PrivateEngine.at_home(environ)
    assert url == engine.url
    assert said == [
        f"Starting a Docker Engine in {engine.folder}.",
        f"Docker Engine started. To stop it:        {engine.stop_line}",
        f"To start it again (after a reboot too):   {engine.start_line}",
    ]
    yield engine
    if engine.pidfile.exists():
        stop(engine)
    # Where the machine's mounts are private, dockerd mounts its data folder onto itself and leaves that behind.
    for mount in Path("/proc/mounts").read_text().splitlines():
        if (target := mount.split()[1]).startswith(environ["CODEAGENT_HOME"]):
            subprocess.run(["umount", target], check=True)


def stop(engine: PrivateEngine) -> None:
    pid = engine.pidfile.read_text()
    subprocess.run(["sh", "-c", engine.stop_line], check=True)
    until(lambda: not running(pid))


def running(pid: str) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_is_found_by_the_next_run(own: PrivateEngine, environ: dict[str, str]) -> None:
    tried = [endpoint for endpoint in endpoints(None, environ) if "/var/run" not in endpoint.host]
    engine = first(tried, environ)
    engine.close()
    assert (engine.host, engine.found_by) == (own.url, "codeagent's own engine")


def test_starting_it_twice_starts_it_once(own: PrivateEngine, environ: dict[str, str]) -> None:
    pid = own.pidfile.read_text()
    said: list[str] = []
    assert install_and_start(said.append, environ) == own.url
    assert (said, own.pidfile.read_text()) == ([], pid)


def test_everything_of_it_lies_below_the_cache(own: PrivateEngine, environ: dict[str, str]) -> None:
    home = Path(environ["CODEAGENT_HOME"])
    assert own.folder == home / "cache/engine"
    assert {path.name for path in own.folder.iterdir()} >= {
        "data",
        "exec",
        "docker.sock",
        "dockerd.log",
        "dockerd.pid",
    }
    assert own.folder.stat().st_mode & 0o777 == 0o700


def test_its_lines_stop_and_start_it(own: PrivateEngine, environ: dict[str, str]) -> None:
    stop(own)
    tried = [endpoint for endpoint in endpoints(None, environ) if "/var/run" not in endpoint.host]
    with pytest.raises(SandboxError) as raised:
        first(tried, environ)
    assert raised.value.remedy == f"Start codeagent's own engine again with: {own.start_line}"
    # As a user would: typed into a shell that is then closed.
    subprocess.run(["sh", "-c", own.start_line], check=True)
    until(lambda: socket_failure(own.socket) is None)


def test_an_engine_that_was_named_is_never_replaced_by_an_installed_one(environ: dict[str, str]) -> None:
    said: list[str] = []
    with pytest.raises(SandboxError):
        connect_or_install("unix:///nowhere.sock", True, said.append, environ)
    assert said == []


def test_without_root_the_missing_image_is_said_with_what_to_do(own: PrivateEngine, environ: dict[str, str]) -> None:
    """A fresh engine without a registry: nothing is built, and nothing is started."""
    for folder in (own.folder, own.folder.parent, own.folder.parent.parent):
        folder.chmod(0o755)
    own.socket.chmod(0o666)
    message, remedy, code = as_nobody(own.url)
    assert message.startswith("The default image cannot be built: from a registry, ")
    assert message.endswith("; without one, building from Debian packages needs root.")
    assert remedy.startswith("As root, run `codeagent sandbox build --install`")
    assert code == "4"


def as_nobody(url: str) -> list[str]:
    """Message, remedy and exit code of a build without root's rights, in a child that gives them up."""
    reading, writing = os.pipe()
    engine = connect(url)
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            # Not `ensure`, which reads the checkout: that may be closed to others.
            images._build(engine, silent, -1)
        except SandboxError as error:
            os.write(writing, "\0".join([error.message, error.remedy, str(error.exit_code)]).encode())
        finally:
            os._exit(0)
    engine.close()
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        return answer.read().split("\0")


def test_a_path_that_is_too_long_for_a_socket_is_said_before_anything_starts(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(SandboxError) as raised:
        install_and_start(said.append, {"CODEAGENT_HOME": str(tmp_path / ("long" * 25))})
    assert raised.value.message.startswith("The path of the engine's socket is too long: ")
    assert said == []


def test_an_engine_that_does_not_start_says_why(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ca") as home:
        environ = {"CODEAGENT_HOME": home}
        folder = PrivateEngine.at_home(environ).folder
        folder.mkdir(parents=True)
        (folder / "data").write_text("in the way")
        with pytest.raises(SandboxError) as raised:
            install_and_start(lambda line: None, environ)
        assert raised.value.message.startswith("The Docker Engine did not start: ")
        assert str(folder / "dockerd.log") in raised.value.remedy


def test_the_printed_lines_survive_odd_paths() -> None:
    odd = PrivateEngine(Path("/tmp/a b'c$d"))
    words = shlex.split(odd.start_line)
    assert f"--data-root={odd.folder}/data" in words
    assert f">>{odd.folder}/dockerd.log" in words
