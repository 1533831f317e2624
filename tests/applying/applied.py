"""Applies diffs to small trees on the disk, and says what stands there afterwards."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from guest.patching import Side, file_patch

from codeagent.applying.plan import Plan, plan
from codeagent.applying.record import RecordFile, locked
from codeagent.applying.write import recover, write
from codeagent.beneath import opened_root
from codeagent.patches import parse, reverse

Tree = dict[str, tuple[int, bytes]]
"""Files and links by path: git's mode, and the content or the link's target."""


def tree(top: Path) -> Tree:
    """What git would see, and each folder that holds nothing (as `path/`)."""
    found: Tree = {}
    for path in sorted(top.rglob("*")):
        mode = path.lstat().st_mode
        name = str(path.relative_to(top))
        if stat.S_ISLNK(mode):
            found[name] = 0o120000, os.fsencode(path.readlink())
        elif stat.S_ISREG(mode):
            found[name] = 0o100755 if mode & 0o100 else 0o100644, path.read_bytes()
        elif not any(path.iterdir()):
            found[f"{name}/"] = 0o40000, b""
    return found


def make(top: Path, wanted: Tree) -> Path:
    top.mkdir(parents=True)
    put(top, wanted)
    return top


def put(top: Path, wanted: Tree) -> None:
    """Writes files and links, in the place of those that stand there."""
    for name, (mode, content) in wanted.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.unlink(missing_ok=True)
        if mode == 0o120000:
            path.symlink_to(os.fsdecode(content))
        else:
            path.write_bytes(content)
            path.chmod(mode & 0o777)


def patch_between(old: Tree, new: Tree) -> bytes:
    """The diff of two trees, as the private copy's diff writes it."""
    parts: list[bytes] = []
    for path in sorted({*old, *new}, key=os.fsencode):
        before, after = (Side(*side[path]) if path in side else None for side in (old, new))
        parts += file_patch(os.fsencode(path), before, after)
    return b"".join(parts)


def planned(repo: Path, patch: bytes, *, merge: bool = False, back: bool = False, bases: Path | None = None) -> Plan:
    patches = [reverse(each) for each in reversed(parse(patch))] if back else parse(patch)
    with opened_root(repo) as root:
        return plan(root, patches, merge=merge, bases=bases)


def applied(
    repo: Path, patch: bytes, *, merge: bool = False, back: bool = False, bases: Path | None = None
) -> dict[str, str]:
    """The conflicts; without any, the change is written."""
    made = planned(repo, patch, merge=merge, back=back, bases=bases)
    if made.writes and not made.conflicts:
        carry_out(repo, made)
    return made.conflicts


def carry_out(repo: Path, made: Plan) -> None:
    with record_of(repo) as record, opened_root(repo) as root:
        write(root, made.writes, record)


def recovered(repo: Path) -> str:
    with record_of(repo) as record, opened_root(repo) as root:
        return recover(root, record)


@contextmanager
def record_of(repo: Path) -> Iterator[RecordFile]:
    with locked(repo.with_name("state"), repo) as record:
        yield record
