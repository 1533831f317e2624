"""What git ignores (gitignore(5), git's dir.c), for one ignore file and for a chain of them.

The last pattern that matches decides, files nearer to the entry come first, and nothing below an ignored folder
can be brought back: callers ask for the folder before they ask for what is in it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from guest.wildmatch import SPECIAL, Malformed, literal_length, name_regex, path_regex

MAX_IGNORE_FILE = 4 << 20


@dataclass(slots=True)
class _Run:
    """Neighbouring patterns of the same sign, so that most names are decided by a set and a suffix test.

    Of each pair the second holds what matches folders only.
    """

    ignores: bool
    names: tuple[set[bytes], set[bytes]] = field(default_factory=lambda: (set(), set()))
    endings: tuple[list[bytes], list[bytes]] = field(default_factory=lambda: ([], []))
    name_parts: tuple[list[bytes], list[bytes]] = field(default_factory=lambda: ([], []))
    path_parts: tuple[list[bytes], list[bytes]] = field(default_factory=lambda: ([], []))


class _Compiled:
    __slots__ = ("dir_endings", "dir_names", "endings", "ignores", "name", "names", "path")

    def __init__(self, run: _Run) -> None:
        self.ignores = run.ignores
        self.names, self.dir_names = run.names[0], run.names[0] | run.names[1]
        self.endings = tuple(run.endings[0])
        self.dir_endings = tuple(run.endings[0] + run.endings[1])
        self.name = (_union(run.name_parts[0]), _union(run.name_parts[0] + run.name_parts[1]))
        self.path = (_union(run.path_parts[0]), _union(run.path_parts[0] + run.path_parts[1]))

    def matches(self, path: bytes, name: bytes, is_folder: bool) -> bool:
        if name in (self.dir_names if is_folder else self.names):
            return True
        if name.endswith(self.dir_endings if is_folder else self.endings):
            return True
        by_name, by_path = self.name[is_folder], self.path[is_folder]
        return (by_name is not None and by_name.fullmatch(name) is not None) or (
            by_path is not None and by_path.fullmatch(path) is not None
        )


def _union(parts: list[bytes]) -> re.Pattern[bytes] | None:
    return re.compile(b"|".join(parts), re.DOTALL) if parts else None


class Rules:
    """One ignore file, whose content is `text`. Paths are relative to its folder."""

    __slots__ = ("_runs", "text")

    def __init__(self, text: bytes) -> None:
        self.text = text
        runs: list[_Run] = []
        for pattern in patterns(text):
            _add(runs, pattern)
        self._runs = [_Compiled(run) for run in reversed(runs)]

    def __bool__(self) -> bool:
        return bool(self._runs)

    def verdict(self, path: bytes, name: bytes, is_folder: bool) -> bool | None:
        """True: ignored; False: brought back; None: this file does not say."""
        for run in self._runs:
            if run.matches(path, name, is_folder):
                return run.ignores
        return None


def patterns(text: bytes) -> Iterable[bytes]:
    """The patterns of an ignore file, without comments and empty lines."""
    text = text.removeprefix(b"\xef\xbb\xbf")
    for line in text.split(b"\n"):
        if line.startswith(b"#"):
            continue
        pattern = _without_trailing_spaces(line.removesuffix(b"\r").split(b"\0")[0])
        if pattern:
            yield pattern


def _without_trailing_spaces(line: bytes) -> bytes:
    end = len(line)
    while end and line[end - 1] == 32:
        end -= 1
    if end == len(line):
        return line
    # A backslash that is not escaped itself keeps the space after it.
    slashes = len(line[:end]) - len(line[:end].rstrip(b"\\"))
    return line[: end + 1] if slashes % 2 else line[:end]


def _add(runs: list[_Run], pattern: bytes) -> None:
    ignores = not pattern.startswith(b"!")
    if not ignores:
        pattern = pattern[1:]
    only_folders = pattern.endswith(b"/")
    if only_folders:
        pattern = pattern[:-1]
    if not pattern:
        return
    if not runs or runs[-1].ignores != ignores:
        runs.append(_Run(ignores))
    run = runs[-1]
    try:
        if b"/" in pattern:
            run.path_parts[only_folders].append(path_regex(pattern.removeprefix(b"/")))
        elif literal_length(pattern) == len(pattern):
            run.names[only_folders].add(pattern)
        elif pattern[0] == 42 and not any(byte in SPECIAL for byte in pattern[1:]):
            run.endings[only_folders].append(pattern[1:])
        else:
            run.name_parts[only_folders].append(name_regex(pattern))
    except Malformed:
        return


Chain = Sequence[tuple[bytes, Rules]]
"""Ignore files from the nearest to the farthest; each with its folder's path (empty, or ending in a slash)."""


def ignored(chain: Chain, path: bytes, is_folder: bool) -> bool:
    """What the chain says of one entry whose folder is not ignored."""
    name = path[path.rfind(b"/") + 1 :]
    for base, rules in chain:
        verdict = rules.verdict(path[len(base) :], name, is_folder)
        if verdict is not None:
            return verdict
    return False
