"""The private copy as it was made: what `diff` compares with.

Files on a volume that is read-only wherever commands run. `pack` holds the contents of all files that git does
not ignore, one after the other; `manifest` one JSON line an entry, ignored ones too (they have no content, but their
changes are counted). Beside them lies the folder in which git finds its configuration.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from guest.ignore import Rules, ignored
from guest.places import decoded

PACK, MANIFEST, RULES = b"pack", b"manifest", b"rules"
FILE, LINK, FOLDER, MASKED = "file", "link", "folder", "masked"
LINK_MODE = 0o120000


@dataclass(frozen=True, slots=True)
class Stamp:
    """Changes whenever a file does; ctime cannot be set back."""

    size: int
    mtime: int
    ctime: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stamp:
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)


@dataclass(frozen=True, slots=True)
class Entry:
    """One thing as it was copied. `content` is known only for what came later than the pack."""

    kind: str
    mode: int = 0
    stamp: Stamp | None = None
    offset: int = 0
    target: str = ""
    ignored: bool = False
    content: bytes | None = None

    def line(self, path: bytes) -> bytes:
        """The entry as one line of the manifest."""
        stamp = self.stamp and [self.stamp.size, self.stamp.mtime, self.stamp.ctime, self.stamp.inode]
        fields = [decoded(path), self.kind, self.mode, stamp, self.offset, self.target, self.ignored]
        return json.dumps(fields, separators=(",", ":")).encode("ascii") + b"\n"


def parse(line: bytes) -> tuple[bytes, Entry]:
    """The path and the entry of one line."""
    path, kind, mode, stamp, offset, target, is_ignored = json.loads(line)
    entry = Entry(kind, mode, Stamp(*stamp) if stamp else None, offset, target, is_ignored)
    return path.encode("utf-8", "surrogateescape"), entry


@dataclass(slots=True)
class Baseline:
    """Opened from the volume's folder; kept as long as the guest lives."""

    pack: int
    entries: dict[bytes, Entry]
    outer: list[tuple[bytes, Rules]]
    """The rules that come from outside of the tree: those above it, and git's exclude file."""
    prefix: bytes = b""
    _rules: dict[bytes, Rules | None] = field(default_factory=dict)

    @classmethod
    def open(cls, folder: int) -> Baseline:
        """Raises OSError when there is none."""
        pack = os.open(PACK, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder)
        entries = dict(map(parse, _read(folder, MANIFEST).splitlines()))
        given = json.loads(_read(folder, RULES))
        outer = [
            (base.encode("utf-8", "surrogateescape"), Rules(text.encode("latin-1"))) for base, text in given["outer"]
        ]
        return cls(pack, entries, outer, given["prefix"].encode("utf-8", "surrogateescape"))

    def content(self, entry: Entry) -> bytes:
        """What a file held; a link's target."""
        if entry.kind == LINK:
            return entry.target.encode("utf-8", "surrogateescape")
        if entry.content is not None:
            return entry.content
        size = entry.stamp.size if entry.stamp else 0
        parts = []
        while size and (part := os.pread(self.pack, size, entry.offset + sum(map(len, parts)))):
            parts.append(part)
            size -= len(part)
        return b"".join(parts)

    def restamp(self, path: bytes, stamp: Stamp) -> None:
        """A file was touched, and holds the same all the same: it need not be read again."""
        self.entries[path] = replace(self.entries[path], stamp=stamp)

    def ignores(self, path: bytes, is_folder: bool) -> bool:
        """Whether the untouched tree ignores a path that was not in it."""
        names = path.split(b"/")
        for depth in range(1, len(names) + 1):
            part = b"/".join(names[:depth])
            known = self.entries.get(part)
            if known is not None:
                if known.ignored:
                    return True
                continue
            if ignored(self._chain(names[: depth - 1]), self.prefix + part, depth < len(names) or is_folder):
                return True
        return False

    def _chain(self, folders: list[bytes]) -> list[tuple[bytes, Rules]]:
        chain = []
        for depth in range(len(folders), -1, -1):
            folder = b"".join(name + b"/" for name in folders[:depth])
            rules = self._rules_in(folder)
            if rules is not None:
                chain.append((self.prefix + folder, rules))
        return chain + self.outer

    def _rules_in(self, folder: bytes) -> Rules | None:
        if folder not in self._rules:
            entry = self.entries.get(folder + b".gitignore")
            known = entry is not None and entry.kind == FILE and not entry.ignored
            self._rules[folder] = Rules(self.content(entry)) if known and entry is not None else None
        return self._rules[folder]

    def below(self, folder: bytes) -> Iterator[bytes]:
        """Paths of all entries below a folder."""
        return (path for path in self.entries if path.startswith(folder + b"/"))


def _read(folder: int, name: bytes) -> bytes:
    with open(os.open(name, os.O_RDONLY | os.O_CLOEXEC, dir_fd=folder), "rb") as file:
        return file.read()
