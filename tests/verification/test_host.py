"""The host's own tree before and after: what a write leaves, and what leaves nothing."""

from __future__ import annotations

import os
from pathlib import Path

from codeagent.verification.host import Snapshot


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
