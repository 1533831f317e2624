"""Takes away what this process leaves behind, however it ends: containers, volumes, unfinished images, folders.

A container with a guest ends with us, because its connection to us does. One that was made and not yet started has
nothing in it that could end it, and neither has a volume. So each is named to a watcher before it is asked for and
struck off when it is gone. The watcher is a shell in a session of its own, which reads names from a pipe that nobody
but we hold: when the pipe ends, so have we, and if anything is left it becomes `main`, which removes that and ends.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from codeagent.sandbox.endpoints import Endpoint
    from codeagent.sandbox.engine import Engine

Kind = Literal["container", "volume", "image", "path"]

REAP_SECONDS = 4.0
"""How long what is left is looked for. The engine may finish a request after whoever made it has died."""
PAUSE_SECONDS = 0.1
KILLED_AFTER_SECONDS = 5

# Each line names everything that is left; an empty one, nothing. A shell, because it starts in a millisecond and
# takes one megabyte. It leaves its parent, so that whoever ends our process tree or process group does not find it,
# and moves the pipe, because what a shell runs in the background finds its own stdin closed.
_WATCH = """
trap '' HUP INT QUIT TERM
exec 3<&0
{
    left=
    while IFS= read -r line; do left=$line; done <&3
    [ -z "$left" ] || exec "$@" "$left"
} &
"""
_BECOME = "import sys; sys.path[:] = {path!r}; from codeagent.sandbox.reaper import main; main(*sys.argv[1:])"


class Reaper:
    """The near end: what is being made, what is there, what is gone. Costs nothing until something is made.

    Without a watcher (no process can be started, or somebody ended it) work goes on: what is left is then removed at
    the next start, as `codeagent.sandbox.container.reap_orphans` does.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._lock = threading.Lock()
        self._made: dict[tuple[Kind, str], bool] = {}
        self._watcher: subprocess.Popen[bytes] | None = None

    @contextlib.contextmanager
    def making(self, kind: Kind, name: str) -> Iterator[None]:
        """Around the request that makes it. A request without an answer may still be carried out."""
        from docker.errors import APIError

        self.expect(kind, name)
        try:
            yield
        except APIError:
            self.gone(kind, name)
            raise
        self._note(kind, name, made=True)

    def expect(self, kind: Kind, name: str) -> None:
        """It may come to be at any time from now on, until `gone`."""
        self._note(kind, name, made=False)

    def gone(self, kind: Kind, name: str) -> None:
        """It was removed, or never came to be."""
        with self._lock:
            if self._made.pop((kind, name), None) is not None:
                self._tell()

    @contextlib.contextmanager
    def folder(self, prefix: str) -> Iterator[Path]:
        """A temporary folder for as long as the block lasts."""
        path = Path(tempfile.gettempdir(), f"{prefix}{secrets.token_hex(4)}")
        with self.passing(path):
            path.mkdir(mode=0o700)
            yield path

    @contextlib.contextmanager
    def passing(self, path: Path) -> Iterator[None]:
        """What lies at this path of our own lies there no longer than the block lasts."""
        self.expect("path", str(path))
        try:
            yield
        finally:
            _clear(path)
            self.gone("path", str(path))

    def close(self) -> None:
        """Ends the watcher, which first removes what is left."""
        with self._lock:
            watcher, self._watcher = self._watcher, None
        if watcher is not None:
            _hang_up(watcher)

    def _note(self, kind: Kind, name: str, *, made: bool) -> None:
        with self._lock:
            self._made[kind, name] = made
            self._tell()

    def _tell(self) -> None:
        with contextlib.suppress(OSError):
            if self._watcher is None:
                self._watcher = _start(self._endpoint)
            assert self._watcher.stdin  # noqa: S101 -- a pipe
            left = [[kind, name, made] for (kind, name), made in self._made.items()]
            self._watcher.stdin.write(json.dumps(left).encode() + b"\n" if left else b"\n")


def _start(endpoint: Endpoint) -> subprocess.Popen[bytes]:
    # The same modules from the same places; never one from the current folder, which may be the repository.
    become = _BECOME.format(path=[entry for entry in sys.path if entry])
    reaper = [sys.executable, "-P", "-c", become, json.dumps(asdict(endpoint), default=str)]
    return subprocess.Popen(
        ["/bin/sh", "-c", _WATCH, "codeagent-reaper", *reaper],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        bufsize=0,
        start_new_session=True,
    )


def _hang_up(watcher: subprocess.Popen[bytes]) -> None:
    assert watcher.stdin  # noqa: S101 -- a pipe
    watcher.stdin.close()
    watcher.wait()  # it has long left the watching to a process of its own


def _clear(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()


# The far end


def main(endpoint: str, left: str) -> None:
    """Removes what is left. `endpoint` and `left` are JSON."""
    signal.alarm(KILLED_AFTER_SECONDS)  # whatever hangs: nothing of us outlives this
    until = time.monotonic() + REAP_SECONDS
    things: list[tuple[Kind, str, bool]] = [(kind, name, made) for kind, name, made in json.loads(left)]
    for kind, name, _ in things:
        if kind == "path":
            _clear(Path(name))
    if remote := [thing for thing in things if thing[0] != "path"]:
        with contextlib.closing(_connected(endpoint)) as engine:
            # At the same time: the engine answers when it is done with one, and a volume waits for containers.
            removals = [threading.Thread(target=_remove, args=(engine, *thing, until)) for thing in remote]
            for removal in removals:
                removal.start()
            for removal in removals:
                removal.join()


def _connected(endpoint: str) -> Engine:
    from codeagent.sandbox.endpoints import Endpoint, Tls
    from codeagent.sandbox.engine import first

    fields = json.loads(endpoint)
    if (tls := fields.pop("tls")) is not None:
        verify = tls.pop("verify")
        fields["tls"] = Tls(**{name: Path(path) if path else None for name, path in tls.items()}, verify=verify)
    return first([Endpoint(**fields)], os.environ, REAP_SECONDS)


def _remove(engine: Engine, kind: Kind, name: str, made: bool, until: float) -> None:
    """Tries until it is gone; what was only asked for may yet come."""
    import docker.errors
    import requests

    api = engine.client.api
    request: Callable[[], object] = {
        "container": lambda: api.remove_container(name, force=True, v=True),
        "volume": lambda: api.remove_volume(name),
        "image": lambda: api.remove_image(name),
    }[kind]
    with contextlib.suppress(requests.RequestException):
        while time.monotonic() < until:
            try:
                request()
                return
            except docker.errors.NotFound:
                if made:
                    return
            except docker.errors.APIError:
                made = True  # in use, or on its way out
            time.sleep(PAUSE_SECONDS)
