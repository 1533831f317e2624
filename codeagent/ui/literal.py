"""Which Markdown in an answer is markup. Answers are full of names, and a name is shown as it was typed.

`__init__.py`, `a*b*c`, `src/**/x.py`, `*file*`, `handlers[name](event)` and `List<String>` all mean something else
in Markdown. Of what stands within a line, only code and `**bold**` around whole words is markup.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.rules_inline import StateInline

# What would lead out of the page, hide something or say something else than what was written.
_LEFT_AS_TEXT = ["html_inline", "html_block", "entity", "link", "image", "autolink", "reference"]

# Beside these characters, asterisks are part of a name, a pattern or a formula.
_NAME_BEFORE = re.compile(r"[A-Za-z0-9_/\\$.~*-]\Z")
_NAME_AFTER = re.compile(r"[A-Za-z0-9_/\\$~*]|[.-][A-Za-z0-9_*/]")


def answer_parser() -> MarkdownIt:
    """Parses answers: blocks, tables, code and bold; everything else is text."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt().enable("table").disable(_LEFT_AS_TEXT)
    parser.inline.ruler.at("emphasis", _bold)
    return parser


def bold_at(parser: MarkdownIt, text: str) -> set[int]:
    """Where in `text`, read as one stretch of lines, the asterisks stand that make something bold."""
    (line,) = parser.parseInline(text)
    marks = (token for token in line.children or () if token.type in ("strong_open", "strong_close"))
    return {at + one for token in marks for at in (token.meta["at"],) for one in (0, 1)}


def _bold(state: StateInline, silent: bool) -> bool:
    """In place of emphasis (https://spec.commonmark.org/0.31.2/#emphasis-and-strong-emphasis): `**` and no more."""
    from markdown_it.rules_inline.state_inline import Delimiter

    marker = state.src[state.pos]
    if silent or marker not in "*_":
        return False
    start, run = state.pos, state.scanDelims(state.pos, canSplitWord=True)
    state.pos = end = start + run.length
    opens = run.can_open and not _NAME_BEFORE.search(state.src[:start][-1:]) and state.src[end : end + 1] != "/"
    closes = run.can_close and not _NAME_AFTER.match(state.src, end) and state.src[start - 1 : start] != "/"
    if marker == "_" or run.length != 2 or not (opens or closes):
        state.append_pending(marker * run.length)
        return True
    for _ in range(2):
        token = state.push("text", "", 0)
        token.content, token.meta = marker, {"at": start}
        state.delimiters.append(Delimiter(ord(marker), 2, len(state.tokens) - 1, -1, opens, closes))
    return True
