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
"""Lines that a run must have before it counts for a file that the command does not name."""
MAX_PLACES = 32
"""Places of a file at which a run may begin; a line that stands at more of them only continues a run."""

_WITH_PATH = re.compile(r"^(?P<path>[^\0\n]+?)(?P<mark>[:\-=])(?P<number>\d{1,9})(?P=mark)(?P<text>.*)$", re.DOTALL)
_PLACE = re.compile(r"(?P<mark>[:\-=])(?P<number>\d{1,9})(?P=mark)(?P<text>.*)$", re.DOTALL)
_NUMBERED = re.compile(r"^\s*(?P<number>\d{1,9})(?:[:\-=|]|\t|  ?)(?P<text>.*)$", re.DOTALL)
_BLAME = re.compile(r"^\^?[0-9a-f]{6,40}\s+(?:\S+\s+)?\(.*?\s(?P<number>\d+)\)(?: (?P<text>.*))?$", re.DOTALL)
_ESCAPES = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def shown_lines(output: Sequence[str], path: str, file_lines: Sequence[str], named: bool, asked: bool) -> set[int]:
    """Numbers of the lines of `path`, whose content is `file_lines`, that `output` (see `bare`) shows.

    `named` tells that command or output name the file, so that a part of a diff may be its; `asked` that the command
    does, so that any output may be: a listing names many files, and says of none that what else is printed is its.
    """
    forms = _printed(path)
    found: set[int] = set()
    rest: list[str] = []
    headed, begins = False, True  # by a line of its own with the file's name, as `rg --heading` prints it
    for line in output:
        numbers = _placed(line, forms, file_lines)
        if not numbers and (asked or headed):
            numbers = _numbered(line, file_lines)
        is_numbered = line == "--" or _NUMBERED.match(line) is not None
        headed = (begins and line in forms) or (headed and is_numbered)
        begins = is_numbered or not line
        found |= numbers
        if not numbers:
            rest.append(line)
    found |= _runs(rest, file_lines, asked)
    if any(line.startswith("@@ ") for line in rest):
        found |= _runs([line[1:] if line[:1] in (" ", "+") else "\0" for line in rest], file_lines, named)
    return found


def bare(line: str) -> str:
    """A line of output as it is compared: without colours, and as `lines.plain` has it."""
    return plain(_ESCAPES.sub("", line) if "\x1b" in line else line)


def paths_in(output: Sequence[str]) -> list[str]:
    """Paths that the lines of an output begin with, each once, in order."""
    found: dict[str, None] = {}
    for line in output:
        match = _WITH_PATH.match(line[:600])
        if match and match["path"].strip() and len(match["path"]) < 400:
            found[match["path"].removeprefix("./")] = None
    return list(found)


def _printed(path: str) -> tuple[str, ...]:
    """The forms in which a path can stand at the start of a line: whole, or relative to a folder."""
    parts = path.split("/")
    relative = ["/".join(parts[start:]) for start in range(len(parts))]
    return (f"/workspace/{path}", *(form for name in relative for form in (name, f"./{name}")))


def _placed(line: str, forms: tuple[str, ...], file_lines: Sequence[str]) -> set[int]:
    """The line that an output places by path and number."""
    if not line.startswith(forms):
        return set()
    for printed in forms:
        if line.startswith(printed) and (match := _PLACE.match(line, len(printed))):
            return _agreeing(int(match["number"]), match["text"], file_lines)
    return set()


def _numbered(line: str, file_lines: Sequence[str]) -> set[int]:
    """The line that an output places by its number."""
    match = _BLAME.match(line) or _NUMBERED.match(line)
    return _agreeing(int(match["number"]), match["text"] or "", file_lines) if match else set()


def _agreeing(number: int, text: str, file_lines: Sequence[str]) -> set[int]:
    """The line, when the text is what stands there; a column or a space may stand before it."""
    if not 1 <= number <= len(file_lines):
        return set()
    line = file_lines[number - 1]
    forms = (text, text[1:] if text[:1] == " " else text, re.sub(r"^\d+:", "", text))
    return {number} if line in forms else set()


def _runs(output: Sequence[str], file_lines: Sequence[str], named: bool) -> set[int]:
    """Lines of the longest runs that both have in common and that stand at one place of the file."""
    if named and file_lines and list(output) == list(file_lines):
        return set(range(1, len(file_lines) + 1))
    wanted = set(output)
    places: dict[str, list[int]] = {}
    for number, line in enumerate(file_lines):
        if line in wanted:
            places.setdefault(line, []).append(number)
    found: set[int] = set()
    at = free = 0
    while at < len(output):
        length, starts = _longest(output, at, file_lines, places)
        if len(starts) == 1:
            start, back = starts[0], 0
            while at - back > free and start - back > 0 and output[at - back - 1] == file_lines[start - back - 1]:
                back += 1
            if _tells(output[at - back : at + length], named):
                found.update(range(start - back + 1, start + length + 1))
                free = at + length
        at += max(length, 1)
    return found


def _longest(
    output: Sequence[str], at: int, file_lines: Sequence[str], places: Mapping[str, list[int]]
) -> tuple[int, list[int]]:
    """How many lines from `at` on stand together in the file, and where they do."""
    starts = places.get(output[at], [])
    if not starts or len(starts) > MAX_PLACES:
        return 0, []
    length = 1
    while at + length < len(output):
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


def _tells(run: Sequence[str], named: bool) -> bool:
    """Whether a run is enough to say that it is from this file."""
    telling = 0
    for line in run:
        telling += re.search(r"\w", line) is not None
        if telling >= (1 if named else MIN_DISTINCT):
            return True
    return False
