"""A command's output while it arrives: the beginning and the end for the model, the whole for a file.

Memory stays flat: of what is neither beginning nor end, only the count is kept.
"""

from __future__ import annotations

import codecs
import contextlib
import hashlib
import os
import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import BinaryIO, Literal

from codeagent.sandbox.frames import Garbled

HEAD_BYTES = TAIL_BYTES = 16 * 1024
GAP, STDOUT, STDERR = 0, 1, 2
"""The first byte of each piece: bytes that the guest left out (their count follows), or whose output it is."""
LINE_SEARCH = 4 * 1024
"""How far a cut may move to fall between two lines, in characters."""

Stream = Literal["stdout", "stderr"]
Segment = tuple[Stream, str]
STREAMS: Mapping[int, Stream] = MappingProxyType({STDOUT: "stdout", STDERR: "stderr"})


@dataclass(frozen=True, slots=True)
class Output:
    """What was kept. Between `head_segments` segments and the rest, `omitted_bytes` (of UTF-8) are left out."""

    segments: tuple[Segment, ...]
    head_segments: int
    omitted_bytes: int
    saved: bool
    problem: str = ""
    """Why the file does not hold everything, as a sentence; empty when it does."""


def saved_name(call_id: str) -> str:
    """The file name under which a call's output is kept; call ids come from outside and may hold anything."""
    if re.fullmatch(r"[A-Za-z0-9_-]{1,80}", call_id):
        return f"{call_id}.txt"
    return f"{hashlib.sha256(call_id.encode('utf-8', 'surrogatepass')).hexdigest()[:32]}.txt"


class OutputKeeper:
    """Takes the pieces of one command's output as the guest sends them."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO | None = None
        self._problem = ""
        self._partial = False
        self._decoders = {stream: codecs.getincrementaldecoder("utf-8")("replace") for stream in STREAMS.values()}
        self._head: list[Segment] = []
        self._room = HEAD_BYTES
        self._tail: deque[tuple[Stream, bytes]] = deque()
        self._tail_size = 0
        self._omitted = 0

    def take(self, piece: bytes) -> None:
        """One body frame. Raises Garbled for one that is none."""
        if piece[:1] == bytes((GAP,)) and len(piece) == 9:
            self._leave_out(int.from_bytes(piece[1:], "big"))
        elif piece and piece[0] in STREAMS:
            stream = STREAMS[piece[0]]
            self._keep(stream, self._decoders[stream].decode(piece[1:]))
        else:
            raise Garbled("the guest sent a malformed piece of output")

    def finish(self) -> Output:
        """Closes the file; what was kept."""
        for stream, decoder in self._decoders.items():
            self._keep(stream, decoder.decode(b"", True))
        if self._file is not None:
            try:
                self._file.close()
            except OSError as error:
                self._fail(error)
        head, tail = _merged(self._head), self._tail_segments()
        if self._omitted:
            head, tail = self._between_lines(head, tail)
            segments, count = (*head, *tail), len(head)
        else:
            segments = tuple(_merged([*head, *tail]))
            count = len(segments)
        problem = self._problem or (
            "only the first 16 MiB and the end of the output are kept" if self._partial else ""
        )
        return Output(segments, count, self._omitted, self._file is not None, problem)

    def _keep(self, stream: Stream, text: str) -> None:
        if not text:
            return
        # NUL would make the saved file binary for every tool, and JSON APIs refuse it.
        data = text.replace("\0", "\N{REPLACEMENT CHARACTER}").encode("utf-8", "replace")
        self._save(data)
        if self._room:
            taken = _whole_characters(data, self._room)
            self._head.append((stream, data[:taken].decode()))
            self._room = self._room - taken if taken == len(data) else 0
            data = data[taken:]
        if data:
            self._tail.append((stream, data))
            self._tail_size += len(data)
            while self._tail_size - len(self._tail[0][1]) >= TAIL_BYTES:
                gone = len(self._tail.popleft()[1])
                self._tail_size -= gone
                self._omitted += gone

    def _leave_out(self, count: int) -> None:
        self._save(f"\n[{count} bytes are not kept]\n".encode())
        self._omitted += count + self._tail_size
        self._tail.clear()
        self._tail_size = 0
        self._room = 0
        self._partial = True

    def _tail_segments(self) -> list[Segment]:
        if (excess := self._tail_size - TAIL_BYTES) > 0:
            stream, data = self._tail[0]
            while excess < len(data) and data[excess] & 0xC0 == 0x80:
                excess += 1
            self._tail[0] = (stream, data[excess:])
            self._omitted += excess
        return _merged([(stream, data.decode()) for stream, data in self._tail])

    def _between_lines(self, head: list[Segment], tail: list[Segment]) -> tuple[list[Segment], list[Segment]]:
        """Moves both cuts to the ends of lines where one is near."""
        if head:
            stream, text = head[-1]
            end = text.rfind("\n", max(0, len(text) - LINE_SEARCH)) + 1
            if end:
                head[-1] = (stream, text[:end])
                self._omitted += len(text[end:].encode())
        if tail:
            stream, text = tail[0]
            start = text.find("\n", 0, LINE_SEARCH) + 1
            if start and (start < len(text) or len(tail) > 1):
                tail[0] = (stream, text[start:])
                self._omitted += len(text[:start].encode())
        return head, [segment for segment in tail if segment[1]]

    def _save(self, data: bytes) -> None:
        if self._problem and self._file is None:
            return
        try:
            if self._file is None:
                self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                # A call that is repeated after a crash writes a new file, through no link that lies there.
                with contextlib.suppress(FileNotFoundError):
                    self._path.unlink()
                flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
                self._file = os.fdopen(os.open(self._path, flags, 0o600), "wb")
            self._file.write(data)
        except (OSError, ValueError) as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        reason = error.strerror if isinstance(error, OSError) else str(error)
        self._problem = f"the output could not be kept in full ({reason})"
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None


def _whole_characters(data: bytes, limit: int) -> int:
    """The length of the longest beginning of at most `limit` bytes that ends between two characters."""
    if len(data) <= limit:
        return len(data)
    while limit and data[limit] & 0xC0 == 0x80:
        limit -= 1
    return limit


def _merged(segments: list[Segment]) -> list[Segment]:
    """The same text in as few segments as possible."""
    runs: list[tuple[Stream, list[str]]] = []
    for stream, text in segments:
        if runs and runs[-1][0] == stream:
            runs[-1][1].append(text)
        else:
            runs.append((stream, [text]))
    return [(stream, "".join(texts)) for stream, texts in runs]
