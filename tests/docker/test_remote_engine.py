"""An engine behind TLS that does not see the repository: everything is sent, and goes when the program goes.

It is the tests' own engine, behind a server that takes TLS off. The programs run in a mount namespace of their own:
only they see the repository.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.clocks import GONE_SECONDS, wait_until

PROGRAM = """
import json, sys, threading
from pathlib import Path
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import connect
from codeagent.sandbox.sandbox import open_sandbox
from codeagent.sandbox.seam import Command
from codeagent.settings import SandboxSettings

repo, session, outputs, script = sys.argv[1:]
engine = connect()
silent = lambda what, done, total: None
with open_sandbox(
    engine, image.find(engine), toolbox.ensure(engine, silent), Path(repo), SandboxSettings(), session, Path(outputs)
) as sandbox:
    listed = [entry.path for entry in sandbox.list_dir(".", 1, 0).entries]
    command = Command("a", script, timeout_seconds=60)
    said = sandbox.run(command, threading.Event())
    sandbox.run(Command("b", "echo more >> a.txt", writable=True), threading.Event())
    print(json.dumps([engine.found_by, listed, "".join(text for _, text in said.segments), sandbox.diff().paths]))
"""

# A repository, a linked worktree of it, and a configuration and a hook that nobody may see.
REPOSITORY = """
git init -q main && cd main && git config user.name t && git config user.email t@t && mkdir sub
echo a > a.txt && cp a.txt sub && git add a.txt sub && git commit -q -m first
git config alias.planted '!touch /tmp/planted' && echo 'exit 1' > .git/hooks/pre-commit
git worktree add -q ../linked
"""
LOG = "git log --format=%s; git config --get-regexp alias; find / -name pre-commit 2>/dev/null"


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An authority of its own, and what it signed for a server and a client."""
    folder = tmp_path_factory.mktemp("keys")
    new = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-days", "2")
    authority = (*new, "-subj", "/CN=authority", "-keyout", "ca-key.pem", "-out", "ca.pem")
    signed = (*new, "-CA", "ca.pem", "-CAkey", "ca-key.pem", "-subj", "/CN=engine")
    more = ("-addext", "subjectAltName=IP:127.0.0.1", "-addext", "basicConstraints=critical,CA:false")
    pair = (*signed, *more, "-keyout", "key.pem", "-out", "cert.pem")
    for command in (authority, pair):
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
    return folder


def carry(source: socket.socket, sink: socket.socket) -> None:
    with contextlib.suppress(OSError):
        while data := source.recv(65536):
            sink.sendall(data)
    # A program that has gone must not be kept alive by this server.
    for end in (source, sink):
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)


def serve(listener: socket.socket, context: ssl.SSLContext, engine: str) -> None:
    with contextlib.suppress(OSError):
        while True:
            plain, _ = listener.accept()
            threading.Thread(target=answer, args=(plain, context, engine), daemon=True).start()


def answer(plain: socket.socket, context: ssl.SSLContext, engine: str) -> None:
    ours = socket.socket(socket.AF_UNIX)
    with contextlib.suppress(OSError), ours, context.wrap_socket(plain, server_side=True) as theirs:
        ours.connect(engine)
        back = threading.Thread(target=carry, args=(ours, theirs), daemon=True)
        back.start()
        carry(theirs, ours)
        back.join()


@pytest.fixture(scope="module")
def far(engine_host: str, toolbox: Toolbox, keys: Path) -> Iterator[str]:
    """The engine's URL behind TLS; only who shows a certificate of the authority's is let in."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(keys / "cert.pem", keys / "key.pem")
    context.load_verify_locations(keys / "ca.pem")
    context.verify_mode = ssl.CERT_REQUIRED
    with socket.create_server(("127.0.0.1", 0)) as listener:
        accepting = threading.Thread(target=serve, args=(listener, context, engine_host.removeprefix("unix://")))
        accepting.start()
        yield f"tcp://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        accepting.join()


@pytest.fixture
def environment(tmp_path: Path, keys: Path) -> dict[str, str]:
    """Nothing names an engine. That the web's authorities are named elsewhere must not matter."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("DOCKER_")}
    return {**kept, "DOCKER_CONFIG": str(tmp_path / "docker"), "REQUESTS_CA_BUNDLE": "/nowhere.pem"}


def by_variables(environment: dict[str, str], far: str, keys: Path) -> None:
    environment |= {"DOCKER_HOST": far, "DOCKER_TLS_VERIFY": "1", "DOCKER_CERT_PATH": str(keys)}


def by_context(environment: dict[str, str], far: str, keys: Path) -> None:
    config, digest = Path(environment["DOCKER_CONFIG"]), hashlib.sha256(b"far").hexdigest()
    meta = config / "contexts/meta" / digest / "meta.json"
    meta.parent.mkdir(parents=True)
    meta.write_text(json.dumps({"Name": "far", "Endpoints": {"docker": {"Host": far, "SkipTLSVerify": False}}}))
    tls = config / "contexts/tls" / digest / "docker"
    tls.parent.mkdir(parents=True)
    tls.symlink_to(keys)
    environment["DOCKER_CONTEXT"] = "far"


def start(tmp_path: Path, repo: str, session: str, script: str, environment: dict[str, str]) -> subprocess.Popen[str]:
    """The program, in a mount namespace in which only it sees the repository."""
    unseen = tmp_path / "unseen"
    unseen.mkdir()
    prepare = f'mount -t tmpfs none {unseen} && cd {unseen} && ({REPOSITORY}) && cd / && exec "$@"'
    program = [sys.executable, "-c", PROGRAM, str(unseen / repo), session, str(tmp_path / "outputs"), script]
    return subprocess.Popen(
        ["unshare", "--mount", "sh", "-ec", prepare, "sh", *program],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def left(engine: Engine, session: str) -> tuple[list[str], list[str]]:
    """The session's containers and volumes."""
    filters = {"label": f"codeagent.session={session}"}
    containers = [one["Id"] for one in engine.client.api.containers(all=True, filters=filters)]
    return containers, [one["Name"] for one in engine.client.api.volumes(filters=filters)["Volumes"] or []]


@pytest.mark.parametrize(
    ("repo", "name", "found_by", "listed"),
    [
        ("linked", by_context, "the Docker context 'far'", ["sub", "a.txt"]),
        ("main/sub", by_variables, "DOCKER_HOST", ["a.txt"]),
    ],
)
def test_what_a_far_engine_does_not_see_is_sent_with_its_git_directory(
    engine: Engine,
    far: str,
    keys: Path,
    environment: dict[str, str],
    tmp_path: Path,
    repo: str,
    name: Callable[[dict[str, str], str, Path], None],
    found_by: str,
    listed: list[str],
) -> None:
    name(environment, far, keys)
    session = f"test-{uuid4().hex[:12]}"
    said, problems = start(tmp_path, repo, session, LOG, environment).communicate(timeout=60)
    assert problems == ""
    assert json.loads(said) == [found_by, listed, "first\n", ["a.txt"]]
    assert left(engine, session) == ([], [])


def test_a_far_container_is_gone_soon_after_the_program_was_killed(
    engine: Engine, far: str, keys: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    by_variables(environment, far, keys)
    session = f"test-{uuid4().hex[:12]}"
    program = start(tmp_path, "main", session, "trap '' TERM; setsid sleep 300 & sleep 300", environment)
    until = time.monotonic() + 30
    while not any("sleep 300" in " ".join(row) for one in left(engine, session)[0] for row in processes(engine, one)):
        assert time.monotonic() < until
        time.sleep(0.05)
    program.send_signal(signal.SIGKILL)
    killed = time.monotonic()
    program.communicate()
    while left(engine, session)[0]:
        assert time.monotonic() - killed < 5
        time.sleep(0.05)
    for volume in left(engine, session)[1]:
        engine.client.api.remove_volume(volume, force=True)


def processes(engine: Engine, container: str) -> list[list[str]]:
    import docker.errors

    try:
        return list(engine.client.api.top(container)["Processes"] or [])
    except docker.errors.APIError:  # it is about to start, or has ended
        return []


def test_a_far_container_that_was_made_and_not_started_goes_too(
    engine: Engine, far: str, keys: Path, environment: dict[str, str], image: str
) -> None:
    by_context(environment, far, keys)
    name = f"test-far-{uuid4().hex[:12]}"
    dying = (
        "import os, sys\nfrom codeagent.sandbox.engine import connect\n"
        "from codeagent.sandbox.made import create_container\n"
        "create_container(connect(), sys.argv[1], {'Image': sys.argv[2]})\nos.kill(os.getpid(), 9)\n"
    )
    program = [sys.executable, "-c", dying, name, image]
    assert subprocess.run(program, env=environment, stderr=subprocess.PIPE).returncode == -signal.SIGKILL
    wait_until(lambda: not engine.client.api.containers(all=True, filters={"name": name}), GONE_SECONDS)
