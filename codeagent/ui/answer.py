"""The answer: rendered Markdown on a terminal, the exact text everywhere else."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, ClassVar, TextIO

from codeagent.ui import streams
from codeagent.ui.inert import inert

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderResult
    from rich.markdown import Markdown, MarkdownElement


def print_answer(text: str, out: TextIO, environ: Mapping[str, str] = os.environ, *, no_color: bool = False) -> None:
    """Writes `text` to `out` and ends it with a newline. A reader that has gone is not an error."""
    streams.forgiving(out)
    try:
        if streams.draws(out, environ):
            shown = rendered(text, streams.width_of(out, environ), colour=streams.colours(out, environ, no_color))
        elif streams.on_terminal(out):
            shown = inert(text)
        else:
            shown = text
        out.write(shown if shown.endswith("\n") else shown + "\n")
        out.flush()
    except BrokenPipeError:
        streams.silence(out)


def rendered(text: str, width: int, *, colour: bool) -> str:
    """Markdown as text for a terminal `width` columns wide; with `colour`, styled by escape sequences."""
    import io

    from rich.console import Console
    from rich.theme import Theme

    console = Console(
        file=io.StringIO(),
        width=max(width, 20),
        force_terminal=colour,
        color_system="standard" if colour else None,
        no_color=not colour,
        legacy_windows=False,
        markup=False,
        emoji=False,
        highlight=False,
        theme=Theme({"markdown.code": "cyan"}),  # rich's own has a black background, on white screens too
    )
    with console.capture() as capture:
        console.print(_markdown(inert(text)))
    return "\n".join(line.rstrip() for line in capture.get().splitlines()).strip("\n") + "\n"


def _markdown(text: str) -> Markdown:
    from markdown_it import MarkdownIt
    from rich.markdown import Heading, Markdown
    from rich.text import Text

    class LeftHeading(Heading):
        def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
            self.text.justify = "left"
            yield Text("")
            yield self.text

    class Answer(Markdown):
        elements: ClassVar[dict[str, type[MarkdownElement]]] = {**Markdown.elements, "heading_open": LeftHeading}

    # Hyperlinks would hide where they lead. HTML would be left out silently, and `List<String>` is not HTML;
    # entities would turn `&lt;` in a quoted line of code into something that the file does not say.
    markdown = Answer("", hyperlinks=False, code_theme="ansi_dark")
    parser = MarkdownIt().enable("strikethrough").enable("table").disable(["html_inline", "html_block", "entity"])
    markdown.parsed = parser.parse(text)
    return markdown
