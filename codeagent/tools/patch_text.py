"""The patch format that models are trained on, read into values and applied to text.

*** Begin Patch
*** Add File: path            followed by the file's lines, each after a `+`
*** Delete File: path
*** Update File: path         optionally followed by `*** Move to: new path`
@@ line to look after         any number of these narrow down where a hunk belongs
 context
-removed
+added
*** End of File               the hunk belongs at the end of the file
*** End Patch
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from codeagent.errors import ErrorKind, ToolError

BEGIN, END = "*** Begin Patch", "*** End Patch"
ADD, DELETE, UPDATE, MOVE = "*** Add File: ", "*** Delete File: ", "*** Update File: ", "*** Move to: "
END_OF_FILE = "*** End of File"
SHOWN_LINES = 12


@dataclass(frozen=True, slots=True)
class Hunk:
    """`anchors` are lines to look after, in order; `old` becomes `new`; `at_end` ties it to the end of the file."""

    anchors: tuple[str, ...]
    old: tuple[str, ...]
    new: tuple[str, ...]
    at_end: bool = False


@dataclass(frozen=True, slots=True)
class Addition:
    path: str
    lines: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Deletion:
    path: str


@dataclass(frozen=True, slots=True)
class Update:
    path: str
    move_to: str | None
    hunks: tuple[Hunk, ...]


Operation = Addition | Deletion | Update


def failed(sentence: str, detail: str = "") -> ToolError:
    return ToolError(ErrorKind.PATCH_FAILED, sentence, detail)


def parse(patch: str) -> list[Operation]:
    """The operations in order. ToolError(patch_failed) says which line cannot be read."""
    lines = patch.strip("\r\n \t").split("\n")
    lines = [line.removesuffix("\r") for line in lines]
    if lines[0].strip() != BEGIN:
        raise failed(f"the patch must begin with `{BEGIN}`")
    if lines[-1].strip() != END:
        raise failed(f"the patch must end with `{END}`")
    sections = list(_sections(lines[1:-1]))
    if not sections:
        raise failed("the patch changes nothing")
    return [_operation(number, head, body) for number, head, body in sections]


def _sections(lines: Sequence[str]) -> Iterator[tuple[int, str, list[str]]]:
    """(line number of the head, head, lines below it) for every file."""
    head, start = "", 0
    body: list[str] = []
    for number, line in enumerate(lines, 2):
        if line.startswith((ADD, DELETE, UPDATE)):
            if head:
                yield start, head, body
            head, start, body = line, number, []
        elif head:
            body.append(line)
        elif line.strip():
            raise failed(f"line {number} of the patch stands before any `*** … File:` line")
    if head:
        yield start, head, body


def _operation(number: int, head: str, body: list[str]) -> Operation:
    path = head.partition(": ")[2].strip()
    if not path:
        raise failed(f"line {number} of the patch names no file")
    if head.startswith(DELETE):
        if any(line.strip() for line in body):
            raise failed(f"line {number + 1} of the patch: nothing may follow the deletion of {path}")
        return Deletion(path)
    if head.startswith(ADD):
        return Addition(path, tuple(_added(number, path, body)))
    move_to = None
    if body and body[0].startswith(MOVE):
        move_to = body.pop(0)[len(MOVE) :].strip()
        number += 1
    hunks = tuple(_hunks(number, path, body))
    if not hunks and not move_to:
        raise failed(f"the update of {path} has no hunk")
    return Update(path, move_to, hunks)


def _added(number: int, path: str, body: list[str]) -> Iterator[str]:
    while body and not body[-1].strip():
        body.pop()
    for place, line in enumerate(body, number + 1):
        if not line.startswith("+"):
            raise failed(f"line {place} of the patch: each line of the new file {path} must begin with `+`")
        yield line[1:]


def _hunks(number: int, path: str, body: list[str]) -> Iterator[Hunk]:
    while body and not body[-1].strip():
        body.pop()
    anchors: list[str] = []
    old: list[str] = []
    new: list[str] = []
    for place, line in enumerate(body, number + 1):
        if line.startswith("@@"):
            if old or new:
                yield Hunk(tuple(anchors), tuple(old), tuple(new))
                anchors, old, new = [], [], []
            anchors += [line[2:].strip().removesuffix("@@").strip()]
        elif line.strip() == END_OF_FILE:
            yield Hunk(tuple(anchors), tuple(old), tuple(new), at_end=True)
            anchors, old, new = [], [], []
        elif line[:1] in ("", " "):
            # A blank context line often comes without its blank.
            old.append(line[1:])
            new.append(line[1:])
        elif line[0] == "-":
            old.append(line[1:])
        elif line[0] == "+":
            new.append(line[1:])
        else:
            raise failed(f"line {place} of the patch: in the update of {path}, `{line[0]}` begins no line of a hunk")
    if old or new:
        yield Hunk(tuple(anchors), tuple(old), tuple(new))


@dataclass(slots=True)
class Text:
    """A file's lines without their ends, and how they end."""

    lines: list[str]
    line_end: str
    ends_with_one: bool

    @classmethod
    def of(cls, content: str) -> Text:
        lines = content.split("\n")
        ends = lines[-1] == ""
        if ends:
            lines.pop()
        crlf = bool(lines) and all(line.endswith("\r") for line in (lines if ends else lines[:-1] or lines))
        return cls([line.removesuffix("\r") if crlf else line for line in lines], "\r\n" if crlf else "\n", ends)

    def whole(self) -> str:
        end = self.line_end if self.ends_with_one and self.lines else ""
        return self.line_end.join(self.lines) + end


def updated(update: Update, content: str) -> tuple[str, list[tuple[int, int]]]:
    """The new content, and the lines (first, last) that each hunk made. ToolError(patch_failed) names the hunk."""
    text = Text.of(content)
    if not text.lines:
        text.ends_with_one = True
    at = 0
    made: list[tuple[int, int]] = []
    for number, hunk in enumerate(update.hunks, 1):
        name = f"hunk {number} of {len(update.hunks)} in {update.path}"
        start = _place(name, text.lines, hunk, at)
        text.lines[start : start + len(hunk.old)] = _kept_context(text.lines[start : start + len(hunk.old)], hunk)
        at = start + len(hunk.new)
        made.append((start + 1, at))
    return text.whole(), made


def _kept_context(there: list[str], hunk: Hunk) -> list[str]:
    """The new lines, with context as it stands in the file (blanks at a line's end may differ in the patch)."""
    known = dict(zip(hunk.old, there, strict=True))
    return [known.get(line, line) for line in hunk.new]


def _place(name: str, lines: list[str], hunk: Hunk, at: int) -> int:
    anchored = False
    for anchor in filter(None, hunk.anchors):
        found = next((place for place in range(at, len(lines)) if lines[place].strip() == anchor), None)
        if found is None:
            found = next((place for place in range(at, len(lines)) if anchor in lines[place]), None)
        if found is None:
            raise failed(f"{name} does not fit: no line after line {at} reads `{anchor}`")
        at, anchored = found + 1, True
    if not hunk.old:
        return at if anchored and not hunk.at_end else len(lines)
    # The line that an anchor names may be repeated as context.
    first = max(at - 1, 0) if anchored else at
    places = _places(lines, hunk, first)
    if not places:
        raise failed(f"{name} does not fit: its context and removed lines are not in the file", _closest(lines, hunk))
    if len(places) > 1 and not anchored:
        where = ", ".join(str(place + 1) for place in places[:5])
        raise failed(f"{name} fits in {len(places)} places (lines {where}): give more context, or an `@@` line")
    return places[0]


def _places(lines: list[str], hunk: Hunk, first: int) -> list[int]:
    """Where the old lines stand, exactly or but for blanks at the ends of lines."""
    size = len(hunk.old)
    starts = [len(lines) - size] if hunk.at_end else range(first, len(lines) - size + 1)
    for plain in (str, str.rstrip):
        wanted = [plain(line) for line in hunk.old]
        found = [
            start
            for start in starts
            if start >= first and [plain(line) for line in lines[start : start + size]] == wanted
        ]
        if found:
            return found
    return []


def _closest(lines: list[str], hunk: Hunk) -> str:
    """The part of the file that agrees with most of the old lines, for the model to correct itself."""
    wanted = [line.strip() for line in hunk.old]

    def agreement(start: int) -> int:
        return sum(line.strip() == text for line, text in zip(lines[start:], wanted, strict=False) if text)

    best = max(range(len(lines)), key=agreement, default=0)
    if not lines or not agreement(best):
        return ""
    shown = lines[best : best + min(len(wanted), SHOWN_LINES)]
    numbered = (f"{number}\t{line}" for number, line in enumerate(shown, best + 1))
    return "\n".join(["closest in the file:", *numbered])
