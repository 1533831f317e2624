"""Takes the repository from the host, for an engine that does not see it. No command runs in this container."""

from __future__ import annotations

import contextlib
import json
import os
import stat

UPLOAD = b"upload"


def receive(top: int, body: bytes) -> None:
    """Puts what comes into the folder `top`, and closes that.

    Body: JSON `[[path, mode, offset, length, mtime], …]` on one line, then the pieces. Folders come first.
    """
    head, _, contents = body.partition(b"\n")
    place = 0
    try:
        for path, mode, offset, length, mtime in json.loads(head):
            piece = contents[place : place + length]
            place += length
            _take(top, path.encode("utf-8", "surrogateescape"), mode, offset, piece, mtime)
    finally:
        os.close(top)


def upload_folder(baseline: int) -> int:
    """Where the repository is put, a descriptor; made at the first time."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(UPLOAD, 0o700, dir_fd=baseline)
    return os.open(UPLOAD, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=baseline)


def _take(top: int, path: bytes, mode: int, offset: int, piece: bytes, mtime: int) -> None:
    if stat.S_ISDIR(mode):
        # Owner's rights first: what is in it is still to come.
        os.mkdir(path, stat.S_IMODE(mode) & 0o777 | 0o700, dir_fd=top)
    elif stat.S_ISLNK(mode):
        os.symlink(piece, path, dir_fd=top)
    else:
        flags = os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | (os.O_CREAT | os.O_EXCL if offset == 0 else 0)
        with open(os.open(path, flags, 0o600, dir_fd=top), "wb") as file:
            file.seek(offset)
            file.write(piece)
            file.flush()
            os.fchmod(file.fileno(), stat.S_IMODE(mode) & 0o777 | 0o200)
            os.utime(file.fileno(), ns=(mtime, mtime))


def forget(baseline: int) -> None:
    """Removes what was received, once the copy is made from it."""
    try:
        top = os.open(UPLOAD, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=baseline)
    except FileNotFoundError:
        return
    for folder, folders, files, here in os.fwalk(b".", topdown=False, dir_fd=top):
        del folder
        for name in files:
            os.unlink(name, dir_fd=here)
        for name in folders:
            if stat.S_ISLNK(os.stat(name, dir_fd=here, follow_symlinks=False).st_mode):
                os.unlink(name, dir_fd=here)
            else:
                os.rmdir(name, dir_fd=here)
    os.close(top)
    os.rmdir(UPLOAD, dir_fd=baseline)
