"""The table of `codeagent sessions list`: complete where a program reads it, fitted where a person does."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from codeagent.session.catalogue import age
from codeagent.ui import streams
from codeagent.ui.inert import cells, cut, inert_line, padded

if TYPE_CHECKING:
    from codeagent.session.catalogue import Overview

TITLES = ("ID", "AGE", "SIZE", "LOOP", "FIX", "REPOSITORY", "QUESTION")
_LOOP, _REPOSITORY = TITLES.index("LOOP"), TITLES.index("REPOSITORY")
_WIDEST_REPOSITORY = 20
_LEAST_QUESTION = 30
"""Columns; where fewer are left beside the rest, the question gets a line of its own."""


def print_table(overviews: Sequence[Overview]) -> None:
    """On stdout, with a title."""
    on_terminal = streams.on_terminal(sys.stdout)
    rows = [tuple(inert_line(cell) for cell in _row(overview, short=on_terminal)) for overview in overviews]
    if on_terminal:
        lines = _fitted(rows, streams.width_of(sys.stdout, os.environ) - 1)
    else:
        lines = ("  ".join(row).rstrip() for row in _aligned([TITLES, *rows]))
    for line in lines:
        print(line)


def _row(overview: Overview, *, short: bool) -> tuple[str, ...]:
    """The cells; `short` leaves out what a person does not miss."""
    facts = (overview.id, age(overview.changed), _size(overview.size))
    if overview.problem:
        return (*facts, f"({overview.problem})", "", "", "")
    loop = (
        "running"
        if overview.holder is not None
        else overview.outcome or ("not started" if overview.ended else "not ended")
    )
    fix = overview.verification.replace("_", " ")
    repo = PurePath(overview.repo).name or overview.repo if short else overview.repo
    question = " ".join(overview.question.split()) if short else overview.question
    return (*facts, loop, fix, repo, question)


def _size(size: int) -> str:
    return f"{size / 1024:.0f} KB" if size < 1_000_000 else f"{size / (1 << 20):.1f} MB"


def _aligned(table: Sequence[Sequence[str]], widest: int | None = None) -> Iterator[list[str]]:
    """The rows with all cells but the last padded; `widest` bounds the repository's column."""
    widths = [max(cells(row[column]) for row in table) for column in range(len(TITLES) - 1)]
    widths[_REPOSITORY] = min(widths[_REPOSITORY], widest or widths[_REPOSITORY])
    for row in table:
        yield [*(padded(cell, width) for cell, width in zip(row, widths, strict=False)), row[-1]]


def _fitted(rows: Sequence[Sequence[str]], width: int) -> Iterator[str]:
    """As many columns beside each other as there is room for: all, all but the question, or the first three."""
    table = list(_aligned([TITLES, *rows], _WIDEST_REPOSITORY))
    taken = cells("  ".join(table[0][:-1]))
    for row in table:
        if width - taken - 2 >= _LEAST_QUESTION:
            lines = [row]
        elif taken <= width:
            lines = [row[:-1], row[-1:]]
        else:
            lines = [row[:_LOOP], row[_LOOP:-1], row[-1:]]
        for number, line in enumerate(lines):
            text = "  ".join(line).rstrip()
            if text:
                yield cut(f"  {text}" if number else text, width)
