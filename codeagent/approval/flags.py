"""How a program's harmless flags are written down, and how an argv is held against them.

A program's flags are one text of blanks-separated tokens:

    -abc        three flags without a value, which may be glued together
    -n:         a flag with a value, glued (`-n5`) or in the next word
    -n#         the same, and the value is a number
    -e!         the same, and the value may begin with `-` (only where every implementation agrees)
    -U?         a flag with an optional value, which is always glued
    -#          a number as a flag (`head -20`)
    --all       a long flag without a value
    --lines=    a long flag with a value, after `=` or in the next word
    --color?    a long flag with an optional value, always after `=`
    --merged~   a long flag that takes the next word as its value when there is one

Only exact names count: getopt_long and git take `--outp=x` for `--output=x`, so an abbreviation is never known
to be harmless. What is not written down is refused.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from types import MappingProxyType
from typing import NamedTuple

from codeagent.approval.grammar import Word

_NUMBER = r"[-+]?(0[xX][0-9a-fA-F]+|\d+(\.\d+)?[a-zA-Z]{0,3})"


class Refused(Exception):
    """The command is not known to be read-only; the message is the reason, naming flag or operand."""


class Parsed(NamedTuple):
    """An argv taken apart: flags by name (`-n`, `--lines`) with their values, and the operands."""

    options: tuple[tuple[str, str], ...]
    operands: tuple[Word, ...]

    def has(self, *names: str) -> bool:
        return any(name in names for name, _ in self.options)


Check = Callable[[Parsed], None]
"""Looks at what the flags alone do not tell. Raises Refused."""


class Program(NamedTuple):
    """What a program may be given and still only read.

    `most` limits the operands where a further one would be written to or mean something else; flags must then
    stand before them. Without `glued`, a value other than a number is always the next word, as with programs that do
    not use getopt. `values` are regular expressions of all values that a flag may be given, by its name, for flags
    whose value can do something.
    """

    flags: str = ""
    most: int | None = None
    least: int = 0
    check: Check | None = None
    glued: bool = True
    globs: bool = True
    values: Mapping[str, str] = MappingProxyType({})


def parse(program: Program, words: Sequence[Word]) -> Parsed:
    """`words` are the argv without the program's name. Raises Refused."""
    options: list[tuple[str, str]] = []
    operands: list[Word] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word.glob == "":
            raise Refused(f"the pattern {word.text} may become an option")
        if not word.text.startswith("-") or word.text == "-":
            operands.append(word)
        elif word.text == "--" and program.glued:
            operands.extend(waiting)
            break
        else:
            if operands and program.most is not None:
                # Where POSIXLY_CORRECT is set, or options are not permuted, this would be an operand.
                raise Refused(f"{word.text} stands after an operand")
            flags = _flag(program, word, waiting)
            _harmless_values(program, word, flags)
            options.extend(flags)
    parsed = Parsed(tuple(options), tuple(operands))
    _count(program, parsed)
    if program.check is not None:
        program.check(parsed)
    return parsed


def _count(program: Program, parsed: Parsed) -> None:
    operands = parsed.operands
    if program.most is not None and len(operands) > program.most:
        raise Refused(f"{operands[program.most].text} is one operand too many")
    if len(operands) < program.least:
        raise Refused("an operand is missing")
    if not program.globs or program.most is not None:
        for operand in operands:
            if operand.glob is not None:
                raise Refused(f"the pattern {operand.text} may become several operands")


def _harmless_values(program: Program, word: Word, flags: Sequence[tuple[str, str]]) -> None:
    for name, value in flags:
        if value and name in program.values and not re.fullmatch(program.values[name], value):
            raise Refused(f"{value} is not known to be harmless as {name}")
        if name in program.values and word.glob is not None:
            raise Refused(f"the pattern {word.text} may become another value")


def _flag(program: Program, word: Word, waiting: list[Word]) -> list[tuple[str, str]]:
    """The flags in one word; takes a value from `waiting` where one is due."""
    known = known_flags(program.flags)
    if word.text.startswith("--"):
        return [_long(known, word, waiting)]
    if word.glob is not None:
        raise Refused(f"the pattern {word.text} may become another option")
    if "-#" in known and word.text[1:].isascii() and word.text[1:].isdigit():
        return [("-#", word.text[1:])]
    found: list[tuple[str, str]] = []
    letters = word.text[1:]
    for at, letter in enumerate(letters, 1):
        name, rest = f"-{letter}", letters[at:]
        kind = known.get(name)
        if kind is None or letter == "#":
            raise Refused(f"{name} is not known to be harmless")
        if kind == "":
            found.append((name, ""))
            continue
        if rest and not program.glued and not (kind == "#" and rest.isascii() and rest.isdigit()):
            raise Refused(f"{name} takes its value from the next word")
        value = rest if rest or kind == "?" else _next(name, kind, waiting)
        if kind == "#" and not re.fullmatch(_NUMBER, value):
            raise Refused(f"{name} takes a number, not {value}")
        found.append((name, value))
        break
    return found


def _long(known: dict[str, str], word: Word, waiting: list[Word]) -> tuple[str, str]:
    name, equals, value = word.text.partition("=")
    kind = known.get(name)
    if kind is None or (equals and kind == ""):
        raise Refused(f"{name} is not known to be harmless")
    if word.glob is not None and not (equals and "=" in word.glob):
        raise Refused(f"the pattern {word.text} may become another option")
    if not equals and (kind == "=" or (kind == "~" and waiting and waiting[0].text[:1] != "-")):
        value = _next(name, kind, waiting)
    return name, value


def _next(name: str, kind: str, waiting: list[Word]) -> str:
    """The next word as a value. One that looks like an option is not taken: another version may take it so."""
    if not waiting:
        raise Refused(f"{name} lacks its value")
    word = waiting.pop(0)
    if word.glob is not None:
        raise Refused(f"the pattern {word.text} may become several words")
    if kind != "!" and word.text.startswith("-") and word.text != "-" and not re.fullmatch(_NUMBER, word.text):
        raise Refused(f"{word.text} stands where {name} takes its value")
    return word.text


@cache
def known_flags(flags: str) -> dict[str, str]:
    """Each flag's name and the kind of value it takes ("" for none)."""
    known: dict[str, str] = {}
    for flag in flags.split():
        kind = flag[-1] if flag[-1] in ":#!?=~" and flag != "-#" else ""
        name = flag[: len(flag) - len(kind)]
        if name == "-#" or name.startswith("--"):
            known[name] = kind
        else:
            known.update((f"-{letter}", kind) for letter in name[1:])
    return known
