"""The host's own tree, looked at before and after, to show that nothing was written to it."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Mapping
from contextlib import nullcontext, suppress
from dataclasses import dataclass
from pathlib import Path

from codeagent.agent.interrupts import Interrupts
from codeagent.errors import Interrupted
from codeagent.sandbox.seam import Steps
from codeagent.verification.record import Repository

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
_MOST_NAMED = 20
STEP_ENTRIES = 2_000
"""Progress is told each time that so many more were looked at: 10 ms from memory, 0.1 s from a cold disk."""
_LOOKING = "verifying: looking at your repository"


def _untold(_what: str, _done: int, _total: int) -> None:
    return None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every entry below a folder but what lies in a `.git`, with facts that no write leaves as they were."""

    facts: Mapping[bytes, bytes]

    @classmethod
    def of(cls, repo: Path, steps: Steps = _untold, expected: int = 0) -> Snapshot:
        """Raises no OSError: what cannot be listed is not in it. `expected` is about how many entries there are."""
        try:
            top = os.open(repo, _FOLDER)
        except OSError:
            return cls({})
        facts: dict[bytes, bytes] = {}
        try:
            for path, seen in _walk(top, b""):
                facts[path] = seen
                if len(facts) % STEP_ENTRIES == 0:
                    steps(_LOOKING, len(facts), expected if len(facts) <= expected else 0)
        finally:
            os.close(top)
            if len(facts) >= STEP_ENTRIES:
                steps("", 0, 0)
        return cls(facts)

    @property
    def sha256(self) -> str:
        """One hash (hexadecimal) over all paths, types, permissions, owners, inodes, sizes and times of change."""
        whole = hashlib.sha256()
        for path in sorted(self.facts):
            whole.update(b"%s\0%s\0" % (path, self.facts[path]))
        return whole.hexdigest()

    def compared(self, later: Snapshot) -> Repository:
        """Both hashes, and the first paths in which the two differ."""
        paths = self.facts.keys() | later.facts.keys()
        changed = sorted(path for path in paths if self.facts.get(path) != later.facts.get(path))
        return Repository(self.sha256, later.sha256, tuple(os.fsdecode(path) for path in changed[:_MOST_NAMED]))


def compare(before: Snapshot, repo: Path, steps: Steps, interrupts: Interrupts) -> Repository:
    """What became of the tree since. A signal meanwhile leaves it out: the verification itself is over by then."""
    try:
        # A signal that came before has ended a run. That run's record says all the more what became of the tree.
        with nullcontext() if interrupts.pending else interrupts.waiting():
            return before.compared(Snapshot.of(repo, steps, len(before.facts)))
    except Interrupted:
        return Repository()


def _walk(folder: int, path: bytes) -> Iterator[tuple[bytes, bytes]]:
    with os.scandir(folder) as entries:
        names = [os.fsencode(entry.name) for entry in entries]
    for name in names:
        if name == b".git":
            continue
        inner = path + b"/" + name if path else name
        with suppress(OSError):  # gone meanwhile, or closed to us: then it is closed to our writes too
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
            is_folder = stat.S_ISDIR(found.st_mode)
            # A folder's own times change with whatever is made and removed in it, which shows by itself.
            times = () if is_folder else (found.st_size, found.st_mtime_ns, found.st_ctime_ns)
            facts = (found.st_mode, found.st_uid, found.st_gid, found.st_ino, *times)
            yield inner, " ".join(map(str, facts)).encode("ascii")
            if is_folder:
                below = os.open(name, _FOLDER, dir_fd=folder)
                try:
                    yield from _walk(below, inner)
                finally:
                    os.close(below)
