"""Which paths are protected. The host turns its patterns into regular expressions; here they are only applied."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

Pattern = tuple[str, bool]
"""A regular expression for a whole path (folders end in a slash), and whether it protects or exempts."""


ANYWHERE = "^(?:.+/)?"
"""How a pattern begins that is about the last name of a path alone."""


class Protection:
    """The protected patterns, the last match deciding, whatever the letter case; and paths masked all the same."""

    def __init__(self, patterns: Sequence[Pattern] = (), masked: Iterable[bytes] = ()) -> None:
        self._masked = frozenset(masked)
        self._patterns = [(re.compile(regex, re.IGNORECASE), protects) for regex, protects in reversed(patterns)]
        # Nearly every entry matches no pattern at all: one look at its name tells.
        protecting = [regex for regex, protects in patterns if protects]
        self._by_name = _together([regex.removeprefix(ANYWHERE) for regex in protecting if _is_about_a_name(regex)])
        self._by_path = _together([regex for regex in protecting if not _is_about_a_name(regex)])

    def covers_entry(self, path: bytes, is_folder: bool) -> bool:
        """Whether this entry itself is protected; its folders were asked about before."""
        if path in self._masked:
            return True
        if self._by_name is None and self._by_path is None:
            return False
        text = path.decode("utf-8", "surrogateescape") + ("/" if is_folder else "")
        name = text[text.rfind("/", 0, -1) + 1 :]
        if (self._by_name is None or not self._by_name.match(name)) and (
            self._by_path is None or not self._by_path.match(text)
        ):
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


def _together(regexes: Sequence[str]) -> re.Pattern[str] | None:
    return re.compile("|".join(f"(?:{regex})" for regex in regexes), re.IGNORECASE) if regexes else None


def _is_about_a_name(regex: str) -> bool:
    rest = regex.removeprefix(ANYWHERE)
    return rest != regex and "/" not in rest.replace("(?:(?:/)|$)", "").replace("(?:/)", "").replace("[^/]", "")
