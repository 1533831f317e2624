"""Foreign text made safe to print: nothing in it can steer a terminal or hide.

Foreign is everything that the program did not write itself: the model's words, paths, file contents,
commands, error messages of libraries. Printable text passes byte for byte, brackets and emoji included;
what would act on the terminal or show nothing is written as an escape (`\\x1b`, `\\u202e`).
"""

from __future__ import annotations

import re
import unicodedata

# Categories Cc (but newline and tab), Cf, Cs, Zl and Zp, with the noncharacters: what acts without showing.
# U+200C and U+200D join letters in Persian and Indic scripts and parts of emoji; `_kept` decides on them.
_ACTING = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ud800-\udfff\ufeff\ufff9-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001343f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U000e0fff]"
)
# Blank or easily taken for another thing: spaces that are not a space, fillers, variation selectors.
_BLANK = re.compile(
    "[\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180d\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0]"
)
_LINE_BREAKS = re.compile("[\n\t]")
_NAMED = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}


def escaped(character: str) -> str:
    """One character as a visible escape; an undecodable byte (surrogate escape) as that byte."""
    if named := _NAMED.get(character):
        return named
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    if code < 0x100:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def inert(text: str) -> str:
    """`text` for a terminal; lines and tabs are kept, and CRLF ends a line like LF."""
    return _ACTING.sub(_kept, text.replace("\r\n", "\n"))


def inert_line(text: str) -> str:
    """`text` as one line: newlines and tabs are written as escapes too."""
    return _LINE_BREAKS.sub(_escape, _ACTING.sub(_kept, text))


def revealed(text: str) -> str:
    """`text` with *every* invisible or blank character made visible, for what a person decides on.

    Only plain spaces and newlines stay as they are. Joiners, variation selectors and exotic spaces,
    harmless in prose, are shown: in a command they can make two different words look the same.
    """
    return _BLANK.sub(_escape, _ACTING.sub(_escape, text)).replace("\t", "\\t")


def _escape(match: re.Match[str]) -> str:
    return escaped(match.group())


def _kept(match: re.Match[str]) -> str:
    """A joiner between two non-ASCII characters is part of a word or an emoji; alone it only hides."""
    character, text, at = match.group(), match.string, match.start()
    if (
        character in "\u200c\u200d"
        and at > 0
        and ord(text[at - 1]) > 0x7F
        and ord(text[at + 1 : at + 2] or " ") > 0x7F
    ):
        return character
    return escaped(character)


def cells(text: str) -> int:
    """How many terminal columns `text` takes, on one line. Wide and fullwidth characters take two."""
    if text.isascii():
        return len(text)
    return sum(map(_cells_of, text))


def _cells_of(character: str) -> int:
    if character < "\u0300":
        return 1
    if unicodedata.combining(character) or unicodedata.category(character) in ("Mn", "Me", "Cf"):
        return 0
    return 2 if unicodedata.east_asian_width(character) in "WF" else 1


def most_cells(text: str) -> int:
    """The columns that `text` takes at most, on one line, whatever table of widths the terminal has.

    Tables differ by version and setting: what was narrow becomes wide, what joins on one terminal stands side by
    side on another. No terminal gives a character more than two columns.
    """
    return len(text) if text.isascii() else sum(1 if character.isascii() else 2 for character in text)


def cut(text: str, width: int, mark: str = "…") -> str:
    """`text` in at most `width` columns; a mark stands for what is left out at its end."""
    if cells(text) <= width:
        return text
    room = width - cells(mark)
    if room < 0:
        return "." * max(width, 0)
    used = 0
    for at, character in enumerate(text):
        used += _cells_of(character)
        if used > room:
            return text[:at] + mark
    return text


def cut_start(text: str, width: int, mark: str = "…") -> str:
    """As `cut`, but it is the beginning that is left out: the end of a path says more."""
    return cut(text[::-1], width, mark[::-1])[::-1]


def padded(text: str, width: int, mark: str = "…") -> str:
    """`text` in exactly `width` columns, cut or filled with spaces."""
    return filled(cut(text, width, mark), width)


def filled(text: str, width: int) -> str:
    """`text`, which is not wider, filled with spaces to `width` columns."""
    return text + " " * (width - cells(text))
