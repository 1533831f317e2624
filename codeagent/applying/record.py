"""The record of a write that is under way, kept outside the repository until every file is in place.

It is on the disk before the repository is touched, so that a process that was killed in the middle leaves enough to
put everything back (`codeagent.applying.write.recover`). Its lock keeps two writers of one repository apart; the
operating system gives it back when the process ends, however it ends.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from codeagent.errors import StorageError, UsageError


@dataclass(frozen=True, slots=True)
class Step:
    """One path. `new` says what is put there (see `fingerprint`), None for nothing; `had` whether something stood
    there before."""

    path: str
    new: str | None
    had: bool


@dataclass(frozen=True, slots=True)
class Folder:
    """A folder that makes way for a file, as it was."""

    path: str
    mode: int
    uid: int
    gid: int


@dataclass(frozen=True, slots=True)
class Record:
    """`inode` is that of the repository's root. In the folder `work`, below that root, `new-N` and `old-N` are the
    contents of step N. `made` are the folders that had to be made, the outermost first; `removed` those that make
    way, the innermost first. `done` tells that every file is in place."""

    inode: int
    work: str
    steps: tuple[Step, ...]
    made: tuple[str, ...] = ()
    removed: tuple[Folder, ...] = ()
    done: bool = field(default=False)


def fingerprint(content: bytes, link: bool) -> str:
    return ("link " if link else "") + hashlib.sha256(content).hexdigest()


class RecordFile:
    """The file of one repository's record. The caller holds its lock."""

    def __init__(self, fd: int) -> None:
        self._fd = fd

    def read(self) -> Record | None:
        """What an earlier process left; None when it left nothing, or had not begun."""
        lines = os.pread(self._fd, os.fstat(self._fd).st_size, 0).split(b"\n")
        if len(lines) < 2:  # empty, or torn before anything was touched
            return None
        try:
            found = json.loads(lines[0])
            return Record(
                found["inode"],
                found["work"],
                tuple(Step(**step) for step in found["steps"]),
                tuple(found["made"]),
                tuple(Folder(**folder) for folder in found["removed"]),
                done=lines[1] == b"done",
            )
        except (ValueError, KeyError, TypeError):
            return None

    def begin(self, record: Record) -> None:
        """Puts the record on the disk. Raises OSError."""
        self.clear()
        self._append(json.dumps(asdict(record)).encode("ascii") + b"\n")

    def finish(self) -> None:
        """Notes that every file is in place. Raises OSError."""
        self._append(b"done\n")

    def clear(self) -> None:
        os.ftruncate(self._fd, 0)

    def _append(self, line: bytes) -> None:
        at = os.fstat(self._fd).st_size
        while line:
            written = os.pwrite(self._fd, line, at)
            line, at = line[written:], at + written
        os.fsync(self._fd)


@contextmanager
def locked(state_dir: Path, repo: Path) -> Iterator[RecordFile]:
    """The record of a repository (a resolved path), locked. Raises UsageError when another process writes it,
    StorageError when it cannot be kept."""
    file = _file(state_dir, repo)
    folder = file.parent
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StorageError(
            f"The state directory is not writable: {folder}: {error.strerror or error}.",
            "Make it a folder that you may write to, or set CODEAGENT_HOME to one.",
        ) from error
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise UsageError(
                f"Another `codeagent apply` is at work in {repo}.", "Answer it, or wait until it ends."
            ) from None
        yield RecordFile(fd)
    finally:
        os.close(fd)


def unfinished(state_dir: Path, repo: Path) -> list[Path]:
    """Of this repository (a resolved path) and the folders that hold it, those with a record: a write is under way
    there, or was killed."""
    return [folder for folder in (repo, *repo.parents) if _size(_file(state_dir, folder))]


def require_finished(state_dir: Path, repo: Path) -> None:
    """Raises UsageError when a write was killed, or is under way: what stands in the repository is not whole."""
    for folder in unfinished(state_dir, repo):
        with locked(state_dir, folder) as file:
            record = file.read()
        if record is not None and record.inode == folder.stat().st_ino:
            left = "removed what it had kept" if record.done else "written, or put back, every file"
            raise UsageError(
                f"An earlier `codeagent apply` was killed before it had {left} in {folder}.",
                f"Run `codeagent apply --repo {shlex.quote(str(folder))}`: it puts that right before all else.",
            )


def _file(state_dir: Path, repo: Path) -> Path:
    return state_dir / "applying" / hashlib.sha256(os.fsencode(repo)).hexdigest()[:32]


def _size(file: Path) -> int:
    try:
        return file.stat().st_size
    except OSError:
        return 0
