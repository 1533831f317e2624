"""The answer: rendered Markdown on a terminal, the exact text everywhere else."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, TextIO

from codeagent.ui import streams
from codeagent.ui.citations import MARKS, PLAIN_MARKS, marked
from codeagent.ui.inert import cells, inert
from codeagent.ui.literal import answer_parser

if TYPE_CHECKING:
    from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
    from rich.markdown import Markdown, MarkdownElement


def print_answer(
    text: str,
    out: TextIO,
    environ: Mapping[str, str] = os.environ,
    *,
    no_color: bool = False,
    citations: Sequence[Mapping[str, Any]] = (),
) -> None:
    """Writes `text` to `out` and ends it with a newline; on a capable terminal each of `citations` is marked in it.

    A reader that has gone is not an error.
    """
    streams.forgiving(out)
    try:
        if streams.draws(out, environ):
            marks = MARKS if streams.speaks_unicode(out) else PLAIN_MARKS
            shown = rendered(
                text,
                streams.width_of(out, environ),
                colour=streams.colours(out, environ, no_color),
                mark=lambda part: marked(part, citations, marks),
            )
        elif streams.on_terminal(out):
            shown = inert(text)
        else:
            shown = text
        out.write(shown if shown.endswith("\n") else shown + "\n")
        out.flush()
    except BrokenPipeError:
        streams.silence(out)


def rendered(text: str, width: int, *, colour: bool, mark: Callable[[str], str] = str) -> str:
    """Markdown as text for a terminal `width` columns wide; with `colour`, styled by escape sequences.

    `mark` is applied to each stretch of text and inline code, and never to code blocks.
    """
    import io

    from rich.console import Console
    from rich.containers import Renderables
    from rich.segment import Segment
    from rich.theme import Theme

    class Whole(Console):
        def render_lines(
            self, renderable: RenderableType, options: ConsoleOptions | None = None, **settings: Any
        ) -> list[list[Segment]]:
            """What stands in a list or a quotation as it is: a long line of code is not cut off there either."""
            if isinstance(renderable, Renderables):
                return list(Segment.split_lines(self.render(renderable, options)))
            return super().render_lines(renderable, options, **settings)

    console = Whole(
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
        console.print(_markdown(inert(text), mark, unbroken=width - _BESIDE), crop=False)
    shown = capture.get().replace(_UNBROKEN_SPACE, " ")
    return "\n".join(line.rstrip() for line in shown.splitlines()).strip("\n") + "\n"


_UNBROKEN_SPACE = "\uffff"
"""Stands for a space of code within a line while lines are made; inert text holds none."""
_BESIDE = 12
"""Columns that a list may take beside its text."""


def _markdown(text: str, mark: Callable[[str], str], unbroken: int) -> Markdown:
    from rich.markdown import CodeBlock, Heading, Markdown, TableElement
    from rich.syntax import Syntax
    from rich.text import Text

    class LeftHeading(Heading):
        def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
            self.text.justify = "left"
            yield Text("")
            yield self.text

    class CloseCode(CodeBlock):
        def __rich_console__(self, _console: Console, _options: ConsoleOptions) -> RenderResult:
            code = Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme)
            # Long lines are left to the terminal, which takes no newline into what is copied from it.
            for line in code.highlight(code.code).split():
                yield Text("  ", no_wrap=True, overflow="ignore").append_text(line)

    class CloseTable(TableElement):
        def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
            for table in super().__rich_console__(console, options):
                table.show_edge = False  # type: ignore[union-attr]
                yield table

    class Answer(Markdown):
        elements: ClassVar[dict[str, type[MarkdownElement]]] = {
            **Markdown.elements,
            "heading_open": LeftHeading,
            "fence": CloseCode,
            "code_block": CloseCode,
            "table_open": CloseTable,
        }

    markdown = Answer("", hyperlinks=False, code_theme="ansi_dark")
    markdown.parsed = answer_parser().parse(text)
    for token in markdown.parsed:
        for part in token.children or ():
            if part.type in ("text", "code_inline"):
                part.content = mark(part.content)
            if part.type == "code_inline" and cells(part.content) <= unbroken:
                part.content = part.content.replace(" ", _UNBROKEN_SPACE)
    return markdown
