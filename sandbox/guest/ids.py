"""Who the guest is, and who a command becomes.

The guest keeps the effective ids of the repository's owner, to see files with the owner's rights, and other real
and saved ids, so that commands (all three ids the owner's) may neither signal, trace, limit nor slow it. Changing
ids also makes it non-dumpable, which closes its /proc entries. Of capabilities the container has SETUID and SETGID
only, and no command keeps them.
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


def prepare_command(owner: Owner) -> None:
    """In a forked child: makes it, and the command that it becomes, the first to be killed when memory is short.

    It keeps the guest's ids and its capabilities: without them, other commands could slow it.
    """
    os.seteuid(0 if owner.uid else owner.uid)
    score = os.open("/proc/self/oom_score_adj", os.O_WRONLY | os.O_CLOEXEC)
    os.write(score, OOM_SCORE)
    os.close(score)
    os.seteuid(owner.uid)
    syscalls.prctl(syscalls.PR_SET_DUMPABLE, 0)


def become_command(owner: Owner) -> None:
    """Just before exec: the owner's ids in all places, no capability."""
    os.setresgid(owner.gid, owner.gid, owner.gid)
    os.setresuid(owner.uid, owner.uid, owner.uid)
    # For uid 0 the id change keeps the capabilities; for others this finds nothing left to drop.
    syscalls.drop_capabilities()
