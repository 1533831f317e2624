"""Where a Docker Engine may be listening, in the order in which codeagent looks. Nothing here imports `docker`.

An engine that the user named (a flag, `DOCKER_HOST`, a Docker context) is the only one that is tried: falling back to
another would run commands on a machine that nobody chose. Otherwise the sockets that Docker, rootless Docker, Docker
Desktop and its kin, Podman and codeagent's own engine use are tried one after the other.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeagent.errors import SandboxError
from codeagent.paths import cache_dir

CONNECT_SECONDS = 5.0
"""An engine that does not answer within this time is taken for absent."""


@dataclass(frozen=True, slots=True)
class Tls:
    """Files in PEM format; `verify` tells whether the server's certificate is checked."""

    ca: Path | None
    certificate: Path | None
    key: Path | None
    verify: bool = True


@dataclass(frozen=True, slots=True)
class Endpoint:
    """`host` is a URL as in DOCKER_HOST; `found_by` says in the user's words why it is tried."""

    host: str
    found_by: str
    tls: Tls | None = None

    @property
    def socket_path(self) -> Path | None:
        """The path of a Unix socket, None for anything else."""
        if not self.host.startswith("unix://"):
            return None
        return Path("/", self.host.removeprefix("unix://"))


def endpoints(docker_host: str | None, environ: Mapping[str, str] = os.environ) -> list[Endpoint]:
    """What is to be tried, in order. SandboxError for a Docker context that cannot be read."""
    if docker_host:
        return [Endpoint(_url(docker_host), "--docker-host", _environment_tls(environ))]
    if host := environ.get("DOCKER_HOST"):
        return [Endpoint(_url(host), "DOCKER_HOST", _environment_tls(environ))]
    if context := _active_context(environ):
        return [_context_endpoint(context, _docker_config(environ))]
    usual = [Endpoint(f"unix://{path}", "a usual socket") for path in usual_sockets(environ)]
    return [*usual, Endpoint(f"unix://{private_socket(environ)}", "codeagent's own engine")]


def usual_sockets(environ: Mapping[str, str] = os.environ) -> list[Path]:
    """Where Docker, rootless Docker, Docker Desktop, Colima, Rancher Desktop, OrbStack and Podman listen."""
    home = Path(environ.get("HOME") or Path.home())
    runtime = Path(environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}")
    return [
        Path("/var/run/docker.sock"),
        runtime / "docker.sock",
        home / ".docker/run/docker.sock",
        home / ".docker/desktop/docker.sock",
        home / ".colima/default/docker.sock",
        home / ".rd/docker.sock",
        home / ".orbstack/run/docker.sock",
        runtime / "podman/podman.sock",
        Path("/run/podman/podman.sock"),
    ]


def private_socket(environ: Mapping[str, str] = os.environ) -> Path:
    """The socket of the engine that `--install` starts; everything of that engine lies beside it."""
    return cache_dir(environ) / "engine" / "docker.sock"


def socket_failure(path: Path, seconds: float = CONNECT_SECONDS) -> OSError | None:
    """Why nobody can be reached on this Unix socket, None when somebody accepts."""
    try:
        with socket.socket(socket.AF_UNIX) as probe:
            probe.settimeout(seconds)
            probe.connect(os.fspath(path))
    except OSError as error:
        return error
    return None


def _url(host: str) -> str:
    return f"unix://{host}" if host.startswith("/") else host


def _environment_tls(environ: Mapping[str, str]) -> Tls | None:
    """DOCKER_TLS_VERIFY and DOCKER_CERT_PATH, as the docker command reads them."""
    verify = bool(environ.get("DOCKER_TLS_VERIFY"))
    if not verify and not environ.get("DOCKER_CERT_PATH"):
        return None
    return _tls(Path(environ.get("DOCKER_CERT_PATH") or _docker_config(environ)), verify)


def _tls(folder: Path, verify: bool) -> Tls | None:
    present = {name: folder / name for name in ("ca.pem", "cert.pem", "key.pem") if (folder / name).is_file()}
    if not present:
        return None
    return Tls(present.get("ca.pem"), present.get("cert.pem"), present.get("key.pem"), verify)


def _docker_config(environ: Mapping[str, str]) -> Path:
    return Path(environ.get("DOCKER_CONFIG") or Path(environ.get("HOME") or Path.home()) / ".docker")


def _active_context(environ: Mapping[str, str]) -> str | None:
    """The chosen context's name; None for `default`, which stands for the usual socket."""
    name = environ.get("DOCKER_CONTEXT")
    if not name:
        file = _docker_config(environ) / "config.json"
        # An unreadable configuration of another program is not a reason to refuse work: it then names no context.
        name = _read_json(file).get("currentContext") if file.is_file() else None
    return name if isinstance(name, str) and name not in ("", "default") else None


def _context_endpoint(name: str, config: Path) -> Endpoint:
    """Reads a context from Docker's store: a folder named by the SHA-256 of the context's name."""
    digest = hashlib.sha256(name.encode()).hexdigest()
    meta = _read_json(config / "contexts/meta" / digest / "meta.json")
    docker = meta.get("Endpoints", {}).get("docker", {}) if isinstance(meta.get("Endpoints"), dict) else {}
    host = docker.get("Host") if isinstance(docker, dict) else None
    if not isinstance(host, str) or not host:
        raise SandboxError(
            f"The Docker context '{name}' is active but cannot be read in {config}.",
            "Choose another with `docker context use`, or name an engine with --docker-host.",
        )
    tls = _tls(config / "contexts/tls" / digest / "docker", not docker.get("SkipTLSVerify"))
    return Endpoint(_url(host), f"the Docker context '{name}'", tls)


def _read_json(file: Path) -> dict[str, Any]:
    try:
        value = json.loads(file.read_bytes())
    except (OSError, ValueError):
        return {}
    return value if isinstance(value, dict) else {}
