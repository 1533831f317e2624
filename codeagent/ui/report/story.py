"""A session's records read once, for the page: its turns, and the rows of its timeline."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from codeagent.ui import wording
from codeagent.ui.calls import argument_of, status_of
from codeagent.ui.inert import inert, inert_line
from codeagent.ui.verified import SIDES, record_lines

Record = Mapping[str, Any]

EMBEDDED_BYTES = 48 << 20
"""How much foreign text a page holds at most; what comes later in a huge session is named, not embedded."""

_DECIDED = {"allow": "allowed", "deny": "denied", "stop": "stopped"}
_DECIDERS = {
    "user": "by the user",
    "grant": "by an earlier approval",
    "rule": "by a rule",
    "flag": "by --approve",
    "no_terminal": "as nobody could be asked",
}


@dataclass(slots=True)
class Row:
    """One line of the timeline. `at` and `took` in milliseconds; `bodies` are labelled texts to expand."""

    kind: str
    title: str
    detail: str
    turn: int
    round: int
    at: int
    took: int = 0
    status: str = ""
    failed: bool = False
    call_id: str = ""
    decided: str = ""
    """What came of asking, where anything but the class of the command decided."""
    bodies: list[tuple[str, str]] = field(default_factory=list)


@dataclass(slots=True)
class StoryTurn:
    """One turn: what was asked and the record of how it ended (None while it runs, or after a crash)."""

    number: int
    question: str
    started: str
    ended: Record | None = None


@dataclass(slots=True)
class Story:
    """What the page tells. `outputs` maps a call's id to its name and its output as the model saw it."""

    session: Record = field(default_factory=dict)
    turns: list[StoryTurn] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)
    outputs: dict[str, tuple[str, str]] = field(default_factory=dict)
    verifications: list[Record] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    left_out: int = 0


def read_story(records: Iterable[Record]) -> Story:
    """One pass. Records of unknown types, or with fields of a wrong kind, are shown as far as they go."""
    story = _Reader().read(records)
    story.counts.update(row.kind for row in story.rows)
    story.counts["problem"] = sum(row.failed for row in story.rows)
    return story


class _Reader:
    def __init__(self) -> None:
        self._story = Story()
        self._calls: dict[str, Row] = {}
        self._first: datetime | None = None
        self._latest = 0
        self._embedded = 0

    def read(self, records: Iterable[Record]) -> Story:
        for record in records:
            read = getattr(self, f"_on_{record.get('type')}", None)
            if read is not None:
                read(record)
                self._latest = self._at(record)
        return self._story

    def _row(self, record: Record, kind: str, title: str, detail: str = "", **more: Any) -> Row:
        row = Row(
            kind=kind,
            title=inert_line(title),
            detail=inert_line(detail[:2_000]),
            turn=_whole(record.get("turn")),
            round=_whole(record.get("round")),
            at=self._at(record),
            **more,
        )
        self._story.rows.append(row)
        return row

    def _at(self, record: Record) -> int:
        try:
            moment = datetime.fromisoformat(str(record.get("time")))
            self._first = self._first or moment
            return max(round((moment - self._first).total_seconds() * 1000), 0)
        except (ValueError, TypeError):
            return self._latest

    def _body(self, row: Row, label: str, text: object) -> None:
        if text in (None, ""):
            return
        shown = inert(text if isinstance(text, str) else json.dumps(text, ensure_ascii=False, indent=2))
        self._embedded += len(shown)
        if self._embedded > EMBEDDED_BYTES:
            self._story.left_out += 1
            shown = "(left out of this page, which would be too large; `codeagent sessions show` has it)"
        row.bodies.append((label, shown))

    def _on_session_started(self, record: Record) -> None:
        self._story.session = record

    def _on_session_resumed(self, record: Record) -> None:
        model = " ".join(str(record.get(key)) for key in ("provider", "model"))
        row = self._row(record, "note", "session resumed", model)
        self._body(row, "calls that may or may not have run", list(record.get("interrupted_calls") or ()) or None)

    def _on_turn_started(self, record: Record) -> None:
        message = str(record.get("message") or "")
        if not self._story.turns:
            self._first = None  # the clock of the page starts with the first turn, not with an image build before it
        self._story.turns.append(StoryTurn(_whole(record.get("turn")), message, str(record.get("time") or "")))
        self._body(self._row(record, "message", "question", message), "question", message)

    def _on_model_response(self, record: Record) -> None:
        usage = record.get("usage") or {}
        sent, cached = _whole(usage.get("input_tokens")), _whole(usage.get("cached_input_tokens"))
        detail = f"{sent:,} tokens in ({cached:,} cached), {_whole(usage.get('output_tokens')):,} out"
        whole = record.get("status") == "completed"
        row = self._row(record, "response", "model response", detail, failed=not whole)
        row.status = inert_line(
            str(record.get("status")) if whole else f"{record.get('status')}: {record.get('finish')}"
        )
        # A response is recorded when it is whole; the request left when what stands before it was over.
        row.took = max(row.at - self._latest, 0)
        self._body(row, "text", record.get("text"))

    def _on_tool_call(self, record: Record) -> None:
        name = str(record.get("name") or "(no name)")
        kind = "command" if name in ("run_command", "apply_patch") else "call"
        row = self._row(record, kind, name, argument_of(record), status="no output", failed=True)
        row.call_id = str(record.get("call_id"))
        self._calls[row.call_id] = row
        self._body(row, "arguments", _pretty(str(record.get("arguments") or "")))

    def _on_approval_requested(self, record: Record) -> None:
        row = self._of_call(record, "approval requested")
        self._body(row, "a person was asked", f"{record.get('class')}: {record.get('reason')}")

    def _on_approval_decided(self, record: Record) -> None:
        row = self._of_call(record, "approval")
        reason = f": {record.get('reason')}" if record.get("reason") else ""
        self._body(row, "approval", f"{record.get('decision')} by {record.get('by')}{reason}")
        if record.get("by") != "class":
            decided = _DECIDED.get(str(record.get("decision")), str(record.get("decision")))
            row.decided = inert_line(f"{decided} {_DECIDERS.get(str(record.get('by')), str(record.get('by')))}")

    def _on_tool_output(self, record: Record) -> None:
        row = self._of_call(record, "output without a call")
        output = str(record.get("output") or "")
        row.took = _whole(record.get("duration_ms"))
        row.failed = record.get("status") != "ok"
        row.status = status_of(record, output)
        self._body(row, "output, as the model saw it", output)
        self._story.outputs[row.call_id] = (row.title, output)

    def _of_call(self, record: Record, otherwise: str) -> Row:
        call_id = str(record.get("call_id"))
        if call_id not in self._calls:
            self._calls[call_id] = self._row(record, "call", otherwise, call_id=call_id)
        return self._calls[call_id]

    def _on_workspace_changed(self, record: Record) -> None:
        paths = [str(path) for path in record.get("paths") or ()]
        self._row(record, "change", "private copy changed", ", ".join(paths) or "no difference left")

    def _on_compacted(self, record: Record) -> None:
        cleared = len(record.get("cleared_calls") or ())
        rounds = _whole(record.get("summarised_rounds"))
        how = "compacted by the API" if record.get("compaction") else "summarised"
        told = f", {rounds} rounds {how}" if record.get("summary") else ""
        row = self._row(record, "note", "context compacted", f"{cleared} outputs cleared{told}")
        self._body(row, "summary", record.get("summary"))

    def _on_retry(self, record: Record) -> None:
        row = self._row(record, "note", f"retry {record.get('attempt')}", str(record.get("reason")), failed=True)
        row.took = _whole(record.get("delay_ms"))

    def _on_note(self, record: Record) -> None:
        text = str(record.get("text") or "")
        row = self._row(record, "note", f"note of the {record.get('origin')}", text.partition("\n")[0])
        self._body(row, "text", text)

    def _on_grant(self, record: Record) -> None:
        self._row(record, "note", f"grant {record.get('action')}", f"{record.get('kind')}: {record.get('command')}")

    def _on_verification(self, record: Record) -> None:
        self._story.verifications.append(record)
        passed = record.get("status") == "passed"
        row = self._row(record, "note", "verification", wording.fix_line(record), failed=not passed)
        self._body(row, "record", "\n".join(record_lines(record, full=True)))
        for when, label in SIDES:
            run = record.get(when)
            self._body(
                row, f"{label}, the end of the output", run.get("output_tail") if isinstance(run, dict) else ""
            )

    def _on_turn_ended(self, record: Record) -> None:
        turns = self._story.turns
        if not turns or turns[-1].ended is not None:
            # A fix that ended before its turn, because there was nothing to reproduce.
            asked = str(self._story.session.get("message") or "")
            turns.append(StoryTurn(_whole(record.get("turn")), asked, str(record.get("time") or "")))
        turns[-1].ended = record
        outcome = record.get("outcome")
        line = wording.loop_line(None if outcome is None else str(outcome), _whole(record.get("rounds")))
        self._row(record, "message", "turn ended", line, failed=outcome not in ("answered", "needs_input", None))


def _whole(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else 0


def _pretty(arguments: str) -> str:
    """Arguments for reading: a lone command or patch as it is, the rest as indented JSON."""
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return arguments
    if not isinstance(parsed, dict):
        return arguments
    texts = [f"{name}:\n{parsed.pop(name)}" for name in ("command", "patch") if isinstance(parsed.get(name), str)]
    rest = json.dumps(parsed, ensure_ascii=False, indent=2) if parsed else ""
    return "\n\n".join([*texts, *([rest] if rest else [])])
