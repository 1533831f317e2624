"""Markdown that is passed on, given to a renderer that allows everything."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt
from markdown_it.token import Token

from codeagent.session.tell import markdown
from codeagent.ui.literal import answer_parser
from codeagent.ui.prose import inert_markdown
from codeagent.ui.report.story import read_story
from tests.ui.records import HOSTILE, hostile_session

LENIENT = MarkdownIt("commonmark", {"html": True}).enable(["table", "strikethrough"])
STRICT = answer_parser()


def kinds(text: str) -> set[str]:
    found: set[str] = set()

    def look(tokens: list[Token]) -> None:
        for token in tokens:
            found.add(token.type)
            look(token.children or [])

    look(LENIENT.parse(text))
    return {kind for kind in found if kind.startswith(("html", "image", "link"))}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("[a](http://x) ![i](http://x/i.png)", r"\[a](http://x) !\[i](http://x/i.png)"),
        ("<b>x</b> `List<String>[0]`", "&lt;b>x&lt;/b> `List<String>[0]`"),
        ("[r]: http://x\n\n[r]", "\\[r]: http://x\n\n\\[r]"),
        ("```java\nList<A[]> a;\n```", "```java\nList<A[]> a;\n```"),
        ("a ` [x](y)\n\nb ` c", "a ` \\[x](y)\n\nb ` c"),
        (r"\` [x](y) `", r"\` \[x](y) `"),
        (
            "| ` | <b> | ` |\n|---|---|---|\n| `A<B>` | x | y |",
            "| ` | &lt;b> | ` |\n|---|---|---|\n| `A<B>` | x | y |",
        ),
        ("plain *words*, 1 < 2", r"plain \*words\*, 1 &lt; 2"),
        ("a/__init__.py:2 a*b*c src/**/*.py snake_case", r"a/\_\_init\_\_.py:2 a\*b\*c src/\*\*/\*.py snake_case"),
        (r"\__`__ >* a", r"\_\_`\_\_ >\* a"),
        ("* **Cause**: `__x__` ~~y~~ &lt;\n\n***", "* **Cause**: `__x__` \\~\\~y\\~\\~ \\&lt;\n\n***"),
        ("| a |\n|---|\n| __b__ **c** |", "| a |\n|---|\n| \\_\\_b\\_\\_ **c** |"),
    ],
)
def test_code_stays_and_what_leads_out_becomes_text(text: str, shown: str) -> None:
    assert inert_markdown(text) == shown
    assert kinds(shown) == set()


def test_hostile_text_becomes_nothing() -> None:
    shown = inert_markdown(HOSTILE)
    assert kinds(shown) == set()
    assert [one for one in shown if not one.isprintable()] == []


def test_a_hostile_session_passed_on_as_markdown_becomes_nothing_either() -> None:
    document = markdown(read_story(hostile_session()), f"+{HOSTILE}".encode("utf-8", "surrogateescape"))
    assert kinds(document) == set()
    assert [one for one in document if not one.isprintable() and one not in "\n\t"] == []


PIECES = [
    "`",
    "``",
    "```",
    "~~~",
    "[a](b)",
    "![a](b)",
    "<b>",
    "<!--",
    "-->",
    "\n",
    "\n\n",
    "    ",
    "- ",
    "> ",
    "|",
    "\\",
    "# ",
]
PIECES += [
    "[r]: x",
    "[r]",
    "<http://x>",
    "word",
    "|---|",
    "\n|-|-|\n",
    " ",
    "1. ",
    "\t",
    "<script>",
    "</pre>",
    "&lt;",
    "*",
    "**",
    "_",
    "__",
    "~~",
    "a/",
    "**bold** ",
]


@settings(max_examples=200, deadline=None)
@given(st.lists(st.sampled_from(PIECES), max_size=24).map("".join))
def test_whatever_is_put_together_leads_nowhere_and_says_the_same(text: str) -> None:
    shown = inert_markdown(text)
    assert kinds(shown) == set()
    assert words(LENIENT.render(shown)) == words(STRICT.render(text))


def words(html: str) -> str:
    # Inside code that goes over several lines, a `<` that begins one of them is shown as the entity that it is.
    return re.sub(r"\s+", " ", html.replace("&amp;lt;", "&lt;"))
