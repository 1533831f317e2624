"""The end of the text that is streaming in, as Markdown, redrawn as it grows. What counts comes later, whole."""

from __future__ import annotations

import re

from codeagent.ui.answer import rendered
from codeagent.ui.screen import RENDERED, Line

KEPT_CHARACTERS = 2_000
_FENCE = re.compile(r" {0,3}(```+|~~~+)")


class Preview:
    """Takes pieces of text; gives the lines of its end. Rendering is done only when something has come."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._drawn: tuple[int, int, list[str]] = (0, 0, [])

    def add(self, piece: str) -> None:
        self._pieces.append(piece)

    def clear(self) -> None:
        self._pieces.clear()
        self._drawn = (0, 0, [])

    def lines(self, width: int, most: int, *, colour: bool) -> list[Line]:
        """The last `most` lines at `width` columns."""
        if not self._pieces:
            return []
        pieces, columns, drawn = self._drawn
        if (pieces, columns) != (len(self._pieces), width):
            text = end_of("".join(self._pieces))
            self._pieces = [text]
            drawn = rendered(text, width, colour=colour).splitlines()
            self._drawn = (1, width, drawn)
        return [[("  " + line, RENDERED)] for line in drawn[-most:]]


def end_of(text: str, characters: int = KEPT_CHARACTERS) -> str:
    """The last paragraphs of Markdown text; a code block that is cut keeps the line that opens it."""
    if len(text) <= 2 * characters:
        return text
    opened = ""
    start = 0
    for line in text.splitlines(keepends=True):
        if len(text) - start <= characters and (opened or not line.strip()):
            break
        if fence := _FENCE.match(line):
            opened = "" if opened else f"{fence.group(1)}\n"
        start += len(line)
    return opened + (text[start:] or text[-characters:])
