"""However wide a terminal draws a character, what a page of the prompt holds stays on the screen."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.approval.classify import classify
from codeagent.approval.gate import Answer, Question
from codeagent.approval.rules import Rules
from codeagent.approval.seam import Review
from codeagent.ui.approval import Prompt

WidthOf = Callable[[str], int]


class Screen:
    """A terminal as the prompt writes on it: counts the rows since the last key, turns each page with Enter."""

    encoding = "utf-8"

    def __init__(self, size_of: int, keys: int, columns: int, width_of: WidthOf) -> None:
        self._size_of, self._keys, self._columns, self._width_of = size_of, keys, columns, width_of
        self._page = ""
        self.pages: list[tuple[int, str]] = []

    def fileno(self) -> int:
        return self._size_of

    def isatty(self) -> bool:
        return True

    def flush(self) -> None:
        pass

    def write(self, text: str) -> int:
        self._page += re.sub(r"\x1b\[[0-9;]*m", "", text)
        if text.endswith(": "):
            self.pages.append((sum(map(self._rows, self._page.split("\n"))), self._page))
            self._page = ""
            os.write(self._keys, b"\n")
        return len(text)

    def _rows(self, line: str) -> int:
        """Rows of one line; a wide character that does not fit into the rest of a row leaves that empty."""
        rows, at = 1, 0
        for character in line:
            width = 1 if character.isascii() else self._width_of(character)
            if at + width > self._columns:
                rows, at = rows + 1, 0
            at += width
        return rows


@contextmanager
def screen(columns: int, rows: int, width_of: WidthOf) -> Iterator[tuple[Prompt, Screen]]:
    with ExitStack() as stack:
        master, terminal = os.openpty()
        reading, keys = os.pipe()
        for descriptor in (master, terminal, keys):
            stack.callback(os.close, descriptor)
        fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        drawn = Screen(terminal, keys, columns, width_of)
        stdin = stack.enter_context(os.fdopen(reading, encoding="utf-8"))
        yield Prompt(stdin=stdin, stderr=drawn, environ={"TERM": "xterm"}, guard_seconds=0), drawn  # type: ignore[arg-type]


# Emoji with joiners and flags, marks, ambiguous and private characters, and everything that Unicode may yet name.
PIECES = [
    "\u4dc0",
    "e\u0301",
    "\u0338",
    "¡",
    "…",
    "👩\u200d🔬",
    "🇩🇪",
    "❤\ufe0f",
    "\ue000",
    "\U00040000",
    "数",
    "ｙ",
    "가",
    "a",
    " ",
]
TEXT = st.lists(st.one_of(st.sampled_from(PIECES), st.characters(exclude_categories=["Cs"])), max_size=300).map(
    "".join
)


@pytest.mark.slow
@settings(deadline=None, max_examples=80)
@given(
    st.lists(TEXT, max_size=12),
    TEXT,
    st.integers(20, 90),
    st.integers(8, 30),
    st.dictionaries(st.sampled_from("".join(PIECES)), st.integers(0, 2)),
    st.integers(1, 2),
)
def test_no_page_is_higher_than_the_screen(
    lines: list[str], covered: str, columns: int, rows: int, widths: dict[str, int], other: int
) -> None:
    command = "\n".join(["touch first", *lines])
    review = Review("c", "run_command", command, f"dir/{covered[:20]}", True, classify(command, Rules()))
    question = Question(review, prefix=("touch",), covers=(covered, command), denied=1)
    with screen(columns, rows, lambda character: widths.get(character, other)) as (prompt, drawn):
        assert prompt(question) == Answer("no")
    assert "| touch first" in drawn.pages[0][1]
    pages = [page for page in drawn.pages if "stops:" in page[1]] or drawn.pages
    assert all(height <= rows for height, _ in pages)
