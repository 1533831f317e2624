"""The process's own streams, made fit for foreign text: nothing printed can raise, nothing wraps off a terminal."""

from __future__ import annotations

import io
import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from typing import TextIO

from codeagent.ui.folding import fold

_NARROWEST = 20


def forgiving(stream: TextIO) -> TextIO:
    """The same stream; what its encoding cannot hold is written as `?` from now on instead of raising."""
    if isinstance(stream, io.TextIOWrapper):
        with suppress(ValueError, OSError):
            stream.reconfigure(errors="replace")
    return stream


def silence(stream: TextIO) -> None:
    """Points a stream whose reader has gone at nothing, so that the flush at shutdown does not raise again."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, stream.fileno())
        os.close(nowhere)


def on_terminal(stream: TextIO) -> bool:
    try:
        return stream.isatty()
    except ValueError:  # closed
        return False


def is_file(stream: TextIO) -> bool:
    """Whether it is a plain file: what is written to it appears nowhere else by itself."""
    with suppress(OSError, ValueError):
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    return False


def draws(stream: TextIO, environ: Mapping[str, str]) -> bool:
    """Whether lines can be redrawn in place: a terminal that understands cursor movement."""
    return on_terminal(stream) and environ.get("TERM", "") not in ("dumb", "unknown", "")


def colours(stream: TextIO, environ: Mapping[str, str], no_color: bool) -> bool:
    """Colour goes to capable terminals only, whatever FORCE_COLOR says: a file or a pipe holds plain text."""
    return draws(stream, environ) and not no_color and not environ.get("NO_COLOR")


def speaks_unicode(stream: TextIO) -> bool:
    return "utf" in (stream.encoding or "utf-8").lower()  # a stream of text without bytes has no encoding


def width_of(stream: TextIO, environ: Mapping[str, str]) -> int:
    """Columns of the terminal behind `stream`, at least 20; 80 where nothing is known. COLUMNS wins if positive."""
    columns = 0
    with suppress(ValueError):
        columns = int(environ.get("COLUMNS", ""))
    if columns <= 0:
        with suppress(OSError, ValueError):
            columns = os.get_terminal_size(stream.fileno()).columns
    return max(columns, _NARROWEST) if columns > 0 else 80


def filled(
    text: str, stream: TextIO, environ: Mapping[str, str] = os.environ, *, hang: int = 0, indent: int = 0
) -> str:
    """Inert `text`, each line folded (`codeagent.ui.folding`) where `stream` is a terminal, as it is elsewhere.

    What does not fit into the first row of a line begins `hang` columns further right than that line. Everything
    begins `indent` columns from the left.
    """
    rows = text.split("\n")
    if on_terminal(stream):
        width = width_of(stream, environ) - 1 - indent
        rows = [row for line in rows for row in fold(line, width, len(line) - len(line.lstrip()) + hang)]
    return "\n".join(f"{' ' * indent}{row}" for row in rows)


def height_of(stream: TextIO) -> int:
    with suppress(OSError, ValueError):
        return max(os.get_terminal_size(stream.fileno()).lines, 4)
    return 24
