"""What changed in the private copy since it was made."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field

from guest.baseline import FILE, FOLDER, LINK, LINK_MODE, MASKED, Baseline, Entry, Stamp
from guest.patching import Side, file_patch
from guest.protection import Protection
from guest.quoting import quoted
from guest.reading import sized

LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
MAX_FILE = 32 << 20
MAX_PATCH = 48 << 20


@dataclass(slots=True)
class Changes:
    """Paths that may differ, from a comparison of stats; all paths there are; how many ignored ones differ."""

    candidates: list[bytes] = field(default_factory=list)
    seen: set[bytes] = field(default_factory=set)
    ignored: int = 0


@dataclass(slots=True)
class Comparison:
    """One comparison of the copy, whose top is `root`, with its baseline."""

    root: int
    baseline: Baseline
    protection: Protection
    hash_name: str = "sha1"
    paths: list[bytes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    ignored: int = 0

    def patch(self) -> bytes:
        """The patch; afterwards `paths`, `ignored` and `notes` are known."""
        changes = self._look()
        self.ignored = changes.ignored
        parts: list[bytes] = []
        size = 0
        for path in sorted(changes.candidates):
            # What was not seen is not looked for: a folder may have become a link to somewhere else.
            old, new = self._old(path), self._new(path) if path in changes.seen else None
            if _too_large(old) or _too_large(new):
                self._leave_out(path, "is larger than " + sized(MAX_FILE))
                continue
            sides = (old if isinstance(old, Side) else None, new if isinstance(new, Side) else None)
            if sides[0] == sides[1]:
                self._same(path)
                continue
            part = b"".join(file_patch(path, *sides, self.hash_name))
            if size + len(part) > MAX_PATCH:
                self._leave_out(path, "would make the diff larger than " + sized(MAX_PATCH))
                continue
            size += len(part)
            parts.append(part)
            self.paths.append(path)
        return b"".join(parts)

    def tree_hash(self) -> str:
        """SHA-256 (hexadecimal) over all that `patch` compares, as it is now: mode, content and path of every file.

        For each, in the order of the paths: `MODE SHA256 PATH` and NUL, the mode as git has it, the content of a link
        being its target. What is ignored, protected or git's own is no part of it.
        """
        changes = self._look()
        candidates = set(changes.candidates)
        whole = hashlib.sha256()
        for path in sorted(candidates | self.baseline.entries.keys()):
            if path in candidates:
                mode, content = self._now(path) if path in changes.seen else (0, "")
            else:
                mode, content = self._as_copied(self.baseline.entries[path])
            if mode:
                whole.update(b"%06o %s %s\0" % (mode, content.encode("ascii"), path))
        return whole.hexdigest()

    def _as_copied(self, entry: Entry) -> tuple[int, str]:
        """Mode and hash of a file as it was copied; mode 0 for what has no place in the hash."""
        if entry.ignored or entry.kind not in (FILE, LINK):
            return 0, ""
        return _git_mode(entry), hashlib.sha256(self.baseline.content(entry)).hexdigest()

    def _now(self, path: bytes) -> tuple[int, str]:
        try:
            found = os.stat(path, dir_fd=self.root, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                return LINK_MODE, hashlib.sha256(os.readlink(path, dir_fd=self.root)).hexdigest()
            if not stat.S_ISREG(found.st_mode):
                return 0, ""
            with open(os.open(path, READ_FLAGS, dir_fd=self.root), "rb") as file:
                return _file_mode(found), hashlib.file_digest(file, "sha256").hexdigest()
        except FileNotFoundError:
            return 0, ""

    def _leave_out(self, path: bytes, why: str) -> None:
        self.paths.append(path)
        self.notes.append(f"{quoted(path)} has changed, and is not in the diff: it {why}")

    def _same(self, path: bytes) -> None:
        if path in self.baseline.entries:
            try:
                found = os.stat(path, dir_fd=self.root, follow_symlinks=False)
            except OSError:
                return
            self.baseline.restamp(path, Stamp.of(found))

    # Finding candidates by their stats

    def _look(self) -> Changes:
        changes = Changes()
        self._walk(changes)
        for path, entry in self.baseline.entries.items():
            if path in changes.seen or entry.kind in (FOLDER, MASKED):
                continue
            if entry.ignored:
                changes.ignored += 1
            else:
                changes.candidates.append(path)
        return changes

    def _walk(self, changes: Changes) -> None:
        waiting = [b""]
        while waiting:
            here = waiting.pop()
            for inner, found in _listed(self.root, here):
                changes.seen.add(inner)
                if self._candidate(inner, found, changes):
                    waiting.append(inner)

    def _candidate(self, path: bytes, found: os.stat_result, changes: Changes) -> bool:
        """Notes a path that may have changed; tells whether it is a folder to look into."""
        entry = self.baseline.entries.get(path)
        is_folder = stat.S_ISDIR(found.st_mode)
        if entry is not None and entry.kind == MASKED:
            return False
        if is_folder and entry is not None and entry.kind == FOLDER:
            return True
        if entry is not None and not is_folder and entry.stamp == Stamp.of(found):
            return False
        if entry is None and self.protection.covers_entry(path, is_folder):
            self.notes.append(f"{quoted(path)} is new, and is not in the diff: its name is protected")
            return False
        is_ignored = entry.ignored if entry is not None else self.baseline.ignores(path, is_folder)
        if is_ignored:
            changes.ignored += 1
            return False
        if entry is not None or not is_folder:
            changes.candidates.append(path)
        return is_folder

    # The two sides of a candidate

    def _old(self, path: bytes) -> Side | int | None:
        entry = self.baseline.entries.get(path)
        if entry is None or entry.kind not in (FILE, LINK):
            return None
        if entry.stamp is not None and entry.stamp.size > MAX_FILE:
            return entry.stamp.size
        return Side(_git_mode(entry), self.baseline.content(entry))

    def _new(self, path: bytes) -> Side | int | None:
        try:
            found = os.stat(path, dir_fd=self.root, follow_symlinks=False)
            if stat.S_ISLNK(found.st_mode):
                return Side(LINK_MODE, os.readlink(path, dir_fd=self.root))
            if not stat.S_ISREG(found.st_mode):
                return None
            if found.st_size > MAX_FILE:
                return found.st_size
            with open(os.open(path, READ_FLAGS, dir_fd=self.root), "rb") as file:
                return Side(_file_mode(found), file.read(MAX_FILE + 1))
        except FileNotFoundError:
            return None
        except OSError as error:
            self.notes.append(f"{quoted(path)} cannot be read: {error.strerror}")
            return self._old(path)


def _too_large(side: Side | int | None) -> bool:
    return isinstance(side, int)


def _file_mode(found: os.stat_result) -> int:
    return 0o100755 if found.st_mode & 0o100 else 0o100644


def _git_mode(entry: Entry) -> int:
    if entry.kind == LINK:
        return LINK_MODE
    return 0o100755 if entry.mode & 0o100 else 0o100644


def _listed(root: int, path: bytes) -> Iterator[tuple[bytes, os.stat_result]]:
    """What is in a folder of the copy, git's own things aside."""
    try:
        here = os.open(path or b".", LIST_FLAGS, dir_fd=root)
    except OSError:
        return
    try:
        with os.scandir(here) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                if name == b".git":
                    continue
                try:
                    found = os.stat(name, dir_fd=here, follow_symlinks=False)
                except OSError:
                    continue
                yield (path + b"/" + name if path else name), found
    finally:
        os.close(here)
