"""The real repository is read without ever leaving it, waiting, or opening what is protected."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from codeagent.evidence.host import MAX_READ, HostTree


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "repo"
    (root / "sub/deep").mkdir(parents=True)
    (tmp_path / "outside.txt").write_text("outside")
    (root / "a.txt").write_text("inside")
    (root / "sub/deep/b.txt").write_text("deep")
    (root / ".env").write_text("KEY=1")
    return root


@pytest.fixture
def tree(root: Path) -> Iterator[HostTree]:
    with HostTree(root, lambda path: path.rpartition("/")[2] == ".env") as opened:
        yield opened


def text(tree: HostTree, path: str) -> str | None:
    found = tree.read(path)
    return found[0].decode() if found else None


def test_files_and_links_that_stay_inside_are_read(root: Path, tree: HostTree) -> None:
    (root / "link.txt").symlink_to("sub/deep/b.txt")
    (root / "sub/up.txt").symlink_to("../a.txt")
    (root / "folder").symlink_to("sub/deep")
    paths = ("a.txt", "./sub//deep/b.txt", "link.txt", "sub/up.txt", "folder/b.txt")
    assert [text(tree, path) for path in paths] == ["inside", "deep", "deep", "inside", "deep"]
    assert text(tree, "folder/../a.txt") is None  # as the system reads it: sub/a.txt
    assert text(tree, "sub/deep/../../a.txt") == "inside"


def test_nothing_outside_is_read_by_any_route(root: Path, tree: HostTree) -> None:
    (root / "absolute").symlink_to(root.parent / "outside.txt")
    (root / "relative").symlink_to("../outside.txt")
    (root / "parent").symlink_to("..")
    (root / "loop").symlink_to("loop")
    (root / "chain").symlink_to("sub/chain")
    (root / "sub/chain").symlink_to("../../outside.txt")
    for path in (
        "absolute",
        "relative",
        "parent/outside.txt",
        "loop",
        "chain",
        "../outside.txt",
        "sub/../../outside.txt",
    ):
        assert tree.read(path) is None
        assert tree.signature(path) is None
    for path in (str(root / "a.txt"), "", ".", "a\0b", "sub", "nonesuch", "a.txt/x", "x" * 5000):
        assert tree.read(path) is None


def test_protected_files_are_not_opened_under_any_name(root: Path, tree: HostTree) -> None:
    (root / "harmless").symlink_to(".env")
    (root / "sub/.env").write_text("KEY=2")
    assert [tree.read(path) for path in (".env", "harmless", "sub/.env", "sub/../.env")] == [None] * 4


def test_what_is_no_regular_file_is_refused_at_once(root: Path, tree: HostTree) -> None:
    os.mkfifo(root / "fifo")
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(root / "socket"))
    (root / "null").symlink_to("/dev/null")
    try:
        assert [tree.read(path) for path in ("fifo", "socket", "null", "sub")] == [None] * 4
    finally:
        server.close()


def test_size_is_bounded(root: Path, tree: HostTree) -> None:
    with (root / "big").open("wb") as stream:
        stream.truncate(100 << 30)
    with (root / "just").open("wb") as stream:
        stream.truncate(MAX_READ)
    assert tree.read("big") is None
    assert tree.signature("big") is not None
    found = tree.read("just")
    assert found is not None and len(found[0]) == MAX_READ


def test_a_file_swapped_for_a_link_all_the_time_never_leads_out(root: Path, tree: HostTree) -> None:
    stop = threading.Event()

    def swap() -> None:
        while not stop.is_set():
            (root / "new").write_text("inside")
            (root / "new").rename(root / "swapped")
            (root / "new").symlink_to("../outside.txt")
            (root / "new").rename(root / "swapped")

    thread = threading.Thread(target=swap)
    thread.start()
    try:
        seen: set[str | None] = set()
        deadline = time.monotonic() + 60
        for number in count():
            seen.add(text(tree, "swapped"))
            if (number > 2_000 and {"inside", None} <= seen) or time.monotonic() > deadline:
                break
    finally:
        stop.set()
        thread.join()
    assert {"inside", None} <= seen <= {"inside", "", None}


def test_no_descriptor_stays_open(root: Path, tree: HostTree) -> None:
    def opened() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    before = opened()
    for path in ("a.txt", "nonesuch", "sub/deep/b.txt", "..", "sub", ".env", "a.txt/x"):
        tree.read(path)
        tree.signature(path)
    assert opened() == before


def test_the_folder_of_a_file_is_watched_only_inside(root: Path, tree: HostTree) -> None:
    (root / "out").symlink_to("..")
    assert tree.folder("sub/deep") == root / "sub/deep"
    assert tree.folder("") == root
    assert tree.folder("out") is None
