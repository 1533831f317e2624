"""Reads `events.jsonl`, however it was damaged.

Lines end at LF bytes and nowhere else. A line that is not an event (torn, zeroed, not UTF-8, not JSON, without a
type) is left out and counted; nothing is ever rewritten. Lines are read one at a time, so a long log costs time
but not memory.
"""

from __future__ import annotations

import json
import mmap
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

from codeagent.session.journal import Record

LONGEST_LINE = 64 << 20  # bytes; longer than anything that is written
_BOM = b"\xef\xbb\xbf"


def parse(line: bytes) -> Record | None:
    """The event on one line, or None when there is none."""
    try:
        record = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        return None
    if isinstance(record, dict) and isinstance(record.get("type"), str):
        return record
    return None


class Log:
    """One pass over a log. `damaged` counts the lines left out so far; blank ones are not damage."""

    def __init__(self, file: Path) -> None:
        self.file = file
        self.damaged = 0

    def __iter__(self) -> Iterator[Record]:
        """Raises OSError when the file cannot be read at all."""
        self.damaged = 0
        with self.file.open("rb") as stream:
            first = True
            while line := stream.readline(LONGEST_LINE):
                if not line.endswith(b"\n") and len(line) == LONGEST_LINE:
                    _skip_line(stream)
                    self.damaged += 1
                    continue
                line = line.removeprefix(_BOM) if first else line
                first = False
                if not line.strip():
                    continue
                record = parse(line)
                if record is None:
                    self.damaged += 1
                else:
                    yield record


def _skip_line(stream: Any) -> None:
    while (part := stream.readline(1 << 20)) and not part.endswith(b"\n"):
        pass


def last_of(file: Path, type_: str, wanted: Callable[[Record], object] = bool) -> Record | None:
    """The last readable event of one type that is `wanted`, found from the end; what stands before it is not read.

    Relies on how lines are written here (`type` first, no spaces); lines of another writer are not found.
    """
    mark = b'{"type":"' + type_.encode("ascii") + b'"'
    # ValueError: an empty file cannot be mapped
    with (
        suppress(OSError, ValueError),
        file.open("rb") as stream,
        mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as content,
    ):
        at = content.rfind(mark)
        while at >= 0:
            if at == 0 or content[at - 1] == 0x0A:
                end = content.find(b"\n", at)
                record = parse(content[at : end if end >= 0 else len(content)])
                if record is not None and wanted(record):
                    return record
            at = content.rfind(mark, 0, at)
    return None
