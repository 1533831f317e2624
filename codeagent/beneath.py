"""Files of the real repository, opened so that no link can lead out of it.

Every component is opened relative to the one before and never followed when it is a symbolic link, so that
neither a link in the repository nor a race with somebody who swaps a folder for one leads elsewhere.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path


class NotBeneath(OSError):
    """The path leads out of the repository, or over a symbolic link."""


@contextmanager
def opened_root(repo: Path) -> Iterator[int]:
    """A descriptor of the repository's root."""
    fd = os.open(repo, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield fd
    finally:
        os.close(fd)


@contextmanager
def opened_parent(root: int, path: str) -> Iterator[tuple[int, str]]:
    """The folder that holds `path`, and the last name.

    Raises NotBeneath, FileNotFoundError, or another OSError.
    """
    *folders, name = _parts(path)
    fd = os.dup(root)
    try:
        for folder in folders:
            fd = _step(fd, folder)
        yield fd, name
    finally:
        os.close(fd)


def read_beneath(root: int, path: str, limit: int) -> bytes | None:
    """The whole content of a regular file; None when there is none. Raises OSError, also when it exceeds `limit`."""
    try:
        with opened_parent(root, path) as (folder, name):
            fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise _explained(error, path) from None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise NotBeneath(f"{path} is not a regular file")
        content = file.read(limit + 1)
    if len(content) > limit:
        raise OSError(f"{path} is larger than {limit >> 20} MiB")
    return content


def stat_beneath(root: int, path: str) -> os.stat_result | None:
    """What stands at `path` itself (a link is not followed); None when there is nothing."""
    try:
        with opened_parent(root, path) as (folder, name):
            return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None


def _parts(path: str) -> list[str]:
    parts = path.split("/")
    if not path or path.startswith("/") or "\0" in path or any(part in ("", ".", "..") for part in parts):
        raise NotBeneath(f"{path!r} is not a path inside the repository")
    return parts


def _step(fd: int, folder: str) -> int:
    """The next folder down; the one before is closed."""
    try:
        below = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=fd)
    except OSError as error:
        raise _explained(error, folder) from None
    os.close(fd)
    return below


def _explained(error: OSError, path: str) -> OSError:
    # O_NOFOLLOW gives ELOOP for a link, and ENOTDIR for a link where a folder is asked for.
    if error.errno not in (errno.ELOOP, errno.ENOTDIR):
        return error
    return NotBeneath(f"{path}: {error.strerror or error} (links are not followed)")
