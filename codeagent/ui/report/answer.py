"""The answer as HTML: Markdown without HTML, links or images, its citations leading to the cited lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from codeagent.ui.citations import Seen, replaced
from codeagent.ui.inert import inert
from codeagent.ui.literal import answer_parser

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token


def answer_html(text: str, citations: Sequence[Mapping[str, Any]], turn: int) -> str:
    """`text` rendered; each place in `citations` becomes a link to `#cite-<turn>-<its position>`."""
    parser = answer_parser()
    _link_citations(parser, citations, turn)
    return str(parser.render(inert(text)))


def _link_citations(parser: MarkdownIt, citations: Sequence[Mapping[str, Any]], turn: int) -> None:
    def link(place: str, at: int, known: Seen) -> str:
        return f'<a class="cite {known}" href="#cite-{turn}-{at}">{escape(place)}</a>'

    def text(_self: Any, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
        return replaced(tokens[at].content, citations, link, escape)

    def code(_self: Any, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
        return f"<code>{replaced(tokens[at].content, citations, link, escape)}</code>"

    parser.add_render_rule("text", text)
    parser.add_render_rule("code_inline", code)
