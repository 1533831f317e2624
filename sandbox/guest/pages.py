"""A page of lines out of a stream of bytes, in bounded memory whatever the file holds.

The whole stream passes through once, for the hash and the count of lines; only the lines asked for are kept,
and of a very long one only what can be shown.
"""

from __future__ import annotations

import codecs
import hashlib
from dataclasses import dataclass, field

from guest.encodings import Encoding

MAX_LINES = 2_000
PAGE_BYTES = 47 * 1024  # of UTF-8, so that the rendering with its header stays within 48 KiB
LINE_OVERHEAD = 8  # the number, the tab and the line feed of a rendered line
LINE_CHARACTERS = 2_000
KEPT_BYTES = 4 * PAGE_BYTES  # of one line; no encoding needs more than four bytes a character


@dataclass(slots=True)
class Counts:
    """What was seen of the whole file."""

    size: int = 0
    feeds: int = 0
    crlf: int = 0
    last: bytes = b""


@dataclass(slots=True)
class _Open:
    """The line being collected: its first bytes, and how many characters followed them."""

    kept: bytearray = field(default_factory=bytearray)
    rest: codecs.IncrementalDecoder | None = None
    characters: int = 0


class PageReader:
    """Feed it the file from its start; then `finish`."""

    def __init__(self, encoding: Encoding, start: int, end: int | None) -> None:
        self.encoding = encoding
        self.start = start
        self.end = start + MAX_LINES - 1 if end is None else min(end, start + MAX_LINES - 1)
        # A line asked for alone may fill the page; among others it is cut earlier.
        self.alone = end == start
        self.lines: list[str] = []
        self.omitted: dict[int, int] = {}
        """How many characters are missing at the end of a line, by its place in `lines`."""
        self.replaced = 0
        self.counts = Counts()
        self._hash = hashlib.sha256()
        self._room = PAGE_BYTES
        self._number = 1
        self._open = _Open()
        self._full = False
        # Lines are found as bytes; encodings in which LF is wider are brought to UTF-8 first.
        self._wide = codecs.getincrementaldecoder(encoding.codec)("replace") if encoding.wide else None
        self._codec = "utf-8" if encoding.wide else encoding.codec

    @property
    def sha256(self) -> str:
        return self._hash.hexdigest()

    @property
    def total_lines(self) -> int:
        return self.counts.feeds + (self.counts.last not in (b"", b"\n"))

    def feed(self, chunk: bytes, final: bool = False) -> None:
        """The next bytes of the file; `final` with the last ones (which may be empty)."""
        self._hash.update(chunk)
        self.counts.size += len(chunk)
        if self._wide is not None:
            chunk = self._wide.decode(chunk, final).encode("utf-8", "replace")
        if chunk:
            self._count(chunk)
            self._take(chunk)
        if final and (self._open.kept or self._open.characters):
            self._close_line()

    def _count(self, chunk: bytes) -> None:
        counts = self.counts
        counts.crlf += chunk.count(b"\r\n") + (counts.last == b"\r" and chunk.startswith(b"\n"))
        counts.last = chunk[-1:]
        counts.feeds += chunk.count(b"\n")

    def _take(self, chunk: bytes) -> None:
        if self._full:
            return
        if self._number < self.start:
            feeds = chunk.count(b"\n")
            if self._number + feeds < self.start:
                self._number += feeds
                return
            chunk = chunk.split(b"\n", self.start - self._number)[-1]
            self._number = self.start
        place = self._take_block(chunk)
        while not self._full:
            feed = chunk.find(b"\n", place)
            if feed < 0:
                self._add(chunk[place:])
                return
            self._add(chunk[place:feed])
            self._close_line()
            place = feed + 1

    def _take_block(self, chunk: bytes) -> int:
        """Takes all whole lines of the chunk at once where nothing is to be cut; returns how much was taken."""
        end = chunk.rfind(b"\n")
        if end < 0 or self._open.kept or self._open.characters or self.alone or self._codec != "utf-8":
            return 0
        try:
            lines = chunk[:end].decode().split("\n")
        except UnicodeDecodeError:
            return 0
        cost = end + LINE_OVERHEAD * len(lines)
        cut = cost > self._room or self._number + len(lines) > self.end or max(map(len, lines)) > LINE_CHARACTERS
        if cut or b"\0" in chunk or b"\r" in chunk:
            return 0
        self.lines += lines
        self._room -= cost
        self._number += len(lines)
        return end + 1

    def _add(self, piece: bytes) -> None:
        line = self._open
        if line.rest is None:
            space = KEPT_BYTES - len(line.kept)
            line.kept += piece[:space]
            piece = piece[space:]
            if not piece:
                return
            line.rest = codecs.getincrementaldecoder(self._codec)("replace")
            line.characters = len(line.rest.decode(bytes(line.kept)))
        line.characters += len(line.rest.decode(piece))

    def _close_line(self) -> None:
        line, self._open = self._open, _Open()
        text = bytes(line.kept).decode(self._codec, "replace")
        if line.rest is None:
            text = text.removesuffix("\r")
        shown = self._cut(text)
        cost = len(shown.encode("utf-8", "replace")) + LINE_OVERHEAD
        if cost > self._room and self.lines:
            self._full = True
            return
        if len(shown) < max(line.characters, len(text)):
            self.omitted[len(self.lines)] = max(line.characters, len(text)) - len(shown)
        self._room -= cost
        self.lines.append(self._marked(shown, bytes(line.kept)))
        self._number += 1
        self._full = self._number > self.end

    def _marked(self, shown: str, raw: bytes) -> str:
        """The line as it is shown, with what could not be decoded counted."""
        if "\0" in shown:
            shown = shown.replace("\0", "\ufffd")
        if "\ufffd" in shown:
            self.replaced += max(shown.count("\ufffd") - raw.count(b"\xef\xbf\xbd"), 0)
        return shown

    def _cut(self, text: str) -> str:
        if not self.alone:
            return text[:LINE_CHARACTERS]
        room = PAGE_BYTES - LINE_OVERHEAD
        whole = text[:room].encode("utf-8", "replace")
        return whole[:room].decode("utf-8", "ignore")
