"""What a turn's end is called. The loop's outcome and what is known of a fix are two sentences, never one."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from codeagent.outcome import Outcome

LOOP: Mapping[Outcome, str] = {
    Outcome.ANSWERED: "answered",
    Outcome.NEEDS_INPUT: "stopped with a question to you",
    Outcome.REFUSED: "stopped because the model refused",
    Outcome.TRUNCATED: "stopped because the model's response was cut short",
    Outcome.EMPTY: "stopped because the model said nothing",
    Outcome.ROUND_LIMIT: "stopped at the round limit",
    Outcome.TIME_LIMIT: "stopped at the time limit",
    Outcome.TOKEN_LIMIT: "stopped at the token limit",
    Outcome.REPEATED_CALLS: "stopped because the model repeated the same calls",
    Outcome.TOO_MANY_ERRORS: "stopped because every call failed, eight rounds in a row",
    Outcome.STOPPED_BY_USER: "stopped by you",
    Outcome.INTERRUPTED: "interrupted",
    Outcome.MODEL_FAILED: "stopped because the model's API failed",
    Outcome.SANDBOX_FAILED: "stopped because the sandbox failed",
}

_WITHIN_A_ROUND = {Outcome.INTERRUPTED, Outcome.MODEL_FAILED, Outcome.SANDBOX_FAILED}
"""Their last round was begun, and broke off."""

# What the status says, and why where the record gives no reason of its own.
FIX: Mapping[str, tuple[str, str]] = {
    "not_requested": ("not verified", "no verification was requested"),
    "not_run": ("not verified", "it could not be run"),
    "not_reproduced": ("not verified", "the command already passes on the untouched repository"),
    "failed": ("verification failed", "the command fails with the change applied"),
    "flaky": ("not verified", "repeated runs with the change disagree"),
    "passed": ("verified", "the command fails before the change and passes after it"),
}

# How to go on from an end that is no answer; what stands in brackets comes after the whole command.
NEXT: Mapping[Outcome, str] = {
    Outcome.NEEDS_INPUT: 'Answer it: codeagent resume "…" --session {id}',
    Outcome.REFUSED: 'Ask differently: codeagent resume "…" --session {id}',
    Outcome.TRUNCATED: "Go on: codeagent resume --session {id} (max_output_tokens of [providers.NAME] raises it)",
    Outcome.EMPTY: "Go on: codeagent resume --session {id}",
    Outcome.ROUND_LIMIT: "Go on: codeagent resume --session {id} (--max-rounds raises it)",
    Outcome.TIME_LIMIT: "Go on: codeagent resume --session {id} (--time-limit raises it)",
    Outcome.TOKEN_LIMIT: "Go on: codeagent resume --session {id} (--token-limit raises it)",
    Outcome.REPEATED_CALLS: 'Give it another direction: codeagent resume "…" --session {id}',
    Outcome.TOO_MANY_ERRORS: 'Give it another direction: codeagent resume "…" --session {id}',
    Outcome.STOPPED_BY_USER: "Go on: codeagent resume --session {id}",
    Outcome.INTERRUPTED: "Go on: codeagent resume --session {id}",
    Outcome.MODEL_FAILED: "Try again: codeagent resume --session {id} (--model NAME asks another model)",
    Outcome.SANDBOX_FAILED: "Find the cause: codeagent doctor; then try again: codeagent resume --session {id}",
}

_OF_ANOTHER_IMAGE = (
    "Find the cause: codeagent doctor --image {image}; then try again: codeagent resume --session {id} "
    "(--image IMAGE takes another image)"
)

CITATION: Mapping[str, str] = {
    "read": "read",
    "moved": "the quoted text stands at another line; corrected",
    "unread": "the file exists, but no tool returned these lines",
    "own_change": "the agent wrote these lines itself",
    "missing": "there is no such file or line",
    "stale": "the file has changed since it was read",
}


UNCHECKED = {**CITATION, "unread": "no tool returned these lines", "own_change": "the agent changed this file"}
"""What the states say where no file could be looked at."""


def loop_line(outcome: str | None, rounds: int) -> str:
    """For example `Loop: answered after 6 rounds`, or `Loop: interrupted in round 2`."""
    if outcome is None:
        return "Loop: not started"
    said = LOOP[Outcome(outcome)] if outcome in set(Outcome) else outcome
    if outcome not in _WITHIN_A_ROUND:
        return f"Loop: {said} after {counted(rounds, 'round')}"
    return f"Loop: {said} {f'in round {rounds}' if rounds else 'before the first round'}"


def fix_line(verification: Mapping[str, Any]) -> str:
    """For example `Fix: not verified (no verification was requested)`."""
    status = str(verification.get("status") or "not_requested")
    said, because = FIX.get(status, ("not verified", status))
    said = f"{said} ({verification.get('reason') or because})"
    if touched := verification.get("tests_modified"):
        named = ", ".join(str(path) for path in touched)
        said += f"; the change touches tests or their configuration, judged with these restored: {named}"
    return f"Fix: {said}"


def citation_lines(citations: Sequence[Mapping[str, Any]], unchecked: str = "") -> list[str]:
    """The count, in the words that say what it means, then each citation that is not simply read.

    `unchecked` is why no file could be looked at; the states then only say what had been returned.
    """
    if not citations:
        return []
    states = [citation.get("state") for citation in citations]
    own, seen = states.count("own_change"), states.count("read") + states.count("moved")
    first = f"{counted(own, 'citation')}, of lines that the agent wrote itself: see the change, not the repository."
    if others := len(states) - own:
        are = "is" if own == 1 else "are"
        more = f"; {own} more {are} of lines that the agent wrote itself" if own else ""
        first = (
            f"{seen} of {counted(others, 'citation')}: lines were seen by the tools{more}. "
            "That says that the lines were seen, not that the claim is true."
        )
    words = UNCHECKED if unchecked else CITATION
    doubtful = [
        f"  {place(citation)}: {words.get(str(citation.get('state')), str(citation.get('state')))}"
        for citation in citations
        if citation.get("state") != "read"
    ]
    looked = [f"Not checked against the files as they are now: {unchecked}."] if unchecked else []
    return [first, *looked, *doubtful]


_LIMITS = {
    "not_found": "not found",
    "denied": "denied",
    "timeout": "timed out",
    "cut_output": "output was cut",
    "cut_listing": "listing was cut",
    "cut_file": "shown in part",
}
_SHOWN_LIMITS = 5


def evidence_lines(record: Mapping[str, Any]) -> list[str]:
    """What an answer does not rest on: no citation at all, claims without a record, what was not seen."""
    lines = []
    if record.get("outcome") == Outcome.ANSWERED and not record.get("citations"):
        unchecked = record.get("unchecked")
        lines.append(f"Citations were not checked: {unchecked}." if unchecked else "No evidence cited.")
    for sentence in record.get("unsupported") or ():
        lines.append(f"Unsupported claim (no recorded run shows it): {sentence}")
    for place in record.get("misquoted") or ():
        lines.append(f"Misquoted: {place} is cited with a text that was never in that file.")
    limits = [limit for limit in record.get("limits") or () if isinstance(limit, Mapping)]
    if limits:
        lines.append(f"What limited the answer ({counted(len(limits), 'call')}):")
        for limit in limits[:_SHOWN_LIMITS]:
            kind = str(limit.get("kind"))
            lines.append(f"  {_LIMITS.get(kind, kind)}: {limit.get('subject')}")
        if len(limits) > _SHOWN_LIMITS:
            more = len(limits) - _SHOWN_LIMITS
            lines.append(f"  and {more} more: codeagent sessions show {record.get('session_id')}")
    return lines


def place(citation: Mapping[str, Any]) -> str:
    """`path:line` or `path:start-end`."""
    start, end = citation.get("start_line"), citation.get("end_line")
    lines = str(start) if end in (None, start) else f"{start}-{end}"
    return f"{citation.get('path')}:{lines}"


def next_lines(
    outcome: str | None,
    session_id: str,
    *,
    changed: bool,
    cited: bool,
    verification: str = "not_requested",
    image: str = "",
) -> list[str]:
    """How to go on: each line says what a command is for and then the whole command.

    A change that a verification was asked for is offered to the repository once it has passed. `image` is the
    session's, where that is not the default one.
    """
    lines = []
    if outcome in set(Outcome) and (hint := NEXT.get(Outcome(str(outcome)))):
        if image and outcome == Outcome.SANDBOX_FAILED:
            hint = _OF_ANOTHER_IMAGE
        lines.append(hint.format(id=session_id, image=shlex.quote(image)))
    elif outcome == Outcome.ANSWERED:
        what = "Verify again, with the next turn" if changed and verification == "not_run" else "Ask more"
        lines.append(f'{what}: codeagent resume "…" --session {session_id}')
    if changed:
        lines.append(f"See the change: codeagent diff {session_id}")
        if verification in ("passed", "not_requested"):
            lines.append(f"Put it into your repository: codeagent apply {session_id}")
    elif cited:
        lines.append(f"Check the citations later: codeagent recheck {session_id}")
    return lines


def repairs(resumed: Mapping[str, Any]) -> list[str]:
    """What was mended in a session's log before it went on, from its `session_resumed` record."""
    said = []
    if calls := len(resumed.get("interrupted_calls") or ()):
        said.append(f"{counted(calls, 'call')} without an output may or may not have run; the model is told so")
    if lines := int(resumed.get("damaged_lines") or 0):
        said.append(
            f"left out: {counted(lines, 'line')} of the session's log that cannot be read; the file is as it was"
        )
    if outputs := int(resumed.get("orphan_outputs") or 0):
        said.append(f"left out: {counted(outputs, 'output')} whose call is not in the log")
    if items := int(resumed.get("unreadable_items") or 0):
        said.append(f"left out: {counted(items, 'item')} of the model's responses that no API could have written")
    return said


def counted(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def duration(seconds: float) -> str:
    """Short and of steady width: `0.02s`, `12.3s`, `2m05s`, `1h02m`."""
    if seconds < 10:
        return f"{seconds:.2f}s"
    if seconds < 60:
        return f"{seconds:.1f}s"
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes}m{rest:02d}s" if minutes < 60 else f"{minutes // 60}h{minutes % 60:02d}m"


def size(count: int) -> str:
    """Bytes in the unit that keeps the number short."""
    if count < 1000:
        return f"{count} B"
    value = float(count)
    for unit in ("KB", "MB", "GB"):
        value /= 1024
        if value < 1000 or unit == "GB":
            break
    return f"{value:.1f} {unit}" if value < 100 else f"{value:.0f} {unit}"


def tokens(count: int) -> str:
    if count < 1000:
        return str(count)
    return f"{count / 1000:.1f}k" if count < 1_000_000 else f"{count / 1_000_000:.2f}M"
