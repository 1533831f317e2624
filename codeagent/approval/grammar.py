"""A strict reader of the part of shell grammar that POSIX sh, bash and busybox ash read alike.

It accepts less than any shell does and never guesses: whatever expands, redirects in an unusual way, or is
read differently by one of the three raises Unclear. It stands beside tree-sitter's parser (see `shell`), which
knows all of bash but is lenient: a script counts as understood only when both find the same words.

The grammar is that of POSIX.1-2017, XCU 2.10, without loops, functions, here-documents and background lists.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import NamedTuple

MAX_DEPTH = 40
"""Groups inside groups; deeper ones are nobody's honest command."""

_BLANKS = " \t"
_ENDS_WORD = " \t\n;&|<>()"
_GLOB = "*?["
# In double quotes a `$` before one of these is itself in all three shells; anywhere else it may expand.
_LONE_DOLLAR_BEFORE = '"|)/\\'
_ESCAPABLE_IN_QUOTES = '"\\$`'
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*(\[.*\])?\+?="
_RESERVED = frozenset(
    "! { } case do done elif else esac fi for if in then until while [[ ]] function select time coproc".split()
)


class Unclear(Exception):
    """The script is not one of those that are surely read alike; the message says why, without a subject."""


class Word(NamedTuple):
    """One word as the program receives it, quotes and backslashes removed.

    `bare` is false when any part was quoted or escaped. `glob` is the literal text before the first unquoted
    `*` or `?`, None when there is none.
    """

    text: str
    bare: bool = True
    glob: str | None = None


class Redirect(NamedTuple):
    """`fd` is the number written before the operator, empty when there is none; `target` a word or a digit."""

    operator: str
    fd: str
    target: Word


class Command(NamedTuple):
    """A simple command with its own redirections; those of groups are in `Script.redirects` only."""

    words: tuple[Word, ...]
    redirects: tuple[Redirect, ...] = ()

    @property
    def argv(self) -> tuple[str, ...]:
        return tuple(word.text for word in self.words)


class Script(NamedTuple):
    """Every simple command in the order written, and every redirection."""

    commands: tuple[Command, ...]
    redirects: tuple[Redirect, ...]


def read(text: str) -> Script:
    """The commands of `text`. Raises Unclear."""
    reader = _Reader(text)
    reader.lines_of_commands(())
    if reader.at < len(text):
        raise Unclear("a token stands where no shell expects it")
    return Script(tuple(reader.commands), tuple(reader.redirects))


class _Reader:
    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.depth = 0
        self.commands: list[Command] = []
        self.redirects: list[Redirect] = []

    # Characters and blanks

    def peek(self, length: int = 1) -> str:
        return self.text[self.at : self.at + length]

    def skip_blanks(self) -> None:
        """Blanks, continued lines and, since a token may start here, a comment."""
        while True:
            if self.peek() and self.peek() in _BLANKS:
                self.at += 1
            elif self.peek(2) == "\\\n":
                self.at += 2
            elif self.peek() == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            else:
                return

    def skip_lines(self) -> None:
        self.skip_blanks()
        while self.peek() == "\n":
            self.at += 1
            self.skip_blanks()

    def keyword(self) -> str:
        """The reserved word that stands here unquoted, else nothing. Does not move."""
        end = self.at
        while end < len(self.text) and self.text[end] not in _ENDS_WORD:
            end += 1
        word = self.text[self.at : end]
        return word if word in _RESERVED else ""

    # Lists, pipelines, groups

    def lines_of_commands(self, closing: tuple[str, ...]) -> None:
        """A list of one or more and-or lists, up to the end or to one of `closing`, which stays unread."""
        self.skip_lines()
        while True:
            self.and_or()
            self.skip_blanks()
            separated = self.separator()
            self.skip_lines() if separated else self.skip_blanks()
            if self.at == len(self.text) or self.closes(closing):
                return
            if not separated:
                raise Unclear("a token stands where no shell expects it")

    def separator(self) -> bool:
        if self.peek() == ";":
            if self.peek(2) in (";;", ";&"):
                raise Unclear("a case separator")
            self.at += 1
            return True
        return self.peek() == "\n"

    def closes(self, closing: tuple[str, ...]) -> bool:
        return (")" in closing and self.peek() == ")") or self.keyword() in closing

    def and_or(self) -> None:
        self.pipeline()
        while True:
            self.skip_blanks()
            if self.peek(2) not in ("&&", "||"):
                return
            self.at += 2
            self.skip_lines()
            self.pipeline()

    def pipeline(self) -> None:
        self.skip_blanks()
        if self.keyword() == "!":
            if self.peek(2) != "! ":
                raise Unclear("`!` without a space is a pattern in some shells")
            self.at += 2
            self.skip_blanks()
        self.command()
        while True:
            self.skip_blanks()
            if self.peek() != "|" or self.peek(2) == "||":
                return
            if self.peek(2) == "|&":
                raise Unclear("|& is not POSIX")
            self.at += 1
            self.skip_lines()
            self.command()

    def command(self) -> None:
        keyword = self.keyword()
        if self.peek() == "(":
            if self.peek(2) == "((":
                raise Unclear("(( is arithmetic in some shells")
            self.at += 1
            self.group(")")
        elif keyword == "{":
            self.at += 1
            self.group("}")
        elif keyword == "if":
            self.nested(self.conditional)
        elif keyword:
            raise Unclear(f"`{keyword}` is not judged here")
        else:
            self.simple()

    def nested(self, part: Callable[[], None]) -> None:
        self.depth += 1
        if self.depth > MAX_DEPTH:
            raise Unclear("groups are nested too deeply")
        part()
        self.depth -= 1
        self.redirections_of_group()

    def group(self, closing: str) -> None:
        def inside() -> None:
            self.lines_of_commands((closing,))
            self.expect(closing)

        self.nested(inside)

    def conditional(self) -> None:
        self.expect("if")
        self.branch("then")
        while self.closes(("elif",)):
            self.expect("elif")
            self.branch("then")
        if self.closes(("else",)):
            self.expect("else")
            self.lines_of_commands(("fi",))
        self.expect("fi")

    def branch(self, word: str) -> None:
        self.lines_of_commands((word,))
        self.expect(word)
        self.lines_of_commands(("elif", "else", "fi"))

    def expect(self, closing: str) -> None:
        if self.peek(len(closing)) != closing or (closing != ")" and self.keyword() != closing):
            raise Unclear(f"`{closing}` is missing")
        self.at += len(closing)

    def redirections_of_group(self) -> None:
        self.skip_blanks()
        while redirect := self.redirection():
            self.redirects.append(redirect)
            self.skip_blanks()
        if self.peek() not in ("", "\n", ";", "&", "|", ")") and not self.keyword():
            raise Unclear("a word follows a group")

    # Simple commands

    def simple(self) -> None:
        words: list[Word] = []
        redirects: list[Redirect] = []
        while True:
            self.skip_blanks()
            if redirect := self.redirection():
                if not words:
                    raise Unclear("a redirection stands before the command")
                redirects.append(redirect)
            elif self.at == len(self.text) or self.peek() in ";&|\n)":
                break
            elif self.peek() == "(":
                raise Unclear("a function or an extended pattern")
            else:
                words.append(self.word(first=not words))
        if self.peek() == "&" and self.peek(2) != "&&":
            raise Unclear("it runs in the background")
        if not words:
            raise Unclear("a command is missing")
        self.commands.append(Command(tuple(words), tuple(redirects)))
        self.redirects.extend(redirects)

    def redirection(self) -> Redirect | None:
        fd = self.peek() if self.peek().isascii() and self.peek().isdigit() else ""
        after = self.text[self.at + len(fd) : self.at + len(fd) + 2]
        if not after or after[0] not in "<>":
            return None
        if after in ("<<", "<(", ">(", "<>", ">|", "<&"):
            raise Unclear(_UNUSUAL[after])
        operator = after if after in (">>", ">&") else after[0]
        self.at += len(fd) + len(operator)
        self.skip_blanks()
        target = self.word()
        if operator == ">&" and not (target.bare and target.text in ("1", "2")):
            raise Unclear("a redirection that shells read differently")
        if target.glob is not None:
            raise Unclear("a pattern names the file of a redirection")
        return Redirect(operator, fd, target)

    # Words

    def word(self, first: bool = False) -> Word:
        start, parts, bare, glob = self.at, [], True, None
        while self.at < len(self.text) and (char := self.text[self.at]) not in _ENDS_WORD:
            if char in "'\"\\":
                parts.append(self.quoted(char))
                bare = False
                continue
            if char in _GLOB and not (char == "[" and self.is_test()):
                if char == "[":
                    raise Unclear("a bracket pattern")
                glob = "".join(parts) if glob is None else glob
            elif char in "$`{}":
                raise Unclear(_EXPANDS[char])
            elif char == "~" and (self.at == start or self.text[self.at - 1] in ":="):
                raise Unclear("a tilde expands")
            parts.append(char)
            self.at += 1
        raw = self.text[start : self.at]
        if self.at == start:
            raise Unclear("a word is missing")
        if self.peek() and self.peek() in "<>" and raw.isdigit():
            raise Unclear("a number before a redirection that shells read differently")
        if self.peek() == "(":
            raise Unclear("a function or an extended pattern")
        text = "".join(parts)
        if first and re.match(_ASSIGNMENT, raw):
            raise Unclear("a variable is set")
        if glob is not None:
            _check_glob(text)
        return Word(text, bare, glob)

    def is_test(self) -> bool:
        """Whether the `[` here is a word of its own, which is a command or a plain text, never a pattern."""
        before, after = self.text[self.at - 1 : self.at], self.text[self.at + 1 : self.at + 2]
        return (not before or before in _ENDS_WORD) and (not after or after in _ENDS_WORD)

    def quoted(self, char: str) -> str:
        if char == "\\":
            return self.escaped()
        self.at += 1
        if char == '"':
            return self.double_quoted()
        end = self.text.find("'", self.at)
        if end < 0:
            raise Unclear("a quote is not closed")
        text = self.text[self.at : end]
        self.at = end + 1
        return text

    def escaped(self) -> str:
        char = self.text[self.at + 1 : self.at + 2]
        if not char or char == "\n":
            # Joined lines inside a word can hide a reserved word or the number of a redirection.
            raise Unclear("a word goes on in the next line")
        self.at += 2
        return char

    def double_quoted(self) -> str:
        parts: list[str] = []
        while (char := self.peek()) != '"':
            if not char:
                raise Unclear("a quote is not closed")
            follower = self.text[self.at + 1 : self.at + 2]
            if char == "\\" and follower and follower in _ESCAPABLE_IN_QUOTES + "\n":
                parts.append("" if follower == "\n" else follower)
                self.at += 2
                continue
            if char == "`" or (char == "$" and (not follower or follower not in _LONE_DOLLAR_BEFORE)):
                raise Unclear(_EXPANDS[char])
            parts.append(char)
            self.at += 1
        self.at += 1
        return "".join(parts)


def _check_glob(text: str) -> None:
    """A pattern may not reach hidden files; where it may stand is for the program's own entry to say."""
    for part in text.split("/"):
        if part.startswith(".") and ("*" in part or "?" in part):
            raise Unclear("a pattern matches hidden files")


_EXPANDS = {
    "$": "something expands",
    "`": "a command substitution",
    "{": "braces expand in some shells",
    "}": "braces expand in some shells",
}
_UNUSUAL = {
    "<<": "a here-document",
    "<(": "a process substitution",
    ">(": "a process substitution",
    "<>": "a file is opened for writing",
    ">|": "a file is overwritten",
    "<&": "an input is duplicated",
}
