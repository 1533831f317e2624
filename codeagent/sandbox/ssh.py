"""An engine behind `ssh://`: the user's own ssh client forwards its socket to one of ours.

The client's stdin is a pipe that we hold: however this process ends, the far side's `cat` reads an end, and the
connection with everything forwarded over it goes away.
"""

from __future__ import annotations

import shutil
import subprocess
import threading
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote, urlsplit

from codeagent.sandbox.reaper import Reaper

REMOTE_SOCKET = "/var/run/docker.sock"
READY = b"codeagent: forwarded\n"


@dataclass(frozen=True)
class Forward:
    """A socket on this machine behind which the far engine answers."""

    socket: Path
    _client: subprocess.Popen[bytes]
    _folder: ExitStack

    def close(self) -> None:
        assert self._client.stdin and self._client.stdout  # noqa: S101 -- both are pipes
        self._client.stdin.close()
        self._client.stdout.close()
        self._client.terminate()
        self._client.wait()
        self._folder.close()


def forward(url: str, seconds: float, reaper: Reaper) -> Forward:
    """Connects to `ssh://[user@]host[:port][/path/of/docker.sock]`. OSError says why not, in ssh's words."""
    parts = urlsplit(url)
    if not parts.hostname:
        raise OSError("it names no host")
    if not shutil.which("ssh"):
        raise OSError("the ssh client is not installed")
    folder = ExitStack()
    local = folder.enter_context(reaper.folder("codeagent-ssh-")) / "docker.sock"
    client = subprocess.Popen(
        [
            "ssh",
            # Nobody is asked anything here: keys come from the agent or the user's configuration.
            *("-o", "BatchMode=yes", "-o", f"ConnectTimeout={max(1, round(seconds))}"),
            *("-o", "ExitOnForwardFailure=yes", "-o", "ServerAliveInterval=15"),
            *("-L", f"{local}:{unquote(parts.path) if len(parts.path) > 1 else REMOTE_SOCKET}"),
            *(("-p", str(parts.port)) if parts.port else ()),
            *(("-l", unquote(parts.username)) if parts.username else ()),
            "--",
            parts.hostname,
            f"echo {READY.decode().strip()}; exec cat >/dev/null",
        ],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    assert client.stdout and client.stderr  # noqa: S101 -- both are pipes
    made = Forward(local, client, folder)
    # ConnectTimeout ends with the first packet; a server that goes silent after it would hold us for ever.
    alarm = threading.Timer(2 * seconds, client.kill)
    alarm.start()
    try:
        # What a login script prints comes first.
        ready = any(line == READY for line in client.stdout)
    except BaseException:
        made.close()
        raise
    finally:
        alarm.cancel()
    if ready:
        client.stderr.close()
        return made
    said = client.stderr.read().decode(errors="replace").strip()
    client.stderr.close()
    made.close()
    raise OSError(said.splitlines()[-1].strip() if said else "ssh ended without a word")
