"""An engine behind ssh, through a real sshd and the user's own ssh client."""

from __future__ import annotations

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox.engine import Engine, connect
from tests.clocks import GONE_SECONDS, PATIENCE, wait_until


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of an sshd that lets this user in by a key of its own."""
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = int(free.getsockname()[1])
    settings = {
        "ListenAddress": f"127.0.0.1:{port}",
        "HostKey": folder / "host",
        "AuthorizedKeysFile": folder / "user.pub",
        "PidFile": "none",
        "StrictModes": "no",
        "PermitRootLogin": "yes",
    }
    (folder / "sshd_config").write_text("".join(f"{key} {value}\n" for key, value in settings.items()))
    Path("/run/sshd").mkdir(exist_ok=True)
    process = subprocess.Popen(
        ["/usr/sbin/sshd", "-D", "-e", "-f", folder / "sshd_config"], stderr=subprocess.DEVNULL
    )
    client = folder / "ssh_config"
    client.write_text(f"IdentityFile {folder / 'user'}\nUserKnownHostsFile /dev/null\nStrictHostKeyChecking no\n")
    deadline = time.monotonic() + PATIENCE
    while True:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            break
        assert time.monotonic() < deadline
        time.sleep(0.02)
    yield port
    process.terminate()
    process.wait()


@pytest.fixture
def ssh_configuration(server: int, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """The ssh client found first on PATH is the real one with the test's configuration."""
    folder = next(path for path in tmp_path_factory.getbasetemp().iterdir() if (path / "ssh_config").exists())
    wrapper = tmp_path / "ssh"
    wrapper.write_text(f'#!/bin/sh\nexec /usr/bin/ssh -F {folder / "ssh_config"} "$@"\n')
    wrapper.chmod(0o755)
    before = os.environ["PATH"]
    os.environ["PATH"] = f"{tmp_path}:{before}"
    yield
    os.environ["PATH"] = before


def url(engine: Engine, port: int) -> str:
    return f"ssh://127.0.0.1:{port}{engine.host.removeprefix('unix://')}"


def test_an_engine_behind_ssh_answers_like_a_near_one(engine: Engine, server: int, ssh_configuration: None) -> None:
    far = connect(url(engine, server))
    try:
        assert (far.host, far.version, far.api) == (url(engine, server), engine.version, engine.api)
        assert far.info["ID"] == engine.info["ID"]
        assert far.tunnel is not None
        assert far.tunnel.socket.exists()
    finally:
        far.close()
    assert not far.tunnel.socket.exists()


def test_ssh_says_why_it_does_not_connect(server: int, ssh_configuration: None) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        closed = taken.getsockname()[1]
    with pytest.raises(SandboxError) as raised:
        connect(f"ssh://127.0.0.1:{closed}")
    assert "Connection refused" in raised.value.message
    with pytest.raises(SandboxError) as raised:
        connect(f"ssh://nobody-here@127.0.0.1:{server}")
    assert "Permission denied" in raised.value.message


def test_a_far_side_without_an_engine_is_an_error(server: int, ssh_configuration: None) -> None:
    with pytest.raises(SandboxError) as raised:
        connect(f"ssh://127.0.0.1:{server}/nowhere/docker.sock")
    assert raised.value.message.startswith("No Docker Engine answers. Tried: ssh://127.0.0.1:")


def test_nothing_is_left_here_or_there_when_the_program_is_killed(
    engine: Engine, server: int, ssh_configuration: None, image: str
) -> None:
    script = (
        "import sys\nfrom codeagent.sandbox.engine import connect\n"
        "from codeagent.sandbox.made import create_container\n"
        "engine = connect(sys.argv[1])\ncreate_container(engine, sys.argv[2], {'Image': sys.argv[3]})\n"
        "print(engine.tunnel._client.pid, flush=True)\nsys.stdin.read()\n"
    )
    # Not below pytest's folder: a socket's path may have 107 bytes.
    temporary, name = Path(tempfile.mkdtemp()), f"test-far-{uuid4().hex[:12]}"
    with subprocess.Popen(
        [sys.executable, "-c", script, url(engine, server), name, image],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(temporary)},
    ) as program:
        assert program.stdout
        client = int(program.stdout.readline())
        (made,) = engine.client.api.containers(all=True, filters={"name": name})
        assert made["State"] == "created" and len(list(temporary.iterdir())) == 1
        program.kill()
    deadline = time.monotonic() + PATIENCE
    while Path(f"/proc/{client}").exists() and " Z " not in Path(f"/proc/{client}/stat").read_text():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    wait_until(lambda: not list(temporary.iterdir()), GONE_SECONDS)
    wait_until(lambda: not engine.client.api.containers(all=True, filters={"name": name}), GONE_SECONDS)
