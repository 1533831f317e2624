"""Which paths are protected. The host turns its patterns into regular expressions; here they are only applied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Pattern = tuple[str, bool]
"""A regular expression for a whole path (folders end in a slash), and whether it protects or exempts."""


class Protection:
    """The protected patterns, the last match deciding, whatever the letter case; and paths masked all the same."""

    def __init__(self, patterns: Sequence[Pattern] = (), masked: Iterable[bytes] = ()) -> None:
        self._masked = frozenset(masked)
        self._patterns = [(re.compile(regex, re.IGNORECASE), protects) for regex, protects in reversed(patterns)]
        # Most names match no pattern at all: one look at all of them together tells.
        self._any = re.compile("|".join(f"(?:{regex})" for regex, _ in patterns), re.IGNORECASE) if patterns else None

    def covers_entry(self, path: bytes, is_folder: bool) -> bool:
        """Whether this entry itself is protected; its folders were asked about before."""
        if path in self._masked:
            return True
        if self._any is None:
            return False
        text = path.decode("utf-8", "surrogateescape") + ("/" if is_folder else "")
        if self._any.match(text) is None:
            return False
        for pattern, protects in self._patterns:
            if pattern.match(text):
                return protects
        return False

    def covers(self, path: bytes, is_folder: bool = False) -> bool:
        """Whether `path` or a folder above it is protected."""
        end = path.find(b"/")
        while end >= 0:
            if self.covers_entry(path[:end], True):
                return True
            end = path.find(b"/", end + 1)
        return bool(path) and self.covers_entry(path, is_folder)
