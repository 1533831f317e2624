"""Pages of text that the host holds: whole outputs of commands, which lie out of the container's reach."""

from __future__ import annotations

from typing import Any

from guest.encodings import UTF8
from guest.operations import Refusal, Reply, Root
from guest.pages import PageReader


def read_saved(_root: Root, args: dict[str, Any], body: bytes) -> Reply:
    """A page of `body` as `read_file` gives one of a file; `path` is only repeated."""
    first = 1 if args["start"] is None else args["start"]
    last = args["end"]
    if first < 1 or (last is not None and last < first):
        raise Refusal("invalid_arguments", f"lines {first} to {last} are not a range; lines are counted from 1")
    page = PageReader(UTF8, first, last)
    page.feed(body)
    page.feed(b"", final=True)
    if first > max(page.total_lines, 1):
        raise Refusal(
            "invalid_arguments", f"line {first} is past the end: {args['path']} has {page.total_lines} lines"
        )
    fields = {
        "path": args["path"],
        "first": first,
        "count": len(page.lines),
        "omitted": sorted(page.omitted.items()),
        "total_lines": page.total_lines,
        "size": page.counts.size,
        "sha256": page.sha256,
        "encoding": UTF8.codec,
        "notes": [],
    }
    return fields, "\n".join(page.lines).encode("utf-8", "replace")
