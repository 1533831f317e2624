"""Markdown by a model, to be rendered by somebody else: nothing in it leads out, loads anything or becomes markup."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeagent.ui.inert import inert
from codeagent.ui.literal import answer_parser, bold_at

# An escaped character, a run of backticks, what HTML, links, images and entities begin with, and what others take
# for emphasis.
_PIECE = re.compile(r"\\.|`+|<|\[|&(?=#?\w+;)|~|\*+|_+", re.DOTALL)


def inert_markdown(text: str) -> str:
    """`text` with the same structure and the same code; its HTML, links and images stay as they were typed.

    What is code is decided as CommonMark does, block by block (https://spec.commonmark.org/0.31.2/#code-spans), so
    that a backtick in one place cannot make code of what follows in another.
    """
    lines = inert(text).split("\n")
    shown: list[str] = []
    for start, end, code in _blocks("\n".join(lines)):
        shown += (_cells(line) for line in lines[len(shown) : start])
        block = lines[start:end]
        shown += block if code else _escaped("\n".join(block)).split("\n")
    shown += (_cells(line) for line in lines[len(shown) :])
    return "\n".join(shown)


def lines_of_code(text: str) -> frozenset[int]:
    """The numbers, from 0, of the lines of `text` that stand in blocks of code."""
    return frozenset(line for start, end, code in _blocks(text) if code for line in range(start, end))


def _blocks(text: str) -> Iterator[tuple[int, int, bool]]:
    """First line, line after the last, and whether it stays as it is, of each block that is read as one text."""
    in_table = False
    for token in answer_parser().parse(text):
        if token.type in ("table_open", "table_close"):
            in_table = token.type == "table_open"
        elif token.map and not in_table and token.type in ("fence", "code_block", "hr", "inline"):
            yield token.map[0], token.map[1], token.type != "inline"


def _cells(line: str) -> str:
    """A line of a table, or of no block at all: code never goes beyond a bar."""
    return "|".join(map(_escaped, line.split("|")))


def _escaped(text: str) -> str:
    pieces, end = [], 0
    bold = bold_at(answer_parser(), text) if "**" in text else ()
    while match := _PIECE.search(text, end):
        pieces.append(text[end : match.start()])
        found, end = match.group(), match.end()
        if found[0] == "`" and (closing := re.search(rf"(?<!`){found}(?!`)", text[end:])):
            # HTML at the beginning of a line would end the paragraph, and with it the code.
            code = re.sub(r"(\n[ \t>]*)<", r"\1&lt;", text[end : end + closing.end()])
            found, end = found + code, end + closing.end()
        elif found[0] in "[&~" or (found[0] in "_*" and match.start() not in bold and not _harmless(match)):
            found = "".join(f"\\{one}" for one in found)
        pieces.append("&lt;" if found == "<" else found)
    return "".join([*pieces, text[end:]])


def _harmless(run: re.Match[str]) -> bool:
    """Whether asterisks or underscores are no emphasis anywhere: alone, beginning a list, or `_` within a word."""
    before, after = run.string[: run.start()], run.string[run.end() : run.end() + 1]
    if not after.strip():
        return not before[-1:].strip() or not before.rpartition("\n")[2].strip(" \t>")
    return run.group()[0] == "_" and before[-1:].isalnum() and after.isalnum()
