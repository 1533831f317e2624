"""What the record says of each cited place.

`read` says that the cited lines were returned by a tool at the content that the file has now. It does not say
that a claim about them is true.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace

from codeagent.errors import ErrorKind, ToolError
from codeagent.evidence.citations import Citation, Mention, State, looks_like_file, mentions
from codeagent.evidence.landmark import Landmark, landmark
from codeagent.evidence.ledger import UNKNOWN, Ledger, Line, joined
from codeagent.evidence.lines import differing, lines_of, sha256, text_sha256

MIN_QUOTE = 6
"""Characters of a quoted text from which on it may say where a line has gone."""

_NAME = re.compile(r"[\w.:$@#/<>-]*(?:\([^()]*\))?")

Read = Callable[[str], bytes | None]
"""A file's content; None when there is none. ToolError for one that is there and cannot be had."""


@dataclass(frozen=True, slots=True)
class Version:
    """One content of a file."""

    sha256: str
    lines: list[str]

    @classmethod
    def of(cls, content: bytes) -> Version:
        return cls(sha256(content), lines_of(content))


class Checker:
    """`current` reads the tree that the tools see; `host` the real repository, where that is another one, and
    `changed` are the paths that the agent has changed then. `real` gives the path of the file behind links.
    `touched` tells of a file that is not among `changed`, as git ignores it, whether the agent has written it."""

    def __init__(
        self,
        ledger: Ledger,
        current: Read,
        host: Read | None = None,
        changed: Collection[str] = (),
        real: Callable[[str], str] = str,
        touched: Callable[[str], bool] = lambda _path: False,
    ) -> None:
        self._ledger = ledger
        self._real = real
        self._changed = changed
        self._touched = touched
        self._current = current
        self._host = host
        self._versions: dict[tuple[bool, str], Version | None] = {}
        self._closed: set[str] = set()
        self.misquoted: list[str] = []
        """Places that were read, but cited with a text that no content of the file ever held."""

    def check(self, answer: str) -> list[Citation]:
        """The citations of an answer, in its order, each place once."""
        found: dict[tuple[str, int, int], Citation] = {}
        for mention in mentions(answer):
            path = self._path(mention)
            if path is not None:
                citation = self._cited(path if self._ledger.hashes(path) else self._real(path), mention)
                found.setdefault((citation.path, citation.start_line, citation.end_line), citation)
        return [replace(citation, within=self._landmark(citation)) for citation in found.values()]

    def _landmark(self, citation: Citation) -> Landmark | None:
        """Of the content in which the cited lines stand at their place as they were returned."""
        start, end = citation.start_line, citation.end_line
        for host in (True, False):
            version = self._version(citation.path, host) if citation.sha256 else None
            if version is not None and text_sha256(version.lines[start - 1 : end]) == citation.sha256:
                return landmark(version.lines, start, end)
        return None

    def place(self, path: str, start: int, end: int, quote: str = "") -> Citation:
        """What the record says of one place."""
        return self._cited(path, Mention((path,), start, end, quote))

    # Names

    def _path(self, mention: Mention) -> str | None:
        """The file that is meant; None when the name means none."""
        for path in mention.paths:
            if self._ledger.hashes(path) or self._exists(path):
                return path
        for path in mention.paths:
            ends = [known for known in self._ledger.paths() if known.endswith(f"/{path}")]
            if len(ends) == 1:
                return ends[0]
        return next((path for path in reversed(mention.paths) if looks_like_file(path)), None)

    def _exists(self, path: str) -> bool:
        return self._version(path) is not None or path in self._closed

    def _version(self, path: str, host: bool = False) -> Version | None:
        """The file as it is now; None when there is none, or when it may not or cannot be read."""
        key = (host, path)
        if key not in self._versions:
            read = self._host if host and self._host is not None else self._current
            try:
                content = read(path)
            except ToolError as error:
                content = None
                if error.kind in (ErrorKind.PROTECTED_PATH, ErrorKind.TOO_LARGE, ErrorKind.PERMISSION_DENIED):
                    self._closed.add(path)
            self._versions[key] = Version.of(content) if content is not None else None
        return self._versions[key]

    # States

    def _cited(self, path: str, mention: Mention) -> Citation:
        start, end = mention.start_line, mention.end_line
        version = self._version(path)
        if version is None:
            return self._without_content(path, start, end)
        self._ledger.look_through(path, version.sha256, version.lines)
        there = 1 <= start <= end <= len(version.lines)
        moved = self._moved(path, mention, version, there)
        if moved is not None:
            return moved
        found = self._there(path, start, end, version) if there else self._gone(path, start, end)
        if found.state == "read" and not self._is_anywhere(mention.quote, path, version):
            self.misquoted.append(f"{path}:{start}" if start == end else f"{path}:{start}-{end}")
        return found

    def _there(self, path: str, start: int, end: int, version: Version) -> Citation:
        baseline = self._version(path, host=True) if self._host is not None else version
        differs = baseline is None or baseline.sha256 != version.sha256
        if differs and (path in self._changed or self._touched(path)):
            return self._in_copy(path, start, end, version, baseline)
        shown = self._ledger.at(path, version.sha256)
        if _covers(shown, start, end):
            return _citation(path, start, end, "stale" if differs else "read", shown)
        ever = self._ledger.ever(path)
        if _covers(ever, start, end):
            return _citation(path, start, end, "stale", ever)
        return _citation(path, start, end, "unread", {})

    def _in_copy(self, path: str, start: int, end: int, version: Version, baseline: Version | None) -> Citation:
        """A place in a file whose content in the private copy is not that of the host."""
        before = baseline.lines if baseline is not None else []
        blocks = differing(before, version.lines)
        if any(first < end and start - 1 < last for _, _, first, last in blocks):
            shown = self._ledger.at(path, version.sha256)
            return _citation(path, start, end, "own_change", shown)
        shift = sum((i2 - i1) - (j2 - j1) for i1, i2, j1, j2 in blocks if j2 <= start - 1)
        now = self._ledger.at(path, version.sha256)
        original = self._ledger.at(path, baseline.sha256) if baseline is not None else {}
        merged = joined({number - shift: line for number, line in original.items()}, now)
        if _covers(merged, start, end) and all(
            merged[number].text == version.lines[number - 1] for number in range(start, end + 1)
        ):
            return _citation(path, start, end, "read", merged)
        if _covers(original, start, end):  # numbered as before the agent's own change
            return _citation(path, start, end, "read", original)
        ever = self._ledger.ever(path)
        if _covers(ever, start, end):
            return _citation(path, start, end, "stale", ever)
        return _citation(path, start, end, "unread", {})

    def _without_content(self, path: str, start: int, end: int) -> Citation:
        if path in self._closed and path in self._changed:
            return _citation(path, start, end, "own_change", self._ledger.ever(path))
        if path in self._closed:
            # Too large to be fetched, perhaps; what was shown of it is all that is known.
            ever = self._ledger.ever(path)
            return _citation(path, start, end, "read" if _covers(ever, start, end) else "unread", ever)
        return self._gone(path, start, end)

    def _gone(self, path: str, start: int, end: int) -> Citation:
        """The file or the line is not there: it never was, or it went after it was shown."""
        ever = self._ledger.ever(path)
        if not _covers(ever, start, end):
            return _citation(path, start, end, "missing", {})
        baseline = self._version(path, host=True) if self._host is not None else None
        if baseline is not None and _covers(self._ledger.at(path, baseline.sha256), start, end):
            return _citation(path, start, end, "read", self._ledger.at(path, baseline.sha256))
        return _citation(path, start, end, "stale", ever)

    def _moved(self, path: str, mention: Mention, version: Version, there: bool) -> Citation | None:
        """The place where the quoted text stands, when that is another one and was shown."""
        quote = _compact(mention.quote)
        if len(quote.replace(" ", "")) < MIN_QUOTE:
            return None
        lines = [_compact(line) for line in version.lines]
        cited = lines[mention.start_line - 1 : mention.end_line] if there else []
        if quote in _compact(" ".join(cited)):
            return None
        places = [number for number, line in enumerate(lines, 1) if quote in line]
        shown = self._ledger.at(path, version.sha256)
        seen = [number for number in places if number in shown]
        places = seen if seen else []
        if len(places) != 1:
            return None
        return _citation(path, places[0], places[0], "moved", shown)

    def _is_anywhere(self, quote: str, path: str, version: Version) -> bool:
        """Whether a quote is of some content of the file; what may be a name, a call or a place always is."""
        parts = [part for part in map(_compact, re.split(r"…|\.\.\.", quote)) if part]
        if len("".join(parts).replace(" ", "")) < MIN_QUOTE or _NAME.fullmatch(quote.strip("`")) or mentions(quote):
            return True
        baseline = self._version(path, host=True) if self._host is not None else None
        contents = [version.lines, baseline.lines if baseline is not None else []]
        contents += [[shown[number].text for number in sorted(shown)] for shown in self._ledger.versions(path)]
        return any(all(part in text for part in parts) for text in (_compact(" ".join(one)) for one in contents))


def _compact(text: str) -> str:
    return " ".join(re.sub(r"[`…]|\.\.\.$", "", text).split())


def _covers(shown: dict[int, Line], start: int, end: int) -> bool:
    return 1 <= start <= end and end - start < len(shown) and all(n in shown for n in range(start, end + 1))


def _citation(path: str, start: int, end: int, state: State, shown: dict[int, Line]) -> Citation:
    calls: dict[str, None] = {}
    if state != "unread" and end - start < 100_000:
        for number in range(start, end + 1):
            if number in shown:
                calls.update(dict.fromkeys(shown[number].call_ids))
    texts = [shown[number].text for number in range(start, end + 1)] if _covers(shown, start, end) else [UNKNOWN]
    return Citation(path, start, end, state, tuple(calls), "" if UNKNOWN in texts else text_sha256(texts))
