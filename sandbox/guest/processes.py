"""Finding and ending everything that a command started, however it detached.

The supervisor is its command's subreaper: an orphan anywhere below it becomes its child, so a walk over parents
finds all of them, double forks and new sessions included, and ECHILD from waitpid is the proof that none is left.
"""

from __future__ import annotations

import os
import signal
from collections import defaultdict


def descendants(ancestor: int) -> set[int]:
    """The pids of all processes below `ancestor`, zombies included."""
    children: dict[int, list[int]] = defaultdict(list)
    for name in os.listdir("/proc"):
        if name.isdigit() and (parent := _parent(name)) is not None:
            children[parent].append(int(name))
    found: set[int] = set()
    waiting = [ancestor]
    while waiting:
        for child in children.get(waiting.pop(), ()):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def _parent(pid: str) -> int | None:
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            stat = file.read()
    except OSError:
        return None
    # The name in parentheses may hold anything, parentheses and spaces too.
    return int(stat[stat.rindex(b")") + 2 :].split()[1])


def send_signal(pid: int, number: signal.Signals) -> None:
    """Signals a process that may be gone already."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        pass
    except PermissionError:
        # A fork caught between taking the supervisor's ids and giving them up; the next walk finds it again.
        pass


def reap() -> tuple[dict[int, int], bool]:
    """Collects what has ended: the wait statuses by pid, and whether any child is left."""
    ended: dict[int, int] = {}
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended, False
        if pid == 0:
            return ended, True
        ended[pid] = status


def end_all() -> dict[int, int]:
    """Ends every descendant of the calling process; the wait statuses of those that it reaped, by pid.

    Stopping first keeps a process that forks faster than it is killed from getting away.
    """
    me = os.getpid()
    stopped: set[int] = set()
    ended: dict[int, int] = {}
    while new := descendants(me) - stopped:
        for pid in new:
            send_signal(pid, signal.SIGSTOP)
        stopped |= new
    while True:
        for pid in descendants(me):
            send_signal(pid, signal.SIGKILL)
        statuses, left = reap()
        ended |= statuses
        if not left:
            return ended
        # What was killed is not gone at once; wait for one, then look again.
        try:
            pid, status = os.waitpid(-1, 0)
        except ChildProcessError:
            return ended
        ended[pid] = status
