"""Server-sent events, as the HTML standard describes them (section 9.2.6), out of the bytes of a response.

Stricter parsers drop the last event when its blank line is missing; here it counts, because the end of an
answer must not hang on one newline. Whether the answer is complete is decided by what the events say.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

_STRAY_KEPT = 2000


class EventStream:
    """Iterates over the data of each event. `stray` is the beginning of whatever was no event at all."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = chunks
        self._data: list[str] = []
        self.stray = ""

    def __iter__(self) -> Iterator[str]:
        rest = b""
        for chunk in self._chunks:
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                yield from self._take(line)
        for line in rest.split(b"\r"):
            yield from self._take(line)
        yield from self._take(b"")

    def _take(self, line: bytes) -> Iterator[str]:
        line = line.removesuffix(b"\r")
        if not line:
            if self._data:
                yield "\n".join(self._data)
                self._data = []
            return
        name, _, value = line.partition(b":")
        if name == b"data":
            self._data.append(value.removeprefix(b" ").decode("utf-8", "replace"))
        elif name not in (b"", b"event", b"id", b"retry") and len(self.stray) < _STRAY_KEPT:
            self.stray += line.decode("utf-8", "replace") + "\n"
