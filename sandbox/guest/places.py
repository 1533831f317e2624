"""Where a path leads, without ever leaving the repository.

A path is walked component by component from the descriptor of the root, each opened with O_NOFOLLOW below the
one before; a link is read and its target walked in the same way. So nothing that happens to the tree meanwhile
can lead outside: there is no moment between a check and the use of what was checked.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Callable
from types import TracebackType

from guest.operations import Refusal
from guest.quoting import quoted

MOUNT = b"/workspace"
MAX_LINKS = 40  # the kernel's own bound
URL = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*://")
DRIVE = re.compile(rb"[A-Za-z]:[\\/]|\\\\")

FOLDER_FLAGS = os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC
LOOK_FLAGS = os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC
# Should a FIFO have taken the file's place meanwhile, opening it must not wait for a writer.
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC

Suggest = Callable[[int, bytes, bytes, bytes], str]
"""Close matches for a missing name, as text: the descriptor and path of the folder, and the name."""


class Place:
    """An existing thing in the repository. Closes its descriptor when left.

    `folder` is the descriptor of the folder that holds it, `name` its name there (`.` for a folder itself),
    `path` its real path relative to the root (empty for the root), `via` the links that led to it.
    """

    __slots__ = ("folder", "name", "path", "stat", "via")

    def __init__(self, folder: int, name: bytes, path: bytes, found: os.stat_result, via: tuple[bytes, ...]) -> None:
        self.folder = folder
        self.name = name
        self.path = path
        self.stat = found
        self.via = via

    def __enter__(self) -> Place:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        os.close(self.folder)

    @property
    def is_folder(self) -> bool:
        return stat.S_ISDIR(self.stat.st_mode)

    def open(self) -> int:
        """A descriptor for reading it, which the caller closes. Raises OSError."""
        return os.open(self.name, READ_FLAGS, dir_fd=self.folder)


def encoded(text: str) -> bytes:
    """A path as the bytes that the file system has. Refuses what cannot be a path."""
    try:
        path = text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refusal("invalid_arguments", "the path holds half of a surrogate pair, which is not text") from None
    if not path:
        raise Refusal("invalid_arguments", "the path is empty; the repository's root is `.`")
    if b"\0" in path:
        raise Refusal("invalid_arguments", "the path holds a NUL byte")
    return path


def decoded(path: bytes) -> str:
    """A path as it travels; undecodable bytes become surrogate escapes."""
    return path.decode("utf-8", "surrogateescape")


def components(path: bytes) -> list[bytes]:
    """The names in `path`, relative to the root; `..` is kept. Refuses other roots and URLs."""
    if URL.match(path):
        raise outside(path, "is a URL; a path is relative to the repository's root")
    if path.startswith(b"/"):
        inside = _below_mount(path)
        if inside is None:
            raise outside(path, "is not in the repository; a path is relative to its root, /workspace")
        path = inside
    return [name for name in path.split(b"/") if name not in (b"", b".")]


def _below_mount(path: bytes) -> bytes | None:
    path = re.sub(rb"/+", b"/", path)
    if path == MOUNT or path.startswith(MOUNT + b"/"):
        return path[len(MOUNT) :]
    return None


def outside(path: bytes, why: str) -> Refusal:
    return Refusal("outside_repository", f"{quoted(path)} {why}")


def locate(root: int, text: str, suggest: Suggest | None = None) -> Place:
    """What `text` names, links followed as long as they stay inside. Refuses everything else."""
    path = encoded(text)
    walk = _Walk(root, path, suggest)
    try:
        return walk.to_the_end()
    except OSError as error:
        raise refusal_of(error, path) from None
    finally:
        walk.close()


def refusal_of(error: OSError, path: bytes) -> Refusal:
    """The refusal that an error of the file system becomes."""
    name = quoted(path)
    match type(error).__name__:
        case "FileNotFoundError":
            return Refusal("file_not_found", f"{name} does not exist (any more)")
        case "PermissionError":
            return Refusal("permission_denied", f"{name} may not be read by the owner of the repository")
        case "NotADirectoryError":
            return Refusal("not_a_directory", f"{name} leads through something that is not a folder")
        case _:
            return Refusal("invalid_arguments", f"{name} cannot be opened: {error.strerror}")


class _Walk:
    def __init__(self, root: int, path: bytes, suggest: Suggest | None) -> None:
        self.asked = path
        self.suggest = suggest
        self.pending = components(path)[::-1]
        self.must_be_folder = path.endswith((b"/", b"/."))
        self.folders = [os.open(b".", FOLDER_FLAGS, dir_fd=root)]
        self.names: list[bytes] = []
        self.via: list[bytes] = []

    def close(self) -> None:
        for folder in self.folders:
            os.close(folder)

    def to_the_end(self) -> Place:
        while self.pending:
            name = self.pending.pop()
            if name == b"..":
                self._up()
                continue
            place = self._down(name)
            if place is not None:
                return place
        here = self.folders.pop()
        return Place(here, b".", b"/".join(self.names), os.fstat(here), tuple(self.via))

    def _up(self) -> None:
        if not self.names:
            raise self._leads_out()
        os.close(self.folders.pop())
        self.names.pop()

    def _down(self, name: bytes) -> Place | None:
        try:
            there = os.open(name, LOOK_FLAGS, dir_fd=self.folders[-1])
        except FileNotFoundError:
            raise self._missing(name) from None
        try:
            found = os.fstat(there)
            if stat.S_ISDIR(found.st_mode):
                self.folders.append(os.dup(there))
                self.names.append(name)
                return None
            if stat.S_ISLNK(found.st_mode):
                self._follow(name, os.readlink(b"", dir_fd=there))
                return None
        finally:
            os.close(there)
        path = b"/".join([*self.names, name])
        if self.pending or self.must_be_folder:
            raise Refusal("not_a_directory", f"{quoted(path)} is not a folder")
        return Place(self.folders.pop(), name, path, found, tuple(self.via))

    def _follow(self, name: bytes, target: bytes) -> None:
        self.via.append(b"/".join([*self.names, name]))
        if len(self.via) > MAX_LINKS:
            raise Refusal("file_not_found", f"{quoted(self.asked)} leads through links that never end (a loop)")
        if target.startswith(b"/"):
            inside = _below_mount(target)
            if inside is None:
                raise self._leads_out()
            target = inside
            while self.names:
                self._up()
        self.must_be_folder = self.must_be_folder or (not self.pending and target.endswith(b"/"))
        self.pending.extend(part for part in reversed(target.split(b"/")) if part not in (b"", b"."))

    def _leads_out(self) -> Refusal:
        if self.via:
            return outside(self.via[-1], "is a link that leads out of the repository; it is not followed")
        return outside(self.asked, "leads out of the repository")

    def _missing(self, name: bytes) -> Refusal:
        asked = quoted(self.asked)
        if self.via:
            return Refusal(
                "file_not_found", f"{asked} leads to the link {quoted(self.via[-1])}, whose target is missing"
            )
        if not self.names and name.startswith(b"~"):
            return outside(self.asked, "is not in the repository; ~ stands for no folder here")
        if not self.names and DRIVE.match(self.asked):
            return outside(self.asked, "is not in the repository; paths here are relative, with / between names")
        folder = b"/".join(self.names)
        where = f"; the folder {quoted(folder)} does" if folder and self.pending == [] else ""
        last = self.pending[0] if self.pending else name
        close = self.suggest(self.folders[-1], folder, name, last) if self.suggest else ""
        return Refusal("file_not_found", f"{asked} does not exist{where}", close)
