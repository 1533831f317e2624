"""The lines behind a citation, as the model saw them: found again in the outputs of the calls that it names."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

MOST_LINES = 400

# `12: text`, `12\ttext` or `12| text` as tools number lines; `path:12:text` as grep and ripgrep do.
_NUMBERED = re.compile(r"^\s*(\d+)(?:\t|[:|│→-] ?)(.*)$")


def cited_lines(citation: Mapping[str, Any], outputs: Mapping[str, tuple[str, str]]) -> list[tuple[int, str]]:
    """Number and text of each cited line that an output shows, in order; empty when none does."""
    path = str(citation.get("path"))
    start = int(citation.get("start_line") or 0)
    wanted = range(start, min(int(citation.get("end_line") or start), start + MOST_LINES - 1) + 1)
    found: dict[int, str] = {}
    for call_id in citation.get("call_ids") or ():
        name, output = outputs.get(str(call_id), ("", ""))
        lines = output.splitlines() if name != "read_file" else output.split("\n")
        for number, text in _numbered(lines, path):
            if number in wanted:
                found.setdefault(number, text)
    return sorted(found.items())


def _numbered(lines: Iterable[str], path: str) -> Iterable[tuple[int, str]]:
    for line in lines:
        bare = line.removeprefix("./")
        if bare.startswith(path) and bare[len(path) : len(path) + 1] in (":", "-"):
            bare = bare[len(path) + 1 :]
        if match := _NUMBERED.match(bare):
            yield int(match[1]), match[2]
