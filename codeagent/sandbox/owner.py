"""Which process a container or volume belongs to, so that what it leaves behind can be told from what is in use.

Only proof counts: the same machine and the same pid namespace in the same boot, and no such process any more; or
the same machine in an earlier boot. Anything else (another machine that uses the same engine) is left alone.
"""

from __future__ import annotations

import hashlib
import os
import platform
import uuid
from dataclasses import dataclass
from pathlib import Path

SESSION_LABEL = "codeagent.session"
ROLE_LABEL = "codeagent.role"
OWNER_LABEL = "codeagent.owner"
UNFINISHED = "unfinished_"


@dataclass(frozen=True, slots=True)
class Owner:
    """`started` is the process's start in the kernel's words, empty where the system does not tell."""

    machine: str
    boot: str
    namespace: str
    pid: int
    started: str

    @classmethod
    def current(cls) -> Owner:
        machine = _text("/etc/machine-id") or f"{platform.node()}/{uuid.getnode():x}"
        return cls(
            machine=hashlib.sha256(f"codeagent {machine}".encode()).hexdigest()[:16],
            boot=_text("/proc/sys/kernel/random/boot_id"),
            namespace=_namespace(),
            pid=os.getpid(),
            started=_started(os.getpid()),
        )

    def label(self) -> str:
        return "/".join((self.machine, self.boot, self.namespace, str(self.pid), self.started))

    def tag(self) -> str:
        """For an image that is not finished: the label in characters that an image's tag may have."""
        return UNFINISHED + self.label().replace("/", "_")


def label_of(tag: str) -> str | None:
    """The owner's label that such a tag holds, None for any other tag."""
    return tag.removeprefix(UNFINISHED).replace("_", "/") if tag.startswith(UNFINISHED) else None


def is_gone(label: str, here: Owner) -> bool:
    """Whether the owner that the label names has provably ended. `here` is the asking process."""
    fields = label.split("/")
    if len(fields) != 5 or fields[0] != here.machine:
        return False
    if fields[1] != here.boot:
        return True
    return fields[2] == here.namespace and fields[3].isdigit() and not _runs(int(fields[3]), fields[4])


def _runs(pid: int, started: str) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:
        pass  # somebody else's
    return not started or _started(pid) in ("", started)


def _namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink()).removeprefix("pid:[").removesuffix("]")
    except OSError:
        return ""


def _started(pid: int) -> str:
    stat = _text(f"/proc/{pid}/stat")
    # The name in parentheses may hold anything; field 22 is the start in ticks since boot.
    return stat.rpartition(")")[2].split()[19] if stat else ""


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
