"""Lists a folder as git sees it: folders first, what git ignores counted and not entered, links never followed."""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from guest.operations import Refusal, Reply
from guest.places import decoded, refusal_of
from guest.quoting import quoted
from guest.reading import found, protected
from guest.tree import Level, Tree

PAGE = 1_000
MAX_DEPTH = 64
MAX_NAMES = 1_000_000
"""Names taken from one folder."""
COUNT_SECONDS = 0.6
"""Once the page is full, counting the rest may go on until this long after the start."""
LIST_SECONDS = 20.0


@dataclass(slots=True)
class _Found:
    name: bytes
    kind: str  # as `EntryKind` on the host calls it


@dataclass(slots=True)
class _Listing:
    tree: Tree
    offset: int
    all_ignored: bool
    started: float = field(default_factory=time.monotonic)
    entries: list[list[Any]] = field(default_factory=list)
    total: int = 0
    ignored: int = 0
    stopped: bool = False
    notes: list[str] = field(default_factory=list)

    @property
    def out_of_time(self) -> bool:
        full = self.total >= self.offset + PAGE
        return time.monotonic() - self.started > (COUNT_SECONDS if full else LIST_SECONDS)

    def walk(self, level: Level, below: bytes, depth: int) -> None:
        """Adds what is in `level`, whose path relative to the listed folder is `below` (ending in a slash)."""
        try:
            found = self._shown(level)
        except OSError:
            self.notes.append(f"{quoted(level.path)} may not be read")
            return
        if depth == 1:
            self._add_all(level, found, below)
            return
        for entry in found:
            if self.total % 512 == 511 and self.out_of_time:
                self.stopped = True
            if self.stopped:
                return
            protected = self._add(level, entry, below)
            if entry.kind == "directory" and not protected:
                self._descend(level, entry.name, below, depth)

    def _add_all(self, level: Level, found: list[_Found], below: bytes) -> None:
        """Adds entries that are not looked into: only those on the page cost anything."""
        before = min(max(self.offset - self.total, 0), len(found))
        page = found[before : before + max(self.offset + PAGE - self.total - before, 0)]
        self.total += before
        for entry in page:
            self._add(level, entry, below)
        self.total += len(found) - before - len(page)

    def _descend(self, level: Level, name: bytes, below: bytes, depth: int) -> None:
        try:
            deeper = level.below(name)
        except OSError:
            self.notes.append(f"{quoted(below + name)} may not be read")
            return
        try:
            self.walk(deeper, below + name + b"/", depth - 1)
        finally:
            deeper.close()

    def _shown(self, level: Level) -> list[_Found]:
        """The entries that are not ignored, in order; the others are counted."""
        folders: list[_Found] = []
        others: list[_Found] = []
        for entry in _scan(level.fd):
            is_folder = entry.kind == "directory"
            if (
                not self.all_ignored
                and level.ignores(entry.name, is_folder)
                and not level.is_tracked(entry.name, is_folder)
            ):
                self.ignored += 1
            else:
                (folders if is_folder else others).append(entry)
        folders.sort(key=lambda entry: entry.name)
        others.sort(key=lambda entry: entry.name)
        return folders + others

    def _add(self, level: Level, entry: _Found, below: bytes) -> bool:
        """Counts an entry, and keeps it when it is on the page. Tells whether it is protected."""
        place, self.total = self.total, self.total + 1
        on_page = self.offset <= place < self.offset + PAGE
        is_folder = entry.kind == "directory"
        if not on_page and not is_folder:
            return False
        path = level.path + b"/" + entry.name if level.path else entry.name
        protected = self.tree.protection.covers_entry(path, is_folder)
        if on_page:
            size, target = _details(level.fd, entry)
            self.entries.append([decoded(below + entry.name), entry.kind, size, target, protected])
        return protected


def _scan(folder: int) -> Iterator[_Found]:
    here = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        with os.scandir(here) as entries:
            for entry, _ in zip(entries, range(MAX_NAMES), strict=False):
                if entry.name != ".git":
                    yield _Found(os.fsencode(entry.name), _kind(entry))
    finally:
        os.close(here)


def _kind(entry: os.DirEntry[str]) -> str:
    try:
        if entry.is_symlink():
            return "symlink"
        if entry.is_dir(follow_symlinks=False):
            return "directory"
        return "file" if entry.is_file(follow_symlinks=False) else "other"
    except OSError:
        return "other"


def _details(folder: int, entry: _Found) -> tuple[int | None, str | None]:
    try:
        if entry.kind == "symlink":
            return None, decoded(os.readlink(entry.name, dir_fd=folder))
        if entry.kind == "file":
            found = os.stat(entry.name, dir_fd=folder, follow_symlinks=False)
            return (found.st_size if stat.S_ISREG(found.st_mode) else None), None
    except OSError:
        pass  # it went away meanwhile: listed as it was seen
    return None, None


def list_dir(tree: Tree, path: str, depth: int, offset: int) -> Reply:
    """One page: counts, and the entries as JSON `[path, kind, size, target, protected]`."""
    if not 1 <= depth <= MAX_DEPTH:
        raise Refusal("invalid_arguments", f"the depth must be between 1 and {MAX_DEPTH}")
    if offset < 0:
        raise Refusal("invalid_arguments", "the offset must not be negative")
    with found(tree, path) as place:
        for hidden in (*place.via, place.path):
            if tree.protection.covers(hidden, is_folder=True):
                raise protected(hidden)
        if not place.is_folder:
            raise Refusal("not_a_directory", f"{quoted(place.path)} is not a folder; read_file shows a file's lines")
    try:
        level, is_ignored = _reach(tree, place.path)
    except OSError as error:
        raise refusal_of(error, place.path) from None
    listing = _Listing(tree, offset, is_ignored)
    try:
        os.close(os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=level.fd))
        listing.walk(level, b"", depth)
    except OSError as error:
        raise refusal_of(error, place.path) from None
    finally:
        level.close()
    return _reply(listing, place.path)


def _reach(tree: Tree, path: bytes) -> tuple[Level, bool]:
    """The level of a folder, and whether all in it counts as ignored: named outright, it is shown all the same."""
    level = Level.of_root(tree)
    all_ignored = False
    try:
        for name in path.split(b"/") if path else ():
            all_ignored = all_ignored or (level.ignores(name, True) and not level.is_tracked(name, True))
            level = level.enter(name)
    except OSError:
        level.close()
        raise
    return level, all_ignored


def _reply(listing: _Listing, path: bytes) -> Reply:
    notes = listing.notes[:5]
    if len(listing.notes) > len(notes):
        notes.append(f"{len(listing.notes) - len(notes)} more folders may not be read")
    if listing.all_ignored:
        notes.append("git ignores this folder; all that is in it is shown")
    fields = {
        "path": decoded(path),
        "offset": listing.offset,
        "total": listing.total,
        "ignored": listing.ignored,
        "counted": not listing.stopped,
        "notes": notes,
    }
    return fields, json.dumps(listing.entries, separators=(",", ":")).encode("ascii")
