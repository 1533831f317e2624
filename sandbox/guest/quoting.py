"""File names as one line of plain text, unambiguous, and acceptable when they come back.

The form is git's own (`git ls-files` with core.quotePath): a name that cannot be shown as it is stands in
double quotes, with C escapes and octal bytes. `codeagent.tools.paths` reads the same form on the host.
"""

from __future__ import annotations

import unicodedata

ESCAPES = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
SHOWN_CATEGORIES = ("L", "M", "N", "P", "S")  # letters, marks, numbers, punctuation, symbols; and the plain space


def quoted(path: bytes) -> str:
    """`path` itself when it reads unambiguously, else in double quotes."""
    try:
        text = path.decode("utf-8")
    except UnicodeDecodeError:
        return _in_quotes(path)
    return text if _plain(text) else _in_quotes(path)


def _plain(text: str) -> bool:
    if text.isascii() and text.isprintable():
        return not (text[:1] in (" ", '"', "") or text[-1] == " " or "\\" in text or '"' in text or " -> " in text)
    return (
        all(char == " " or unicodedata.category(char)[0] in SHOWN_CATEGORIES for char in text)
        and unicodedata.is_normalized("NFC", text)  # or its twin in the other form would look the same
        and not (text[0] == " " or text[-1] == " " or "\\" in text or '"' in text or " -> " in text)
    )


def _in_quotes(path: bytes) -> str:
    def shown(byte: int) -> str:
        if byte in ESCAPES:
            return ESCAPES[byte]
        return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"

    return '"' + "".join(map(shown, path)) + '"'
