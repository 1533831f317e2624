"""A real pseudo-terminal with a screen behind it, so that tests see what a person would see."""

from __future__ import annotations

import fcntl
import os
import re
import struct
import termios
import time
from threading import Thread
from types import TracebackType
from typing import Self, TextIO

import pyte

OWN_SEQUENCES = re.compile(r"\x1b\[(?:\d+(?:;\d+)*)?m|\x1b\[\d+A|\x1b\[J")
"""What the program itself may send: colours, cursor up, erase down."""

MARK = re.compile(rb"\0\d+\0")
"""What a screen writes itself to know that everything before it has come."""


class PtyScreen:
    """`stream` writes to the terminal; `shown()` is what stands on it, `sent` every character that came."""

    def __init__(self, columns: int = 100, lines: int = 40, encoding: str = "utf-8") -> None:
        self._columns, self._lines = columns, lines
        self.master, slave = os.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", lines, columns, 0, 0))
        self.stream: TextIO = os.fdopen(slave, "w", encoding=encoding)
        self._bytes = bytearray()
        self._marks = 0
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if not self.stream.closed:
            self.stream.close()
        self._reader.join(5)
        os.close(self.master)

    @property
    def sent(self) -> str:
        self._settle()
        return MARK.sub(b"", self._bytes).decode("utf-8", "replace")

    def screen(self) -> pyte.Screen:
        screen = pyte.Screen(self._columns, self._lines)
        pyte.Stream(screen).feed(self.sent)
        return screen

    def shown(self) -> list[str]:
        """The lines of the screen without trailing blanks, down to the last that has text."""
        lines = [line.rstrip() for line in self.screen().display]
        while lines and not lines[-1]:
            lines.pop()
        return lines

    def _settle(self) -> None:
        """Waits until all that was written so far has come, and nothing more comes for a moment."""
        if not self.stream.closed:
            self.stream.flush()
            self._marks += 1
            mark = b"\0%d\0" % self._marks
            os.write(self.stream.fileno(), mark)
            deadline = time.monotonic() + 20
            while mark not in self._bytes:
                assert time.monotonic() < deadline
                time.sleep(0.005)
        before = -1
        while before != len(self._bytes):
            before = len(self._bytes)
            time.sleep(0.03)

    def _read(self) -> None:
        while True:
            try:
                part = os.read(self.master, 65_536)
            except OSError:  # the other end is closed
                return
            if not part:
                return
            self._bytes += part
