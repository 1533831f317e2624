"""Files as lines, counted as `grep -n` counts them, and which of them differ."""

from __future__ import annotations

import codecs
import hashlib
import re
from collections.abc import Iterable, Sequence
from difflib import SequenceMatcher

MAX_COMPARED = 4_000
"""Lines of a changed region up to which the lines that differ are told apart; a longer one is one range."""

MOST_NUMBERS = 1_000_000
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def text_sha256(lines: Iterable[str]) -> str:
    """The hash of some lines, each ended by LF."""
    return sha256("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))


def lines_of(content: bytes) -> list[str]:
    """The lines of a file without their line ends (LF, or CR LF); bytes that are not text become U+FFFD."""
    encoding = "utf-8"
    for mark, name in _MARKS:
        if content.startswith(mark):
            content, encoding = content[len(mark) :], name
            break
    return split(content.decode(encoding, "replace"))


def split(text: str) -> list[str]:
    """The lines of a text; only LF ends one."""
    lines = text.split("\n")
    if "\r" in text or "\0" in text:
        lines = [plain(line) for line in lines]
    if lines and lines[-1] == "":
        lines.pop()
    return lines


def plain(line: str) -> str:
    """A line as it is compared: without the CR of a line end, and with NUL as it is shown."""
    return line.removesuffix("\r").replace("\0", "\ufffd")


Block = tuple[int, int, int, int]
"""Lines before (first, end) and after (first, end) that take each other's place; counted from 0, ends excluded."""


def differing(before: Sequence[object], after: Sequence[object]) -> list[Block]:
    """The blocks in which two versions of a file differ."""
    start = 0
    shorter = min(len(before), len(after))
    while start < shorter and before[start] == after[start]:
        start += 1
    tail = 0
    while tail < shorter - start and before[-1 - tail] == after[-1 - tail]:
        tail += 1
    end_before, end_after = len(before) - tail, len(after) - tail
    if start == end_before and start == end_after:
        return []
    if max(end_before, end_after) - start > MAX_COMPARED:
        return [(start, end_before, start, end_after)]
    matcher = SequenceMatcher(None, before[start:end_before], after[start:end_after], autojunk=False)
    return [
        (start + i1, start + i2, start + j1, start + j2)
        for tag, i1, i2, j1, j2 in matcher.get_opcodes()
        if tag != "equal"
    ]


def ranges(numbers: Sequence[int]) -> str:
    """Line numbers in words: `3-5, 9`."""
    spans: list[list[int]] = []
    for number in sorted(set(numbers)):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ", ".join(str(first) if first == last else f"{first}-{last}" for first, last in spans)


def numbers_in(text: str) -> list[int]:
    """The numbers that `ranges` has put into words, as far as they make sense."""
    found: list[int] = []
    for first, last in re.findall(r"(\d{1,9})(?:-(\d{1,9}))?", text):
        found += range(int(first), min(int(last or first), int(first) + MOST_NUMBERS) + 1)
    return found
