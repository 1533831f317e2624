"""Writes a plan: every file or none.

New content is first written beside its target, under a name of its own. Only when all of it is on the disk is
anything moved into place, and what stood there is kept until the last move has succeeded.
"""

from __future__ import annotations

import os
import secrets
import stat
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass

from codeagent.applying.plan import Write, is_link
from codeagent.beneath import NotBeneath, opened_parent


@dataclass
class _Step:
    """One path on its way: `staged` is the new file's name beside it, `kept` the old one's."""

    folder: int
    name: str
    staged: str | None
    kept: str | None = None
    placed: bool = False


def write(root: int, writes: Sequence[Write]) -> None:
    """Puts all of it in place, or raises OSError with everything as it was."""
    with ExitStack() as stack:
        steps: list[_Step] = []
        made: list[tuple[int, str]] = []
        try:
            for each in writes:
                _make_folders(root, each, made, stack)
                folder, name = stack.enter_context(opened_parent(root, each.path))
                steps.append(_Step(folder, name, _stage(folder, name, each)))
            for step in steps:
                _place(step)
        except BaseException:
            for step in reversed(steps):
                _undo(step)
            for folder, name in reversed(made):
                with suppress(OSError):
                    os.rmdir(name, dir_fd=folder)
            raise
        for step in steps:
            if step.kept:
                with suppress(OSError):
                    os.unlink(step.kept, dir_fd=step.folder)
        _remove_empty_folders(root, [each.path for each in writes if each.content is None])


def _make_folders(root: int, each: Write, made: list[tuple[int, str]], stack: ExitStack) -> None:
    if each.content is None:
        return
    parts = each.path.split("/")[:-1]
    for depth in range(1, len(parts) + 1):
        folder, name = stack.enter_context(opened_parent(root, "/".join(parts[:depth])))
        with suppress(FileExistsError):
            os.mkdir(name, 0o777, dir_fd=folder)
            made.append((folder, name))
            _own_like(folder, name, os.fstat(folder))


def _stage(folder: int, name: str, each: Write) -> str | None:
    """The new content under a name of its own, with the owner and mode that it shall have."""
    if each.content is None:
        return None
    staged = f".codeagent-{secrets.token_hex(8)}"
    if is_link(each):
        os.symlink(os.fsdecode(each.content), staged, dir_fd=folder)
        return staged
    fd = os.open(staged, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600, dir_fd=folder)
    try:
        with os.fdopen(fd, "wb") as file:
            file.write(each.content)
            file.flush()
            os.fchmod(fd, _mode(folder, name, each))
            os.fsync(fd)
        _own_like(folder, staged, _status(folder, name) or os.fstat(folder))
    except BaseException:
        os.unlink(staged, dir_fd=folder)
        raise
    return staged


def _mode(folder: int, name: str, each: Write) -> int:
    """The mode that stands there, its executable bits as the patch wants them."""
    before = _status(folder, name)
    wants_execution = each.mode is not None and bool(each.mode & 0o111)
    if before is None or not stat.S_ISREG(before.st_mode):
        mask = os.umask(0)
        os.umask(mask)
        return (0o777 if wants_execution else 0o666) & ~mask
    mode = stat.S_IMODE(before.st_mode) & 0o777
    if each.mode is None or wants_execution == bool(mode & 0o100):
        return mode
    return mode | (mode & 0o444) >> 2 if wants_execution else mode & ~0o111


def _status(folder: int, name: str) -> os.stat_result | None:
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _own_like(folder: int, name: str, like: os.stat_result) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (status.st_uid, status.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):  # only root may give files away
            os.chown(name, like.st_uid, like.st_gid, dir_fd=folder, follow_symlinks=False)


def _place(step: _Step) -> None:
    before = _status(step.folder, step.name)
    if before is not None:
        if stat.S_ISDIR(before.st_mode):
            raise NotBeneath(f"{step.name} is a folder now")
        kept = f".codeagent-{secrets.token_hex(8)}"
        os.rename(step.name, kept, src_dir_fd=step.folder, dst_dir_fd=step.folder)
        step.kept = kept
    if step.staged is not None:
        os.rename(step.staged, step.name, src_dir_fd=step.folder, dst_dir_fd=step.folder)
        step.placed = True


def _undo(step: _Step) -> None:
    with suppress(OSError):
        if step.staged is not None:
            os.unlink(step.name if step.placed else step.staged, dir_fd=step.folder)
    with suppress(OSError):
        if step.kept is not None:
            os.rename(step.kept, step.name, src_dir_fd=step.folder, dst_dir_fd=step.folder)


def _remove_empty_folders(root: int, removed: Sequence[str]) -> None:
    """Folders that held nothing but what was removed; git does not know them."""
    for path in removed:
        folders = path.split("/")[:-1]
        while folders:
            try:
                with opened_parent(root, "/".join(folders)) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                break
            folders.pop()
