"""Servers on Unix sockets that stand where a Docker Engine would: one tells its version, one is no engine."""

from __future__ import annotations

import contextlib
import json
import socketserver
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler
from pathlib import Path


class _Answer(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: _Server

    def do_GET(self) -> None:
        found = self.path.endswith("/version") and self.server.version is not None
        body = json.dumps(
            {"Version": self.server.version, "ApiVersion": "1.41", "Arch": "amd64"} if found else {"message": "no"}
        ).encode()
        self.send_response(200 if found else 404)
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

    def __init__(self, path: Path, version: str | None) -> None:
        self.version = version
        super().__init__(str(path), _Answer)


@contextlib.contextmanager
def engine_at(path: Path, version: str | None) -> Iterator[None]:
    """Answers `/version` with `version`; with None, answers 404 to everything, as a server that is no engine."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with _Server(path, version) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield
        finally:
            server.shutdown()
            thread.join()
