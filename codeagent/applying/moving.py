"""Moves a file to where nothing stands, and never over anything, without a moment in which it could."""

from __future__ import annotations

import errno
import os
import stat

_NO_LINKS = (errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)


def move(source: int, name: str, target: int, new_name: str) -> None:
    """From one folder into another. Raises FileExistsError when something stands there, or another OSError."""
    found = os.stat(name, dir_fd=source, follow_symlinks=False)
    if stat.S_ISDIR(found.st_mode):  # never replaces anything but an empty folder
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        return
    try:
        os.link(name, new_name, src_dir_fd=source, dst_dir_fd=target, follow_symlinks=False)
    except FileExistsError:
        there = status(target, new_name)
        if there is None or not os.path.samestat(there, found):  # the same: it was killed right here before
            raise
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if status(target, new_name) is not None:  # this file system has no links: there is a moment in between
            raise FileExistsError(errno.EEXIST, "there is a file") from None
        os.rename(name, new_name, src_dir_fd=source, dst_dir_fd=target)
        return
    os.unlink(name, dir_fd=source)


def status(folder: int, name: str) -> os.stat_result | None:
    """What stands there itself; None for nothing."""
    try:
        return os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return None
