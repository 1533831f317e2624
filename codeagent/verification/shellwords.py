"""The words of shell text: which commands it has, and what a word means as a path of the repository.

Nothing is executed. What a variable gives is any text, written `*`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from itertools import pairwise
from posixpath import basename, join, normpath

_LONGEST_PATH = 4_096


def shell_words(command: str) -> list[str]:
    """The words of a command line, those of a script within it (`sh -c '…'`) too."""
    words = [word for words in _split(command) for word in words]
    return words + [each for word in words if re.search(r"\s", word) for each in shell_words(word)]


def commands(script: str) -> Iterator[list[str]]:
    """The words of each simple command of a script, one list a command; scripts within it are given, too."""
    for words in _split(script):
        # Assignments and the words that start another command come first.
        while words and (re.match(r"\w+=", words[0]) or words[0] in _LEADING):
            words = words[1:]
        if words:
            yield words
        for word in words:
            if re.search(r"\s", word):
                yield from commands(word)


_LEADING = frozenset("{ } ! if then else elif do while until time exec command env nice timeout xargs".split())
_ENDS = re.compile(r"[;&|()\n]+")


def _split(script: str) -> Iterator[list[str]]:
    text = re.sub(r"\\\n", " ", re.sub(r"\$\(pwd\)|`pwd`", "$PWD", script)).replace("`", " ; ")
    text = re.sub(r"\$\(|<\(", " ; ", re.sub(r"(?m)(^|\s)#.*$", r"\1", text))
    reader = shlex.shlex(text.replace("\n", " ; "), posix=True, punctuation_chars=";&|()<>")
    reader.whitespace_split, reader.commenters = True, ""
    try:
        tokens = list(reader)
    except ValueError:
        tokens = text.split()
    words: list[str] = []
    for token in [*tokens, ";"]:
        if _ENDS.fullmatch(token):
            yield words
            words = []
        else:
            words.append(token)


def meanings(word: str) -> Iterator[str]:
    """What a word may mean as a path: itself, the value of an option, the file of a test's id."""
    attached = word[2:] if re.match(r"-[A-Za-z].", word) else ""
    listed = word[1:] if word.startswith("@") else ""  # a file of further words
    for part in (word, word.partition("=")[2], word.partition("::")[0], attached, listed):
        if (path := path_of(part, "")) is not None:
            yield path


def path_of(word: str, folder: str) -> str | None:
    """A word as a path below the root, with `*` for what a variable gives; None for what lies elsewhere."""
    name = re.sub(r"^(?:\$PWD|\$\{PWD\}|/workspace)/", "/workspace/", word)
    rooted = name.startswith("/workspace/")
    name = with_unknown(name.removeprefix("/workspace/"))
    if not name or (name.startswith("/") and not rooted) or set(name) <= set("*./"):
        return None
    path = normpath(name if rooted else join(folder, name))
    return None if path.startswith("../") or len(path) > _LONGEST_PATH else path


def with_unknown(word: str) -> str:
    """A word with `*` for what a variable gives."""
    return re.sub(r"\$\{[^}]*\}|\$\w+|\$[@*#?!-]", "*", word)


def operands(words: Sequence[str]) -> list[str]:
    """The files that an interpreter loads: those that options name, and the script (none with `-c` and the like)."""
    found: list[str] = []
    given = iter(words)
    for word in given:
        if word in ("-c", "-e", "-m", "--eval", "-p", "--print"):
            break
        if word in ("-r", "--require", "--import", "--loader"):
            found.append(next(given, ""))
        elif word in ("-W", "-X", "-I", "-o"):
            next(given, "")
        elif word.startswith(("--require=", "--import=", "--loader=")):
            found.append(word.partition("=")[2])
        elif not word.startswith("-"):
            return [*found, word]
    return found


def modules(words: Sequence[str]) -> Iterator[str]:
    """Modules that the command names, as paths without their ending; a test's name may follow its module's."""
    dotted = [after for word, after in pairwise(words) if word in ("-m", "-p")]
    dotted += [word[2:] for word in words if re.match(r"-p\w", word)]
    dotted += [name for word in words if word.startswith("PYTEST_PLUGINS=") for name in word[15:].split(",")]
    if "unittest" in words:
        dotted += [word for word in words if not word.startswith("-")]
    for name in dotted:
        parts = name.split(".")
        yield from ("/".join(parts[:end]) for end in range(1, len(parts) + 1) if all(parts))


def started_by_node(words: Sequence[str]) -> Iterator[str]:
    """The scripts that Node and its relatives are given; they may lack their ending, or be folders."""
    for at, word in enumerate(words):
        if basename(word) in ("node", "nodejs", "bun", "tsx", "ts-node"):
            yield from operands(words[at + 1 :])
