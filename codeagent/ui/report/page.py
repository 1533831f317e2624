"""Puts the page together. What is read first is plain HTML; the timeline is JSON that the page's script shows.

The page's own policy (a meta element) lets run exactly one script and apply exactly one style sheet, both by
their hash, and lets nothing be fetched, sent or framed. Foreign text reaches the page escaped, or as JSON in a
script element that no browser executes, and from there only as the text of a node.
"""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable, Mapping
from datetime import datetime
from functools import cache
from html import escape
from importlib import resources
from typing import Any

from codeagent import __version__
from codeagent.ui import ending, wording
from codeagent.ui.citations import seen
from codeagent.ui.inert import inert, inert_line
from codeagent.ui.report.answer import answer_html
from codeagent.ui.report.cited import cited_lines
from codeagent.ui.report.story import Story, StoryTurn, read_story
from codeagent.ui.verified import SIDES, record_lines, run_line

_MOST_DIFF_LINES = 20_000
_PIECE_CHARACTERS = 1_000_000
_FILTERS = (
    ("all", "Everything"),
    ("call", "Reads"),
    ("command", "Commands and approvals"),
    ("response", "Model"),
    ("problem", "Problems"),
)


def render_html(records: Iterable[Mapping[str, Any]], diff: bytes | None = None) -> str:
    """One session as a self-contained page.

    `records` are the session's events in order, as stored; `diff` is its stored patch. Bodies beyond 48 MB in
    all are left out and counted. The caller redacts what must not leave the machine.
    """
    story = read_story(records)
    sections = [_turn(turn, story) for turn in story.turns]
    sections += [_verification(story), _diff(diff), _timeline(story), _usage(story)]
    return _page(_title(story), _header(story) + "".join(sections), _scripts(story))


def _page(title: str, body: str, data: str) -> str:
    style, script = _asset("report.css"), _asset("report.js")
    policy = (
        f"default-src 'none'; style-src '{_hash(style)}'; script-src '{_hash(script)}'; "
        "base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="referrer" content="no-referrer">\n<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{style}</style>\n</head>\n<body>\n<main>\n{body}\n</main>\n"
        f"{data}\n<script>{script}</script>\n</body>\n</html>\n"
    )


@cache
def _asset(name: str) -> str:
    return resources.files(__package__).joinpath(name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    digest = hashlib.sha256(text.encode("utf-8")).digest()
    return f"sha256-{base64.b64encode(digest).decode('ascii')}"


def _title(story: Story) -> str:
    question = inert_line(story.turns[0].question) if story.turns else "session"
    return f"{question[:80]} — codeagent"


def _header(story: Story) -> str:
    started = story.session
    facts = [
        ("Repository", started.get("repo")),
        ("Model", " · ".join(str(started[key]) for key in ("provider", "model") if started.get(key))),
        ("Image", started.get("image")),
        ("Session", started.get("session_id")),
        ("Started", _moment(started.get("time"))),
        ("codeagent", started.get("version") or __version__),
    ]
    rows = "".join(f"<div><dt>{name}</dt><dd>{_text(value)}</dd></div>" for name, value in facts if value)
    return f'<header><p class="brand">codeagent <span>session report</span></p><dl class="facts">{rows}</dl></header>'


def _turn(turn: StoryTurn, story: Story) -> str:
    heading = f"Turn {turn.number}" if len(story.turns) > 1 else "Question"
    question = (
        f'<section class="turn"><h2>{heading}</h2><blockquote class="question">{_text(turn.question)}</blockquote>'
    )
    if turn.ended is None:
        return question + '<p class="warn">This turn has no recorded end.</p></section>'
    ended = turn.ended
    citations = [one for one in ended.get("citations") or () if isinstance(one, Mapping)]
    parts = [question, _status(ended)]
    if ended.get("answer"):
        rendered = answer_html(str(ended["answer"]), citations, turn.number)
        parts.append(f'<h3>Answer</h3><article class="answer">{rendered}</article>')
    if ended.get("partial"):
        parts.append('<h3>Partial</h3><p class="warn">Written before the turn was stopped; not an answer.</p>')
        parts.append(
            f'<article class="answer">{answer_html(str(ended["partial"]), citations, turn.number)}</article>'
        )
    parts.append(_citations(citations, str(ended.get("unchecked") or ""), turn.number, story))
    if lines := ending.limits(ended):
        parts.append(f'<h3>What it does not rest on</h3><pre class="limits">{_text(chr(10).join(lines))}</pre>')
    return "".join([*parts, "</section>"])


def _status(ended: Mapping[str, Any]) -> str:
    verification = ended.get("verification") or {}
    outcome = ended.get("outcome")
    loop = wording.loop_line(None if outcome is None else str(outcome), int(ended.get("rounds") or 0))
    # `answered` is not green: why a loop stopped never says that anything is right.
    style = "" if outcome in ("answered", None) else "warn"
    fixed = {"passed": "good", "failed": "bad", "flaky": "warn"}.get(str(verification.get("status")), "")
    fix = wording.fix_line(verification)
    return f'<p class="fact {style}">{_text(loop)}</p><p class="fact {fixed}">{_text(fix)}</p>'


def _citations(citations: list[Mapping[str, Any]], unchecked: str, turn: int, story: Story) -> str:
    if not citations:
        return ""
    shown = [_citation(citation, turn, at, story) for at, citation in enumerate(citations)]
    said = "\n".join(wording.citation_lines(citations, unchecked)[: 2 if unchecked else 1])
    return f'<h3>Citations</h3><p class="quiet">{_text(said)}</p>{"".join(shown)}'


def _citation(citation: Mapping[str, Any], turn: int, at: int, story: Story) -> str:
    state = str(citation.get("state"))
    lines = cited_lines(citation, story.outputs)
    text = "\n".join(f"{number:>6}  {inert(line)}" for number, line in lines)
    body = f"<pre>{escape(text)}</pre>" if lines else "<p>No output of a tool shows these lines.</p>"
    return (
        f'<details class="citation" id="cite-{turn}-{at}"><summary>'
        f'<span class="place">{_text(wording.place(citation))}</span> '
        f'<span class="state {seen(state)}">{_text(wording.CITATION.get(state, state))}</span>'
        f"</summary>{body}</details>"
    )


def _verification(story: Story) -> str:
    if not story.verifications:
        return ""
    record = story.verifications[-1]
    parts = [f"<section><h2>Verification</h2><p>{_text(wording.fix_line(record))}</p>"]
    lines = "".join(f"<li>{_text(line.strip())}</li>" for line in record_lines(record, full=True))
    parts.append(f"<ul class='quiet'>{lines}</ul>" if lines else "")
    for when, label in SIDES:
        run = record.get(when)
        if not isinstance(run, Mapping):
            parts.append(f"<h3>{label}</h3><p class='quiet'>Not run.</p>")
            continue
        parts.append(f"<h3>{label}</h3><p class='quiet'>{_text(run_line(run))}</p>")
        parts.append(f"<pre class='output'>{_text(run.get('output_tail') or '(no output)')}</pre>")
    return "".join([*parts, "</section>"])


def _diff(diff: bytes | None) -> str:
    if not diff:
        return ""
    lines = inert(diff.decode("utf-8", "surrogateescape")).split("\n")
    shown = "\n".join(_diff_line(line) for line in lines[:_MOST_DIFF_LINES])
    left = len(lines) - _MOST_DIFF_LINES
    more = f"<p class='quiet'>{left:,} more lines: see <code>codeagent diff</code>.</p>" if left > 0 else ""
    return f'<section><h2>Change in the private copy</h2><pre class="diff">{shown}</pre>{more}</section>'


def _diff_line(line: str) -> str:
    kind = (
        "file" if line.startswith(("diff ", "--- ", "+++ ")) else {"+": "add", "-": "del", "@": "hunk"}.get(line[:1])
    )
    return f'<span class="{kind}">{escape(line)}</span>' if kind else escape(line)


def _timeline(story: Story) -> str:
    chips = "".join(
        f'<button type="button" data-filter="{key}" aria-pressed="{str(key == "all").lower()}">{label} '
        f"<b>{story.counts.get(key, 0) if key != 'all' else len(story.rows):,}</b></button>"
        for key, label in _FILTERS
    )
    left_out = f"<p class='warn'>{story.left_out:,} texts were left out of this page.</p>" if story.left_out else ""
    return (
        f'<section id="timeline"><h2>Timeline</h2>{left_out}<div class="tools">{chips}'
        '<input type="search" id="search" placeholder="Filter by text" aria-label="Filter the timeline by text">'
        '</div><p id="matches" class="quiet" role="status"></p><div id="list"></div>'
        "<noscript><p class='warn'>The timeline needs scripts, which this browser has turned off.</p></noscript>"
        "</section>"
    )


def _usage(story: Story) -> str:
    rows = []
    for turn in story.turns:
        ended = turn.ended or {}
        usage = ended.get("usage") or {}
        numbers = [ended.get("rounds"), *(usage.get(f"{key}_tokens") for key in ("input", "cached_input", "output"))]
        cells = "".join(f"<td>{int(number or 0):,}</td>" for number in numbers)
        rows.append(f"<tr><td>{turn.number}</td>{cells}<td>{_text(ended.get('exit_code', '–'))}</td></tr>")
    names = ("Turn", "Rounds", "Tokens in", "of these cached", "Tokens out", "Exit code")
    head = "".join(f"<th scope='col'>{name}</th>" for name in names)
    return (
        f'<section><h2>Usage</h2><div class="wide"><table><thead><tr>{head}</tr></thead>'
        f"<tbody>{''.join(rows)}</tbody></table></div></section>"
    )


def _scripts(story: Story) -> str:
    """The rows, and apart from them their texts, in pieces that the page's script reads when one is opened.

    A row: `[kind, title, detail, turn, round, at, took, status, decided, failed, [[label, piece, place in it], …]]`.
    """
    pieces: list[list[str]] = [[]]
    room = _PIECE_CHARACTERS
    rows = []
    for row in story.rows:
        bodies = []
        for label, text in row.bodies:
            if room < 0:
                pieces.append([])
                room = _PIECE_CHARACTERS
            bodies.append([label, len(pieces) - 1, len(pieces[-1])])
            pieces[-1].append(text)
            room -= len(text)
        head = [row.kind, row.title, row.detail, row.turn, row.round, row.at, row.took, row.status, row.decided]
        rows.append([*head, int(row.failed), bodies])
    elements = [f'<script type="application/json" id="rows">{_inline(rows)}</script>']
    elements += [f'<script type="application/json" class="texts">{_inline(piece)}</script>' for piece in pieces]
    return "\n".join(elements)


def _inline(value: object) -> str:
    """JSON that can stand inside a script element: without `<`, nothing in it ends or comments the element."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")


def _text(value: object) -> str:
    return escape(inert(str(value)))


def _moment(time: object) -> str:
    try:
        return f"{datetime.fromisoformat(str(time)):%Y-%m-%d %H:%M:%S %Z}".strip()
    except ValueError:
        return str(time or "")
