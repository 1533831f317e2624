"""Whether the citations of a stored answer still hold in the repository as it is now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from codeagent.evidence.host import HostTree
from codeagent.evidence.ledger import Ledger
from codeagent.evidence.lines import lines_of, sha256
from codeagent.evidence.replay import enter

Now = Literal["same", "moved", "changed", "missing", "unproven"]
"""`same`: the lines are as they were returned. `moved`: they stand elsewhere, once. `changed`: they are not there any
more. `missing`: nor is the file. `unproven`: the session holds no record of them to compare with."""

Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Rechecked:
    """One citation. `state` is what it was when the answer was given; `line` is where the lines start now, or 0."""

    path: str
    start_line: int
    end_line: int
    state: str
    now: Now
    line: int

    @property
    def holds(self) -> bool:
        return self.now == "same"


@dataclass(frozen=True, slots=True)
class Answer:
    """The last answer of a session: its citations as stored, and the repository that it was about."""

    repo: str
    citations: tuple[Record, ...]
    ledger: Ledger


def last_answer(records: Iterable[Record]) -> Answer | None:
    """The last turn that ended with an answer, with everything that was returned up to then."""
    ledger, calls, repo = Ledger(), dict[str, Record](), ""
    found: Answer | None = None
    for record in records:
        match record.get("type"):
            case "session_started" | "session_resumed":
                repo = str(record.get("repo") or repo)
            case "tool_call":
                calls[str(record.get("call_id"))] = record
            case "tool_output":
                call = calls.get(str(record.get("call_id")))
                if call is not None and record.get("error_kind") in (None, "timeout"):
                    output = str(record.get("output") or "")
                    enter(ledger, str(record["call_id"]), str(call.get("name")), str(call.get("arguments")), output)
            case "turn_ended" if record.get("answer"):
                cited = record.get("citations")
                stored = tuple(one for one in cited if isinstance(one, Mapping)) if isinstance(cited, list) else ()
                found = Answer(repo, stored, ledger)
    return found


def recheck(answer: Answer, tree: HostTree) -> list[Rechecked]:
    """Compares every citation with the files as they are now."""
    return [_rechecked(citation, answer.ledger, tree) for citation in answer.citations]


def _rechecked(citation: Record, ledger: Ledger, tree: HostTree) -> Rechecked:
    path, state = str(citation.get("path") or ""), str(citation.get("state") or "")
    start, end = _number(citation.get("start_line")), _number(citation.get("end_line"))

    def result(now: Now, line: int = 0) -> Rechecked:
        return Rechecked(path, start, end, state, now, line)

    found = tree.read(path)
    if found is None:
        return result("missing")
    content, _ = found
    lines = lines_of(content)
    ledger.look_through(path, sha256(content), lines)
    if state in ("unread", "missing") or not 1 <= start <= end:
        return result("unproven")
    shown = _shown(citation, ledger, path, start, end)
    if shown is None:
        return result("unproven" if not ledger.names(path) else "changed")
    if lines[start - 1 : end] == shown:
        return result("same", start)
    places = [at + 1 for at in range(len(lines) - len(shown) + 1) if lines[at : at + len(shown)] == shown]
    return result("moved", places[0]) if len(places) == 1 else result("changed")


def _shown(citation: Record, ledger: Ledger, path: str, start: int, end: int) -> list[str] | None:
    """The cited lines as the calls that the citation names returned them; None when they are not on record."""
    named = citation.get("call_ids")
    calls = set(map(str, named)) if isinstance(named, list) else set()
    if end - start > 100_000:
        return None
    texts: list[str] = []
    for number in range(start, end + 1):
        versions = [lines[number] for lines in ledger.versions(path) if number in lines]
        chosen = [line for line in versions if calls & set(line.call_ids)] or versions
        if not chosen:
            return None
        texts.append(chosen[-1].text)
    return texts


def _number(value: object) -> int:
    return value if isinstance(value, int) else 0
