"""What a missing path may have meant: names like the missing one in its folder, and files of the same or a like name
elsewhere."""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from difflib import SequenceMatcher, get_close_matches
from itertools import islice

from guest.places import decoded
from guest.quoting import quoted
from guest.tree import Level, Tree

SHOWN = 5
NAMES_COMPARED = 5_000
"""Names looked at in one folder."""
FOLDERS_SEARCHED = 2_000
SEARCH_SECONDS = 0.15
MAX_OPEN = 256
LIKE_HERE, LIKE_ELSEWHERE = 0.6, 0.85
"""How much two names must have in common (difflib's ratio): less where the folder is the right one."""


def close_matches(tree: Tree, folder: int, path: bytes, name: bytes, last: bytes) -> str:
    """`close matches: …`, or nothing. Bounded in time whatever the size of the tree.

    `name` is what `folder`, whose path is `path`, does not hold; `last` is the last name of the whole missing path.
    """
    here = [path + b"/" + near if path else near for near in _names_like(folder, name)]
    there = [] if last in (b"..", b".git") else _Search(tree, last).found()
    same = [place for place, ratio in there if ratio == 1]
    like = [place for place, ratio in sorted(there, key=lambda item: -item[1]) if ratio < 1]
    # A folder that was misspelt on the way matters less than the file that was meant.
    found = dict.fromkeys([*here, *same, *like] if name == last else [*same, *like, *here])
    shown = [place for place in found if not tree.protection.covers(place)][:SHOWN]
    return "close matches: " + ", ".join(map(quoted, shown)) if shown else ""


def _names_like(folder: int, name: bytes) -> list[bytes]:
    names: dict[str, bytes] = {}
    try:
        for raw in _names(folder):
            names.setdefault(_plain(raw), raw)
    except OSError:
        return []
    return [names[near] for near in get_close_matches(_plain(name), names, n=3, cutoff=LIKE_HERE)]


def _names(folder: int) -> Iterator[bytes]:
    here = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(here) as entries:
            for entry in islice(entries, NAMES_COMPARED):
                yield os.fsencode(entry.name)
    finally:
        os.close(here)


def _plain(name: bytes) -> str:
    """A name without what people get wrong: letter case and the form of accents."""
    return unicodedata.normalize("NFC", decoded(name)).casefold()


@dataclass(slots=True)
class _Search:
    """Goes through the tree, the outer folders first, until something ends it."""

    tree: Tree
    name: bytes
    _wanted: str = field(init=False)
    _matcher: SequenceMatcher[str] = field(init=False)
    _deadline: float = field(init=False)

    def __post_init__(self) -> None:
        self._wanted = _plain(self.name)
        stem, _, ending = self._wanted.rpartition(".")  # endings are alike anyway
        self._matcher = SequenceMatcher(None, "", stem or ending, autojunk=False)  # the second is prepared once
        self._deadline = time.monotonic() + SEARCH_SECONDS

    def found(self) -> list[tuple[bytes, float]]:
        """Paths, and how much their names have in common with the one that is looked for (1: the same)."""
        found: list[tuple[bytes, float]] = []
        same = searched = 0
        waiting = deque([Level.of_root(self.tree)])
        try:
            while waiting and same < SHOWN and searched < FOLDERS_SEARCHED and time.monotonic() < self._deadline:
                level = waiting.popleft()
                searched += 1
                try:
                    new = list(self._in(level, waiting))
                except OSError:
                    continue  # a folder that may not be read, or is gone
                finally:
                    level.close()
                found += new
                same += sum(ratio == 1 for _, ratio in new)
        finally:
            for level in waiting:
                level.close()
        return found

    def _in(self, level: Level, waiting: deque[Level]) -> Iterator[tuple[bytes, float]]:
        for raw in _names(level.fd):
            ratio = self._ratio(raw)
            if ratio >= LIKE_ELSEWHERE:
                yield (level.path + b"/" + raw if level.path else raw), ratio
            is_open = raw != b".git" and len(waiting) < MAX_OPEN and _is_folder(level.fd, raw)
            if is_open and not level.ignores(raw, True):
                waiting.append(level.below(raw))

    def _ratio(self, raw: bytes) -> float:
        """1 for the same name, else less; 0 for what is too different, and for what comes too late to be compared."""
        name = _plain(raw)
        if name == self._wanted:
            return 1.0
        stem, dot, ending = name.rpartition(".")
        self._matcher.set_seq1(stem or ending)
        if self._matcher.real_quick_ratio() < LIKE_ELSEWHERE or self._matcher.quick_ratio() < LIKE_ELSEWHERE:
            return 0.0
        ratio = self._matcher.ratio() if time.monotonic() < self._deadline else 0.0
        return 0.99 * ratio if self._wanted.endswith(dot + ending) else 0.95 * ratio


def _is_folder(folder: int, name: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
