"""The two ways out of a write, by its record alone: everything goes back, or what was kept is thrown away."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterable
from contextlib import suppress

from codeagent.applying.moving import move, status
from codeagent.applying.plan import standing
from codeagent.applying.record import Record, Step, fingerprint
from codeagent.beneath import opened_parent


def put_back(root: int, record: Record) -> list[str]:
    """Everything as it was, but for what somebody else has written meanwhile, which stays.

    Returns, as sentences, what could not be put back and where it is kept; the work folder stays then.
    """
    lost: list[str] = []
    # What is missing first, then one file after the other; what cannot come back before all else is gone, at the end.
    for number, step in enumerate(record.steps):
        _return(root, f"{record.work}/old-{number}", step.path)
    for number, step in enumerate(record.steps):
        kept = f"{record.work}/old-{number}"
        if step.new is not None and (not step.had or _exists(root, kept)):
            _take_away(root, step)
            _return(root, kept, step.path)
    for folder in reversed(record.made):
        _remove_folder(root, folder)
    for place in reversed(record.removed):
        with suppress(OSError), opened_parent(root, place.path) as (parent, name):
            os.mkdir(name, 0o700, dir_fd=parent)
            with suppress(PermissionError):
                os.chown(name, place.uid, place.gid, dir_fd=parent, follow_symlinks=False)
            os.chmod(name, place.mode, dir_fd=parent)
    for number, step in enumerate(record.steps):
        kept = f"{record.work}/old-{number}"
        if not (_return(root, kept, step.path) or _is_there_again(root, kept, step.path)):
            lost.append(f"{step.path} could not be put back; what stood there is in {kept}")
    if not lost:
        _remove_work(root, record)
    return lost


def finish(root: int, record: Record) -> None:
    """Throws away what was kept, and the folders that held nothing but what was removed: git does not know them."""
    _remove_work(root, record)
    for step in record.steps:
        if step.new is None:
            folder = posixpath.dirname(step.path)
            while folder and _remove_folder(root, folder):
                folder = posixpath.dirname(folder)


def _take_away(root: int, step: Step) -> None:
    """Removes what the write has put there; what somebody has changed since is not that."""
    with suppress(OSError):
        now = standing(root, step.path)
        if now is not None and fingerprint(now.content, now.link) == step.new:
            with opened_parent(root, step.path) as (folder, name):
                os.unlink(name, dir_fd=folder)


def _return(root: int, kept: str, path: str) -> bool:
    """Moves what was kept back to its path; true as well when nothing was kept."""
    try:
        with opened_parent(root, kept) as (work, name):
            if status(work, name) is None:
                return True
            with opened_parent(root, path) as (folder, target):
                move(work, name, folder, target)
                return True
    except FileNotFoundError:
        return not _exists(root, kept)
    except OSError:
        return False


def _is_there_again(root: int, kept: str, path: str) -> bool:
    """Somebody has put it back meanwhile (`git checkout`): what was kept is not needed any more, and goes."""
    try:
        before, now = standing(root, kept), standing(root, path)
        if before is None or before != now:
            return False
        with opened_parent(root, kept) as (work, name):
            os.unlink(name, dir_fd=work)
    except OSError:
        return False
    return True


def _exists(root: int, path: str) -> bool:
    try:
        with opened_parent(root, path) as (folder, name):
            return status(folder, name) is not None
    except FileNotFoundError:
        return False


def _remove_work(root: int, record: Record) -> None:
    names: Iterable[str] = (f"{kind}-{number}" for kind in ("new", "old") for number in range(len(record.steps)))
    with suppress(OSError):
        with opened_parent(root, f"{record.work}/x") as (work, _):
            for name in names:
                with suppress(OSError):
                    os.unlink(name, dir_fd=work)
        _remove_folder(root, record.work)


def _remove_folder(root: int, path: str) -> bool:
    try:
        with opened_parent(root, path) as (parent, name):
            os.rmdir(name, dir_fd=parent)
    except OSError:
        return False
    return True
