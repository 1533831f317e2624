"""Notices that files which the model has seen were changed by somebody else.

The content's hash is the truth. A stat tells cheaply that nothing can have changed; events of the file system
only say where to look first when very many files were seen.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Literal

from codeagent.errors import ToolError
from codeagent.evidence.host import HostTree, Signature
from codeagent.evidence.ledger import same_content
from codeagent.evidence.lines import differing, lines_of, plain, ranges, sha256

SETTLED_NS = 100_000_000
"""Age from which on an unchanged stat means unchanged content; file systems stamp by ticks of some milliseconds."""
CHECKED_AT_ONCE = 500
"""Files whose stat is taken before each inference; beyond that, events and turns decide."""

Synced = Literal["taken", "kept", "conflict", "unchanged"]
"""What became of a host edit in the private copy: it was taken over; it could not be; it clashes with a change of the
agent's, which stays; there was none: the file is what the copy was made from."""

Sync = Callable[[str], Synced]
"""Brings a file of the host into the private copy. ToolError when that cannot be done."""

Copy = Literal["none"] | Synced


@dataclass(frozen=True, slots=True)
class _Seen:
    """A file as it was on the host when the model saw it. `lines` returns hashes, None when the content was not had.
    `certain` is false when it was seen in the private copy alone, where it is another one."""

    sha256: str
    signature: Signature | None
    lines: Callable[[], list[int] | None]
    certain: bool = True


@dataclass(frozen=True, slots=True)
class Change:
    """One file that is not what it was. `lines` are those that differ, numbered as they are now; for lines that
    went, the ones around the gap."""

    path: str
    lines: str
    gone: bool = False
    copy: Copy = "none"


class Freshness:
    """Watches the files that were shown. Used from one thread, but for `hint`."""

    def __init__(self, host: HostTree, sync: Sync | None = None) -> None:
        self._host = host
        self._sync = sync
        self._seen: dict[str, _Seen] = {}
        self._hints: set[str] = set()
        self._next = 0

    def hint(self, path: str) -> None:
        """Something happened to a file. May be called from any thread."""
        self._hints.add(path)

    def saw(self, path: str, content_hash: str, shown: Mapping[int, str], has_copy: bool) -> None:
        """The model was shown lines of a file at this content."""
        known = self._seen.get(path)
        if known is not None and same_content(content_hash, known.sha256):
            return
        found = self._host.read(path)
        if found is None:
            return  # made in the private copy, or of a size that is not compared
        content, signature = found
        now = sha256(content)
        if same_content(content_hash, now) or (has_copy and known is None and self._sync is None):
            self._seen[path] = _Seen(now, _settled(signature), _kept(_hashed(lines_of(content))))
        elif known is None:
            # It changed between the tool's reading and this one, or since the copy was made, or in the copy alone:
            # the next check finds out.
            self._seen[path] = _Seen(content_hash, None, partial(_sparse, shown), certain=not has_copy)

    def saw_all(self, path: str, content_hash: str, lines: Mapping[int, str]) -> None:
        """The model was shown all lines of a host file: the first check compares them with what stands there then."""
        if path in self._seen:
            self.saw(path, content_hash, lines, has_copy=False)
        else:
            self._seen[path] = _Seen(content_hash, None, partial(_sparse, lines))

    def remember(self, path: str, hashes: Sequence[str], has_copy: bool) -> None:
        """The model was shown a file by an earlier process, at these contents, the newest last."""
        found = self._host.read(path)
        now = sha256(found[0]) if found is not None else ""
        known = next((each for each in hashes if same_content(each, now)), hashes[-1])
        self._seen[path] = _Seen(known, None, lambda: None, certain=not has_copy)

    def changes(self, has_copy: bool) -> list[Change]:
        """The files that differ from what was last known of them; each change is told once."""
        found = []
        for path in self._due():
            change = self._check(path, has_copy)
            if change is not None:
                found.append(change)
        return found

    def kept_in_copy(self, path: str) -> bool:
        """Whether the private copy keeps its own version of a file against the host's; of files that its diff leaves
        out, it does so for those which the agent has written."""
        try:
            return self._sync is not None and self._sync(path) == "kept"
        except ToolError:
            return False

    def _due(self) -> Iterable[str]:
        paths = list(self._seen)
        if len(paths) <= CHECKED_AT_ONCE:
            self._hints.clear()
            return paths
        hinted = {path for path in list(self._hints) if path in self._seen}
        self._hints -= hinted
        start = self._next % len(paths)
        self._next = start + CHECKED_AT_ONCE
        turn = (paths + paths)[start : start + CHECKED_AT_ONCE]
        return list(dict.fromkeys([*hinted, *turn]))

    def _check(self, path: str, has_copy: bool) -> Change | None:
        seen = self._seen[path]
        signature = self._host.glance(path)
        if signature is not None and signature == seen.signature:
            return None
        found = self._host.read(path)
        if found is None:
            del self._seen[path]
            if seen.signature is None and self._host.glance(path) is not None:
                return None  # it is there, and could be read in the container alone
            return Change(path, "", True, self._copied(path, has_copy))
        content, signature = found
        now, lines = sha256(content), _hashed(lines_of(content))
        before = self._seen[path]
        self._seen[path] = _Seen(now, _settled(signature), _kept(lines))
        if same_content(before.sha256, now):
            return None
        copy = self._copied(path, has_copy)
        if copy in ("unchanged", "kept") and not before.certain:
            return None  # the agent's own change
        return Change(path, _differing(before.lines(), lines), False, copy)

    def _copied(self, path: str, has_copy: bool) -> Copy:
        if not has_copy:
            return "none"
        if self._sync is None:
            return "kept"
        try:
            return self._sync(path)
        except ToolError:
            return "kept"


def _settled(signature: Signature) -> Signature | None:
    """None for a file that was written just now: a second write in the same tick of the clock would look the same."""
    newest = max(signature.modified_ns, signature.changed_ns)
    return signature if abs(time.time_ns() - newest) > SETTLED_NS else None


def note(changes: list[Change]) -> str:
    """What the model is told of changes, without a guess about who made them."""
    return "\n".join(["Files changed in the repository after you were shown them:", *map(_sentence, changes)])


def _sentence(change: Change) -> str:
    what = "no longer exists or cannot be read" if change.gone else f"lines that differ now: {change.lines}"
    after = {
        "none": "what you were shown of it no longer holds",
        "taken": "the private copy has the new version",
        "kept": "the private copy still has the version that you were shown",
        "conflict": "conflict: you changed the same file in the private copy, which keeps your version",
        "unchanged": "it is again what the private copy was made from",
    }
    return f"- {named(change.path)}: {what}; {after[change.copy]}."


def named(path: str) -> str:
    """A path on one line of plain text."""
    return path if path.isprintable() and path.strip() == path and '"' not in path else json.dumps(path)


def _hashed(lines: list[str]) -> list[int]:
    return [hash(line) for line in lines]


def _kept(hashes: list[int]) -> Callable[[], list[int]]:
    return lambda: hashes


def _sparse(shown: Mapping[int, str]) -> list[int] | None:
    """Line hashes out of the lines that were shown, when they are the first ones without a gap."""
    numbers = sorted(shown)
    if numbers != list(range(1, len(numbers) + 1)):
        return None
    return _hashed([plain(shown[number]) for number in numbers])


def _differing(before: list[int] | None, after: list[int]) -> str:
    if before is None:
        return "any"
    numbers: list[int] = []
    for _, _, first, last in differing(before, after):
        numbers += range(first + 1, last + 1)
        if first == last:  # lines went: name the ones around the gap
            numbers += [number for number in (first, first + 1) if 1 <= number <= len(after)]
    return ranges(numbers) or "none (the line ends or the encoding changed)"
