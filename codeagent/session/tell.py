"""A session told as text: the trace on a terminal, and Markdown to pass on. Foreign text is made inert."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Protocol

from codeagent.ui import ending, wording
from codeagent.ui.inert import cut, inert, inert_line
from codeagent.ui.prose import inert_markdown, lines_of_code
from codeagent.ui.report.story import Row, Story, StoryTurn
from codeagent.ui.verified import SIDES, record_lines

_PREVIEW_LINES = 6
_PREVIEW_WIDTH = 200
_DETAIL_WIDTH = 120
_ALWAYS = ("approval", "a person was asked")
"""What is short and what a reader of a trace looks for."""


class Fill(Protocol):
    """Fits a line of prose into a screen, `indent` columns from the left."""

    def __call__(self, prose: str, indent: int = 0) -> str: ...


def _as_it_is(prose: str, indent: int = 0) -> str:
    return " " * indent + prose


def trace(story: Story, *, full: bool, fill: Fill = _as_it_is) -> Iterator[str]:
    """The lines of `sessions show`. Without `full`, long texts are shown by their first lines.

    `fill` is applied to every line of prose, and neither to commands and outputs nor to code.
    """
    yield from map(fill, _facts(story))
    for turn in story.turns:
        yield ""
        yield fill(f"Turn {turn.number}: {inert_line(turn.question)}")
        for row in _rows_of(story, turn):
            yield _line(row, full) if row.title == "run_command" else fill(_line(row, full))
            for label, text in row.bodies:
                yield from _body(label, text, full, fill)
        yield from _end(turn, full, fill)


def _facts(story: Story) -> Iterator[str]:
    session = story.session
    yield f"Session {_of(session, 'session_id')}, started {_of(session, 'time')}, codeagent {_of(session, 'version')}"
    yield f"Repository {_of(session, 'repo')}, image {_of(session, 'image')}"
    yield f"Model {_of(session, 'provider')}/{_of(session, 'model')}"


def _rows_of(story: Story, turn: StoryTurn) -> list[Row]:
    told = {"question", "turn ended", *(("verification",) if _record_of(turn.ended or {}) else ())}
    return [row for row in story.rows if row.turn == turn.number and row.title not in told]


def _line(row: Row, full: bool = True) -> str:
    """For example `  +1.32 s  round 2  read_file src/a.py 1-40  ok in 12 ms  (call_1)`."""
    parts = [
        f"+{row.at / 1000:.2f} s",
        f"round {row.round}" if row.round else "",
        f"{row.title} {row.detail if full else cut(row.detail, _DETAIL_WIDTH)}".strip(),
    ]
    took = f" in {row.took:,} ms" if row.took else ""
    parts += [f"{row.status}{took}".strip(), f"({inert_line(row.call_id)})" if row.call_id else ""]
    return "  " + "  ".join(part for part in parts if part)


def _body(label: str, text: str, full: bool, fill: Fill) -> Iterator[str]:
    lines = text.rstrip("\n").split("\n")
    if label in _ALWAYS:
        yield fill(f"{label}: {inert_line(text)}", 6)
        return
    if label == "arguments" and not full:
        return
    shown = lines if full else [line[:_PREVIEW_WIDTH] for line in lines[:_PREVIEW_LINES]]
    yield f"      {label}:"
    yield from _prose("\n".join(shown), 8, fill) if label == "text" else (f"        {line}" for line in shown)
    if len(lines) > len(shown):
        yield fill(f"({len(lines) - len(shown)} more lines; --full shows them)", 8)


def _prose(markdown: str, indent: int, fill: Fill) -> Iterator[str]:
    """Inert text of a model's, line by line, its blocks of code as they are."""
    code = lines_of_code(markdown)
    for at, line in enumerate(markdown.split("\n")):
        yield f"{' ' * indent}{line}" if at in code else fill(line, indent)


def _end(turn: StoryTurn, full: bool, fill: Fill) -> Iterator[str]:
    ended = turn.ended
    if ended is None:
        yield "Loop: did not end (still running, or killed)"
        return
    for name in ("answer", "partial"):
        if isinstance(text := ended.get(name), str):
            yield f"{'Answer' if name == 'answer' else 'Partial answer'}:"
            yield from _prose(inert(text), 2, fill)
    yield from map(fill, map(inert_line, ending.evidence(ended)))
    yield from map(fill, _facts_of(ended))
    yield from (fill(line, 2) for line in _record_of(ended))
    for label, text in _outputs(ended):
        lines = text.rstrip("\n").split("\n")
        shown = lines if full else [line[:_PREVIEW_WIDTH] for line in lines[-_PREVIEW_LINES:]]
        yield (
            f"      {label}:"
            if len(shown) == len(lines)
            else f"      {label} ({len(lines)} lines; --full shows them):"
        )
        yield from (f"        {line}" for line in shown)


def _facts_of(ended: Mapping[str, Any]) -> Iterator[str]:
    """Why the loop stopped, and what is known of a fix."""
    outcome, rounds = ended.get("outcome"), ended.get("rounds")
    yield wording.loop_line(outcome if isinstance(outcome, str) else None, rounds if isinstance(rounds, int) else 0)
    yield inert_line(wording.fix_line(_verification_of(ended)))


def _record_of(ended: Mapping[str, Any]) -> list[str]:
    return [inert_line(line) for line in record_lines(_verification_of(ended), full=True)]


def _verification_of(ended: Mapping[str, Any]) -> Mapping[str, Any]:
    verification = ended.get("verification")
    return verification if isinstance(verification, dict) else {}


def _outputs(ended: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The ends of the outputs of both sides of a verification."""
    verification = _verification_of(ended)
    for when, label in SIDES:
        run = verification.get(when)
        if isinstance(run, dict) and run.get("output_tail"):
            yield f"{label}, the end of the output", inert(str(run["output_tail"]))


def markdown(story: Story, diff: bytes | None) -> str:
    """The session as one Markdown document; foreign text stands in code blocks that it cannot close."""
    title = inert_line(story.turns[0].question) if story.turns else "Session"
    parts = [inert_markdown(f"# {title}"), "\n".join(_list_of_facts(story))]
    for turn in story.turns:
        parts += list(_markdown_turn(story, turn))
    if diff:
        parts += ["## What was changed", _fenced(inert(diff.decode("utf-8", "replace")), "diff")]
    return "\n\n".join(parts) + "\n"


def _list_of_facts(story: Story) -> Iterator[str]:
    for title, name in (("Session", "session_id"), ("Repository", "repo"), ("Model", "model"), ("Started", "time")):
        yield f"- {title}: {_code(_of(story.session, name))}"


def _markdown_turn(story: Story, turn: StoryTurn) -> Iterator[str]:
    yield f"## Turn {turn.number}"
    yield _fenced(inert(turn.question))
    ended = turn.ended or {}
    for name, title in (("answer", "### Answer"), ("partial", "### Partial answer")):
        if isinstance(text := ended.get(name), str):
            yield title
            yield inert_markdown(text)
    if ended:
        beneath = {"What it rests on": ending.citations(ended), "What it does not rest on": ending.limits(ended)}
        for title, lines in beneath.items():
            if lines:
                yield f"### {title}"
                yield _fenced("\n".join(map(inert_line, lines)))
        yield "\n".join(f"- {_code(line)}" for line in _facts_of(ended))
        if record := _record_of(ended):
            yield "### Verification"
            yield _fenced("\n".join(record))
        for label, text in _outputs(ended):
            yield f"{label}:"
            yield _fenced(text)
    yield "### What was done"
    for row in _rows_of(story, turn):
        yield f"- {_code(_line(row).strip())}"
        for label, text in row.bodies:
            yield f"{label}:"
            yield _fenced(text)


def _fenced(text: str, language: str = "") -> str:
    """A code block whose fence is longer than any in the text."""
    longest = max((len(run) for run in re.findall(r"`{3,}", text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def _code(text: str) -> str:
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    ticks = "`" * (longest + 1)
    return f"{ticks} {text} {ticks}" if longest else f"{ticks}{text}{ticks}"


def _of(record: Mapping[str, Any], name: str) -> str:
    return inert_line(str(record.get(name) or "unknown"))
