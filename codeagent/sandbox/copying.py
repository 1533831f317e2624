"""The private copy, as the host asks guests for it: made, written to, compared, kept up with the user's own edits."""

from __future__ import annotations

import json
import os
import re
import stat
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.files import Calls
from codeagent.sandbox.protected import Regex
from codeagent.sandbox.seam import Diff, FileChange, Steps

SOURCE, BASELINE = "source", "baseline"
"""The names of the two folders beside the copy, as the guest knows them."""
MAX_SYNCHRONISED = 16 << 20
WHAT = "copying the repository"


@dataclass(frozen=True, slots=True)
class Plan:
    """`limit` in bytes; `exclude` as regular expressions; `replaced` texts by path; `emptied` folders, by path.

    `texts` and `links` are written beside the baseline, by path.
    """

    limit: int
    exclude: Sequence[Regex] = ()
    replaced: Mapping[str, str] = field(default_factory=dict)
    emptied: Sequence[str] = ()
    texts: Mapping[str, str] = field(default_factory=dict)
    links: Mapping[str, str] = field(default_factory=dict)


class Edit(StrEnum):
    """What became of an edit of the user's: it is in the copy now, was already, is what the copy was made from, has
    no place in it, or clashes."""

    SYNCED = "synced"
    SAME = "same"
    UNCHANGED = "unchanged"
    IGNORED = "ignored"
    CONFLICT = "conflict"


def fill(channel: Calls, plan: Plan, steps: Steps) -> str:
    """Makes the copy inside the container; what must be said of it, or "". `steps` counts bytes.

    ToolError(too_large) before anything is written.
    """
    given = {
        "limit": plan.limit,
        "exclude": list(plan.exclude),
        "replaced": dict(plan.replaced),
        "emptied": list(plan.emptied),
        "texts": dict(plan.texts),
        "links": dict(plan.links),
    }
    progress = _Progress(steps)
    fields, _ = channel.call("copy", {}, json.dumps(given).encode("ascii"), progress.take)
    skipped = fields.get("skipped")
    if not isinstance(skipped, int) or not skipped:
        return ""
    entries = "1 entry was" if skipped == 1 else f"{skipped:,} entries were"
    return f"{entries} left out of the private copy (closed to the repository's owner, sockets, devices)"


class _Progress:
    """Takes the guest's lines, cut anywhere."""

    def __init__(self, steps: Steps) -> None:
        self._steps = steps
        self._rest = b""

    def take(self, piece: bytes) -> None:
        *lines, self._rest = (self._rest + piece).split(b"\n")
        for line in lines[-1:]:
            files, size, all_files, all_bytes = map(int, json.loads(line))
            self._steps(f"{WHAT} ({files:,} of {all_files:,} files)", size, all_bytes)


def store(channel: Calls, changes: Sequence[FileChange]) -> None:
    """Writes into the copy, all or nothing."""
    channel.call("store", {}, _packed(changes))


def diff(channel: Calls, hash_name: str = "sha1") -> Diff:
    """What changed in the copy since it was made."""
    _, body = channel.call("diff", {"hash": hash_name})
    head, _, patch = body.partition(b"\n")
    try:
        found = json.loads(head)
        paths, notes, ignored = found["paths"], found["notes"], found["ignored"]
        if not all(isinstance(text, str) for text in (*paths, *notes)) or type(ignored) is not int:
            raise ValueError
    except (ValueError, KeyError, TypeError, RecursionError):
        raise ToolError(ErrorKind.SANDBOX_FAILED, "the container gave an answer that makes no sense") from None
    return Diff(patch=patch, paths=tuple(paths), ignored=ignored, notes=tuple(notes))


def tree_hash(channel: Calls) -> str:
    """One hash over everything in the copy that `diff` compares (see `sandbox/guest/diffing.py`)."""
    fields, _ = channel.call("tree_hash", {})
    found = fields.get("sha256")
    if not isinstance(found, str) or not re.fullmatch("[0-9a-f]{64}", found):
        raise ToolError(ErrorKind.SANDBOX_FAILED, "the container gave an answer that makes no sense")
    return found


def sync(channel: Calls, change: FileChange) -> Edit:
    """Brings one edit of the user's into the copy, unless the agent has changed the same file."""
    fields, _ = channel.call("sync", {}, _packed([change]))
    try:
        return Edit(str(fields.get("state")))
    except ValueError:
        raise ToolError(ErrorKind.SANDBOX_FAILED, "the container gave an answer that makes no sense") from None


def host_edit(repo: Path, path: str) -> FileChange | None:
    """The file as it stands on the host now; None when it is no regular file of at most 16 MiB, or lies outside."""
    try:
        file = os.open(repo / path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except FileNotFoundError:
        return FileChange(path, None)
    except OSError:
        return None
    with os.fdopen(file, "rb") as opened:
        found = os.fstat(opened.fileno())
        if not stat.S_ISREG(found.st_mode) or found.st_size > MAX_SYNCHRONISED:
            return None
        if not (repo / path).resolve().is_relative_to(repo.resolve()):
            return None
        return FileChange(path, opened.read(MAX_SYNCHRONISED), stat.S_IMODE(found.st_mode))


def _packed(changes: Sequence[FileChange]) -> bytes:
    heads = [
        [change.path, None if change.content is None else len(change.content), change.mode, change.mode_of]
        for change in changes
    ]
    return json.dumps(heads).encode("ascii") + b"\n" + b"".join(change.content or b"" for change in changes)
