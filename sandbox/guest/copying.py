"""Makes the private copy: the repository into one folder, what `diff` needs of it into another."""

from __future__ import annotations

import errno
import json
import os
import stat
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from guest import baseline
from guest.baseline import FILE, FOLDER, LINK, LINK_MODE, MASKED, Entry, Stamp
from guest.operations import Refusal
from guest.places import decoded
from guest.protection import Protection
from guest.reading import sized
from guest.tree import Level, Tree

CHUNK = 1 << 20
PROGRESS_SECONDS = 0.1
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Plan:
    """What the host decides: bytes at most, what to leave out, which files have another text, which folders are left
    empty, and what is written beside the baseline: texts and links, by path."""

    limit: int
    exclude: Protection
    replaced: Mapping[bytes, bytes]
    emptied: frozenset[bytes]
    texts: Mapping[bytes, bytes]
    links: Mapping[bytes, bytes]

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> Plan:
        return cls(
            given["limit"],
            Protection([(regex, leaves_out) for regex, leaves_out in given["exclude"]]),
            _texts(given["replaced"]),
            frozenset(map(_bytes, given["emptied"])),
            _texts(given["texts"]),
            _texts(given["links"]),
        )


def _texts(given: Mapping[str, str]) -> dict[bytes, bytes]:
    return {_bytes(path): _bytes(text) for path, text in given.items()}


def _bytes(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


@dataclass(slots=True)
class Copier:
    """Copies `source` (a tree whose root is the repository) into `target`. `steps` makes it, and tells how far it is.

    The walk goes twice: once to count, so that a copy over the limit fails before anything is written.
    """

    source: Tree
    target: int
    baseline: int
    plan: Plan
    files: int = 0
    size: int = 0
    skipped: int = 0
    _total: tuple[int, int] = (0, 0)
    _told: float = 0.0
    _counting: bool = True
    _pack: int = -1
    _offset: int = 0
    _lines: list[bytes] = field(default_factory=list)

    def steps(self) -> Iterator[bytes]:
        """JSON lines `[files, bytes, files in all, bytes in all]`; the copy is made when they end. May refuse."""
        for _ in self._walk():
            pass
        if self.size > self.plan.limit:
            raise Refusal(
                "too_large",
                f"the private copy would take {sized(self.size)}, more than the limit of {sized(self.plan.limit)} "
                "([sandbox] copy_limit); [sandbox] copy_exclude leaves folders out",
            )
        self._total, self._counting = (self.files, self.size), False
        self.files = self.size = self.skipped = 0
        # Files get their mode when they are made: every further change of an inode costs as much as making one.
        umask = os.umask(0)
        try:
            self._pack = os.open(baseline.PACK, NEW_FLAGS, 0o600, dir_fd=self.baseline)
            yield self._progress()
            for _ in self._walk():
                if time.monotonic() - self._told > PROGRESS_SECONDS:
                    yield self._progress()
            self._write_baseline()
        except OSError as error:
            if error.errno in (errno.ENOSPC, errno.EDQUOT):
                raise Refusal("too_large", "the engine's disk is full: the private copy does not fit") from None
            raise
        finally:
            os.umask(umask)
            if self._pack >= 0:
                os.close(self._pack)
        yield self._progress()

    def _progress(self) -> bytes:
        self._told = time.monotonic()
        return json.dumps([self.files, self.size, *self._total]).encode("ascii") + b"\n"

    def _write_baseline(self) -> None:
        level = Level.of_root(self.source)
        outer = [[decoded(base), rules.text.decode("latin-1")] for base, rules in level.outer]
        level.close()
        rules = {"prefix": decoded(self.source.git.prefix), "outer": outer}
        for name, content in (
            (baseline.RULES, json.dumps(rules).encode()),
            (baseline.MANIFEST, b"".join(self._lines)),
        ):
            with open(os.open(name, NEW_FLAGS, 0o600, dir_fd=self.baseline), "wb") as file:
                file.write(content)
        for folder in sorted({os.path.dirname(path) for path in (*self.plan.texts, *self.plan.links)}):
            os.mkdir(folder, 0o755, dir_fd=self.baseline)
        for path, text in self.plan.texts.items():
            _write_new(self.baseline, path, text, 0o755)
        for path, target in self.plan.links.items():
            os.symlink(target, path, dir_fd=self.baseline)

    # The walk. A folder is copied by a generator, so that progress can be told in between.

    def _walk(self) -> Iterator[None]:
        level = Level.of_root(self.source)
        try:
            yield from self._folder(level, self.target, is_ignored=False)
        finally:
            level.close()

    def _folder(self, level: Level, into: int, is_ignored: bool) -> Iterator[None]:
        for name, found in _listed(level.fd):
            path = level.path + b"/" + name if level.path else name
            is_folder = stat.S_ISDIR(found.st_mode)
            if self.plan.exclude.covers_entry(path, is_folder):
                continue
            if name == b".git":
                yield from self._raw(level.fd, into, name, path, found)
            elif self.source.protection.covers_entry(path, is_folder) and not stat.S_ISLNK(found.st_mode):
                self._mask(into, name, path, is_folder)
            else:
                left_out = is_ignored or (level.ignores(name, is_folder) and not level.is_tracked(name, is_folder))
                if is_folder:
                    yield from self._deeper(level, into, name, path, found, left_out)
                else:
                    self._thing(level.fd, into, name, path, found, left_out)
            yield

    def _deeper(
        self, level: Level, into: int, name: bytes, path: bytes, found: os.stat_result, left_out: bool
    ) -> Iterator[None]:
        try:
            below = level.below(name)
        except OSError:
            self.skipped += 1
            return
        try:
            self._note(path, Entry(FOLDER, stat.S_IMODE(found.st_mode), ignored=left_out))
            inner = self._make_folder(into, name)
            yield from self._folder(below, inner, left_out)
            self._close_folder(inner, found)
        finally:
            below.close()

    def _raw(self, here: int, into: int, name: bytes, path: bytes, found: os.stat_result) -> Iterator[None]:
        """What belongs to git: copied as it is but for configurations and hooks, and no part of any diff."""
        if path in self.plan.replaced:
            self._count(len(self.plan.replaced[path]))
            if not self._counting:
                _write_new(into, name, self.plan.replaced[path], 0o644)
        elif not stat.S_ISDIR(found.st_mode):
            self._thing(here, into, name, path, found, None)
        else:
            inner = self._make_folder(into, name)
            if path not in self.plan.emptied:
                try:
                    below = os.open(name, LIST_FLAGS, dir_fd=here)
                except OSError:
                    self.skipped += 1
                else:
                    try:
                        for deeper, seen in _listed(below):
                            yield from self._raw(below, inner, deeper, path + b"/" + deeper, seen)
                            yield
                    finally:
                        os.close(below)
            self._close_folder(inner, found)

    def _make_folder(self, into: int, name: bytes) -> int:
        self._count(0)
        if self._counting:
            return -1
        os.mkdir(name, 0o700, dir_fd=into)
        return os.open(name, LIST_FLAGS, dir_fd=into)

    def _close_folder(self, folder: int, found: os.stat_result) -> None:
        if folder >= 0:
            os.fchmod(folder, stat.S_IMODE(found.st_mode) & 0o777)
            os.close(folder)

    def _mask(self, into: int, name: bytes, path: bytes, is_folder: bool) -> None:
        self._count(0)
        self._note(path, Entry(MASKED))
        if self._counting:
            return
        if is_folder:
            os.mkdir(name, 0o555, dir_fd=into)
        else:
            _write_new(into, name, b"", 0o444)

    def _thing(
        self, here: int, into: int, name: bytes, path: bytes, found: os.stat_result, left_out: bool | None
    ) -> None:
        """A file or a link; `left_out` is None for what has no place in the manifest."""
        if stat.S_ISLNK(found.st_mode):
            self._count(0)
            if not self._counting:
                self._link(here, into, name, path, left_out)
        elif stat.S_ISREG(found.st_mode):
            try:
                file = os.open(name, READ_FLAGS, dir_fd=here)
            except OSError:
                self.skipped += 1
                return
            try:
                self._file(file, into, name, path, left_out)
            finally:
                os.close(file)
        else:
            self.skipped += 1

    def _link(self, here: int, into: int, name: bytes, path: bytes, left_out: bool | None) -> None:
        target = os.readlink(name, dir_fd=here)
        os.symlink(target, name, dir_fd=into)
        if left_out is not None:
            stamp = Stamp.of(os.stat(name, dir_fd=into, follow_symlinks=False))
            self._note(path, Entry(LINK, LINK_MODE, stamp, target=decoded(target), ignored=left_out))

    def _file(self, file: int, into: int, name: bytes, path: bytes, left_out: bool | None) -> None:
        found = os.fstat(file)
        self._count(min(found.st_size, found.st_blocks * 512))
        if self._counting or not stat.S_ISREG(found.st_mode):
            return
        new = os.open(name, NEW_FLAGS, stat.S_IMODE(found.st_mode) & 0o777, dir_fd=into)
        try:
            size = _pour(file, found, new, self._pack if left_out is False else -1, self._offset)
            os.utime(new, ns=(found.st_atime_ns, found.st_mtime_ns))
            stamp = Stamp.of(os.fstat(new))
        finally:
            os.close(new)
        if left_out is not None:
            self._note(path, Entry(FILE, stat.S_IMODE(found.st_mode), stamp, self._offset, ignored=left_out))
        if left_out is False:
            self._offset += size

    def _count(self, size: int) -> None:
        self.files += 1
        self.size += size

    def _note(self, path: bytes, entry: Entry) -> None:
        if not self._counting:
            self._lines.append(entry.line(path))


def _listed(folder: int) -> list[tuple[bytes, os.stat_result]]:
    here = os.open(b".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    found = []
    try:
        with os.scandir(here) as entries:
            for entry in entries:
                name = os.fsencode(entry.name)
                try:
                    found.append((name, os.stat(name, dir_fd=here, follow_symlinks=False)))
                except OSError:
                    continue  # it went away meanwhile
    finally:
        os.close(here)
    return sorted(found, key=lambda item: item[0])


def _pour(file: int, found: os.stat_result, new: int, pack: int, offset: int) -> int:
    """Copies the content into `new` and, unless it is -1, into `pack` from `offset` on; holes stay holes."""
    place, sparse = 0, found.st_blocks * 512 < found.st_size
    while True:
        length = CHUNK
        if sparse:
            place, length = _next_content(file, place, found.st_size)
        chunk = os.pread(file, length, place)
        if not chunk:
            break
        _pwrite(new, chunk, place)
        if pack >= 0:
            _pwrite(pack, chunk, offset + place)
        place += len(chunk)
    if sparse:
        os.ftruncate(new, place)
        if pack >= 0:
            os.ftruncate(pack, offset + place)
    return place


def _next_content(file: int, place: int, size: int) -> tuple[int, int]:
    """Where content goes on, and how much of it there is before the next hole (at most a chunk)."""
    try:
        start = os.lseek(file, place, os.SEEK_DATA)
        return start, min(CHUNK, os.lseek(file, start, os.SEEK_HOLE) - start)
    except OSError as error:
        # Only a hole is left, or the file system knows no holes.
        return (max(place, size) if error.errno == errno.ENXIO else place), CHUNK


def _pwrite(file: int, content: bytes, place: int) -> None:
    rest = memoryview(content)
    while rest:
        written = os.pwrite(file, rest, place)
        rest, place = rest[written:], place + written


def _write_new(folder: int, name: bytes, content: bytes, mode: int) -> None:
    with open(os.open(name, NEW_FLAGS, mode, dir_fd=folder), "wb") as file:
        file.write(content)
