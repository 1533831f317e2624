"""Sentences broken between words for a terminal; what is to be pasted into a shell is never broken.

A newline within a command would end it where it is pasted, so the terminal itself breaks what is too wide for it.
As in Markdown, a command stands in backticks or in a line that is indented by four spaces; one of codeagent's own
may also follow a colon (`Go on: codeagent resume`), up to the end, a semicolon or a bracket.
"""

from __future__ import annotations

import re

from codeagent.ui.inert import cells

CODE_INDENT = "    "
_OWN_COMMAND = r"(?<=: )(?<!error: )codeagent [a-z].*?(?=\.?$|; | \()"
_PIECE = re.compile(rf"\s*(?:{_OWN_COMMAND}|`[^`]+`|\S)+")


def fold(text: str, width: int, indent: int = 0) -> list[str]:
    """One line of inert text as rows of at most `width` columns, the later ones `indent` columns from the left.

    A word or a command that is wider stands in a row of its own, whole.
    """
    if text.startswith(CODE_INDENT):
        return [text]
    rows: list[str] = []
    row = ""
    for piece in _PIECE.findall(text):
        if row.strip() and cells(row) + cells(piece) > width:
            rows.append(row)
            row = " " * indent + piece.lstrip()
        else:
            row += piece
    return [*rows, row]
