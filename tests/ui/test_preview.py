from __future__ import annotations

from codeagent.ui.preview import Preview, end_of
from codeagent.ui.screen import RENDERED


def shown(preview: Preview, most: int = 10) -> list[str]:
    return [text for line in preview.lines(40, most, colour=False) for text, _ in line]


def test_pieces_are_shown_as_markdown_that_grows() -> None:
    preview = Preview()
    assert shown(preview) == []
    for piece in ("# Cau", "se\n\nThe `ca", "che` is **asked** first."):
        preview.add(piece)
    assert shown(preview) == ["  Cause", "  ", "  The cache is asked first."]
    preview.add(" Then")
    assert shown(preview, 1) == ["  The cache is asked first. Then"]
    preview.clear()
    assert shown(preview) == []


def test_an_open_code_block_is_code_already() -> None:
    preview = Preview()
    preview.add("```java\nList<String> **x**;")
    assert shown(preview) == ["    List<String> **x**;"]


def test_lines_carry_their_own_style() -> None:
    preview = Preview()
    preview.add("**x**")
    assert preview.lines(40, 5, colour=True) == [[("  \x1b[1mx\x1b[0m", RENDERED)]]


def test_long_text_is_cut_between_paragraphs() -> None:
    paragraphs = [f"paragraph {number} " + "word " * 40 for number in range(100)]
    end = end_of("\n\n".join(paragraphs), 1_000)
    assert len(end) <= 1_000
    assert end.strip().startswith("paragraph 9")
    assert end.endswith(paragraphs[-1])


def test_long_code_stays_code() -> None:
    text = "intro\n\n```\n" + "x = '*not emphasis*'\n" * 500
    assert end_of(text, 1_000).startswith("```\nx = ")


def test_text_without_any_line_end_is_cut_too() -> None:
    assert end_of("x" * 10_000, 1_000) == "x" * 1_000
