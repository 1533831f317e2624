"""Reading the kernel's counters, in both versions of control groups."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest.limits import Counters, Counts, Quota


def test_version_1_counts_kills_in_oom_control(tmp_path: Path) -> None:
    memory, pids = tmp_path / "memory.oom_control", tmp_path / "pids.events"
    memory.write_text("oom_kill_disable 0\nunder_oom 0\noom_kill 3\n")
    pids.write_text("max 7\n")
    assert Counters((str(tmp_path / "missing"), str(memory)), (str(pids),)).read() == Counts(3, 7)


def test_version_2_counts_kills_in_memory_events(tmp_path: Path) -> None:
    memory = tmp_path / "memory.events"
    memory.write_text("low 0\nhigh 0\nmax 40\noom 2\noom_kill 1\noom_group_kill 0\n")
    assert Counters((str(memory),), ()).read() == Counts(1, 0)


def test_without_counters_nothing_is_counted(tmp_path: Path) -> None:
    assert Counters((str(tmp_path / "none"),), (str(tmp_path / "none"),)).read() == Counts(0, 0)


def test_a_quota_is_exceeded_by_what_is_written_after_it_was_set(tmp_path: Path) -> None:
    quota = Quota(str(tmp_path), 8 << 20)
    assert not quota.exceeded(1.0)
    (tmp_path / "big").write_bytes(b"x" * (64 << 20))
    assert not quota.exceeded(1.1), "it looks only every quarter of a second"
    assert quota.exceeded(2.0)


@pytest.mark.parametrize(
    ("memory", "pids"),
    [
        ("under_oom 0\noom_kill {}\n", "max {}\n"),
        ("low 0\nhigh 0\nmax 40\noom 2\noom_kill {}\noom_group_kill 0\n", "max {}\n"),
    ],
    ids=["version 1", "version 2"],
)
def test_the_same_counters_are_read_before_and_after_a_command(tmp_path: Path, memory: str, pids: str) -> None:
    memory_file, pids_file = tmp_path / "memory", tmp_path / "pids"
    memory_file.write_text(memory.format(1))
    pids_file.write_text(pids.format(4))
    counters = Counters((str(memory_file),), (str(pids_file),))
    assert counters.read() == Counts(1, 4)
    memory_file.write_text(memory.format(3))
    pids_file.write_text(pids.format(9))
    assert counters.read() == Counts(3, 9)
