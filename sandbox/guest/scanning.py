"""Finds protected things in the tree, again and again, cheaply: a folder is read only when its mtime has changed.

Git directories inside the tree (submodules' own, vendored clones) are reported too: their configuration names
programs, and is to be replaced like the repository's own.
"""

from __future__ import annotations

import json
import os
import select
import time
from dataclasses import dataclass, field
from threading import Lock

from guest.operations import Refusal, Reply
from guest.places import MOUNT, decoded, locate
from guest.tree import Tree

MAX_FOLDERS = 200_000
"""What appears in further ones is not noticed; the host has looked at all of them in the beginning."""
LIST_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
MOUNTINFO = "/proc/self/mountinfo"
TICK_NS = 50_000_000
UNSETTLED = -1


@dataclass(slots=True)
class _Folder:
    mtime: int
    subfolders: list[bytes]
    protected: list[bytes]
    links: list[bytes]
    """Those of `protected` that are links: what they lead to may change while the folder does not."""
    gits: list[bytes]


@dataclass(slots=True)
class Scanner:
    """Keeps what it saw of every folder. `masks` are the paths that something should be mounted on."""

    tree: Tree
    masks: list[bytes] = field(default_factory=list)
    _folders: dict[bytes, _Folder] = field(default_factory=dict)
    _lock: Lock = field(default_factory=Lock)
    _protected: list[bytes] = field(default_factory=list)
    _links: list[bytes] = field(default_factory=list)
    _gits: list[bytes] = field(default_factory=list)
    _found: bytes = b""
    _targets: set[bytes] | None = None
    _complete: bool = False
    _lost: list[str] = field(default_factory=list)
    _mounts: Mounts | None = None
    _state: int = 0

    def reply(self) -> Reply:
        """Body: JSON `{protected, gits}`, paths of all there are; fields: which masks are not mounted any more."""
        with self._lock:
            self._look_again()
            fields = {"complete": self._complete, "lost": self._lost[:100], "state": self._state}
            return fields, self._found

    def state(self) -> int:
        """A number that changes with every reply."""
        with self._lock:
            self._look_again()
            return self._state

    def _look_again(self) -> None:
        before = self._found, self._complete, self._lost
        if not self._steady():
            self._scan()
        self._follow_links()
        self._lost = self._lost_masks()
        if (self._found, self._complete, self._lost) != before:
            self._state += 1

    def _lost_masks(self) -> list[str]:
        """Masks that are not mounted (any more); looked for only when the kernel says that mounts have changed."""
        if self._mounts is None:
            self._mounts = Mounts()
        if self._mounts.changed():
            mounted = self._mounts.below(MOUNT)
            return [decoded(mask) for mask in self.masks if mask not in mounted]
        return self._lost

    def _steady(self) -> bool:
        """Whether no folder has changed since the last scan: what nearly every call finds, so it is kept tight."""
        look, root = os.stat, self.tree.root
        try:
            for path, folder in self._folders.items():
                if look(path or b".", dir_fd=root, follow_symlinks=False).st_mtime_ns != folder.mtime:
                    return False
        except OSError:
            return False
        return bool(self._folders)

    def _scan(self) -> None:
        known, self._folders = self._folders, {}
        self._protected, self._links, self._gits, self._targets = [], [], [], None
        waiting = [b""]
        while waiting and len(self._folders) < MAX_FOLDERS:
            path = waiting.pop()
            folder = self._look(path, known.get(path))
            if folder is None:
                continue
            self._folders[path] = folder
            self._protected += folder.protected
            self._links += folder.links
            self._gits += folder.gits
            waiting += folder.subfolders
        self._complete = not waiting

    def _follow_links(self) -> None:
        """What protected links lead to is protected as well."""
        targets = {target for link in self._links if (target := self._target(link))}
        if targets != self._targets:
            self._targets = targets
            protected = [*self._protected, *sorted(targets)]
            found = {"protected": list(map(decoded, protected)), "gits": list(map(decoded, self._gits))}
            self._found = json.dumps(found, separators=(",", ":")).encode("ascii")

    def _target(self, link: bytes) -> bytes:
        """Empty when it leads nowhere, outside, to the root, or to what git has: that is not masked."""
        try:
            with locate(self.tree.root, decoded(link)) as place:
                return b"" if b".git" in place.path.split(b"/") else place.path
        except (Refusal, OSError):
            return b""

    def _covers(self, path: bytes, entry: os.DirEntry[str]) -> bool:
        """A pattern for folders means what a link leads to, too."""
        covers = self.tree.protection.covers_entry
        return covers(path, entry.is_dir(follow_symlinks=False)) or (entry.is_symlink() and covers(path, True))

    def _look(self, path: bytes, known: _Folder | None) -> _Folder | None:
        try:
            mtime = os.stat(path or b".", dir_fd=self.tree.root, follow_symlinks=False).st_mtime_ns
            if known is not None and known.mtime == mtime:
                return known
            return self._read(path, mtime)
        except OSError:
            return None  # gone, or closed to the owner: then it is closed to every command too

    def _read(self, path: bytes, mtime: int) -> _Folder:
        # A folder that changed just now may change again within the same tick of its clock.
        settled = time.time_ns() - mtime > TICK_NS
        folder = _Folder(mtime if settled else UNSETTLED, [], [], [], [])
        here = os.open(path or b".", LIST_FLAGS, dir_fd=self.tree.root)
        try:
            with os.scandir(here) as entries:
                for entry in entries:
                    name = os.fsencode(entry.name)
                    is_folder = entry.is_dir(follow_symlinks=False)
                    inner = path + b"/" + name if path else name
                    if name == b".git":
                        folder.gits.append(inner)
                    elif self._covers(inner, entry):
                        folder.protected.append(inner)
                        if entry.is_symlink():
                            folder.links.append(inner)
                    elif is_folder:
                        folder.subfolders.append(inner)
        finally:
            os.close(here)
        return folder


class Mounts:
    """The mounts of this process. The kernel marks the open file when they change (proc_pid_mountinfo(5), poll)."""

    def __init__(self) -> None:
        self._file = os.open(MOUNTINFO, os.O_RDONLY | os.O_CLOEXEC)
        self._poll = select.poll()
        self._poll.register(self._file, select.POLLPRI)
        self._first = True

    def changed(self) -> bool:
        """Whether they may have changed since this was asked last."""
        first, self._first = self._first, False
        return bool(self._poll.poll(0)) or first

    def below(self, top: bytes) -> set[bytes]:
        """Paths relative to `top` that something is mounted on."""
        os.lseek(self._file, 0, os.SEEK_SET)
        content = b""
        while part := os.read(self._file, 1 << 20):
            content += part
        points = (_unescaped(line.split(b" ", 5)[4]) for line in content.splitlines())
        return {point[len(top) + 1 :] for point in points if point.startswith(top + b"/")}


def _unescaped(text: bytes) -> bytes:
    """mountinfo writes blanks and backslashes in octal."""
    if b"\\" not in text:
        return text
    for code in (b"\\040", b"\\011", b"\\012", b"\\134"):
        text = text.replace(code, bytes([int(code[1:], 8)]))
    return text
