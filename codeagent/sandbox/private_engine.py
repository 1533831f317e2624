"""codeagent's own Docker Engine, for a Debian or Ubuntu machine that has none.

`install_and_start` installs the distribution's packages and starts a `dockerd` of which everything (images, socket,
log, pid) lies below the user's cache, so that the next run finds engine and images again. It has no bridge and
touches no firewall rule: the sandbox's containers have no network anyway.
"""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from codeagent.errors import SandboxError
from codeagent.sandbox.endpoints import private_socket, socket_failure, usual_sockets

Say = Callable[[str], None]
"""Takes a line for the user, or several at once; one that is indented by four spaces is a command."""

KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
START_SECONDS = 60.0
SYSTEM_ENGINE_SECONDS = 5.0
_SOCKET_PATH_LIMIT = 107  # sun_path holds 108 bytes with its NUL


@dataclass(frozen=True, slots=True)
class PrivateEngine:
    """An engine of which everything lies in `folder`."""

    folder: Path

    @classmethod
    def at_home(cls, environ: Mapping[str, str] = os.environ) -> PrivateEngine:
        return cls(private_socket(environ).parent)

    @property
    def socket(self) -> Path:
        return self.folder / "docker.sock"

    @property
    def url(self) -> str:
        return f"unix://{self.socket}"

    @property
    def log(self) -> Path:
        return self.folder / "dockerd.log"

    @property
    def pidfile(self) -> Path:
        return self.folder / "dockerd.pid"

    @property
    def installed(self) -> bool:
        """Whether it was ever started here."""
        return (self.folder / "data").is_dir()

    @property
    def argv(self) -> list[str]:
        return [
            "dockerd",
            f"--host={self.url}",
            f"--data-root={self.folder / 'data'}",
            f"--exec-root={self.folder / 'exec'}",
            f"--pidfile={self.pidfile}",
            "--bridge=none",
            "--iptables=false",
            "--ip-masq=false",
        ]

    @property
    def start_line(self) -> str:
        return f"setsid {shlex.join(self.argv)} >>{shlex.quote(str(self.log))} 2>&1 </dev/null &"

    @property
    def stop_line(self) -> str:
        return f'kill "$(cat {shlex.quote(str(self.pidfile))})"'


def install_and_start(say: Say, environ: Mapping[str, str] = os.environ) -> str:
    """Makes an engine answer on this machine and returns its URL. Call it when `connect` found none.

    Runs apt-get for what is missing and starts the private engine, unless the packages brought the system's own
    engine up. SandboxError when it may not or cannot.
    """
    engine = PrivateEngine.at_home(environ)
    if socket_failure(engine.socket) is None:
        return engine.url
    if os.geteuid() != 0:
        raise SandboxError(
            "Installing and starting a Docker Engine needs root.",
            "Run the same command as root (with sudo), or install Docker yourself: https://docs.docker.com/engine/install/",
        )
    new = not shutil.which("dockerd")
    _install((["docker.io"] if new else []) + _build_packages(), say)
    if new and (system := _system_engine(environ)):
        say(f"The system's own Docker Engine answers at {system}.")
        return system
    _start(engine, say)
    # Each command is a line of its own, and both come at once: they are there to be copied.
    say(
        f"Docker Engine started. To stop it:\n    {engine.stop_line}\n"
        f"To start it again (after a reboot too):\n    {engine.start_line}"
    )
    return engine.url


def install_build_packages(say: Say) -> None:
    """Installs what building the default image without a registry needs. Does nothing for others than root."""
    if os.geteuid() == 0:
        _install(_build_packages(), say)


def _build_packages() -> list[str]:
    return ([] if shutil.which("debootstrap") else ["debootstrap"]) + (
        [] if KEYRING.is_file() else ["debian-archive-keyring"]
    )


def _install(packages: list[str], say: Say) -> None:
    if not packages:
        return
    if not shutil.which("apt-get"):
        raise SandboxError(
            f"{' and '.join(packages)} are missing, and this machine has no apt-get to install them with.",
            "Install Docker Engine the way your distribution does it, then run the command again.",
        )
    say(f"Installing {', '.join(packages)} with apt-get (a minute or two).")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update"], ["install", "--yes", "--no-install-recommends", *packages]):
        done = subprocess.run(
            ["apt-get", "-q", "-o", "DPkg::Lock::Timeout=120", *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            errors="replace",
        )
        # A broken third-party source fails `update` though Debian's own lists are there: installing decides.
        if done.returncode and arguments[0] == "install":
            raise SandboxError(
                f"apt-get could not install {', '.join(packages)}: {_last_line(done.stdout)}",
                "Run `apt-get install docker.io debootstrap` to see why, then run the command again.",
            )


def _system_engine(environ: Mapping[str, str]) -> str | None:
    """The engine that the package's own service started, where the machine has a service manager."""
    if not Path("/run/systemd/system").is_dir():
        return None
    socket = usual_sockets(environ)[0]
    deadline = time.monotonic() + SYSTEM_ENGINE_SECONDS
    while socket_failure(socket) is not None:
        if time.monotonic() > deadline:
            return None
        time.sleep(0.1)
    return f"unix://{socket}"


def _start(engine: PrivateEngine, say: Say) -> None:
    if len(os.fsencode(engine.socket)) > _SOCKET_PATH_LIMIT:
        raise SandboxError(
            f"The path of the engine's socket is too long: {engine.socket}.",
            "Set CODEAGENT_HOME to a folder with a shorter path.",
        )
    say(f"Starting a Docker Engine in {engine.folder}.")
    engine.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    # The very line that is printed. It has a session of its own: Ctrl-C and the end of the terminal are meant for
    # codeagent, not for the engine.
    started = subprocess.run(["sh", "-c", f"{engine.start_line} echo $!"], stdout=subprocess.PIPE, text=True, cwd="/")
    pid = started.stdout.strip()
    deadline = time.monotonic() + START_SECONDS
    while socket_failure(engine.socket) is not None:
        if not _runs(pid) or time.monotonic() > deadline:
            raise SandboxError(
                f"The Docker Engine did not start: {_last_line(engine.log.read_text(errors='replace'))}",
                f"Its log is {engine.log}; in a container, it needs --privileged.",
            )
        time.sleep(0.05)


def _runs(pid: str) -> bool:
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:300] if lines else "no reason given"
