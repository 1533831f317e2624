"""Session folders: `<state>/sessions/<session_id>/`, each used by one process at a time.

    events.jsonl            everything that happened, one event a line
    outputs/<call_id>.txt   whole outputs of commands
    diff.patch              what the agent changed in its private copy
    bases/<name>            what files were before that, under git's names of their contents
    lock                    held (flock) while a process uses the session; names it

The operating system gives the lock back when the process ends, however it ends, so there are no stale ones.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType

from codeagent.errors import StorageError
from codeagent.events import LOG_FORMAT, Event
from codeagent.session.journal import Journal
from codeagent.session.log import Log
from codeagent.session.storage import storage_error, writing

EVENTS = "events.jsonl"
DIFF = "diff.patch"
_LOCK = "lock"
_LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"  # none that looks like another
_LOCK_TRIES = 4  # somebody who only looks whether a session is live holds its lock for microseconds


def sessions_dir(state_dir: Path) -> Path:
    return state_dir / "sessions"


def new_id() -> str:
    """Sorts by time; the last five letters alone are enough to name a session by hand."""
    letters = "".join(secrets.choice(_LETTERS) for _ in range(5))
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{letters}"


class Session:
    """One session's folder, locked, with its journal. Use as a context manager, or call `close`."""

    def __init__(self, folder: Path, lock: int) -> None:
        self.id = folder.name
        self.folder = folder
        self._lock = lock
        try:
            self.journal = Journal(folder / EVENTS, self.id)
        except StorageError:
            os.close(lock)
            raise

    @classmethod
    def create(cls, state_dir: Path) -> Session:
        """A new, empty session. The caller emits SessionStarted first. Raises StorageError."""
        parent = sessions_dir(state_dir)
        with writing(state_dir):
            state_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
            parent.mkdir(mode=0o700, exist_ok=True)
            folder = parent / new_id()
            while True:
                try:
                    folder.mkdir(mode=0o700)
                    break
                except FileExistsError:
                    folder = parent / new_id()
        try:
            with writing(folder):
                (folder / "outputs").mkdir(mode=0o700)
                _sync_folder(parent)
            return cls(folder, _lock(folder))
        except StorageError:
            shutil.rmtree(folder, ignore_errors=True)
            raise

    @classmethod
    def open(cls, folder: Path) -> Session:
        """An existing session, to go on with. Raises StorageError: in use, unreadable, of a newer version."""
        if not folder.is_dir():
            raise StorageError(
                f"There is no session {folder.name}.", "`codeagent sessions list` shows what is stored."
            )
        lock = _lock(folder)
        try:
            check_readable(folder)
            return cls(folder, lock)
        except StorageError:
            with suppress(OSError):
                os.close(lock)
            raise

    def emit(self, event: Event) -> None:
        """See `Journal.emit`."""
        self.journal.emit(event)

    @property
    def diff_file(self) -> Path:
        return self.folder / DIFF

    @property
    def bases(self) -> Path:
        """The files that the diff changes as they were, to merge with."""
        return self.folder / "bases"

    @property
    def outputs(self) -> Path:
        return self.folder / "outputs"

    def save_diff(self, patch: bytes) -> None:
        """Replaces the stored diff, whole or not at all. Raises StorageError."""
        self._save(self.diff_file, patch)

    def close(self) -> None:
        """Gives the session back. One in which nothing was recorded disappears. May be called twice."""
        if self._lock < 0:
            return
        empty = self.journal.empty
        self.journal.close()
        if empty:
            shutil.rmtree(self.folder, ignore_errors=True)
        os.close(self._lock)
        self._lock = -1

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _save(self, file: Path, content: bytes) -> None:
        half = file.with_name(f".{file.name}.{os.getpid()}")
        try:
            fd = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            with os.fdopen(fd, "wb") as stream:
                stream.write(content)
                stream.flush()
                os.fdatasync(stream.fileno())
            half.replace(file)
        except OSError as error:
            half.unlink(missing_ok=True)
            raise storage_error(error, file) from error


def stored_diff(folder: Path) -> bytes:
    """What the agent changed, as `git apply` takes it; empty when it changed nothing. Raises StorageError."""
    try:
        return (folder / DIFF).read_bytes()
    except FileNotFoundError:
        return b""
    except OSError as error:
        raise StorageError(f"The diff of session {folder.name} cannot be read: {error.strerror}.") from error


def check_readable(folder: Path) -> None:
    """Raises StorageError when a log holds nothing that this version can go on from; the log stays as it is."""
    remedy = "Start a new one with `codeagent ask`; the stored file was left as it is."
    try:
        first = next(iter(Log(folder / EVENTS)), None)
    except FileNotFoundError:  # its process ended before anything was recorded
        first = None
    except OSError as error:
        raise StorageError(f"The session {folder.name} cannot be read: {error.strerror}.", remedy) from error
    if first is None:
        raise StorageError(f"The session {folder.name} holds no readable event.", remedy)
    format_ = first.get("format")
    if isinstance(format_, int) and format_ > LOG_FORMAT:
        raise StorageError(
            f"The session {folder.name} was written by a newer codeagent (log format {format_}, not {LOG_FORMAT}).",
            "Update codeagent, or start a new session with `codeagent ask`; the stored file was left as it is.",
        )


def holder(folder: Path) -> int | None:
    """The process that uses a session now: its pid (0 when it is not known), or None when nobody does."""
    try:
        fd = os.open(folder / _LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError:
        return None
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return _pid(fd)
    finally:
        os.close(fd)
    return None


def delete(folder: Path) -> None:
    """Removes a session that nobody uses. Raises StorageError."""
    lock = _lock(folder)
    try:
        with writing(folder):
            shutil.rmtree(folder)
    finally:
        os.close(lock)


def _lock(folder: Path) -> int:
    """The descriptor that holds the lock, until it is closed."""
    try:
        fd = os.open(folder / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise storage_error(error, folder) from error
    try:
        _take(fd, folder)
        os.ftruncate(fd, 0)
        os.pwrite(fd, str(os.getpid()).encode("ascii"), 0)
    except OSError as error:
        os.close(fd)
        raise storage_error(error, folder) from error
    except StorageError:
        os.close(fd)
        raise
    return fd


def _take(fd: int, folder: Path) -> None:
    for attempt in range(_LOCK_TRIES):
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            if error.errno not in (errno.EAGAIN, errno.EACCES):
                raise
        if attempt < _LOCK_TRIES - 1:
            time.sleep(0.02)
    raise StorageError(
        f"The session {folder.name} is in use by another codeagent (process {_pid(fd) or 'unknown'}).",
        "Wait until that process ends, or start a new session with `codeagent ask`.",
    )


def _pid(fd: int) -> int:
    with suppress(OSError, ValueError):
        return int(os.pread(fd, 20, 0))
    return 0


def _sync_folder(folder: Path) -> None:
    fd = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
