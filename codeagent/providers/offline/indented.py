"""A scanner for Python: logical lines, and the blocks that their indentation makes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from codeagent.providers.offline.source import (
    Function,
    Guard,
    Scan,
    Statement,
    TypeDeclaration,
    one_line,
    unwrapped,
    with_statements,
)

_HEADER = re.compile(r"(?:async\s+)?(def|class|if|elif|else|for|while|try|except|finally|with|match|case)\b")
_NAME = re.compile(r"(?:async\s+)?(?:def|class)\s+(\w+)")


@dataclass(frozen=True, slots=True)
class _Line:
    """One logical line: brackets closed, backslashes joined."""

    first: int
    last: int
    indent: int
    text: str
    shown: str


@dataclass(slots=True)
class _Block:
    indent: int
    kind: str
    guard: Guard | None = None
    name: str = ""
    function: Function | None = None
    statements: list[Statement] = field(default_factory=list)


def scan(path: str, _language: str, text: str, clean: str) -> Scan:
    """All functions and classes of a file."""
    reader = _Reader(path)
    for line in _logical_lines(text, clean):
        reader.take(line)
    reader.end()
    return reader.found


class _Reader:
    def __init__(self, path: str) -> None:
        self.found = Scan()
        self._path = path
        self._blocks: list[_Block] = []
        self._last_line = 0

    def take(self, line: _Line) -> None:
        closed_if = self._close(line.indent)
        match = _HEADER.match(line.text)
        colon = _colon(line.text) if match else -1
        if match is None or colon < 0:
            self._statement(line.first, line.last, line.text, line.shown)
        else:
            self._open(match.group(1), line, colon, closed_if)
            rest = line.text[colon + 1 :].strip()
            if rest:
                shift = line.shown.find(":", 0) if len(line.shown) != len(line.text) else colon
                self._statement(line.first, line.last, rest, line.shown[shift + 1 :].strip())
        self._last_line = line.last

    def end(self) -> None:
        self._close(-1)

    def _close(self, indent: int) -> _Block | None:
        """Ends the blocks that `indent` leaves; the last `if` among them, for the `else` that may follow."""
        closed_if = None
        while self._blocks and self._blocks[-1].indent >= indent:
            block = self._blocks.pop()
            if block.function is not None:
                self.found.functions.append(with_statements(block.function, block.statements, self._last_line))
            closed_if = block if block.kind in ("if", "elif") and block.indent == indent else closed_if
        return closed_if

    def _open(self, kind: str, line: _Line, colon: int, closed_if: _Block | None) -> None:
        header = line.shown[:colon] if len(line.shown) == len(line.text) else line.shown.rstrip(": ")
        condition = unwrapped(one_line(re.sub(r"^\w+\s*", "", header)))
        block = _Block(line.indent, kind)
        match kind:
            case "def":
                name = _NAME.match(line.text)
                block.name = name.group(1) if name else ""
                block.function = Function(
                    block.name, self._owner(), self._path, line.first, line.first, one_line(header)
                )
            case "class":
                name = _NAME.match(line.text)
                block.name = name.group(1) if name else ""
                self.found.types.append(TypeDeclaration(block.name, self._path, line.first, one_line(header)))
            case "if" | "elif":
                block.guard = Guard("if" if kind == "if" else "elif", line.first, condition)
            case "else":
                other = closed_if.guard.text if closed_if and closed_if.guard else ""
                block.guard = Guard("else", line.first, other)
            case "for" | "while":
                block.guard = Guard("loop", line.first, one_line(header))
            case "except":
                block.guard = Guard("except", line.first, one_line(header))
            case "case":
                block.guard = Guard("case", line.first, condition)
        self._blocks.append(block)

    def _owner(self) -> str:
        if self._blocks and self._blocks[-1].kind == "class":
            return self._blocks[-1].name
        return ""

    def _statement(self, first: int, last: int, text: str, shown: str) -> None:
        guards: list[Guard] = []
        for block in reversed(self._blocks):
            if block.kind == "class":
                return
            if block.function is not None:
                block.statements.append(Statement(first, last, text, shown, tuple(reversed(guards))))
                return
            if block.guard is not None:
                guards.append(block.guard)


def _colon(text: str) -> int:
    """Where the header's own colon stands: outside brackets and lambdas."""
    depth = lambdas = 0
    for match in re.finditer(r"[([{]|[)\]}]|\blambda\b|:(?!=)", text):
        mark = match.group()
        if mark == ":" and depth == 0:
            if lambdas == 0:
                return match.start()
            lambdas -= 1
        elif mark == "lambda":
            lambdas += depth == 0
        elif mark in "([{":
            depth += 1
        elif mark in ")]}":
            depth = max(0, depth - 1)
    return -1


def _logical_lines(text: str, clean: str) -> Iterator[_Line]:
    first, depth, pieces, originals = 0, 0, list[str](), list[str]()
    for number, (cleaned, original) in enumerate(zip(clean.split("\n"), text.split("\n"), strict=True), 1):
        if not pieces and not cleaned.strip():
            continue
        first = first or number
        pieces.append(cleaned)
        originals.append(original)
        depth = max(0, depth + len(re.findall(r"[([{]", cleaned)) - len(re.findall(r"[)\]}]", cleaned)))
        if depth and number - first < 200:
            continue
        if cleaned.rstrip().endswith("\\"):
            continue
        yield _line(first, number, pieces, originals)
        first, depth, pieces, originals = 0, 0, [], []
    if pieces:
        yield _line(first, first + len(pieces) - 1, pieces, originals)


def _line(first: int, last: int, pieces: list[str], originals: list[str]) -> _Line:
    indent = len(pieces[0].expandtabs()) - len(pieces[0].expandtabs().lstrip())
    start = len(pieces[0]) - len(pieces[0].lstrip())
    if len(pieces) == 1:
        length = len(pieces[0].rstrip())
        return _Line(first, last, indent, pieces[0][start:length], originals[0][start:length])
    joined = " ".join(piece.strip().rstrip("\\") for piece in pieces)
    return _Line(first, last, indent, one_line(joined), one_line(" ".join(originals)))
