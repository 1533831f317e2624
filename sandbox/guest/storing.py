"""Writes into the private copy: what a patch of the agent's says, or what the user has changed on the host."""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence, Set
from contextlib import suppress
from dataclasses import dataclass

from guest.baseline import FILE, Baseline, Entry, Stamp
from guest.diffing import LIST_FLAGS
from guest.operations import Refusal
from guest.places import FOLDER_FLAGS, Place, encoded, locate, refusal_of
from guest.protection import Protection
from guest.quoting import quoted

NEW_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
READ_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Change:
    """New content for one path; None deletes it.

    `mode` None keeps what is there; a new file gets that of the path `mode_of`, or else 0o644.
    """

    path: str
    content: bytes | None
    mode: int | None = None
    mode_of: str | None = None


@dataclass(slots=True)
class _Done:
    """What was there before, to be put back should a later change fail."""

    folder: int
    name: bytes
    kept: bytes | None
    """The name under which the old file waits."""


class Store:
    """Carries out changes below `root`, all or none.

    What goes, goes first, in whatever order the changes are given: a link may take the place of a folder whose files
    all go, and two files may change names.
    """

    def __init__(self, root: int, protection: Protection) -> None:
        self._root = root
        self._protection = protection
        self._done: list[_Done] = []
        self._made: list[tuple[int, bytes]] = []
        self._modes: dict[str, int] = {}
        """The modes of files that may be gone when they are asked for."""

    def apply(self, changes: Sequence[Change]) -> None:
        """Refuses without having changed anything when one of them cannot be done."""
        try:
            for change in changes:
                self._learn_mode(change)
            for change in sorted(changes, key=lambda each: each.content is not None):
                self._one(change)
        except BaseException as error:
            self._undo()
            if isinstance(error, OSError):
                raise refusal_of(error, encoded(change.path)) from None
            raise
        for done in self._done:
            if done.kept is not None:
                _discard(done.folder, done.kept)
        self._close()

    def _one(self, change: Change) -> None:
        folder, name = self._parent(change)
        found = _look(folder, name)
        if found is not None and not self._gives_way(folder, name, found, change):
            os.close(folder)
            raise Refusal("not_a_file", f"{quoted(encoded(change.path))} is not a file")
        if change.content is None and found is None:
            os.close(folder)
            raise Refusal("file_not_found", f"{quoted(encoded(change.path))} does not exist")
        kept = None
        if found is not None:
            kept = b".codeagent-" + secrets.token_hex(8).encode()
            os.rename(name, kept, src_dir_fd=folder, dst_dir_fd=folder)
        self._done.append(_Done(folder, name, kept))
        if change.content is not None:
            self._write(folder, name, change, found)

    def _gives_way(self, folder: int, name: bytes, found: os.stat_result, change: Change) -> bool:
        if stat.S_ISDIR(found.st_mode):
            return change.content is not None and self._is_emptied(folder, name, {done.kept for done in self._done})
        return stat.S_ISREG(found.st_mode) or stat.S_ISLNK(found.st_mode)

    def _is_emptied(self, folder: int, name: bytes, kept: Set[bytes | None]) -> bool:
        """Whether all that is left in a folder is what these changes have set aside."""
        inside = os.open(name, LIST_FLAGS, dir_fd=folder)
        try:
            return all(
                entry in kept or (_is_folder(inside, entry) and self._is_emptied(inside, entry, kept))
                for entry in map(os.fsencode, os.listdir(inside))
            )
        finally:
            os.close(inside)

    def _write(self, folder: int, name: bytes, change: Change, found: os.stat_result | None) -> None:
        if change.mode is not None and stat.S_ISLNK(change.mode):
            os.symlink(change.content or b"", name, dir_fd=folder)
            return
        mode = change.mode if change.mode is not None else self._mode(change, found)
        with open(os.open(name, NEW_FLAGS, 0o600, dir_fd=folder), "wb") as file:
            file.write(change.content or b"")
            os.fchmod(file.fileno(), mode & 0o777)

    def _mode(self, change: Change, found: os.stat_result | None) -> int:
        if found is None and change.mode_of is not None:
            return self._modes.get(change.mode_of, 0o644)
        return stat.S_IMODE(found.st_mode) if found is not None and stat.S_ISREG(found.st_mode) else 0o644

    def _learn_mode(self, change: Change) -> None:
        if change.mode is None and change.mode_of is not None:
            # A file that another change makes is not there yet, and has the usual mode.
            with suppress(Refusal), locate(self._root, change.mode_of) as place:
                if stat.S_ISREG(place.stat.st_mode):
                    self._modes[change.mode_of] = stat.S_IMODE(place.stat.st_mode)

    def _parent(self, change: Change) -> tuple[int, bytes]:
        """The folder of the path, made where it is missing, and the last name."""
        path = encoded(change.path)
        names = [name for name in path.split(b"/") if name not in (b"", b".")]
        if not names or b".." in names or path.startswith(b"/"):
            raise Refusal("outside_repository", f"{quoted(path)} is not a path below the repository's root")
        if b".git" in names:
            raise Refusal("protected_path", f"{quoted(path)} belongs to git and is not written")
        if self._protection.covers(b"/".join(names)):
            raise Refusal("protected_path", f"{quoted(path)} is protected")
        folder = os.open(b".", FOLDER_FLAGS, dir_fd=self._root)
        for name in names[:-1]:
            folder = self._enter(folder, name, path)
        return folder, names[-1]

    def _enter(self, folder: int, name: bytes, path: bytes) -> int:
        try:
            if _look(folder, name) is None:
                os.mkdir(name, 0o755, dir_fd=folder)
                self._made.append((os.dup(folder), name))
            # A link in the place of a folder is not followed: it may lead anywhere.
            return os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
        except NotADirectoryError:
            raise Refusal("not_a_directory", f"{quoted(name)} in {quoted(path)} is not a folder") from None
        finally:
            os.close(folder)

    def _undo(self) -> None:
        for done in reversed(self._done):
            if _look(done.folder, done.name) is not None:
                os.unlink(done.name, dir_fd=done.folder)
            if done.kept is not None:
                os.rename(done.kept, done.name, src_dir_fd=done.folder, dst_dir_fd=done.folder)
        for folder, name in reversed(self._made):
            os.rmdir(name, dir_fd=folder)
        self._close()

    def _close(self) -> None:
        for folder in [done.folder for done in self._done] + [folder for folder, _ in self._made]:
            os.close(folder)
        self._done, self._made = [], []


def _look(folder: int, name: bytes) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _is_folder(folder: int, name: bytes) -> bool:
    found = _look(folder, name)
    return found is not None and stat.S_ISDIR(found.st_mode)


def _discard(folder: int, name: bytes) -> None:
    """Removes a file, or a folder in which nothing but folders is left."""
    if not _is_folder(folder, name):
        os.unlink(name, dir_fd=folder)
        return
    inside = os.open(name, LIST_FLAGS, dir_fd=folder)
    try:
        for entry in map(os.fsencode, os.listdir(inside)):
            _discard(inside, entry)
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=folder)


def sync(root: int, protection: Protection, baseline: Baseline, change: Change) -> str:
    """Brings a change of the user's into the copy and its baseline.

    `synced`; `same`: the copy holds that already; `unchanged`: it is what the copy was made from; `ignored`: it has
    no place in the copy; `conflict`: the agent has changed the file as well, which is left alone. Links are not
    synchronised. Of what git ignores the old content is not kept: there, a file that the agent has touched is
    `ignored`.
    """
    path = encoded(change.path)
    entry = baseline.entries.get(path)
    if protection.covers(path) or b".git" in path.split(b"/") or (entry is not None and entry.kind != FILE):
        return "ignored"
    is_ignored = entry.ignored if entry is not None else baseline.ignores(path, False)
    current = _content(root, change.path)
    if current == change.content:
        state = "same"
    elif is_ignored:
        if _stamp(root, path) != (entry.stamp if entry is not None else None):
            return "ignored"
        state = "synced"
    else:
        before = baseline.content(entry) if entry is not None else None
        if change.content == before:
            return "unchanged"
        if current != before:
            return "conflict"
        state = "synced"
    if state == "synced":
        Store(root, protection).apply([change])
    _renew(root, baseline, path, change, is_ignored)
    return state


def _stamp(root: int, path: bytes) -> Stamp | None:
    try:
        return Stamp.of(os.stat(path, dir_fd=root, follow_symlinks=False))
    except OSError:
        return None


def _content(root: int, path: str) -> bytes | None:
    try:
        with locate(root, path) as place:
            return _read(place)
    except Refusal as refused:
        if refused.kind == "file_not_found":
            return None
        raise


def _read(place: Place) -> bytes | None:
    if place.via or not stat.S_ISREG(place.stat.st_mode):
        return None
    with open(os.open(place.name, READ_FLAGS, dir_fd=place.folder), "rb") as file:
        return file.read()


def _renew(root: int, baseline: Baseline, path: bytes, change: Change, is_ignored: bool) -> None:
    if change.content is None:
        baseline.entries.pop(path, None)
        return
    found = os.stat(path, dir_fd=root, follow_symlinks=False)
    content = None if is_ignored else change.content
    mode = stat.S_IMODE(found.st_mode)
    baseline.entries[path] = Entry(FILE, mode, Stamp.of(found), ignored=is_ignored, content=content)
