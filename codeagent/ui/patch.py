"""A stored patch as a person reads it: nothing in it acts or hides, and binary parts are one line each."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeagent.patches import split_lines
from codeagent.ui.inert import revealed

_SIZE = re.compile(rb"(literal|delta) (\d+)")


def readable(patch: bytes) -> str:
    """The patch as text. Only the parts in which git packs binary contents are shortened, to their sizes."""
    return "".join(f"{line}\n" for line in _lines(split_lines(patch)))


def _lines(lines: list[bytes]) -> Iterator[str]:
    at = 0
    while at < len(lines):
        line = lines[at]
        at += 1
        if line == b"GIT binary patch\n":
            parts: list[str] = []
            while at < len(lines) and (match := _SIZE.match(lines[at])):
                parts.append(_part(match[1], int(match[2])))
                while at < len(lines) and lines[at] != b"\n":
                    at += 1
                at += 1
            yield f"Binary contents: {' in place of '.join(parts)}"
        else:
            yield _shown(line.removesuffix(b"\n"))


def _part(kind: bytes, size: int) -> str:
    return f"{size:,} bytes" if kind == b"literal" else f"a delta of {size:,} bytes"


def _shown(line: bytes) -> str:
    """One line with everything visible but blanks and tabs, which a diff is full of."""
    return "\t".join(map(revealed, line.decode("utf-8", "surrogateescape").split("\t")))
