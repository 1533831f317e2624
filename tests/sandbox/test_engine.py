"""Which engine is found, and what is said when none is; against real sockets, by the real SDK."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox.endpoints import Endpoint, Tls, endpoints, usual_sockets
from codeagent.sandbox.engine import connect, first
from codeagent.sandbox.private_engine import PrivateEngine
from tests.clocks import at_once
from tests.sandbox.fake_engine import engine_at


@pytest.fixture
def home() -> Iterator[Path]:
    """A short path: a Unix socket's has at most 107 bytes."""
    with tempfile.TemporaryDirectory(prefix="ca") as folder:
        yield Path(folder)


@pytest.fixture
def environ(home: Path) -> dict[str, str]:
    return {"HOME": str(home), "CODEAGENT_HOME": str(home / "own"), "XDG_RUNTIME_DIR": str(home / "run")}


def write_context(home: Path, name: str, host: str, **endpoint: object) -> Path:
    """As `docker context create` stores it; returns the folder for its TLS material."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = home / ".docker/contexts/meta" / digest / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": name, "Metadata": {}, "Endpoints": {"docker": {"Host": host, **endpoint}}}))
    return home / ".docker/contexts/tls" / digest / "docker"


def activate(home: Path, name: str) -> None:
    (home / ".docker").mkdir(exist_ok=True)
    (home / ".docker/config.json").write_text(json.dumps({"currentContext": name}))


def below(home: Path, environ: dict[str, str]) -> list[Endpoint]:
    """The endpoints without those of the machine itself, which may have an engine of its own."""
    return [endpoint for endpoint in endpoints(None, environ) if str(home) in endpoint.host]


def found(home: Path, environ: dict[str, str]) -> tuple[str, str]:
    engine = first(below(home, environ), environ)
    engine.close()
    return engine.version, engine.found_by


def refusal(tried: str | list[Endpoint] | None, environ: dict[str, str]) -> SandboxError:
    with pytest.raises(SandboxError) as raised:
        if isinstance(tried, list):
            first(tried, environ, seconds=0.5)
        else:
            connect(tried, environ)
    assert raised.value.exit_code == 4
    return raised.value


def test_what_the_user_named_last_wins(home: Path, environ: dict[str, str]) -> None:
    """The flag, then DOCKER_HOST, then the active context, then the usual sockets, then codeagent's own."""
    write_context(home, "work", f"unix://{home}/context.sock")
    order = []
    with (
        engine_at(home / "flag.sock", "flag"),
        engine_at(home / "variable.sock", "variable"),
        engine_at(home / "context.sock", "context"),
        engine_at(home / "run/docker.sock", "rootless"),
    ):
        order.append(found(home, environ))
        activate(home, "work")
        order.append(found(home, environ))
        environ["DOCKER_HOST"] = f"unix://{home}/variable.sock"
        order.append(found(home, environ))
        engine = connect(f"unix://{home}/flag.sock", environ)
        engine.close()
        order.append((engine.version, engine.found_by))
    assert order == [
        ("rootless", "a usual socket"),
        ("context", "the Docker context 'work'"),
        ("variable", "DOCKER_HOST"),
        ("flag", "--docker-host"),
    ]


@pytest.mark.parametrize(
    ("there", "expected"),
    [
        (["run/docker.sock", ".docker/run/docker.sock"], "a usual socket"),
        ([".docker/run/docker.sock", "run/podman/podman.sock", "own/cache/engine/docker.sock"], "a usual socket"),
        (["run/podman/podman.sock", "own/cache/engine/docker.sock"], "a usual socket"),
        (["own/cache/engine/docker.sock"], "codeagent's own engine"),
    ],
)
def test_the_first_socket_that_answers_is_taken(
    home: Path, environ: dict[str, str], there: list[str], expected: str
) -> None:
    with contextlib.ExitStack() as stack:
        for name in there:
            stack.enter_context(engine_at(home / name, name))
        assert found(home, environ) == (there[0], expected)


def test_the_machine_s_own_socket_is_looked_at_first(environ: dict[str, str]) -> None:
    assert endpoints(None, environ)[0] == Endpoint("unix:///var/run/docker.sock", "a usual socket")


def test_an_engine_that_was_named_is_the_only_one_tried(home: Path, environ: dict[str, str]) -> None:
    environ["DOCKER_HOST"] = f"unix://{home}/gone.sock"
    with engine_at(home / "run/docker.sock", "another"):
        error = refusal(None, environ)
    assert (
        error.message
        == f"No Docker Engine answers. Tried: unix://{home}/gone.sock (from DOCKER_HOST): no such socket."
    )
    assert error.remedy == "Start that engine, or name another with --docker-host."


def test_a_chosen_context_overrides_the_stored_one(home: Path, environ: dict[str, str]) -> None:
    write_context(home, "stored", "unix:///stored.sock")
    write_context(home, "chosen", "tcp://build.example:2376")
    activate(home, "stored")
    assert endpoints(None, environ) == [Endpoint("unix:///stored.sock", "the Docker context 'stored'")]
    environ["DOCKER_CONTEXT"] = "chosen"
    assert endpoints(None, environ) == [Endpoint("tcp://build.example:2376", "the Docker context 'chosen'")]
    environ["DOCKER_CONFIG"] = str(home / "elsewhere")
    assert "'chosen'" in refusal(None, environ).message


def test_a_context_brings_its_keys(home: Path, environ: dict[str, str]) -> None:
    folder = write_context(home, "tls", "tcp://build.example:2376", SkipTLSVerify=True)
    folder.mkdir(parents=True)
    for name in ("ca.pem", "cert.pem", "key.pem"):
        (folder / name).write_text("")
    activate(home, "tls")
    keys = Tls(folder / "ca.pem", folder / "cert.pem", folder / "key.pem", verify=False)
    assert endpoints(None, environ) == [Endpoint("tcp://build.example:2376", "the Docker context 'tls'", keys)]


def test_keys_come_from_the_environment_too(home: Path, environ: dict[str, str]) -> None:
    (home / "ca.pem").write_text("")
    environ |= {"DOCKER_HOST": "tcp://h:2376", "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(home)}
    assert endpoints(None, environ) == [Endpoint("tcp://h:2376", "DOCKER_HOST", Tls(home / "ca.pem", None, None))]


@pytest.mark.parametrize("stored", ["", "{", "[]", '{"currentContext": 5}', '{"currentContext": ""}'])
def test_an_odd_docker_configuration_names_no_context(home: Path, environ: dict[str, str], stored: str) -> None:
    (home / ".docker").mkdir()
    (home / ".docker/config.json").write_text(stored)
    assert len(endpoints(None, environ)) == len(usual_sockets(environ)) + 1


@pytest.mark.parametrize("meta", [None, "", "[]", '{"Endpoints": []}', '{"Endpoints": {"docker": {"Host": 5}}}'])
def test_an_active_context_that_cannot_be_read_is_an_error(
    home: Path, environ: dict[str, str], meta: str | None
) -> None:
    activate(home, "lost")
    if meta is not None:
        file = home / ".docker/contexts/meta" / hashlib.sha256(b"lost").hexdigest() / "meta.json"
        file.parent.mkdir(parents=True)
        file.write_text(meta)
    error = refusal(None, environ)
    assert error.message == f"The Docker context 'lost' is active but cannot be read in {home}/.docker."
    assert error.remedy == "Choose another with `docker context use`, or name an engine with --docker-host."


def test_the_error_lists_everything_that_was_tried(home: Path, environ: dict[str, str]) -> None:
    (home / "run").mkdir()
    with socket.socket(socket.AF_UNIX) as stale:
        stale.bind(str(home / "run/docker.sock"))
    with engine_at(home / ".docker/run/docker.sock", None):
        error = refusal(below(home, environ), environ)
    assert error.message.startswith("No Docker Engine answers. Tried: ")
    empty = [endpoint.host.replace(f"unix://{home}", "~") for endpoint in below(home, environ)][2:]
    assert len(empty) > 4
    assert error.message.endswith(f"; {', '.join(empty)}: no such socket.")
    assert f"unix://{home}/run/docker.sock: nothing listens on it; " in error.message
    assert f"; unix://{home}/.docker/run/docker.sock: it answers, but not as a Docker Engine (404)" in error.message
    assert "--install" in error.remedy


def test_an_engine_that_accepts_and_is_silent_is_given_up(home: Path, environ: dict[str, str]) -> None:
    with socket.socket(socket.AF_UNIX) as silent:
        silent.bind(str(home / "silent.sock"))
        silent.listen()
        with at_once():
            error = refusal([Endpoint(f"unix://{home}/silent.sock", "DOCKER_HOST")], environ)
    assert error.message.endswith("(from DOCKER_HOST): no answer in time.")


@pytest.mark.parametrize("host", ["nonsense", "unix://", "ssh://somewhere", "tcp://127.0.0.1:1", "http://[::1"])
def test_an_odd_host_is_one_sentence(environ: dict[str, str], host: str) -> None:
    error = refusal(host, environ)
    assert error.message.startswith(f"No Docker Engine answers. Tried: {host} (from --docker-host): ")
    assert "\n" not in error.message
    assert error.remedy


def test_no_permission_on_the_socket_is_said_with_what_to_do(home: Path, environ: dict[str, str]) -> None:
    path = home / "closed.sock"
    with engine_at(path, "27.0"):
        path.chmod(0o000)
        home.chmod(0o755)
        message, remedy = as_nobody(f"unix://{path}", environ)
    assert message == f"No permission to use the Docker Engine at {path}."
    assert remedy.startswith("Join the group that owns the socket (`sudo usermod -aG ")


def as_nobody(host: str, environ: dict[str, str]) -> tuple[str, str]:
    """What `connect` says to a user without rights: in a child that gives up root's, where the tests have them."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            if os.geteuid() == 0:
                os.setuid(65534)
            connect(host, environ)
            os.write(writing, b"connected\0")
        except SandboxError as error:
            os.write(writing, f"{error.message}\0{error.remedy}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading, "rb") as answer:
        message, remedy = answer.read().decode().split("\0")
    return message, remedy


def test_an_own_engine_that_is_not_running_is_offered_to_be_started(home: Path, environ: dict[str, str]) -> None:
    own = PrivateEngine.at_home(environ)
    (own.folder / "data").mkdir(parents=True)
    assert own.start_line in refusal(below(home, environ), environ).remedy


def test_looking_for_engines_imports_no_sdk() -> None:
    script = (
        "import sys, codeagent.sandbox.engine as e, codeagent.sandbox.image, codeagent.sandbox.toolbox\n"
        "try: e.connect('unix:///nowhere.sock')\nexcept e.SandboxError: pass\n"
        "print([name for name in ('docker', 'requests', 'openai', 'rich') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n"
