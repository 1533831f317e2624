"""The words of shell text: which commands it has, and what a word means as a path of the repository.

Nothing is executed. What a variable gives is any text, written `*`.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from posixpath import basename, dirname, join, normpath, splitext

_LONGEST_PATH = 4_096
_MOST_VALUES = 8
PLACE = "PLACE"
"""The variable that stands for what a script computes where it lies by."""
_PLACE = r"(?:basename|dirname|realpath|readlink|git rev-parse|cd\b[^()`\n]{0,200}\bpwd)\b[^()`\n]{0,200}"
_PLACES = re.compile(rf"\$\({_PLACE}\)|`{_PLACE}`")
"""What a script computes where it lies by, within each other (`$(cd "$(dirname "$0")" && pwd)`)."""
_ASSIGNED = re.compile(r"(?:^|[\s;&|(])(\w+)=(?:\"([^\"\n]{1,300})\"|'([^'\n]{1,300})'|([^\s;&|()\"']{1,300}))", re.M)
_LOOPS = re.compile(r"\bfor\s+(\w+)\s+in\s+([^;\n]{1,2000})")
_USES = re.compile(r"\$(?:(\w+)|\{(\w+)(?:(%%?|##?)([^{}]*))?\})")


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
    text = _without_places(script).replace("`", " ; ")
    # What a process writes is compared (`diff <(./run) want.txt`): the words around it belong together.
    text = re.sub(r"(?m)<\(([^()\n]*)\)(.*)$", r"-\2 ; \1", text)
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


def _without_places(script: str) -> str:
    """A script on whole lines, in which what tells where it lies is a variable that nothing is known of."""
    text = re.sub(r"\\\n", " ", re.sub(r"\$\(pwd\)|`pwd`", "$PWD", script))
    for _ in range(4):
        text, count = _PLACES.subn(f"${{{PLACE}}}", text)
        if not count:
            break
    return text


def values(script: str) -> dict[str, list[str]]:
    """The words that a script gives its variables, and those that its loops go through."""
    found: dict[str, list[str]] = {}
    text = _without_places(script)
    for name, *forms in _ASSIGNED.findall(text):
        found.setdefault(name, []).append("".join(forms))
    for name, listed in _LOOPS.findall(text):
        found.setdefault(name, []).extend(listed.replace('"', "").split())
    return {name: words[:_MOST_VALUES] for name, words in found.items()}


def spellings(words: Sequence[str], known: Mapping[str, Sequence[str]]) -> Iterator[Sequence[str]]:
    """A command as it is written, and with its variables replaced by each of their values."""
    yield words
    used = {name for word in words for either in _USES.findall(word) for name in either[:2] if name in known}
    for number in range(max((len(known[name]) for name in used), default=0)):

        def value(use: re.Match[str], number: int = number) -> str:
            given = known.get(use[1] or use[2])
            return _cut(given[number % len(given)], use[3], use[4] or "") if given else use[0]

        # A value may have variables of its own.
        spelt = [_USES.sub(value, word)[:_LONGEST_PATH] for word in words]
        yield [_USES.sub(value, word)[:_LONGEST_PATH] for word in spelt]


def _cut(value: str, how: str | None, what: str) -> str:
    """`${name%.in}`, `${name%/*}`, `${name##*/}` and their like."""
    if not how:
        return value
    if how[0] == "#":
        return basename(value) if what == "*/" else "*"
    return {"/*": dirname(value), ".*": splitext(value)[0]}.get(what, value.removesuffix(what))


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
