"""What the investigator knows of a source file: its types, its functions, and their statements with the conditions
around them.

One scanner reads all languages. It cuts a file into pieces (statements, and heads of blocks), by indentation for
Python and by braces for the others, and puts them in order. It reads what a person would see at a glance, in files
that may be cut, broken or written in a dialect. It never fails; it finds less.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache

MAX_PIECE = 4_000
"""Characters of one statement that are looked at: no line of a hostile file costs more."""
MAX_GUARDS = 60
"""Conditions around one statement; what lies deeper is not looked at."""

_PYTHON = frozenset("py pyi pyw".split())
_C = frozenset("c h cc cpp cxx hpp hh hxx".split())
_BRACES = _C | frozenset("java groovy cs js mjs cjs jsx ts tsx mts cts vue go kt kts scala swift rs php dart".split())


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition around a statement. `kind` is `if`, `elif`, `else` (then `text` is the condition that did not
    hold), `loop`, `case`, `except`, or `lambda` for a function that is only passed on."""

    kind: str
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Statement:
    """`text` without comments and the insides of strings, `shown` as it stands in the file; both on one line."""

    line: int
    last_line: int
    text: str
    shown: str
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class Function:
    """`owner` is the type it belongs to, empty for none."""

    name: str
    owner: str
    source: Source
    line: int
    header: str
    statements: list[Statement] = field(default_factory=list)

    @property
    def path(self) -> str:
        return self.source.path

    @property
    def title(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One file. `clean` is `text` with comments and the insides of strings as blanks; `types` are the headers of its
    types, by name."""

    path: str
    text: str
    clean: str
    functions: list[Function] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)


def _suffix(path: str) -> str:
    return path.rpartition(".")[2].lower()


def is_python(path: str) -> bool:
    return _suffix(path) in _PYTHON


def is_source(path: str) -> bool:
    return _suffix(path) in _PYTHON | _BRACES


def is_test(path: str) -> bool:
    """Whether a path looks like that of a test."""
    return re.search(r"(?:^|/)(?:tests?|testing|__tests__|specs?|testdata)/", path, re.IGNORECASE) is not None or (
        re.search(r"(?:^|/)test_[^/]*$|[_.](?:test|spec)\.\w+$|(?:Tests?|IT)\.\w+$", path) is not None
    )


def one_line(text: str) -> str:
    return " ".join(text.split())


@lru_cache(maxsize=256)
def scan(path: str, text: str) -> Source:
    """Reads a file, or what was shown of it, with empty lines for the rest."""
    outline = _Outline(path, text)
    if is_source(path):
        for piece in (_by_indentation if is_python(path) else _by_braces)(outline.source.clean):
            outline.take(*piece)
    return outline.source


# Comments and strings

_STRING = r""""(?:\\.|[^"\\\n])*"?|'(?:\\.|[^'\\\n])*'?"""
_TRIPLE = r"""("{3}|'{3})(?:\\.|.)*?(?:\1|\Z)"""
_QUOTED = re.compile(rf"\#[^\n]*|{_TRIPLE}|{_STRING}", re.DOTALL)
_QUOTED_OR_COMMENT = re.compile(rf"//[^\n]*|/\*.*?(?:\*/|\Z)|{_TRIPLE}|{_STRING}|`(?:\\.|[^`\\])*`?", re.DOTALL)
_ANNOTATION = re.compile(r"@(?!interface)[\w.]+(?:\s*\([^()]*\))?")
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)


def without_comments(text: str, path: str) -> str:
    """`text` with comments, annotations and the insides of strings as blanks: the same length, the same lines.
    Lines end with a form feed inside a string: it is one piece, wherever its lines begin."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        if found[0] not in "\"'`" or len(found) < 2:
            return re.sub(r"[^\n]", " ", found)
        inner = re.sub(r"[^\f]", " ", found[1:-1].replace("\f", " ").replace("\n", "\f"))
        return found[0] + inner + (found[-1] if found[-1] == found[0] else " ")

    if is_python(path):
        return _QUOTED.sub(blank, text)
    clean = _QUOTED_OR_COMMENT.sub(blank, text)
    return (_DIRECTIVE if _suffix(path) in _C else _ANNOTATION).sub(blank, clean)


# Pieces: start, end, depth, and whether a block opens. What follows at a greater depth lies in that block.

_Piece = tuple[int, int, int, bool]


def _by_indentation(clean: str) -> Iterator[_Piece]:
    """Logical lines: brackets closed, backslashes joined."""
    start, at, brackets, depth = -1, 0, 0, 0
    for line in clean.split("\n"):
        if start >= 0 and re.match(r"\s*(?:async\s+def|def|class)\s", line):  # a bracket was never closed
            yield start, at - 1, depth, False
            start = -1
        if start < 0 and line.strip():
            start, brackets = at + len(line) - len(line.lstrip()), 0
            depth = len(line.expandtabs()) - len(line.expandtabs().lstrip())
        if start >= 0:
            brackets += len(re.findall(r"[([{]", line)) - len(re.findall(r"[)\]}]", line))
            if brackets <= 0 and not line.endswith("\\"):
                yield start, at + len(line), depth, line.rstrip().endswith(":")
                start = -1
        at += len(line) + 1
    if start >= 0:
        yield start, len(clean), depth, False


_LITERAL = re.compile(r"(?:[,:?(\[&|\]]|\breturn)\s*\Z")
_PASSED_ON = re.compile(r"(?:\)|->|=>)\s*\Z")
_LABEL = re.compile(r"\s*(?:case\b[^?]*|default\s*)\Z")
_NEXT = re.compile(
    r"\s*(?:(?:return|throw|if|for|while|switch|const|let|var|break|continue)\b|[\w$ ]+\([^()\n]*\)[^;\n]*\{[ \t]*\n)"
)
_WAITS = re.compile(r"\s*(?:(?:else|if|for|while|do)\b.*\)|(?:.*\b)?(?:else|do))?\s*\Z", re.DOTALL)
_BARE_CONDITION = re.compile(r"\s*(?:if|for|switch)\s+[^\s(]")


def _by_braces(clean: str) -> Iterator[_Piece]:
    """Statements end at `;`, where a block begins or ends, and before a line that begins another one. Labels of a
    `switch` lie between the depths of the statements around and below them: blocks count double."""
    start, blocks, opened = 0, 0, list[str]()
    for match in re.finditer(r"[(){}\[\];:\n]", clean):
        at, mark, depth = match.start(), match.group(), 2 * blocks + 1
        piece = clean[max(start, at - MAX_PIECE) : at]
        enclosed = bool(opened) and opened[-1] != "block"
        ends = opens = False
        if mark in "([":
            opened.append("bracket")
        elif mark in ")]":
            del opened[len(opened) - (opened[-1:] == ["bracket"]) :]
        elif mark == "{" and (enclosed or _LITERAL.search(piece)) and not _PASSED_ON.search(piece):
            opened.append("literal")
        elif mark == "{":
            ends = opens = True
            opened.append("block")
            blocks += 1
        elif mark == "}":
            while opened[-1:] == ["bracket"]:
                opened.pop()
            ends = bool(opened) and opened.pop() == "block"
            blocks -= ends
        elif not enclosed and mark == ":":
            ends = opens = _LABEL.match(piece) is not None
            depth -= 1
        elif not enclosed and mark == ";":
            ends = not _BARE_CONDITION.match(piece)
        elif not enclosed:
            ends = _NEXT.match(clean, at) is not None and not _WAITS.match(piece)
        if ends:
            yield start, at, depth, opens
            start = at + 1
    yield start, len(clean), 2 * blocks + 1, False


# Heads: the keyword, type or function that a piece begins with

_PYTHON_HEAD = re.compile(r"(?:async\s+)?(if|elif|else|for|while|try|except|finally|with|case)\b")
_HEAD = re.compile(
    r"(else\s+if|if|else|foreach|for|while|do|switch|match|when|try|catch|finally|synchronized|case|default)\b"
)
_KINDS = {kind: kind for kind in ("if", "elif", "else", "case", "except")} | {
    "else if": "elif", "for": "loop", "foreach": "loop", "while": "loop", "catch": "except", "default": "case",
}  # fmt: skip
_TYPE = re.compile(
    r"(?:\w+\s+){0,6}?(?:enum\s+class|class|@?interface|record|trait|object|enum|namespace|type)\s+(\w+)"
    r"|(?:\w+\s+){0,4}?(?:struct|union|impl)\s+(\w+)[^()]*$"
)
_FUNCTIONS = (
    re.compile(r"(?:async\s+)?(?P<owner>)def\s+(?P<name>\w+)"),
    re.compile(r"func\s+\(\s*\w*\s*\*?(?P<owner>\w+)[^)]*\)\s*(?P<name>\w+)\s*[(\[]"),
    re.compile(r"[^=]*?(?P<owner>)(?P<name>[\w$]+)\s*[:=]\s*(?:async\s*)?(?:function\b|[^=]*=>\s*$)"),
    re.compile(
        r"(?s:(?!.*\b(?:return|new|throw|await)\b[^(]*\())[^=(]*?(?<![\w$.])(?:(?P<owner>\w+)\s*::\s*)?"
        r"(?P<name>(?!(?:if|for|while|switch|catch|function|sizeof|super|this)\b)~?[\w$]+)\s*(?:<[^()=]*>)?\s*\("
    ),
)
_ARROW = re.compile(r"[^=;]*=\s*(?:async\s*)?(?:\([^()]*\)|\w+)\s*(?::[^=]+)?=>\s*(?=[^\s{])")
_ANONYMOUS = re.compile(r"\bnew\s+(?:\w+\.)*(\w+)\s*(?:<[^()]*>)?\s*\([^{]*\)\s*\Z")


def _head(text: str, opens: bool, python: bool) -> tuple[str, int] | None:
    """The keyword that a piece begins with, and where its head ends; None when it has none."""
    match = (_PYTHON_HEAD if python else _HEAD).match(text)
    if match is None:
        return None
    word, after = one_line(match.group(1)), text[match.end() :].lstrip()
    end = len(text) if opens else 0
    if python:
        colons = (at for at, mark in _outside_brackets(text) if mark == ":" and text[at + 1 : at + 2] != "=")
        end = next(colons, -1) + 1
    elif word in ("else", "do", "try", "finally") and not after.startswith("("):
        end = match.end()
    elif word == "case" and "->" in text:
        end = text.index("->") + 2
    elif after.startswith("(") and word != "case":
        end = next((at + 1 for at, mark in _outside_brackets(text) if mark == ")"), len(text))
    return (word, end) if end else None


def _outside_brackets(text: str) -> Iterator[tuple[int, str]]:
    """Colons outside brackets, and the brackets that close the outermost ones."""
    depth = 0
    for match in re.finditer(r"[()\[\]{}:]", text):
        depth -= match.group() in ")]}"
        if depth <= 0 and match.group() not in "([{":
            yield match.start(), match.group()
        depth += match.group() in "([{"


def unwrapped(text: str) -> str:
    """A text without the brackets around all of it."""
    text = text.strip()
    whole = text.startswith("(") and next(_outside_brackets(text), (0, ""))[0] == len(text) - 1
    return text[1:-1].strip() if whole else text


# Putting the pieces in order


@dataclass(frozen=True, slots=True)
class _Block:
    depth: int
    guard: Guard | None = None
    type: str = ""
    function: Function | None = None


class _Outline:
    def __init__(self, path: str, text: str) -> None:
        self.source = Source(path, text, without_comments(text, path))
        self._python = is_python(path)
        self._blocks: list[_Block] = []
        self._conditions: dict[int, str] = {}
        self._starts = [0, *(match.end() for match in re.finditer("\n", text))]

    def take(self, start: int, end: int, depth: int, opens: bool) -> None:
        while self._blocks and self._blocks[-1].depth >= depth:
            self._blocks.pop()
        guards: list[Guard] = []
        start, end = self._trimmed(start, end)
        end, head = min(end, start + MAX_PIECE), None
        while len(guards) < 9 and (head := _head(self.source.clean[start:end], opens, self._python)):
            guards += self._guard(head[0], start, start + head[1], depth)
            start, end = self._trimmed(start + head[1], end)
            if start == end:
                break
        if opens and head:
            self._blocks.append(_Block(depth, guards[-1] if guards else None))
        elif opens:
            self._open(start, end, depth)
        elif self._python and re.match(r"(?:async\s+)?def\b", self.source.clean[start:end]):  # all in one line
            marks = _outside_brackets(self.source.clean[start:end])
            stop = start + next((at + 1 for at, mark in marks if mark == ":"), end - start)
            self._open(start, stop, depth)
            self._record(*self._trimmed(stop, end), [])
        elif not self._python and (arrow := _ARROW.match(self.source.clean, start, end)):
            self._open(start, arrow.end(), depth)
            self._record(arrow.end(), end, guards, "return ")
        else:
            self._record(start, end, guards)

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        piece = self.source.clean[start:end]
        return (
            (start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())) if piece.strip() else (end, end)
        )

    def _line(self, offset: int) -> int:
        return bisect_right(self._starts, offset)

    def _guard(self, word: str, start: int, stop: int, depth: int) -> list[Guard]:
        kind = _KINDS.get(word, "")
        shown = one_line(self.source.text[start:stop]).removesuffix(":").removesuffix("->").rstrip()
        if kind in ("if", "elif"):
            head = self.source.clean[start:stop].removesuffix(":")
            condition = unwrapped(re.sub(r"^(?:else\s+)?\w+", "", head))
            start += head.rindex(condition)
            shown = self._conditions[depth] = one_line(self.source.text[start : start + len(condition)])
        elif kind == "else":
            shown = self._conditions.get(depth, "")
        return [Guard(kind, self._line(start), shown)] if kind else []

    def _open(self, start: int, end: int, depth: int) -> None:
        """Takes a head of a type, a function, or a block of no known kind."""
        head = self.source.clean[start:end]
        around = self._blocks[-1:] if self._python else reversed(self._blocks)
        named = next((match for pattern in _FUNCTIONS if (match := pattern.match(head))), None)
        if match := _TYPE.match(head):
            name = match.group(1) or match.group(2)
            self.source.types.setdefault(name, one_line(head))
            self._blocks.append(_Block(depth, type=name))
        elif named:
            owner = named.group("owner") or next((block.type for block in around if block.type), "")
            line = self._line(start + named.start("name"))
            function = Function(named.group("name"), owner, self.source, line, one_line(head))
            self.source.functions.append(function)
            self._blocks.append(_Block(depth, function=function))
        else:
            self._record(start, end, [])
            anonymous = _ANONYMOUS.search(head)
            passed_on = Guard("lambda", self._line(start), one_line(head)) if _PASSED_ON.search(head) else None
            self._blocks.append(_Block(depth, passed_on, anonymous.group(1) if anonymous else ""))

    def _record(self, start: int, end: int, inner: list[Guard], before: str = "") -> None:
        text, guards = self.source.clean[start:end], inner[::-1]
        for block in reversed(self._blocks if re.search(r"\w", text) else []):
            if block.type or len(guards) > MAX_GUARDS:
                return
            if block.function is not None:
                lines, shown = (
                    (self._line(start), self._line(end - 1)),
                    before + one_line(self.source.text[start:end]),
                )
                block.function.statements.append(
                    Statement(*lines, before + one_line(text), shown, tuple(guards[::-1]))
                )
                return
            guards += [block.guard] if block.guard else []
