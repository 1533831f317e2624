"""What stands under an answer when a turn has ended: what it rests on, the two facts, what was used, how to go on."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping
from typing import Any

from codeagent.outcome import Outcome
from codeagent.ui import wording
from codeagent.ui.inert import inert, inert_line
from codeagent.ui.verified import record_lines, tail_lines


def partial(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Text that was written before the turn had to stop, each line with its style."""
    text = record.get("partial")
    if not text:
        return []
    first = ("Partial (written before the turn was stopped; not an answer):", "warn")
    return [first, *(("  " + line, "") for line in inert(str(text)).splitlines())]


def facts(record: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Why the loop stopped, and what is known of a fix: always both, each a line and its style."""
    outcome, verification = record.get("outcome"), record.get("verification") or {}
    loop = wording.loop_line(outcome, int(record.get("rounds") or 0))
    passed = verification.get("status") == "passed"
    return [
        (inert_line(loop), "bold" if outcome in ("answered", None) else "warn"),
        (inert_line(wording.fix_line(verification)), "good" if passed else "bold"),
    ]


def verified(record: Mapping[str, Any]) -> list[str]:
    """What is recorded of the verification: what was run, on what, how it ended, and what to do."""
    verification = record.get("verification") or {}
    return [*record_lines(verification), *tail_lines(verification)]


def evidence(record: Mapping[str, Any]) -> list[str]:
    """What the answer rests on, and what it does not."""
    return [*citations(record), *limits(record)]


def citations(record: Mapping[str, Any]) -> list[str]:
    """What the answer rests on."""
    return wording.citation_lines(_sound(record, "citations"), str(record.get("unchecked") or ""))


def limits(record: Mapping[str, Any]) -> list[str]:
    """What the answer does not rest on."""
    parts = {name: _sound(record, name) for name in ("citations", "limits")}
    for name in ("unsupported", "misquoted"):
        found = record.get(name)
        parts[name] = found if isinstance(found, list) else []
    return wording.evidence_lines({**record, **parts})


def _sound(record: Mapping[str, Any], name: str) -> list[Mapping[str, Any]]:
    """The objects of a list; what is of a wrong kind, in a damaged log, is passed over."""
    found = record.get(name)
    return [one for one in found if isinstance(one, Mapping)] if isinstance(found, list) else []


def next_step_here(record: Mapping[str, Any], *, image: str = "") -> list[str]:
    """How to go on in a chat where nothing can be asked as things are; what else can be done is said at its end."""
    if record.get("outcome") != Outcome.SANDBOX_FAILED:
        return []
    named = f" --image {shlex.quote(image)}" if image else ""
    return [f"Find the cause: codeagent doctor{named}; then ask again here"]


def next_steps(record: Mapping[str, Any], *, changed: bool, image: str = "") -> Iterable[str]:
    """How to go on from here, in the shell. `image` is the session's, if that is another than the default one."""
    verification = record.get("verification") or {}
    return wording.next_lines(
        record.get("outcome"),
        str(record.get("session_id")),
        changed=changed,
        cited=bool(record.get("citations")),
        verification=str(verification.get("status") or "not_requested"),
        image=image,
    )
