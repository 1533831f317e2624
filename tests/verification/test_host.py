"""The host's own tree before and after: what a write leaves, and what leaves nothing."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from codeagent.agent.interrupts import Interrupts
from codeagent.errors import Interrupted
from codeagent.verification import host
from codeagent.verification.host import Snapshot, compare
from codeagent.verification.record import Repository


def test_a_tree_that_was_only_read_is_the_same(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("one")
    (tmp_path / ".git").mkdir()
    before = Snapshot.of(tmp_path)
    (tmp_path / "a.txt").read_text()
    (tmp_path / ".git/index").write_text("refreshed")
    compared = before.compared(Snapshot.of(tmp_path))
    assert compared.before == compared.after and compared.changed == () and len(compared.before) == 64


def test_every_kind_of_write_shows_and_is_named(tmp_path: Path) -> None:
    (tmp_path / "sub").mkdir()
    for name in ("content", "mode", "gone", "sub/moved"):
        (tmp_path / name).write_text("one")
    before = Snapshot.of(tmp_path)
    times = (tmp_path / "content").stat()
    (tmp_path / "content").write_text("two")
    os.utime(tmp_path / "content", ns=(times.st_atime_ns, times.st_mtime_ns))  # the time of change cannot be set back
    (tmp_path / "mode").chmod(0o600)
    (tmp_path / "gone").unlink()
    (tmp_path / "sub/moved").rename(tmp_path / "sub/there")
    (tmp_path / "new").symlink_to("content")
    compared = before.compared(Snapshot.of(tmp_path))
    assert compared.before != compared.after
    assert compared.changed == ("content", "gone", "mode", "new", "sub/moved", "sub/there")


def test_a_folder_that_is_not_there_is_empty(tmp_path: Path) -> None:
    assert Snapshot.of(tmp_path / "no").facts == {}


STEP_ENTRIES = 20


@pytest.fixture
def large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """More than two steps of entries."""
    monkeypatch.setattr(host, "STEP_ENTRIES", STEP_ENTRIES)
    for folder in ("a", "b"):
        (tmp_path / folder).mkdir()
        for number in range(STEP_ENTRIES):
            (tmp_path / folder / str(number)).touch()
    return tmp_path


def descriptors() -> int:
    return sum(1 for _ in Path("/proc/self/fd").iterdir())


def interrupt(what: str, _done: int, _total: int) -> None:
    if what:
        os.kill(os.getpid(), signal.SIGINT)


def test_a_large_tree_tells_how_far_it_is_and_when_it_is_over(large: Path) -> None:
    told: list[tuple[str, int, int]] = []
    before = Snapshot.of(large, lambda *step: told.append(step))
    what = "verifying: looking at your repository"
    assert told == [(what, STEP_ENTRIES, 0), (what, 2 * STEP_ENTRIES, 0), ("", 0, 0)]
    told.clear()
    compare(before, large, lambda *step: told.append(step), Interrupts())
    total = 2 * STEP_ENTRIES + 2
    assert told == [(what, STEP_ENTRIES, total), (what, 2 * STEP_ENTRIES, total), ("", 0, 0)]


def test_a_small_tree_tells_nothing(tmp_path: Path) -> None:
    (tmp_path / "a").touch()
    told: list[tuple[str, int, int]] = []
    Snapshot.of(tmp_path, lambda *step: told.append(step))
    assert told == []


def test_a_signal_ends_the_look_before_at_once(large: Path) -> None:
    open_before = descriptors()
    done: list[int] = []

    def steps(what: str, number: int, total: int) -> None:
        done.append(number)
        interrupt(what, number, total)

    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.waiting():
        Snapshot.of(large, steps)
    assert done == [STEP_ENTRIES, 0] and descriptors() == open_before


def test_a_signal_during_the_look_after_leaves_the_comparison_out(large: Path) -> None:
    before = Snapshot.of(large)
    open_before = descriptors()
    with Interrupts() as interrupts:
        assert compare(before, large, interrupt, interrupts) == Repository()
        assert interrupts.pending
    assert descriptors() == open_before


def test_a_run_that_a_signal_ended_has_its_comparison(tmp_path: Path) -> None:
    before = Snapshot.of(tmp_path)
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        compared = compare(before, tmp_path, lambda *_: None, interrupts)
    assert compared == Repository(before.sha256, before.sha256, ())
