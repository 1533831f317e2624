"""Whether the citations of a stored answer still hold in the repository as it is now."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from codeagent.evidence.host import HostTree
from codeagent.evidence.landmark import Landmark, from_json
from codeagent.evidence.lines import lines_of, text_sha256

Now = Literal["same", "moved", "ambiguous", "changed", "missing", "unproven", "misquoted"]
"""`same`: the lines are as they were returned. `moved`: they stand elsewhere. `ambiguous`: their text stands
elsewhere, and whether it is they cannot be told. `changed`: they are not there any more.
`missing`: nor is the file. `unproven`: the session holds no record of them to compare with. `misquoted`: the
lines are the same, and the answer gives a text for them that was never in the file."""

Record = Mapping[str, Any]
_MOST_COMPARED = 5_000_000
"""Lines that are read at most to find where some have gone."""


@dataclass(frozen=True, slots=True)
class Rechecked:
    """One citation. `state` is what it was when the answer was given; `places` are the lines at which its text starts
    now: one that is meant, or those that may be meant when it is `ambiguous`."""

    path: str
    start_line: int
    end_line: int
    state: str
    now: Now
    places: tuple[int, ...] = ()

    @property
    def holds(self) -> bool:
        return self.now == "same"

    @property
    def line(self) -> int:
        """Where the lines start now; 0 when that cannot be told."""
        return self.places[0] if self.places and self.now != "ambiguous" else 0


@dataclass(frozen=True, slots=True)
class Cited:
    """A stored citation. `sha256` is that of its lines as they were returned, empty where there is no record;
    `within` tells them from others of the same text, and is None where nothing does."""

    path: str
    start_line: int
    end_line: int
    state: str
    sha256: str
    within: Landmark | None
    misquoted: bool = False


@dataclass(frozen=True, slots=True)
class Answer:
    """The last answer of a session: what it cites, and the repository that it was about."""

    repo: str
    citations: tuple[Cited, ...]


def last_answer(records: Iterable[Record]) -> Answer | None:
    """The last turn that ended with an answer."""
    repo, found = "", None
    for record in records:
        match record.get("type"):
            case "session_started" | "session_resumed":
                repo = str(record.get("repo") or repo)
            case "turn_ended" if record.get("answer"):
                found = repo, record
    return Answer(found[0], tuple(_cited(found[1]))) if found else None


def _cited(ended: Record) -> Iterable[Cited]:
    citations, hashes, around = (_list(ended, name) for name in ("citations", "cited_sha256", "cited_within"))
    quoted = set(map(str, _list(ended, "misquoted")))
    for at, one in enumerate(citations):
        if isinstance(one, Mapping):
            path, start, end = str(one.get("path") or ""), _number(one, "start_line"), _number(one, "end_line")
            place = f"{path}:{start}" if start == end else f"{path}:{start}-{end}"
            known = str(hashes[at]) if at < len(hashes) else ""
            # Without a record, the lines are taken for the only ones of their text.
            within = from_json(around[at]) if at < len(around) else Landmark(0, 0, known)
            yield Cited(path, start, end, str(one.get("state") or ""), known, within, place in quoted)


def recheck(answer: Answer, tree: HostTree) -> list[Rechecked]:
    """Compares every citation with the files as they are now."""
    return [
        Rechecked(one.path, one.start_line, one.end_line, one.state, *_now(one, tree)) for one in answer.citations
    ]


def _now(cited: Cited, tree: HostTree) -> tuple[Now, tuple[int, ...]]:
    found = tree.read(cited.path)
    if found is None:
        return "missing", ()
    lines, count = lines_of(found[0]), cited.end_line - cited.start_line + 1
    if not cited.sha256 or not 1 <= cited.start_line <= cited.end_line:
        return "unproven", ()
    if _are(lines, cited.start_line, count, cited.sha256):
        return ("misquoted" if cited.misquoted else "same"), (cited.start_line,)
    if count * len(lines) > _MOST_COMPARED:
        return "changed", ()
    places = [start for start in range(1, len(lines) - count + 2) if _are(lines, start, count, cited.sha256)]
    meant = [start for start in places if cited.within is not None and _stands(cited.within, lines, start, count)]
    if len(meant) == 1:
        return "moved", (meant[0],)
    return ("ambiguous" if places else "changed"), tuple(places)


def _stands(within: Landmark, lines: Sequence[str], start: int, count: int) -> bool:
    """Whether around these lines stands what stood around the cited ones."""
    return _are(lines, start - within.before, within.before + count + within.after, within.sha256)


def _are(lines: Sequence[str], start: int, count: int, sha256: str) -> bool:
    inside = 1 <= start <= len(lines) - count + 1
    return inside and text_sha256(lines[start - 1 : start - 1 + count]) == sha256


def _list(record: Record, name: str) -> list[Any]:
    found = record.get(name)
    return found if isinstance(found, list) else []


def _number(record: Record, name: str) -> int:
    found = record.get(name)
    return found if isinstance(found, int) else 0
