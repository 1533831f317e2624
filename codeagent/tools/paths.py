"""Paths as the model writes and reads them: one line of plain text, git's quoted form where that is needed.

The guest quotes by the same rules (`sandbox/guest/quoting.py`); a test holds the two together.
"""

from __future__ import annotations

import re
import unicodedata

from codeagent.errors import ErrorKind, ToolError

_SHOWN = "LMNPS"  # letters, marks, numbers, punctuation, symbols
_LETTERS = {7: "\\a", 8: "\\b", 9: "\\t", 10: "\\n", 11: "\\v", 12: "\\f", 13: "\\r", 34: '\\"', 92: "\\\\"}
_BYTES = {escape[1]: code for code, escape in _LETTERS.items()}
_QUOTED = re.compile(r'"(?:[^"\\]|\\[0-7]{3}|\\[abtnvfr"\\])*"', re.DOTALL)
_ESCAPE = re.compile(rb"\\([0-7]{3}|.)", re.DOTALL)


def quoted(path: str) -> str:
    """`path` itself when it reads unambiguously, else in double quotes with C escapes."""
    return path if _plain(path) else '"' + "".join(map(_escaped, path.encode("utf-8", "surrogateescape"))) + '"'


def unquoted(path: str) -> str:
    """The path that `quoted` gave, or the path itself when it is not in quotes."""
    if not _QUOTED.fullmatch(path):
        return path
    content = _ESCAPE.sub(_unescaped, path[1:-1].encode("utf-8"))
    if b"\0" in content:
        raise ToolError(ErrorKind.INVALID_ARGUMENTS, "the path holds a NUL byte")
    return content.decode("utf-8", "surrogateescape")


def _plain(path: str) -> bool:
    if not path or path[0] == " " or path[-1] == " " or "\\" in path or '"' in path or " -> " in path:
        return False
    if path.isascii():
        return path.isprintable()
    if any(char != " " and unicodedata.category(char)[0] not in _SHOWN for char in path):
        return False
    # Its twin in the other normal form would look the same.
    return unicodedata.is_normalized("NFC", path)


def _escaped(byte: int) -> str:
    return _LETTERS.get(byte) or (chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}")


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255 if len(code) == 3 else _BYTES[code.decode()]])
