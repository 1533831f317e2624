"""Who the guest is, and who a command becomes.

The guest keeps the effective ids of the repository's owner, to see files with the owner's rights, and other real
and saved ids, so that commands (all three ids the owner's) may neither signal, trace, limit nor slow it. Changing
ids also makes it non-dumpable, which closes its /proc entries. Of capabilities the container has SETUID and SETGID
only. The guest keeps them, since who has fewer capabilities than it may not slow it; no command does.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from guest import syscalls

OVERFLOW = 65533
"""Real and saved id of the guest when the owner is root; no file in an image belongs to it."""
OOM_SCORE = b"900"


@dataclass(frozen=True, slots=True)
class Owner:
    uid: int
    gid: int


def become_guest(owner: Owner) -> None:
    """Gives up everything but the owner's rights and the way to become the owner."""
    real_uid = 0 if owner.uid else OVERFLOW
    real_gid = 0 if owner.gid else OVERFLOW
    os.setgroups([])
    os.setresgid(real_gid, owner.gid, real_gid)
    os.setresuid(real_uid, owner.uid, real_uid)
    # The kernel did that already where fs.suid_dumpable is 0, its default.
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)


class KilledFirst:
    """Processes that are started within are the kernel's first choice when memory is short; so are their children.

    Set by the process that starts them: they have no rights to their own file any more when they could.
    """

    def __init__(self, owner: Owner) -> None:
        os.seteuid(0 if owner.uid else owner.uid)
        self._file = os.open("/proc/self/oom_score_adj", os.O_RDWR | os.O_CLOEXEC)
        os.seteuid(owner.uid)
        syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)
        self._own = os.read(self._file, 16)

    def __enter__(self) -> None:
        os.pwrite(self._file, OOM_SCORE, 0)

    def __exit__(self, *_: object) -> None:
        os.pwrite(self._file, self._own, 0)
