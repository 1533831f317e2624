"""Finds the Docker Engine and connects to it. `docker` is imported only when something is to be connected."""

from __future__ import annotations

import contextlib
import errno
import grp
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.errors import SandboxError
from codeagent.sandbox import private_engine, ssh
from codeagent.sandbox.endpoints import CONNECT_SECONDS, Endpoint, endpoints, socket_failure
from codeagent.sandbox.reaper import Reaper

if TYPE_CHECKING:
    from codeagent.sandbox.client import Client

REQUEST_SECONDS = 60
"""How long one request to a connected engine may be silent."""
_NO_PERMISSION = "permission denied"


@dataclass(frozen=True)
class Engine:
    """A connected engine. `architecture` in Docker's words (`amd64`, `arm64`), `api` such as `1.41`.

    `reaper` is told of everything that must not outlive this process.
    """

    client: Client
    endpoint: Endpoint
    version: str
    api: str
    architecture: str
    reaper: Reaper
    tunnel: ssh.Forward | None = None

    @property
    def host(self) -> str:
        return self.endpoint.host

    @property
    def found_by(self) -> str:
        return self.endpoint.found_by

    @cached_property
    def info(self) -> dict[str, Any]:
        """What the engine says about itself and its machine; asked for once (about 10 ms)."""
        answer: dict[str, Any] = self.client.info()
        return answer

    @property
    def cgroup_version(self) -> int:
        return 2 if str(self.info.get("CgroupVersion")) == "2" else 1

    @property
    def in_user_namespace(self) -> bool:
        """Whether its ids are others than the machine's, and fewer: rootless, or with `userns-remap`."""
        return self.rootless or "name=userns" in (self.info.get("SecurityOptions") or ())

    @property
    def rootless(self) -> bool:
        return "name=rootless" in (self.info.get("SecurityOptions") or ())

    @contextlib.contextmanager
    def patience(self, seconds: int) -> Iterator[None]:
        """Lets requests be silent for longer: an import or a build answers only when it is done."""
        before = self.client.api.timeout
        self.client.api.timeout = seconds
        try:
            yield
        finally:
            self.client.api.timeout = before

    def close(self) -> None:
        self.client.close()
        if self.tunnel:
            self.tunnel.close()
        self.reaper.close()


def connect(docker_host: str | None = None, environ: Mapping[str, str] = os.environ) -> Engine:
    """The first engine that answers, within 5 s each. SandboxError lists what was tried and why each failed."""
    return first(endpoints(docker_host, environ), environ)


def first(tried: list[Endpoint], environ: Mapping[str, str], seconds: float = CONNECT_SECONDS) -> Engine:
    """As `connect`, of these endpoints and with this patience."""
    failures: list[tuple[Endpoint, str]] = []
    for endpoint in tried:
        try:
            return _open(endpoint, seconds)
        except OSError as error:
            failures.append((endpoint, _reason(error)))
    raise _nobody(failures, environ)


def _open(endpoint: Endpoint, seconds: float) -> Engine:
    """Connects and asks for the version. OSError says why not."""
    if (path := endpoint.socket_path) and (failure := socket_failure(path, seconds)):
        raise failure
    with contextlib.ExitStack() as undo:
        reaper, tunnel, url = Reaper(endpoint), None, endpoint.host
        undo.callback(reaper.close)
        if url.startswith("ssh://"):
            tunnel = ssh.forward(url, seconds, reaper)
            undo.callback(tunnel.close)
            url = f"unix://{tunnel.socket}"
        engine = _ask(endpoint, seconds, url, reaper, tunnel)
        undo.pop_all()
    return engine


def _ask(endpoint: Endpoint, seconds: float, url: str, reaper: Reaper, tunnel: ssh.Forward | None) -> Engine:
    import docker.errors
    import requests

    from codeagent.sandbox.client import Client

    client = None
    try:
        client = Client(base_url=url, version="auto", timeout=seconds, tls=_tls_config(endpoint))
        answer = client.version()
    except (docker.errors.DockerException, requests.RequestException, ValueError) as error:
        if client:
            client.close()
        raise OSError(_first_cause(error)) from error
    client.api.timeout = REQUEST_SECONDS
    return Engine(
        client=client,
        endpoint=endpoint,
        version=str(answer.get("Version", "unknown")),
        api=str(client.api.api_version),
        architecture=str(answer.get("Arch", "unknown")),
        reaper=reaper,
        tunnel=tunnel,
    )


def _tls_config(endpoint: Endpoint) -> Any:
    if endpoint.tls is None:
        return False
    from docker.tls import TLSConfig

    tls = endpoint.tls
    pair = (str(tls.certificate), str(tls.key)) if tls.certificate and tls.key else None
    return TLSConfig(client_cert=pair, ca_cert=str(tls.ca) if tls.ca else None, verify=tls.verify)


def _first_cause(error: BaseException) -> str:
    """The innermost cause in one line: what the libraries wrap around it says nothing to a user."""
    seen = error
    while cause := (seen.__cause__ or seen.__context__):
        seen = cause
    if (response := getattr(seen, "response", None)) is not None:
        return f"it answers, but not as a Docker Engine ({response.status_code})"
    text = " ".join(str(seen).split()) or type(seen).__name__
    if isinstance(seen, TimeoutError) or "timed out" in text:
        return "no answer in time"
    if isinstance(seen, OSError) and seen.strerror:
        return seen.strerror.lower()
    return text[:200]


def _reason(error: OSError) -> str:
    match error.errno:
        case errno.EACCES | errno.EPERM:
            return _NO_PERMISSION
        case errno.ENOENT:
            return "no such socket"
        case errno.ECONNREFUSED:
            return "nothing listens on it"
        case None if isinstance(error, TimeoutError):
            return "no answer in time"
        case _:
            return (error.strerror or str(error)).lower() if error.errno else str(error)


def _nobody(failures: list[tuple[Endpoint, str]], environ: Mapping[str, str]) -> SandboxError:
    hosts: dict[str, list[str]] = {}
    for endpoint, reason in failures:
        hosts.setdefault(reason, []).append(endpoint.host if len(failures) > 1 else _named(endpoint))
    home = environ.get("HOME") or str(Path.home())
    tried = "; ".join(f"{_listed(names, home)}: {reason}" for reason, names in hosts.items())
    for endpoint, reason in failures:
        if reason == _NO_PERMISSION and (path := endpoint.socket_path):
            return SandboxError(
                f"No permission to use the Docker Engine at {path}.",
                f"Join the group that owns the socket (`sudo usermod -aG {_owning_group(path)} $USER`, then log in "
                "again), or name another engine with --docker-host.",
            )
    engine = private_engine.PrivateEngine.at_home(environ)
    if len(failures) > 1 and engine.installed:
        remedy = f"Start codeagent's own engine again with:\n    {engine.start_line}"
    elif len(failures) == 1:
        remedy = "Start that engine, or name another with --docker-host."
    else:
        remedy = (
            "Start Docker, or name an engine with --docker-host or DOCKER_HOST; "
            "on Debian or Ubuntu, root can let codeagent install and start one with --install."
        )
    return SandboxError(f"No Docker Engine answers. Tried: {tried}.", remedy)


def _listed(hosts: list[str], home: str) -> str:
    """Many are the usual sockets, of which paths say enough, short ones."""
    if len(hosts) <= 2:
        return ", ".join(hosts)
    paths = [host.removeprefix("unix://") for host in hosts]
    return ", ".join(f"~{path.removeprefix(home)}" if path.startswith(f"{home}/") else path for path in paths)


def _named(endpoint: Endpoint) -> str:
    return f"{endpoint.host} (from {endpoint.found_by})"


def _owning_group(path: Path) -> str:
    try:
        return grp.getgrgid(path.stat().st_gid).gr_name
    except (OSError, KeyError):
        return "docker"
