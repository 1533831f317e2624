"""What can go wrong with the state directory, in words for the user."""

from __future__ import annotations

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from codeagent.errors import StorageError

_FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}


def storage_error(error: OSError, path: Path) -> StorageError:
    """The sentence and the remedy for a failed write below the state directory."""
    if error.errno in _FULL:
        return StorageError(
            f"The disk is full: the session cannot be recorded in {path}.",
            "Free some space and resume the session, or set CODEAGENT_HOME to a folder on another disk.",
        )
    return StorageError(
        f"The state directory is not writable: {path}: {error.strerror or error}.",
        "Make it writable, or set CODEAGENT_HOME to a folder that is.",
    )


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns every OSError inside into a StorageError about `path`."""
    try:
        yield
    except OSError as error:
        raise storage_error(error, path) from error
