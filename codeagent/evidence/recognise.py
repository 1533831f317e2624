"""Which lines of a file stand in the output of a command, whatever command it was.

Output with line numbers (`rg -n`, `grep -n`, `nl`, `cat -n`, `git blame`) shows a line when number and text agree.
Output without them (`cat`, `sed -n`, `git show`) shows the lines of a run that fits the file at one place only;
a run that could stand at several places shows nothing.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from codeagent.evidence.lines import plain

MIN_DISTINCT = 3
"""Lines that a run must have before it counts for a file that neither command nor output names."""

_WITH_PATH = re.compile(r"^(?P<path>[^\0\n]+?)(?P<mark>[:\-=])(?P<number>\d{1,9})(?P=mark)(?P<text>.*)$", re.DOTALL)
_PLACE = re.compile(r"(?P<mark>[:\-=])(?P<number>\d{1,9})(?P=mark)(?P<text>.*)$", re.DOTALL)
_NUMBERED = re.compile(r"^\s*(?P<number>\d{1,9})(?:[:\-=|]|\t|  ?)(?P<text>.*)$", re.DOTALL)
_BLAME = re.compile(r"^\^?[0-9a-f]{6,40}\s+(?:\S+\s+)?\(.*?\s(?P<number>\d+)\)(?: (?P<text>.*))?$", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def shown_lines(output: Sequence[str], path: str, file_lines: Sequence[str], named: bool) -> set[int]:
    """Numbers of the lines of `path`, whose content is `file_lines`, that `output` shows.

    `named` tells that the command names the file, so that output which does not say where it is from may be its.
    """
    found: set[int] = set()
    rest: list[str] = []
    for raw in output:
        line = plain(_ESCAPES.sub("", raw))
        numbers = _numbered(line, path, file_lines, named)
        found |= numbers
        if not numbers:
            rest.append(line)
    found |= _runs(rest, file_lines, named)
    if any(line.startswith("@@ ") for line in rest):
        found |= _runs([line[1:] if line[:1] in (" ", "+") else "\0" for line in rest], file_lines, named)
    return found


def paths_in(output: Sequence[str]) -> list[str]:
    """Paths that the lines of an output begin with, each once, in order."""
    found: dict[str, None] = {}
    for raw in output:
        match = _WITH_PATH.match(_ESCAPES.sub("", raw))
        if match and match["path"].strip() and len(match["path"]) < 400:
            found[match["path"].removeprefix("./")] = None
    return list(found)


def _numbered(line: str, path: str, file_lines: Sequence[str], named: bool) -> set[int]:
    match = _BLAME.match(line)
    if match:
        return _agreeing(int(match["number"]), match["text"] or "", file_lines) if named else set()
    for printed in _printed(path):
        if line.startswith(printed) and (match := _PLACE.match(line, len(printed))):
            return _agreeing(int(match["number"]), match["text"], file_lines)
    match = _NUMBERED.match(line)
    return _agreeing(int(match["number"]), match["text"], file_lines) if match and named else set()


def _printed(path: str) -> list[str]:
    """The forms in which a path can stand at the start of a line: whole, or relative to a folder."""
    parts = path.split("/")
    relative = ["/".join(parts[start:]) for start in range(len(parts))]
    return [f"/workspace/{path}", *(form for name in relative for form in (name, f"./{name}"))]


def _agreeing(number: int, text: str, file_lines: Sequence[str]) -> set[int]:
    """The line, when the text is what stands there; a column or a space may stand before it."""
    if not 1 <= number <= len(file_lines):
        return set()
    line = file_lines[number - 1]
    forms = (text, text[1:] if text[:1] == " " else text, re.sub(r"^\d+:", "", text))
    return {number} if line in forms else set()


def _runs(output: Sequence[str], file_lines: Sequence[str], named: bool) -> set[int]:
    """Lines of the longest runs that both have in common and that stand at one place of the file."""
    places: dict[str, list[int]] = {}
    for number, line in enumerate(file_lines):
        places.setdefault(line, []).append(number)
    found: set[int] = set()
    at = 0
    while at < len(output):
        length, starts = _longest(output, at, file_lines, places)
        if length and len(starts) == 1 and _tells(output[at : at + length], named, places):
            found.update(range(starts[0] + 1, starts[0] + length + 1))
        at += max(length, 1)
    return found


def _longest(
    output: Sequence[str], at: int, file_lines: Sequence[str], places: Mapping[str, list[int]]
) -> tuple[int, list[int]]:
    """How many lines from `at` on stand together in the file, and where they do."""
    starts = places.get(output[at], [])
    length = 1 if starts else 0
    while starts and at + length < len(output):
        going_on = [
            start
            for start in starts
            if start + length < len(file_lines) and file_lines[start + length] == output[at + length]
        ]
        if not going_on:
            break
        starts = going_on
        length += 1
    return length, starts


def _tells(run: Sequence[str], named: bool, places: Mapping[str, list[int]]) -> bool:
    """Whether a run is enough to say that it is from this file."""
    telling = [line for line in run if re.search(r"\w", line)]
    if named:
        return bool(telling) or len(run) >= sum(map(len, places.values()))
    return len(telling) >= MIN_DISTINCT
