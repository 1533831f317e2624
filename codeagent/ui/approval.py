"""The question put to a person before a command with possible side effects runs.

It is answered on the terminal alone: written to stderr, read from stdin. Nothing typed before the question
stood there whole counts, and only an exact answer does.
"""

from __future__ import annotations

import errno
import os
import select
import sys
import termios
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TextIO

from codeagent.approval.gate import Answer, Question
from codeagent.errors import Interrupted
from codeagent.ui import streams
from codeagent.ui.inert import inert_line, most_cells, revealed
from codeagent.ui.lookalikes import lookalikes

GUARD_SECONDS = 0.2
"""Nobody reads a question faster; keys that arrive earlier were meant for something else."""

TRIES = 3
MAX_REASON_BYTES = 2000
_LONGEST_LINE = 4096
_SHOWN_COVERED = 5
_MOST_WARNINGS = 5

_LEAST_COLUMNS, _LEAST_LINES = 20, 6

_BOLD, _WARN, _PLAIN = "\x1b[1m", "\x1b[1;33m", "\x1b[0m"


class Prompt:
    """Asks one person. Both streams must be terminals; the caller checks that (no terminal, no Prompt)."""

    def __init__(
        self,
        *,
        stdin: TextIO | None = None,
        stderr: TextIO | None = None,
        environ: Mapping[str, str] = os.environ,
        no_color: bool = False,
        guard_seconds: float = GUARD_SECONDS,
    ) -> None:
        self._in = (stdin or sys.stdin).fileno()
        self._out = stderr or sys.stderr
        self._colour = streams.colours(self._out, environ, no_color)
        self._guard = guard_seconds

    def __call__(self, question: Question) -> Answer:
        """The person's answer. Raises Interrupted on Ctrl-C and when the terminal goes; the end of input denies."""
        with _line_mode(self._in):
            try:
                return self._too_small() or self._show(question) or self._choose(question)
            except KeyboardInterrupt:
                raise Interrupted from None
            finally:
                self._write("\n" if self._unfinished else "")

    def confirm(self, question: str) -> bool:
        """Whether a person answers `y` to a question that is no command. Raises Interrupted on Ctrl-C."""
        with _line_mode(self._in):
            try:
                for again in range(TRIES):
                    match self._ask(f"{'Exactly y or n, then Enter. ' if again else ''}{question} [y/N]:"):
                        case b"y":
                            return True
                        case b"n" | b"" | None:
                            return False
                return False
            except KeyboardInterrupt:
                raise Interrupted from None
            finally:
                self._write("\n" if self._unfinished else "")

    # Showing

    def _too_small(self) -> Answer | None:
        """A refusal when the screen cannot hold a page of the command with the line that turns it."""
        with suppress(OSError, ValueError):
            columns, lines = os.get_terminal_size(self._out.fileno())
            if 0 < columns < _LEAST_COLUMNS or 0 < lines < _LEAST_LINES:
                self._write("Denied: the terminal is too small to show the command.\n")
                return Answer("no", "the terminal is too small to show it")
        return None

    def _show(self, question: Question) -> Answer | None:
        """Everything about the command, a screen at a time; an Answer only when the person refuses on the way."""
        lines = list(self._lines(question))
        height = streams.height_of(self._out)
        if len(lines) + len(self._choices(question)) < height:
            self._write("".join(line + "\n" for line in lines))
            return None
        room = max(height - len(self._rows(_page_prompt(len(lines), len(lines)))), 1)
        for start in range(0, len(lines), room):
            page = lines[start : start + room]
            self._write("".join(line + "\n" for line in page))
            if refusal := self._turn_page(_page_prompt(start + len(page), len(lines))):
                return refusal
        return None

    def _turn_page(self, prompt: str) -> Answer | None:
        """Enter shows what follows; nothing here can approve."""
        for _ in range(TRIES):
            match self._ask(prompt):
                case b"":
                    return None
                case b"n" | None:
                    return Answer("no")
                case b"s":
                    return Answer("stop")
        return Answer("no")

    def _lines(self, question: Question) -> Iterator[str]:
        review = question.review
        width = self._width()
        subject = review.subject
        noun = "patch" if review.tool == "apply_patch" else "command"
        count = subject.count("\n") + (not subject.endswith("\n"))
        size = len(subject.encode(errors="surrogatepass"))
        yield ""
        title = f"May this {noun} run? ({count} line{'s' * (count != 1)}, {size} byte{'s' * (size != 1)})"
        yield from self._styled(title, _BOLD, width)
        for line in self._encodable(revealed(subject)).split("\n"):
            yield from _wrapped(line, width)
        for warning in _warnings(subject):
            yield from self._styled(f"! {warning}", _WARN, width)
        found = review.classification
        yield from self._styled(f"class {found.class_.label}: {inert_line(found.reason)}", "", width)
        where = "the private copy, which it may change" if review.writable else "read-only"
        yield from self._styled(f"in /workspace/{inert_line(review.workdir)}: {where}".replace("/:", ":"), "", width)
        if question.denied:
            yield from self._styled(f"You denied this {question.denied} time(s) in a row; a third stops.", "", width)
        if question.prefix:
            yield from self._covered(question, width)

    def _covered(self, question: Question, width: int) -> Iterator[str]:
        shown = [
            _cut(self._encodable(inert_line(command)), width - 4) for command in question.covers[-_SHOWN_COVERED:]
        ]
        more = len(question.covers) - len(shown)
        yield from self._styled(
            "p would have covered these commands of this session:"
            if shown
            else "p would have covered no earlier command of this session.",
            "",
            width,
        )
        for command in shown:
            yield f"    {command}"
        if more:
            yield f"    and {more} more"

    def _choices(self, question: Question) -> list[str]:
        choices = ["y once", "a always exactly this"]
        if question.prefix:
            choices.append(self._encodable(f"p always `{inert_line(' '.join(question.prefix))} …`"))
        choices += ["n no", "r no, with a reason", "s stop"]
        return list(_filled(choices, self._width()))

    # Asking

    def _choose(self, question: Question) -> Answer:
        for line in self._choices(question):
            self._write(line + "\n")
        answers = "[y/a/p/N/r/s]:" if question.prefix else "[y/a/N/r/s]:"
        for again in range(TRIES):
            # In the row of the prompt: a row more would push the command further up.
            match self._ask(f"Exactly one of these, then Enter: {answers}" if again else answers):
                case b"y":
                    return Answer("once")
                case b"a":
                    return Answer("exact")
                case b"p" if question.prefix:
                    return Answer("prefix")
                case b"n" | b"" | None:
                    return Answer("no")
                case b"r":
                    return Answer("no", self._reason())
                case b"s":
                    return Answer("stop")
        self._write("Not one of the answers three times: denied.\n")
        return Answer("no")

    def _reason(self) -> str:
        typed = self._ask("Reason:") or b""
        return inert_line(typed[:MAX_REASON_BYTES].decode(errors="replace")).strip()

    def _ask(self, prompt: str) -> bytes | None:
        """One line, typed after the prompt stood there, without its newline; None at the end of input."""
        # What does not count is not shown either: the echo comes back in the moment in which what came earlier goes.
        _echo(self._in, False)
        self._write("\n".join(self._rows(prompt)) + " ")
        self._unfinished = True
        time.sleep(self._guard)
        _echo(self._in, True)
        line = b""
        while not line.endswith(b"\n"):
            select.select([self._in], [], [])
            try:
                piece = os.read(self._in, _LONGEST_LINE)
            except OSError:
                piece = b""
            if not piece:
                if _hung_up(self._in):  # nobody has answered anything; the signal for it may yet be on its way
                    raise Interrupted
                return None
            # More than any answer can hold is kept as wrong, never cut down to a right one.
            line = (line + piece)[-2 * _LONGEST_LINE :]
        self._unfinished = False
        return line[:-1]

    # Writing

    _unfinished = False

    def _width(self) -> int:
        """Columns to write in. COLUMNS does not count: what is wider than the screen scrolls the beginning away."""
        return streams.width_of(self._out, {}) - 1

    def _write(self, text: str) -> None:
        with suppress(OSError):
            self._out.write(text)
            self._out.flush()

    def _rows(self, text: str) -> list[str]:
        return list(_filled([text], self._width() - 1))

    def _encodable(self, text: str) -> str:
        """What the terminal's encoding cannot show is written as an escape, never as a question mark."""
        encoding = getattr(self._out, "encoding", None) or "ascii"
        return text.encode(encoding, "backslashreplace").decode(encoding)

    def _styled(self, text: str, style: str, width: int) -> Iterator[str]:
        for line in _filled([self._encodable(text)], width):
            yield f"{style}{line}{_PLAIN}" if style and self._colour else line


def _page_prompt(shown: int, of: int) -> str:
    return f"-- {shown}/{of}: Enter goes on, n denies, s stops:"


def _warnings(subject: str) -> Iterator[str]:
    if revealed(subject) != subject.replace("\t", "\\t"):
        yield "It holds characters that act or show nothing; they stand above as escapes (\\x…, \\u…)."
    for sentence in lookalikes(subject)[:_MOST_WARNINGS]:
        yield f"Look again: {inert_line(sentence)}."
    if " " * 20 in subject:
        yield "It holds long runs of spaces."


def _wrapped(line: str, width: int) -> Iterator[str]:
    """One line of the command in as many rows as it takes; `|` begins a line, `.` goes on with it."""
    mark, at, room = "| ", 0, width - 2
    while True:
        head = _fitting(line[at : at + 4 * room], room)
        yield mark + head
        at += len(head)
        if at >= len(line):
            return
        mark = ". "


def _cut(text: str, width: int) -> str:
    return text if most_cells(text) <= width else _fitting(text, width - 3) + "..."


def _fitting(text: str, room: int) -> str:
    """The beginning of `text` that fits into `room` columns of any terminal; never less than one character."""
    if len(text) <= room and text.isascii():
        return text
    used = 0
    for at, character in enumerate(text):
        used += most_cells(character)
        if used > room:
            return text[: max(at, 1)]
    return text


def _filled(parts: list[str], width: int) -> Iterator[str]:
    """Parts side by side as far as they fit; a part that is wider than the screen goes on in the next row."""
    row = ""
    for part in parts:
        if row and most_cells(row) + 3 + most_cells(part) <= width:
            row += f"   {part}"
            continue
        if row:
            yield row
        while most_cells(part) > width:
            head = _fitting(part, width)
            space = head.rfind(" ")
            head = head[:space] if space > width // 3 else head
            yield head
            part = part[len(head) :].lstrip(" ")
        row = part
    yield row


def _hung_up(descriptor: int) -> bool:
    """Whether the terminal has gone, as when its window was closed."""
    try:
        termios.tcgetattr(descriptor)
    except termios.error as error:
        return bool(error.args[0] == errno.EIO)
    return False


def _echo(descriptor: int, on: bool) -> None:
    """Shows from now on what is typed, or does not; forgets what was typed before."""
    with suppress(termios.error):
        mode = termios.tcgetattr(descriptor)
        mode[3] = mode[3] | termios.ECHO if on else mode[3] & ~termios.ECHO
        termios.tcsetattr(descriptor, termios.TCSAFLUSH, mode)


@contextmanager
def _line_mode(descriptor: int) -> Iterator[None]:
    """The terminal in line mode with echo and signals, as found again afterwards."""
    try:
        before = termios.tcgetattr(descriptor)
    except termios.error:
        yield
        return
    wanted = termios.tcgetattr(descriptor)
    wanted[0] |= termios.ICRNL
    wanted[3] |= termios.ICANON | termios.ECHO | termios.ISIG
    try:
        termios.tcsetattr(descriptor, termios.TCSADRAIN, wanted)
        yield
    finally:
        with suppress(termios.error):
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
