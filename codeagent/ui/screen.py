"""The lower end of a terminal: finished lines scroll away, a small block below them is redrawn in place.

Off a terminal there is no block, and every line is written plain and whole, however long it is.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TextIO

from codeagent.ui import streams
from codeagent.ui.inert import cells, cut

Piece = tuple[str, str]
"""Text that is inert already, and a style's name (`""` for plain)."""

Line = Sequence[Piece]

RENDERED = "rendered"
"""The style of text that fits already and holds the escape sequences of its colours."""

_SGR = {"dim": "2", "bold": "1", "good": "32", "bad": "31", "warn": "33", "name": "36"}
_ERASE_DOWN = "\x1b[J"
_SEQUENCES = re.compile(r"\x1b\[[0-9;]*m")


def reflows(environ: Mapping[str, str]) -> bool:
    """Whether the terminal breaks lines anew when it becomes narrower, as all common ones do but a few that tell.

    To take one that reflows for one that does not leaves a stale line; the other way round, a line that counts
    would be erased. So those that are known not to are asked for: the Linux console, xterm, GNU screen.
    """
    return environ.get("TERM") != "linux" and not environ.keys() & {"XTERM_VERSION", "STY"}


class Screen:
    """Writes to one stream. Not thread-safe: its owner holds the lock."""

    def __init__(
        self, stream: TextIO, environ: Mapping[str, str], *, live: bool = True, no_color: bool = False
    ) -> None:
        self._stream = streams.forgiving(stream)
        self._environ = environ
        self._block: list[int] = []  # the columns that each line of the block takes
        self._reflows = reflows(environ)
        self.live = live and streams.draws(stream, environ)
        self.colour = streams.colours(stream, environ, no_color)
        unicode = streams.speaks_unicode(stream)
        self.spinner = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏" if unicode else "|/-\\"
        self.mark = "…" if unicode else "..."
        self.dot = " · " if unicode else " - "

    @property
    def width(self) -> int:
        # The last column stays free: some terminals wrap as soon as it is filled.
        return streams.width_of(self._stream, self._environ) - 1

    @property
    def height(self) -> int:
        return streams.height_of(self._stream)

    def write(self, lines: Sequence[Line], block: Sequence[Line] = ()) -> None:
        """`lines` for good, above a new block. One write, so that nothing flickers or interleaves."""
        shown = [self._painted(line) + "\n" for line in lines]
        if not self.live:
            self._send("".join(shown))
            return
        fitting = [self.fitted(line) for line in block[-(self.height - 2) :]]
        self._send(self._erasing() + "".join(shown) + "\n".join(map(self._painted, fitting)))
        self._block = [sum(cells(_SEQUENCES.sub("", text)) for text, _ in line) for line in fitting]

    def fitted(self, line: Line) -> Line:
        """`line` cut to the width of the screen."""
        room = self.width
        kept: list[Piece] = []
        for text, style in line:
            if style == RENDERED:
                kept.append((text, style))
                continue
            piece = cut(text, room, self.mark)
            kept.append((piece, style))
            room -= cells(piece)
            if piece != text:
                break
        return kept

    def wrapped(self, text: str, style: str = "dim", hang: int = 0) -> list[Line]:
        """An inert sentence, folded (`codeagent.ui.folding`) on a terminal and nowhere off one.

        What does not fit into the first line begins `hang` columns further right than that line.
        """
        rows = streams.filled(text, self._stream, self._environ, hang=hang).split("\n")
        return [[(row, style)] for row in rows]

    def _erasing(self) -> str:
        if not self._block:
            return ""
        # Where the terminal became narrower meanwhile, it has broken the block's lines into more rows.
        columns = self.width + 1 if self._reflows else max(self._block) or 1
        rows = sum(max(1, -(-taken // columns)) for taken in self._block)
        up = f"\x1b[{rows - 1}A" if rows > 1 else ""
        return f"\r{up}{_ERASE_DOWN}"

    def _painted(self, line: Line) -> str:
        if not self.colour:
            return "".join(text for text, _ in line).rstrip(" ")
        return "".join(
            f"\x1b[{_SGR[style]}m{text}\x1b[0m" if text and style in _SGR else text for text, style in line
        )

    def _send(self, text: str) -> None:
        if not text:
            return
        # Nobody may be left to read progress; the run itself does not depend on it.
        try:
            self._stream.write(text)
            self._stream.flush()
        except BrokenPipeError:
            streams.silence(self._stream)
        except (OSError, ValueError):
            with suppress(OSError, ValueError):
                self._stream.flush()
