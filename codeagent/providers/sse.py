"""Server-sent events, as the HTML standard describes them (section 9.2.6), out of the bytes of a response.

Stricter parsers drop the last event when its blank line is missing; here it counts, because the end of an
answer must not hang on one newline. Whether the answer is complete is decided by what the events say.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

_FIELDS = (b"data", b"event", b"id", b"retry")
_STRAY_KEPT = 2000
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class EventStream:
    """Iterates over the data of each event.

    `stray` is the beginning of an answer that is no stream of events at all: a web page, or one JSON object.
    """

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._data: list[str] = []
        self._began = False
        self.stray = ""

    def __iter__(self) -> Iterator[str]:
        for number, line in enumerate(self._lines()):
            yield from self._take(line if number else line.removeprefix(_BYTE_ORDER_MARK))
        yield from self._take(b"")

    def _lines(self) -> Iterator[bytes]:
        pieces: list[bytes] = []  # of a line that is not whole yet; one may be ten megabytes long
        returned = False  # the last byte was a CR, which an LF may follow
        for chunk in filter(None, self._chunks):
            content = chunk[1:] if returned and chunk.startswith(b"\n") else chunk
            returned = chunk.endswith(b"\r")
            *ended, rest = _LINE_END.split(content)
            for line in ended:
                yield b"".join([*pieces, line])
                pieces.clear()
            pieces.append(rest)
        yield b"".join(pieces)

    def _take(self, line: bytes) -> Iterator[str]:
        if not line:
            if self._data:
                yield "\n".join(self._data)
                self._data = []
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
            self._began = True
        # The beginning of a field's name is where a stream of events was cut.
        elif not self._began and not any(field.startswith(name) for field in _FIELDS):
            self.stray += line.decode("utf-8", "replace") + "\n" if len(self.stray) < _STRAY_KEPT else ""
