"""What the investigator knows of a source file: its types, its functions, and their statements.

The scanners (`braces`, `indented`) are small and tolerant: they read what a person would see at a glance,
in files that may be cut, broken, or written in a dialect. They never fail; they find less.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import PurePosixPath
from typing import Literal

GuardKind = Literal["if", "elif", "else", "loop", "case", "except", "lambda"]


@dataclass(frozen=True, slots=True)
class Guard:
    """A condition around a statement: `text` as it stands in the file, on one line."""

    kind: GuardKind
    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Statement:
    """`text` without comments and the insides of strings; `shown` as it stands in the file."""

    line: int
    last_line: int
    text: str
    shown: str
    guards: tuple[Guard, ...] = ()


@dataclass(frozen=True, slots=True)
class Function:
    """`owner` is the type it belongs to, empty for none; `header` is its first lines, as one."""

    name: str
    owner: str
    path: str
    line: int
    last_line: int
    header: str
    statements: tuple[Statement, ...] = ()

    @property
    def title(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name


@dataclass(frozen=True, slots=True)
class TypeDeclaration:
    name: str
    path: str
    line: int
    header: str

    def extends(self, name: str) -> bool:
        return re.search(rf"\b{re.escape(self.name)}\b.*\b{re.escape(name)}\b", self.header) is not None


@dataclass(frozen=True, slots=True)
class Source:
    """One file, as far as it was shown."""

    path: str
    lines: Mapping[int, str]
    clean: str
    functions: tuple[Function, ...] = ()
    types: tuple[TypeDeclaration, ...] = ()

    @property
    def language(self) -> str:
        return language_of(self.path)


@dataclass(frozen=True, slots=True)
class Scan:
    """What a scanner has found, before it is put in order."""

    functions: list[Function] = field(default_factory=list)
    types: list[TypeDeclaration] = field(default_factory=list)


LANGUAGES = {
    "python": "py pyi pyw",
    "java": "java groovy",
    "js": "js mjs cjs jsx ts tsx mts cts vue",
    "c": "c h cc cpp cxx hpp hh hxx m",
    "go": "go",
    "other": "cs kt kts scala swift rs php dart",
}
_BY_SUFFIX = {suffix: name for name, suffixes in LANGUAGES.items() for suffix in suffixes.split()}


def language_of(path: str) -> str:
    """A key of LANGUAGES, or empty for a file that is not read as source."""
    return _BY_SUFFIX.get(PurePosixPath(path).suffix.lstrip(".").lower(), "")


def is_test(path: str) -> bool:
    """Whether a path looks like that of a test."""
    *folders, name = path.lower().split("/")
    stem = name.split(".")[0]
    original = PurePosixPath(path).stem
    return (
        any(folder in ("test", "tests", "testing", "__tests__", "spec", "specs", "testdata") for folder in folders)
        or stem.startswith("test_")
        or stem.endswith(("_test", "_spec"))
        or ".test." in name
        or ".spec." in name
        or original.endswith(("Test", "Tests", "IT"))
    )


_PYTHON = re.compile(
    r"""\#[^\n]* | (?P<triple>\"{3}|'{3}) (?:\\.|.)*? (?:(?P=triple)|\Z)"""
    r""" | "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'?""",
    re.VERBOSE | re.DOTALL,
)
_BRACES = re.compile(
    r"""//[^\n]* | /\*.*?(?:\*/|\Z) | \"{3}(?:\\.|.)*?(?:\"{3}|\Z)"""
    r""" | "(?:\\.|[^"\\\n])*"? | '(?:\\.|[^'\\\n])*'? | `(?:\\.|[^`\\])*`?""",
    re.VERBOSE | re.DOTALL,
)
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n\\]|\\.)*", re.MULTILINE | re.DOTALL)


def without_comments(text: str, language: str) -> str:
    """`text` with comments and the insides of strings as blanks: the same length, the same lines."""

    def blank(match: re.Match[str]) -> str:
        found = match.group()
        if found[0] in "\"'`" and len(found) > 1:
            return found[0] + _blanks(found[1:-1]) + (found[-1] if found[-1] == found[0] else _blanks(found[-1]))
        return _blanks(found)

    clean = (_PYTHON if language == "python" else _BRACES).sub(blank, text)
    return _DIRECTIVE.sub(lambda match: _blanks(match.group()), clean) if language == "c" else clean


def _blanks(text: str) -> str:
    return re.sub(r"[^\n]", " ", text)


def one_line(text: str) -> str:
    return " ".join(text.split())


def closing(text: str, opening: int, end: int) -> int:
    """The offset behind the bracket that closes the one at `opening`."""
    depth = 0
    for at in range(opening, end):
        if text[at] == "(":
            depth += 1
        elif text[at] == ")":
            depth -= 1
            if depth == 0:
                return at + 1
    return end


def unwrapped(condition: str) -> str:
    """A condition without the brackets around all of it."""
    condition = condition.strip()
    if condition.startswith("(") and closing(condition, 0, len(condition)) == len(condition):
        return condition[1:-1].strip()
    return condition


def scan(path: str, lines: Mapping[int, str]) -> Source:
    """Reads a file. `lines` may have gaps; what is missing counts as blank."""
    from codeagent.providers.offline import braces, indented

    language = language_of(path)
    text = "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))
    clean = without_comments(text, language)
    if not language:
        return Source(path, lines, text)
    found = (indented if language == "python" else braces).scan(path, language, text, clean)
    functions = sorted(found.functions, key=lambda function: (function.line, -function.last_line))
    return Source(path, lines, clean, tuple(functions), tuple(found.types))


def with_statements(function: Function, statements: list[Statement], last_line: int) -> Function:
    return replace(function, statements=tuple(statements), last_line=max(last_line, function.line))
