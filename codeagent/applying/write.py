"""Writes a plan: every file or none, also when the process is killed in the middle.

New content is first written into a folder of its own inside the repository, with the owner and mode that it shall
have. Then, file by file, what stands at the path is moved there too, and looked at: if it is not what the plan was
made for, everything goes back. Then the new content is put in place, and never over anything: whoever looks on, and
whoever comes after a kill, finds at most one file missing. Until the last file is in place, the record (see
`codeagent.applying.record`) says how to put everything back.
"""

from __future__ import annotations

import errno
import os
import posixpath
import secrets
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from codeagent.applying.moving import move, status
from codeagent.applying.plan import State, Write, is_folder, is_link, standing
from codeagent.applying.record import Folder, Record, RecordFile, Step, fingerprint
from codeagent.applying.undo import finish, put_back
from codeagent.beneath import NotBeneath, opened_parent

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
_KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access", "security.selinux")


class Changed(Exception):
    """Somebody else wrote to the repository at the same time; says where. Nothing was changed."""


class NotPutBack(Exception):
    """The write failed, and so did putting things back. `lines` say what is where."""

    def __init__(self, lines: Sequence[str]) -> None:
        super().__init__("; ".join(lines))
        self.lines = list(lines)


@dataclass(frozen=True, slots=True)
class _Like:
    """Whose owner and permissions a new file takes over; `file` tells that it replaces one."""

    status: os.stat_result
    file: bool


def write(
    root: int, writes: Sequence[Write], record_file: RecordFile, go_on: Callable[[], None] = lambda: None
) -> None:
    """Puts all of it in place. `go_on` is called between files, and stops the write by raising.

    Raises Changed, OSError or what `go_on` raises with everything as it was, NotPutBack with the record kept for the
    next try.
    """
    record = _record(root, writes)
    record_file.begin(record)
    try:
        _carry_out(root, writes, record, go_on)
        record_file.finish()
    except BaseException as error:
        if lost := put_back(root, record):
            raise NotPutBack(lost) from error
        record_file.clear()
        raise
    finish(root, record)
    record_file.clear()


def recover(root: int, record_file: RecordFile) -> str:
    """Ends what a killed process began: puts everything back, unless every file was in place.

    Returns what was done, in a sentence; empty when there was nothing to do. Raises NotPutBack.
    """
    record = record_file.read()
    if record is None or record.inode != os.fstat(root).st_ino:
        record_file.clear()
        return ""
    if record.done:
        finish(root, record)
    elif lost := put_back(root, record):
        raise NotPutBack(lost)
    record_file.clear()
    if record.done:
        return "An earlier `codeagent apply` was killed after its last file was in place; its leftovers are removed."
    return "An earlier `codeagent apply` was killed in the middle; what it had done was taken back."


# --- the steps -------------------------------------------------------------------------------------------


def _record(root: int, writes: Sequence[Write]) -> Record:
    steps = tuple(
        Step(
            one.path, None if one.content is None else fingerprint(one.content, is_link(one)), one.before is not None
        )
        for one in writes
    )
    removed = tuple(_making_way(root, writes))
    made = _missing_folders(root, writes)
    name = f".codeagent-{secrets.token_hex(8)}"
    return Record(os.fstat(root).st_ino, posixpath.join(_common_folder(root, writes), name), steps, made, removed)


def _common_folder(root: int, writes: Sequence[Write]) -> str:
    """The innermost folder that stands now, stays, and holds all paths: on one file system, as a rule."""
    folders = [posixpath.dirname(one.path) for one in writes]
    common = os.path.commonpath(folders) if all(folders) else ""
    while common and (not is_folder(root, common) or any(f"{common}/".startswith(f"{one.path}/") for one in writes)):
        common = posixpath.dirname(common)
    return common


def _missing_folders(root: int, writes: Sequence[Write]) -> tuple[str, ...]:
    wanted = {
        posixpath.dirname(one.path).rsplit("/", up)[0]
        for one in writes
        if one.content is not None
        for up in range(one.path.count("/"))
    }
    return tuple(sorted(folder for folder in wanted if folder and not is_folder(root, folder)))


def _making_way(root: int, writes: Sequence[Write]) -> Iterator[Folder]:
    """Folders that stand where a file shall be, the innermost first; the plan has seen to it that they get empty."""
    for one in writes:
        if one.content is not None and is_folder(root, one.path):
            yield from reversed(list(_folders_from(root, one.path)))


def _folders_from(root: int, path: str) -> Iterator[Folder]:
    with opened_parent(root, f"{path}/x") as (folder, _):
        found = os.fstat(folder)
        yield Folder(path, stat.S_IMODE(found.st_mode), found.st_uid, found.st_gid)
        with os.scandir(folder) as entries:
            inner = sorted(entry.name for entry in entries if entry.is_dir(follow_symlinks=False))
    for name in inner:
        yield from _folders_from(root, f"{path}/{name}")


def _carry_out(root: int, writes: Sequence[Write], record: Record, go_on: Callable[[], None]) -> None:
    with opened_parent(root, record.work) as (parent, name):
        os.mkdir(name, 0o700, dir_fd=parent)
    with opened_parent(root, f"{record.work}/x") as (work, _):
        likes = [_like(root, one.path) for one in writes]
        for number, (one, like) in enumerate(zip(writes, likes, strict=True)):
            if one.content is not None and not is_link(one):
                go_on()
                with _about(one.path):
                    _stage(root, work, f"new-{number}", one, like)
        first, then = _in_order(writes)
        for number in first:
            _exchange(root, work, number, writes[number], likes[number])
        for folder in record.removed:
            with _about(folder.path), opened_parent(root, folder.path) as (parent, name):
                os.rmdir(name, dir_fd=parent)
        for path in record.made:
            with _about(path):
                _make_folder(root, path)
        for number in then:
            go_on()
            _exchange(root, work, number, writes[number], likes[number])
        _check_kept(work, writes, likes)
    _settle(root, writes)


def _in_order(writes: Sequence[Write]) -> tuple[list[int], list[int]]:
    """What must go to make way for another path; then what is put in place, and last what only goes.

    A file makes way for a folder of its name, a folder for a file, and on some file systems a name for the same in
    another letter case.
    """
    wanted = {one.path.casefold() for one in writes if one.content is not None}
    taken = wanted | {"/".join(path.split("/")[:end]) for path in wanted for end in range(1, path.count("/") + 1)}
    first, placed, last = [], [], []
    for number, one in enumerate(writes):
        path = one.path.casefold()
        if one.content is not None:
            placed.append(number)
        elif path in taken or any(path[:at] in wanted for at, letter in enumerate(path) if letter == "/"):
            first.append(number)
        else:
            last.append(number)
    return first, placed + last


def _exchange(root: int, work: int, number: int, one: Write, like: _Like) -> None:
    with _about(one.path):
        if one.before is not None:
            _set_aside(root, work, f"old-{number}", one)
        if one.content is not None:
            _place(root, work, f"new-{number}", one, like)


@contextmanager
def _about(path: str) -> Iterator[None]:
    """An error of the file system names the path."""
    try:
        yield
    except NotBeneath:
        raise
    except OSError as error:
        raise OSError(error.errno, f"{path}: {error.strerror or error}") from error


def _like(root: int, path: str) -> _Like:
    """The file that stands there, else the innermost folder of the path that does."""
    with suppress(FileNotFoundError, NotBeneath), opened_parent(root, path) as (folder, name):
        found = status(folder, name)
        if found is not None and not stat.S_ISDIR(found.st_mode):
            return _Like(found, True)
    while path:
        path = posixpath.dirname(path)
        with suppress(FileNotFoundError, NotBeneath), opened_parent(root, f"{path}/x".lstrip("/")) as (folder, _):
            return _Like(os.fstat(folder), False)
    return _Like(os.fstat(root), False)


def _stage(root: int, work: int, staged: str, one: Write, like: _Like) -> None:
    """The new content under a name of its own, with the owner and mode that it shall have."""
    fd = os.open(staged, _NEW, 0o600, dir_fd=work)
    with os.fdopen(fd, "wb") as file:
        file.write(one.content or b"")
        file.flush()
        _own_like(work, staged, like.status)
        if like.file and os.fstat(fd).st_uid != like.status.st_uid:
            raise PermissionError(errno.EPERM, "it belongs to another user, and would not any more")
        if like.file and stat.S_ISREG(like.status.st_mode):
            _copy_attributes(root, one.path, fd)
        os.fchmod(fd, _permissions(one, like))
        os.fsync(fd)


def _permissions(one: Write, like: _Like) -> int:
    """Those that stand there, the executable bits as the patch wants them; never set-user-id and its like, which
    the kernel too takes from a file that is written."""
    wants_execution = one.mode is not None and bool(one.mode & 0o111)
    if not (like.file and stat.S_ISREG(like.status.st_mode)):
        mask = os.umask(0)
        os.umask(mask)
        return (0o777 if wants_execution else 0o666) & ~mask
    mode = stat.S_IMODE(like.status.st_mode) & 0o777
    if one.mode is None or wants_execution == bool(mode & 0o100):
        return mode
    return mode | (mode & 0o444) >> 2 if wants_execution else mode & ~0o111


def _own_like(folder: int, name: str, like: os.stat_result) -> None:
    status = os.stat(name, dir_fd=folder, follow_symlinks=False)
    if (status.st_uid, status.st_gid) != (like.st_uid, like.st_gid):
        with suppress(PermissionError):  # only root may give files away
            os.chown(name, like.st_uid, like.st_gid, dir_fd=folder, follow_symlinks=False)


def _copy_attributes(root: int, path: str, to: int) -> None:
    """Access lists and the user's own attributes, where the system and the file system know them."""
    if not hasattr(os, "listxattr"):
        return
    with suppress(OSError), opened_parent(root, path) as (folder, name):
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder)
        try:
            for attribute in os.listxattr(fd):
                if attribute.startswith(_KEPT_ATTRIBUTES):
                    with suppress(OSError):
                        os.setxattr(to, attribute, os.getxattr(fd, attribute))
        finally:
            os.close(fd)


def _set_aside(root: int, work: int, kept: str, one: Write) -> None:
    """Moves away what stands there, and looks at it then: nobody can change what is at the path any more."""
    try:
        with opened_parent(root, one.path) as (folder, name):
            os.rename(name, kept, src_dir_fd=folder, dst_dir_fd=work)
    except FileNotFoundError:
        raise Changed(f"{one.path} was deleted") from None
    if not _is(work, kept, one.before):
        raise Changed(f"{one.path} was changed")


def _is(folder: int, name: str, expected: State | None) -> bool:
    """Whether the content is the expected one; the permissions are the user's, and taken over as they are."""
    try:
        found = standing(folder, name)
    except NotBeneath:  # neither a file nor a link
        return False
    return (
        found is not None
        and expected is not None
        and (found.content, found.link) == (expected.content, expected.link)
    )


def _make_folder(root: int, path: str) -> None:
    with opened_parent(root, path) as (folder, name):
        try:
            os.mkdir(name, 0o777, dir_fd=folder)
        except FileExistsError:
            raise Changed(f"{path} appeared") from None
        _own_like(folder, name, os.fstat(folder))


def _place(root: int, work: int, staged: str, one: Write, like: _Like) -> None:
    """Puts the new file where nothing stands; whatever stands there stays."""
    with opened_parent(root, one.path) as (folder, name), _nothing_at(one.path):
        if is_link(one):
            os.symlink(os.fsdecode(one.content or b""), name, dir_fd=folder)
            _own_like(folder, name, like.status)
            return
        move(work, staged, folder, name)


@contextmanager
def _nothing_at(path: str) -> Iterator[None]:
    try:
        yield
    except FileExistsError:
        raise Changed(f"{path} appeared") from None


def _check_kept(work: int, writes: Sequence[Write], likes: Sequence[_Like]) -> None:
    """A program that had a file open may have written to it after it was looked at."""
    for number, (one, like) in enumerate(zip(writes, likes, strict=True)):
        if one.before is None:
            continue
        found = status(work, f"old-{number}")
        if found is None or (found.st_ino, found.st_size, found.st_mtime_ns, found.st_mode) != (
            like.status.st_ino,
            like.status.st_size,
            like.status.st_mtime_ns,
            like.status.st_mode,
        ):
            raise Changed(f"{one.path} was changed")


def _settle(root: int, writes: Sequence[Write]) -> None:
    """Brings what was moved to the disk, where the file system can be asked for that."""
    for folder in {posixpath.dirname(one.path) for one in writes}:
        with suppress(OSError), opened_parent(root, f"{folder}/x".lstrip("/")) as (opened, _):
            os.fsync(opened)
