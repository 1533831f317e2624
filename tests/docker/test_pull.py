"""An image that the engine lacks is pulled, from a registry that speaks as much of the protocol as a pull needs."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import os
import tarfile
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from uuid import uuid4

import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox import image as images
from codeagent.sandbox.engine import Engine

MANIFEST = "application/vnd.docker.distribution.manifest.v2+json"
CONFIG = "application/vnd.docker.container.image.v1+json"
LAYER = "application/vnd.docker.image.rootfs.diff.tar.gzip"


def digest(content: bytes) -> str:
    return "sha256:" + hashlib.sha256(content).hexdigest()


class Registry(ThreadingHTTPServer):
    """Has one image, `tiny:1`, of a layer with one file that does not compress."""

    def __init__(self, architecture: str) -> None:
        super().__init__(("127.0.0.1", 0), Answer)
        archive = io.BytesIO()
        with tarfile.open(fileobj=archive, mode="w") as tar:
            member = tarfile.TarInfo("noise")
            member.size = 3 << 20
            tar.addfile(member, io.BytesIO(os.urandom(member.size)))
        layer = gzip.compress(archive.getvalue(), 1)
        config = json.dumps(
            {
                "architecture": architecture,
                "os": "linux",
                "config": {"Cmd": ["/noise"]},
                "rootfs": {"type": "layers", "diff_ids": [digest(archive.getvalue())]},
            }
        ).encode()
        described = [
            {"mediaType": kind, "size": len(content), "digest": digest(content)}
            for kind, content in ((CONFIG, config), (LAYER, layer))
        ]
        manifest = {"schemaVersion": 2, "mediaType": MANIFEST, "config": described[0], "layers": described[1:]}
        self.manifest = json.dumps(manifest).encode()
        self.blobs = {digest(content): content for content in (config, layer)}

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.server_address[1]}"


class Answer(BaseHTTPRequestHandler):
    """GET and HEAD of `/v2/`, a manifest by name or digest, and a blob."""

    server: Registry

    def do_GET(self) -> None:
        registry = self.server
        wanted = self.path.rpartition("/")[2]
        if self.path == "/v2/":
            self._send(b"{}", "application/json")
        elif self.path.startswith("/v2/tiny/manifests/") and wanted in ("1", digest(registry.manifest)):
            self._send(registry.manifest, MANIFEST)
        elif self.path.startswith("/v2/tiny/blobs/") and wanted in registry.blobs:
            self._send(registry.blobs[wanted], "application/octet-stream")
        else:
            unknown = {"code": "MANIFEST_UNKNOWN", "message": "manifest unknown"}
            self._send(json.dumps({"errors": [unknown]}).encode(), "application/json", 404)

    do_HEAD = do_GET

    def _send(self, content: bytes, kind: str, status: int = 200) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Docker-Content-Digest", digest(content))
        self.end_headers()
        if self.command == "GET":
            self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        pass


@pytest.fixture
def registry(engine: Engine) -> Iterator[Registry]:
    with Registry(engine.architecture) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_a_missing_image_is_pulled_with_progress(engine: Engine, registry: Registry) -> None:
    name = f"{registry.address}/tiny:1"
    steps: list[tuple[str, int, int]] = []
    try:
        found = images.ensure(engine, name, lambda *step: steps.append(step))
        assert (found.reference, found.architecture) == (name, engine.architecture)
        assert {what for what, _, _ in steps} == {f"pulling {name}"}
        assert all(0 <= done <= total for _, done, total in steps)
        assert images.ensure(engine, name, lambda *step: steps.clear()) == found
        assert steps  # found, and not asked for again
    finally:
        engine.client.api.remove_image(name)


def test_an_image_that_the_registry_does_not_have_is_an_error_with_its_reason(
    engine: Engine, registry: Registry
) -> None:
    name = f"{registry.address}/other-{uuid4().hex[:8]}:1"
    with pytest.raises(SandboxError) as raised:
        images.ensure(engine, name, lambda *step: None)
    assert raised.value.message.startswith(f"The engine has no image '{name}' and could not pull it: ")
    assert raised.value.message.endswith("manifest unknown")
    assert raised.value.exit_code == 4
