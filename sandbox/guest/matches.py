"""What a missing path may have meant: names like it in its folder, and the same name elsewhere."""

from __future__ import annotations

import os
import stat
import time
import unicodedata
from collections import deque
from difflib import get_close_matches

from guest.places import decoded
from guest.quoting import quoted
from guest.tree import Level, Tree

SHOWN = 5
NAMES_COMPARED = 5_000
FOLDERS_SEARCHED = 2_000
SEARCH_SECONDS = 0.15


def close_matches(tree: Tree, folder: int, path: bytes, name: bytes) -> str:
    """`close matches: …`, or nothing. Bounded in time whatever the size of the tree."""
    found = [path + b"/" + near if path else near for near in _names_like(folder, name)]
    found += [place for place in _same_name_elsewhere(tree, name) if place not in found]
    found = [place for place in found if not tree.protection.covers(place)]
    return "close matches: " + ", ".join(map(quoted, found[:SHOWN])) if found else ""


def _names_like(folder: int, name: bytes) -> list[bytes]:
    try:
        here = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    except OSError:
        return []
    try:
        names: dict[str, bytes] = {}
        with os.scandir(here) as entries:
            for entry, _ in zip(entries, range(NAMES_COMPARED), strict=False):
                names.setdefault(_plain(os.fsencode(entry.name)), os.fsencode(entry.name))
    finally:
        os.close(here)
    return [names[near] for near in get_close_matches(_plain(name), names, n=3, cutoff=0.6)]


def _plain(name: bytes) -> str:
    """A name without what people get wrong: letter case and the form of accents."""
    return unicodedata.normalize("NFC", decoded(name)).casefold()


def _same_name_elsewhere(tree: Tree, name: bytes) -> list[bytes]:
    wanted = _plain(name)
    found: list[bytes] = []
    deadline = time.monotonic() + SEARCH_SECONDS
    waiting = deque([Level.of_root(tree)])
    searched = 0
    try:
        while waiting and len(found) < SHOWN and searched < FOLDERS_SEARCHED and time.monotonic() < deadline:
            level = waiting.popleft()
            searched += 1
            try:
                found += _search(level, wanted, waiting)
            except OSError:
                continue  # a folder that may not be read, or is gone
            finally:
                level.close()
    finally:
        for level in waiting:
            level.close()
    return found


MAX_OPEN = 256


def _search(level: Level, wanted: str, waiting: deque[Level]) -> list[bytes]:
    found = []
    here = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=level.fd)
    try:
        for name in os.listdir(here):
            raw = os.fsencode(name)
            if _plain(raw) == wanted:
                found.append(level.path + b"/" + raw if level.path else raw)
            if raw != b".git" and len(waiting) < MAX_OPEN and _is_folder(here, raw) and not level.ignores(raw, True):
                waiting.append(level.below(raw))
    finally:
        os.close(here)
    return found


def _is_folder(folder: int, name: bytes) -> bool:
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False
