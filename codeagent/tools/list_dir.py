"""list_dir: what is in a folder, without what git ignores."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codeagent.inference import ToolSpec
from codeagent.sandbox.seam import Entry, EntryKind, Files, Listing
from codeagent.tools.paths import quoted, unquoted
from codeagent.tools.result import TextShown, ToolResult

MAX_DEPTH = 64

SPEC = ToolSpec(
    "list_dir",
    "Entries of a folder with kind and size, folders first; at most 1,000 a page. What git ignores is counted and "
    "left out (name an ignored folder to see into it); links are shown with their target and not followed.",
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["path", "depth", "offset"],
        "properties": {
            "path": {"type": "string", "description": "Relative to the repository's root; `.` is the root."},
            "depth": {
                "type": ["integer", "null"],
                "minimum": 1,
                "maximum": MAX_DEPTH,
                "description": "Levels to show; null: 1.",
            },
            "offset": {"type": ["integer", "null"], "minimum": 0, "description": "Entries to skip; null: 0."},
        },
    },
)


def run(files: Files, arguments: Mapping[str, Any]) -> ToolResult:
    """Carries out one call. ToolError when it cannot be done."""
    listing = files.list_dir(unquoted(arguments["path"]), arguments["depth"] or 1, arguments["offset"] or 0)
    text = render(listing)
    return ToolResult(text, facts=(TextShown(text, len(listing.entries) < listing.total or not listing.counted),))


def render(listing: Listing) -> str:
    """One entry a line: folders end in a slash, links name their target, files their size in bytes."""
    return "\n".join([_header(listing), *map(_line, listing.entries), *_next(listing)])


def _header(listing: Listing) -> str:
    where = quoted(listing.path) if listing.path else "."
    first, last = listing.offset + 1, listing.offset + len(listing.entries)
    if listing.entries:
        span = f"entries {first}-{last} of {'' if listing.counted else 'more than '}{listing.total}"
    elif listing.total:
        span = f"no entries from offset {listing.offset} on; there are {listing.total}"
    else:
        span = "empty"
    ignored = f"; {listing.ignored} ignored by git not shown" if listing.ignored else ""
    return f"{where}: {span}{ignored}" + "".join(f"; {note}" for note in listing.notes)


def _line(entry: Entry) -> str:
    name = quoted(entry.path)
    match entry.kind:
        case EntryKind.DIRECTORY:
            shown = name + "/"
        case EntryKind.SYMLINK:
            shown = f"{name} -> {quoted(entry.target or '')}"
        case EntryKind.FILE:
            shown = name if entry.size is None else f"{name}  {entry.size}"
        case EntryKind.OTHER:
            shown = f"{name}  (no file: FIFO, socket or device)"
    return f"{shown}  (protected)" if entry.protected else shown


def _next(listing: Listing) -> list[str]:
    last = listing.offset + len(listing.entries)
    left = listing.total - last
    if not listing.entries or (left <= 0 and listing.counted):
        return []
    return [f"[{f'{left} ' if listing.counted else ''}more entries; read on with offset={last}]"]
