"""git's wildmatch as regular expressions over bytes (git's wildmatch.c and dir.c; gitignore(5)).

Wildcards become lazy runs in atomic groups: between two of them the leftmost match is always as good as any
other, so that no pattern makes matching slower than linear in the name, however many stars it has.
"""

from __future__ import annotations

import re
from collections.abc import Callable

SPECIAL = b"*?[\\"
CLASSES: dict[bytes, Callable[[int], bool]] = {
    b"alnum": lambda b: chr(b).isalnum(),
    b"alpha": lambda b: chr(b).isalpha(),
    b"blank": lambda b: b in b" \t",
    b"cntrl": lambda b: b < 32 or b == 127,
    b"digit": lambda b: 48 <= b <= 57,
    b"graph": lambda b: 32 < b < 127,
    b"lower": lambda b: 97 <= b <= 122,
    b"print": lambda b: 32 <= b < 127,
    b"punct": lambda b: 32 < b < 127 and not chr(b).isalnum(),
    b"space": lambda b: b in b" \t\n\v\f\r",
    b"upper": lambda b: 65 <= b <= 90,
    b"xdigit": lambda b: b in b"0123456789abcdefABCDEF",
}
SLASH = 47


class Malformed(Exception):
    """The pattern can match nothing."""


def literal_length(pattern: bytes) -> int:
    """How many bytes stand before the first special one."""
    return next((place for place, byte in enumerate(pattern) if byte in SPECIAL), len(pattern))


def name_regex(pattern: bytes) -> bytes:
    """A regular expression for a pattern without a slash, to be matched against a whole name. May raise Malformed."""
    return _assemble(_tokens(pattern, pathname=False))


def path_regex(pattern: bytes) -> bytes:
    """The same for a pattern with a slash, against a whole path. May raise Malformed."""
    # git compares the literal beginning first and gives only the rest to wildmatch.
    length = literal_length(pattern)
    return re.escape(pattern[:length]) + _assemble(_tokens(pattern[length:], pathname=True))


# A token is a fixed expression, or one of these, which stand for runs of any length.
STAR, ANY, FOLDERS = b"[^/]*?", b".*?", b"(?:.*?/)??"


def _assemble(tokens: list[bytes]) -> bytes:
    """The whole expression. Runs across folders divide it first, runs within a name then."""
    across = _divided(tokens, (ANY, FOLDERS))
    return _joined([_joined([b"".join(part) for part in _divided(tokens, (STAR,))]) for tokens in across])


def _joined(parts: list[bytes]) -> bytes:
    """`parts`, each in an atomic group but the first (which begins without a run) and the last."""
    first, *rest = parts
    if not rest:
        return first
    return first + b"".join(b"(?>" + part + b")" for part in rest[:-1]) + rest[-1]


def _divided(tokens: list[bytes], runs: tuple[bytes, ...]) -> list[list[bytes]]:
    """`tokens` cut before each of `runs`."""
    parts: list[list[bytes]] = [[]]
    for token in tokens:
        if token in runs:
            parts.append([])
        parts[-1].append(token)
    return parts


def _tokens(pattern: bytes, pathname: bool) -> list[bytes]:
    tokens: list[bytes] = []
    place = 0
    while place < len(pattern):
        byte = pattern[place]
        if byte == ord("*"):
            token, place = _stars(pattern, place, pathname)
        elif byte == ord("?"):
            token, place = (b"[^/]" if pathname else b"."), place + 1
        elif byte == ord("["):
            members, place = _bracket(pattern, place + 1)
            token = _set(members - {SLASH} if pathname else members)
        elif byte == ord("\\"):
            if place + 1 == len(pattern):
                raise Malformed
            token, place = re.escape(pattern[place + 1 : place + 2]), place + 2
        else:
            token, place = re.escape(pattern[place : place + 1]), place + 1
        tokens.append(token)
    return tokens


def _stars(pattern: bytes, start: int, pathname: bool) -> tuple[bytes, int]:
    end = start
    while end < len(pattern) and pattern[end] == ord("*"):
        end += 1
    if not pathname:
        return ANY, end
    rest = pattern[end:]
    starts_a_name = start == 0 or pattern[start - 1] == SLASH
    if end - start < 2 or not starts_a_name or not (rest == b"" or rest.startswith((b"/", b"\\/"))):
        return STAR, end
    return (FOLDERS, end + 1) if rest.startswith(b"/") else (ANY, end)


def _set(members: set[int]) -> bytes:
    if not members:
        raise Malformed
    return b"[" + b"".join(b"\\x%02x" % member for member in sorted(members)) + b"]"


def _bracket(pattern: bytes, place: int) -> tuple[set[int], int]:
    """The bytes that a bracket expression matches, and the place after it."""

    def at(index: int) -> int:
        if index >= len(pattern):
            raise Malformed
        return pattern[index]

    negated = at(place) in b"!^"
    place += negated
    members: set[int] = set()
    previous = 0
    first = True
    while first or at(place) != ord("]"):
        first = False
        byte = at(place)
        if byte == ord("\\"):
            place += 1
            byte = at(place)
            members.add(byte)
        elif byte == ord("-") and previous and place + 1 < len(pattern) and pattern[place + 1] != ord("]"):
            place += 1
            if at(place) == ord("\\"):
                place += 1
            members.update(range(previous, at(place) + 1))
            byte = 0
        elif byte == ord("[") and pattern[place + 1 : place + 2] == b":":
            end = pattern.find(b"]", place + 2)
            if end < 0:
                raise Malformed
            if end > place + 2 and pattern[end - 1] == ord(":"):
                members.update(_class(pattern[place + 2 : end - 1]))
                place, byte = end, 0
            else:
                members.add(byte)
        else:
            members.add(byte)
        previous = byte
        place += 1
    return (set(range(1, 256)) - members if negated else members), place + 1


def _class(name: bytes) -> set[int]:
    if name not in CLASSES:
        raise Malformed
    return {byte for byte in range(128) if CLASSES[name](byte)}
