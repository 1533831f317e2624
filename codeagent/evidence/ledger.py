"""What the tools really returned: the lines of files that were shown, at which content, by which call."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from codeagent.evidence.lines import plain, split
from codeagent.evidence.recognise import bare, shown_lines

MAX_TEXTS = 400
"""Outputs of commands that are kept to be looked through when an answer cites a file; older ones are dropped."""


UNKNOWN = "\0"
"""The text of a line that an earlier process was shown, of a content that the file does not have any more."""


class Line(NamedTuple):
    """A line as it was shown, and the calls that showed it."""

    text: str
    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Text:
    """Output of a command, as lines that can be compared. `settled` are the files that it was compared with."""

    call_id: str
    command: str
    lines: tuple[str, ...]
    settled: set[str] = field(default_factory=set, compare=False)

    def names(self, path: str) -> bool:
        """Whether the command or the output names the file, at least by its last part."""
        return self.asks_for(path) or _word(path).search("\n".join(self.lines)) is not None

    def asks_for(self, path: str) -> bool:
        """Whether the command itself does."""
        return _word(path).search(self.command) is not None


def _word(path: str) -> re.Pattern[str]:
    return re.compile(rf"(?<![\w.-]){re.escape(path.rpartition('/')[2])}(?![\w-])")


class Ledger:
    """Grows with each call; nothing is ever taken back.

    Content is known by its hash; a shortened one (from a stored session) stands for every hash that begins so.
    """

    def __init__(self) -> None:
        self._shown: dict[str, dict[str, dict[int, Line]]] = {}
        self._new: list[tuple[str, str, str, Mapping[int, str]]] = []
        self._texts: list[Text] = []
        self._recalled: list[tuple[str, str, str, Sequence[int]]] = []

    def add_lines(self, call_id: str, path: str, sha256: str, lines: Mapping[int, str]) -> None:
        """Records that a call showed whole lines of a file, by number; sorted in when somebody asks."""
        self._new.append((call_id, path, sha256, lines))

    def _known(self) -> dict[str, dict[str, dict[int, Line]]]:
        """What was shown by path and hash, up to the last call."""
        for each in self._new:
            self._take(*each)
        self._new.clear()
        return self._shown

    def _take(self, call_id: str, path: str, sha256: str, lines: Mapping[int, str]) -> None:
        known = self._shown.setdefault(path, {}).setdefault(sha256, {})
        first = (call_id,)
        if not known:  # as nearly always
            known.update({number: Line(_as_shown(text), first) for number, text in lines.items()})
            return
        for number, text in lines.items():
            calls = known[number].call_ids if number in known else ()
            known[number] = Line(_as_shown(text), calls if call_id in calls else (*calls, call_id))

    def add_text(self, call_id: str, command: str, text: str) -> Text:
        """Records the output of a command."""
        record = Text(call_id, command, tuple(map(bare, split(text))))
        self._texts.append(record)
        del self._texts[:-MAX_TEXTS]
        return record

    def recall(self, text: Text, path: str, sha256: str, numbers: Sequence[int]) -> None:
        """Records which lines of a file an output showed, at a content that is known by its hash alone."""
        text.settled.add(path)
        self._recalled.append((text.call_id, path, sha256, numbers))
        self.add_lines(text.call_id, path, sha256, dict.fromkeys(numbers, UNKNOWN))

    def settle(self, text: Text, path: str, sha256: str, file_lines: Sequence[str]) -> set[int]:
        """Records the lines of a file, as it is now, that an output shows; returns their numbers."""
        text.settled.add(path)
        numbers = shown_lines(text.lines, path, file_lines, text.names(path), text.asks_for(path))
        if numbers:
            self.add_lines(text.call_id, path, sha256, {number: file_lines[number - 1] for number in numbers})
        return numbers

    def look_through(self, path: str, sha256: str, file_lines: Sequence[str]) -> None:
        """Compares a file with the outputs that it was not compared with yet."""
        for call_id, known, content, numbers in self._recalled:
            if (known, content) == (path, sha256):
                there = [number for number in numbers if number <= len(file_lines)]
                self.add_lines(call_id, path, sha256, {number: file_lines[number - 1] for number in there})
        self._recalled = [each for each in self._recalled if each[1:3] != (path, sha256)]
        for text in self._texts:
            if path not in text.settled:
                self.settle(text, path, sha256, file_lines)

    def paths(self) -> Iterable[str]:
        """The files of which lines were shown."""
        return self._known().keys()

    def hashes(self, path: str) -> list[str]:
        """The contents of a file of which lines were shown, the oldest first."""
        return list(self._known().get(path, ()))

    def at(self, path: str, sha256: str) -> dict[int, Line]:
        """The lines that were shown of a file with this content."""
        found: dict[int, Line] = {}
        for known, lines in self._known().get(path, {}).items():
            if same_content(known, sha256):
                found = joined(found, lines)
        return found

    def versions(self, path: str) -> list[dict[int, Line]]:
        """The lines that were shown of each content of a file, the oldest first."""
        return list(self._known().get(path, {}).values())

    def ever(self, path: str) -> dict[int, Line]:
        """The lines that were shown of a file, with whatever content; the newest text of each number."""
        found: dict[int, Line] = {}
        for lines in self._known().get(path, {}).values():
            found.update(lines)
        return found


def _as_shown(text: str) -> str:
    return text if text == UNKNOWN else plain(text)


def joined(first: Mapping[int, Line], second: Mapping[int, Line]) -> dict[int, Line]:
    """The lines of both; where both have one, the second's text and the calls of both when the texts agree."""
    result = dict(first)
    for number, line in second.items():
        before = result.get(number)
        calls = before.call_ids if before is not None and before.text == line.text else ()
        result[number] = Line(line.text, tuple(dict.fromkeys((*calls, *line.call_ids))))
    return result


def same_content(known: str, sha256: str) -> bool:
    """Whether a hash, perhaps shortened, stands for this content."""
    return bool(known) and sha256.startswith(known)
