"""Servers on Unix sockets that stand where a Docker Engine would: one tells version and volumes, one is no engine."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from urllib.parse import urlsplit

Volumes = dict[str, Mapping[str, str]]


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        if self.server.version is None:
            self._answer(404, {"message": "no"})
        elif self.path.endswith("/version"):
            self._answer(200, {"Version": self.server.version, "ApiVersion": "1.41", "Arch": "amd64"})
        elif self.path.endswith("/system/df"):
            unused = {"Size": 0, "RefCount": 0}
            held = self.server.volumes.items()
            self._answer(200, {"Volumes": [{"Name": name, "Labels": own, "UsageData": unused} for name, own in held]})
        elif self.path.endswith("/volumes"):
            self._answer(
                200, {"Volumes": [{"Name": name, "Labels": own} for name, own in self.server.volumes.items()]}
            )
        elif urlsplit(self.path).path.endswith(("/containers/json", "/images/json")):
            self._answer(200, [])
        else:
            self._answer(404, {"message": "no"})

    def do_DELETE(self) -> None:
        name = urlsplit(self.path).path.rpartition("/volumes/")[2]
        if self.server.volumes.pop(name, None) is None:
            self._answer(404, {"message": "no"})
        else:
            self.send_response(204)
            self.end_headers()

    def _answer(self, code: int, content: object) -> None:
        body = json.dumps(content).encode()
        self.send_response(code)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def address_string(self) -> str:
        return "client"

    def log_message(self, format: str, *args: object) -> None:
        pass


class _Server(socketserver.ThreadingUnixStreamServer):
    daemon_threads = True

    def __init__(self, path: Path, version: str | None, volumes: Volumes) -> None:
        self.version = version
        self.volumes = volumes
        super().__init__(str(path), _Answer)


@contextlib.contextmanager
def engine_at(path: Path, version: str | None, volumes: Mapping[str, Mapping[str, str]] = {}) -> Iterator[Volumes]:
    """Answers `/version` with `version`; with None, 404 to everything, as a server that is no engine.

    Yields the volumes that it holds, by name with their labels; those that it is told to remove disappear from it.
    """
    held = dict(volumes)
    path.parent.mkdir(parents=True, exist_ok=True)
    with _Server(path, version, held) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield held
        finally:
            server.shutdown()
            thread.join()
