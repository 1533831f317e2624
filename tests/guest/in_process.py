"""The guest's file operations behind the host's own client, without a container between them."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from guest.files import Files as GuestFiles
from guest.operations import Refusal, Root

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox import files
from codeagent.sandbox.seam import FilePage, Listing


class InProcess:
    """`Channel.call` and `seam.Files` in one."""

    def __init__(self, root: Root) -> None:
        self._root = root
        self._guest = GuestFiles()

    def call(
        self,
        op: str,
        args: Mapping[str, Any],
        body: bytes = b"",
        on_body: Callable[[bytes], None] | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        handler = getattr(self._guest, {"prepare_files": "prepare"}.get(op, op))
        try:
            fields, reply = handler(self._root, json.loads(json.dumps(args)), body)
            content = reply if isinstance(reply, bytes) else b"".join(reply)
        except Refusal as refused:
            raise ToolError(ErrorKind(refused.kind), refused.sentence, refused.detail) from None
        if on_body is not None:
            on_body(content)
            content = b""
        return json.loads(json.dumps(fields)), content

    def read_file(self, path: str, start_line: int | None, end_line: int | None) -> FilePage:
        return files.read_file(self, path, start_line, end_line)

    def list_dir(self, path: str, depth: int, offset: int) -> Listing:
        return files.list_dir(self, path, depth, offset)

    def fetch(self, path: str) -> bytes:
        return files.fetch(self, path)


@contextmanager
def in_process(top: Path, **prepared: Any) -> Iterator[InProcess]:
    """`prepared` is what the host tells the guest about the tree; see `guest.files.Files.prepare`."""
    fd = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        repository = InProcess(Root(fd))
        nothing = {"protect": [], "masked": [], "mounted": [], "prefix": "", "above": [], "folders": {}}
        repository.call("prepare_files", {}, json.dumps({**nothing, **prepared}).encode())
        yield repository
    finally:
        os.close(fd)
