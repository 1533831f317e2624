"""Whole outputs of commands as files of the session's folder, shown to the model as `/outputs/<call_id>.txt`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox import files
from codeagent.sandbox.channel import Channel
from codeagent.sandbox.seam import FilePage

PREFIX = "/outputs/"


def saved_name(call_id: str) -> str:
    """The file name under which a call's output is kept; call ids come from outside and may hold anything."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", call_id):
        return f"{call_id}.txt"
    return f"{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.txt"


def is_saved(path: str) -> bool:
    """Whether the path means a saved output, not a file of the repository."""
    return path.startswith(PREFIX)


def read_saved(channel: Channel, folder: Path, path: str, start_line: int | None, end_line: int | None) -> FilePage:
    """One page of a saved output; the guest cuts the page, as it does for files. ToolError as read_file."""
    name = path.removeprefix(PREFIX)
    if re.fullmatch(r"[A-Za-z0-9_-]+\.txt", name) is None:
        raise _missing(path, folder)
    try:
        content = (folder / name).read_bytes()
    except OSError:
        raise _missing(path, folder) from None
    return files.read_file(_Redirected(channel, content), path, start_line, end_line)


def _missing(path: str, folder: Path) -> ToolError:
    there = sorted(file.name for file in folder.glob("*.txt")) if folder.is_dir() else []
    known = "\n".join(f"{PREFIX}{name}" for name in there[-20:])
    return ToolError(ErrorKind.FILE_NOT_FOUND, f"there is no saved output {path!r}", known)


@dataclass(frozen=True, slots=True)
class _Redirected:
    """Asks for a page of `content` where a page of a file is asked for."""

    channel: Channel
    content: bytes

    def call(self, _op: str, args: Mapping[str, Any], _body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        return self.channel.call("read_saved", args, self.content)
