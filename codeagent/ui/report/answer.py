"""The answer as HTML: Markdown without HTML, links or images, its citations leading to the cited lines."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from codeagent.ui.inert import inert
from codeagent.ui.wording import place

if TYPE_CHECKING:
    from markdown_it import MarkdownIt
    from markdown_it.token import Token

# What would lead out of the page, or say something else than what was written, stays as it was written.
_LEFT_AS_TEXT = ["html_inline", "html_block", "entity", "link", "image", "autolink", "reference"]


def answer_html(text: str, citations: Sequence[Mapping[str, Any]], turn: int) -> str:
    """`text` rendered; each place in `citations` becomes a link to `#cite-<turn>-<its position>`."""
    from markdown_it import MarkdownIt

    parser = MarkdownIt().enable(["strikethrough", "table"]).disable(_LEFT_AS_TEXT)
    _link_citations(parser, citations, turn)
    return str(parser.render(inert(text)))


def _link_citations(parser: MarkdownIt, citations: Sequence[Mapping[str, Any]], turn: int) -> None:
    places = {inert(place(citation)): (at, str(citation.get("state"))) for at, citation in enumerate(citations)}
    longest_first = sorted(places, key=len, reverse=True)
    pattern = re.compile("|".join(rf"{re.escape(one)}(?![\d-])" for one in longest_first)) if places else None

    def linked(content: str) -> str:
        html, end = [], 0
        for match in pattern.finditer(content) if pattern else ():
            at, state = places[match.group()]
            html.append(escape(content[end : match.start()]))
            html.append(f'<a class="cite {state_class(state)}" href="#cite-{turn}-{at}">{escape(match.group())}</a>')
            end = match.end()
        return "".join(html) + escape(content[end:])

    def text(_self: Any, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
        return linked(tokens[at].content)

    def code(_self: Any, tokens: Sequence[Token], at: int, _options: Any, _env: Any) -> str:
        return f"<code>{linked(tokens[at].content)}</code>"

    parser.add_render_rule("text", text)
    parser.add_render_rule("code_inline", code)


def state_class(state: str) -> str:
    """A style class for a citation's state; never text from outside."""
    return {"read": "seen", "moved": "seen", "own_change": "own"}.get(state, "unseen")
