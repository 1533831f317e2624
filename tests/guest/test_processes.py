"""Finding and ending everything that a process started, tried on real processes."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

PREPARE = """
import os, subprocess, sys, time
sys.path.insert(0, sys.argv[1])
from guest import processes, syscalls
syscalls.prctl(syscalls.PR_SET_CHILD_SUBREAPER, 1)
subprocess.Popen(["sh", "-c", sys.argv[2]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
until = time.monotonic() + 30
while len(found := processes.descendants(os.getpid())) < int(sys.argv[3]) and time.monotonic() < until:
    time.sleep(0.01)
processes.end_all()
left = processes.descendants(os.getpid())
print(len(found), not any(os.path.exists(f"/proc/{pid}") for pid in found), left)
"""


def ended(script: str, count: int) -> str:
    """Ends what a script started as soon as it is so many processes: how many, whether all are gone, what is left."""
    sandbox = Path(__file__).parents[2] / "sandbox"
    program = [sys.executable, "-c", textwrap.dedent(PREPARE), str(sandbox), script, str(count)]
    return subprocess.run(program, capture_output=True, text=True, check=True, timeout=60).stdout.strip()


@pytest.mark.parametrize(
    ("script", "count"),
    [
        ("exec sleep 300", 1),
        ("sleep 300 & sleep 300 & wait", 3),
        ("setsid sh -c 'sleep 300 & wait' & exit", 2),
        ("(setsid nohup sleep 300 &)", 1),
        ("setsid -f env -i sleep 300", 1),
        ("trap '' TERM HUP INT; sleep 300 & wait", 2),
        ("exec sh -c 'kill -STOP $$'", 1),
    ],
)
def test_whatever_a_process_started_is_found_and_ended(script: str, count: int) -> None:
    found, all_ended, left = ended(script, count).split(" ", 2)
    assert (int(found) >= count, all_ended, left) == (True, "True", "set()")


def test_what_forks_faster_than_it_is_killed_is_ended() -> None:
    assert ended("while :; do sleep 0.01 & done", 20).endswith(" set()")


def test_nothing_to_end_ends_at_once() -> None:
    assert ended("true", 0).endswith("True set()")
