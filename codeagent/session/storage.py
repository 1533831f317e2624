"""What can go wrong with the state directory, in words for the user."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeagent.errors import StorageError

WRITABLE = "Make it a folder that you may write to, or set CODEAGENT_HOME to one."
_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def storage_error(error: OSError, path: Path) -> StorageError:
    """The sentence and the remedy for a failed write below the state directory."""
    if error.errno in _FULL:
        return StorageError(
            f"The disk is full: the session cannot be recorded in {path}.",
            "Free some space and resume the session, or set CODEAGENT_HOME to a folder on another disk.",
        )
    return StorageError(f"The state directory is not writable: {path}: {_reason(error)}.", WRITABLE)


def unreadable(error: OSError, path: Path) -> StorageError:
    """The sentence and the remedy for a state directory whose sessions cannot be listed."""
    return StorageError(f"The state directory is not readable: {path}: {_reason(error)}.", WRITABLE)


def _reason(error: OSError) -> str:
    # What `mkdir` says of a file in the folder's place.
    return os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror or str(error)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns every OSError inside into a StorageError about `path`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error
