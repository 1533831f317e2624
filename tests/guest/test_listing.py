"""list_dir inside the guest, on real trees."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest
from guest.listing import list_dir
from guest.operations import Refusal
from guest.protection import Protection
from guest.tree import Git, Tree
from guest.wildmatch import name_regex, path_regex

from tests.clocks import processor_time_below
from tests.guest.trees import git, opened, write


def page(tree: Tree, path: str = ".", depth: int = 1, offset: int = 0) -> tuple[dict[str, Any], list[list[Any]]]:
    fields, body = list_dir(tree, path, depth, offset)
    assert isinstance(body, bytes)
    return fields, json.loads(body)


def names(top: Path, path: str = ".", depth: int = 1) -> list[str]:
    with opened(top) as tree:
        return [entry[0] for entry in page(tree, path, depth)[1]]


def test_folders_come_first_with_kind_and_size(tmp_path: Path) -> None:
    write(tmp_path, {"b/x": "", "a.py": "12345", "a/y/z": "1"})
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "up").symlink_to("..")
    (tmp_path / "loop").symlink_to(".")
    with opened(tmp_path) as tree:
        fields, entries = page(tree, ".", 3)
    assert fields == {"path": "", "offset": 0, "total": 9, "ignored": 0, "counted": True, "notes": []}
    assert entries == [
        ["a", "directory", None, None, False],
        ["a/y", "directory", None, None, False],
        ["a/y/z", "file", 1, None, False],
        ["b", "directory", None, None, False],
        ["b/x", "file", 0, None, False],
        ["a.py", "file", 5, None, False],
        ["loop", "symlink", None, ".", False],
        ["pipe", "other", None, None, False],
        ["up", "symlink", None, "..", False],
    ]


def test_an_ignored_folder_counts_as_one_and_is_not_entered(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(
        tmp_path,
        {".gitignore": "build\n*.o\n!build/keep.log\n", "build/keep.log": "", "build/a": "", "x.o": "", "x.c": ""},
    )
    with opened(tmp_path) as tree:
        fields, entries = page(tree, ".", 5)
        assert [entry[0] for entry in entries] == [".gitignore", "x.c"]
        assert (fields["total"], fields["ignored"]) == (2, 2)
        fields, entries = page(tree, "build")
        assert [entry[0] for entry in entries] == ["a", "keep.log"]
        assert fields["notes"] == ["git ignores this folder; all that is in it is shown"]


def test_tracked_files_are_shown_in_an_ignored_folder(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {".gitignore": "build/\n", "build/x.py": "", "build/y.o": "", "build/deep/z.py": ""})
    git(tmp_path, "add", "-f", "build/x.py")
    with opened(tmp_path) as tree:
        fields, entries = page(tree, "build")
    assert ([entry[0] for entry in entries], fields["ignored"], fields["notes"]) == (["x.py"], 2, [])
    assert names(tmp_path, ".", 3) == ["build", "build/x.py", ".gitignore"]


def test_a_repository_inside_has_its_own_rules(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(
        tmp_path,
        {".gitignore": "*.log\n", "inner/a.log": "", "inner/b.tmp": "", "inner/.gitignore": "*.tmp\n", "c.log": ""},
    )
    git(tmp_path / "inner", "init", "-q")
    assert names(tmp_path, ".", 2) == ["inner", "inner/.gitignore", "inner/a.log", ".gitignore"]


def test_rules_and_index_above_a_mounted_sub_folder_hold(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(
        tmp_path, {".gitignore": "*.log\n/sub/out\n", "sub/a.log": "", "sub/b.log": "", "sub/out/x": "", "sub/c": ""}
    )
    git(tmp_path, "add", "-f", "sub/a.log")
    folder = os.open(tmp_path / ".git", os.O_RDONLY)
    seen_above = Git(folder, b"sub/", ((b"", (tmp_path / ".gitignore").read_bytes()),))
    with opened(tmp_path / "sub", git=seen_above) as tree:
        fields, entries = page(tree)
    os.close(folder)
    assert ([entry[0] for entry in entries], fields["ignored"]) == (["a.log", "c"], 2)


def test_a_linked_worktree_reads_the_exclude_file_of_the_common_directory(tmp_path: Path) -> None:
    write(tmp_path, {"main/a": ""})
    git(tmp_path / "main", "init", "-q")
    git(tmp_path / "main", "add", ".")
    git(tmp_path / "main", "commit", "-qm", "one")
    git(tmp_path / "main", "worktree", "add", "-q", "../linked")
    (tmp_path / "main/.git/info").mkdir(exist_ok=True)
    write(tmp_path, {"main/.git/info/exclude": "*.log\n", "linked/x.log": "", "linked/y": ""})
    folder = os.open(tmp_path / "main/.git/worktrees/linked", os.O_RDONLY)
    with opened(tmp_path / "linked", git=Git(folder)) as tree:
        fields, entries = page(tree)
    os.close(folder)
    assert ([entry[0] for entry in entries], fields["ignored"]) == (["a", "y"], 1)


def test_protected_entries_are_marked_and_not_entered(tmp_path: Path) -> None:
    write(tmp_path, {".env": "k", ".aws/credentials": "k", "a": ""})
    protection = Protection([(r"^(?:.+/)?\.env(?:/|$)", True), (r"^(?:.+/)?\.aws/", True)])
    with opened(tmp_path, protection) as tree:
        assert page(tree, ".", 3)[1] == [
            [".aws", "directory", None, None, True],
            [".env", "file", 1, None, True],
            ["a", "file", 0, None, False],
        ]
        with pytest.raises(Refusal) as caught:
            page(tree, ".aws")
    assert caught.value.kind == "protected_path"


@pytest.mark.parametrize(
    ("path", "depth", "offset", "kind"),
    [
        ("f", 1, 0, "not_a_directory"),
        ("nothing", 1, 0, "file_not_found"),
        ("..", 1, 0, "outside_repository"),
        ("out", 1, 0, "outside_repository"),
        (".", 0, 0, "invalid_arguments"),
        (".", 1, -1, "invalid_arguments"),
    ],
)
def test_what_cannot_be_listed_is_refused(tmp_path: Path, path: str, depth: int, offset: int, kind: str) -> None:
    write(tmp_path, {"f": ""})
    (tmp_path / "out").symlink_to("/")
    with opened(tmp_path) as tree, pytest.raises(Refusal) as caught:
        page(tree, path, depth, offset)
    assert caught.value.kind == kind


def test_undecodable_names_survive(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")).write_text("")
    assert names(tmp_path) == ["caf\udce9"]


@pytest.mark.slow
def test_pages_of_very_many_entries_are_fast_and_complete(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {".gitignore": "*.o\nnode_modules/\n/dist\n*.py[co]\n", "a.o": "", "dist/x": ""})
    flat = tmp_path / "flat"
    flat.mkdir()
    for number in range(20_000):
        os.mknod(flat / f"f{number:06}")
    for number in range(200):
        folder = tmp_path / f"d{number:03}"
        folder.mkdir()
        for inner in range(100):
            os.mknod(folder / f"g{inner:02}")
    with opened(tmp_path) as tree:
        with processor_time_below(1.5):  # 0.6 s of counting at most, and what comes before it
            fields, entries = page(tree, ".", 3)
        assert len(entries) == 1_000
        assert fields["total"] == 40_202 or not fields["counted"]
        fields, entries = page(tree, "flat", 1, 19_500)
        assert (fields["total"], fields["counted"]) == (20_000, True)
        assert page(tree, "flat", 1, 0)[0]["total"] == page(tree, "flat", 1, 60_000)[0]["total"] == 20_000
        seen = [entry[0] for entry in entries]
    assert seen == [f"f{number:06}" for number in range(19_500, 20_000)]


@pytest.mark.parametrize("stars", [5, 30])
def test_no_pattern_makes_matching_slow(stars: int) -> None:
    with processor_time_below(3):
        assert re.fullmatch(name_regex(b"*a" * stars + b"b"), b"a" * 250, re.DOTALL) is None
        assert re.fullmatch(path_regex(b"**/" + b"*a" * stars + b"b/c"), b"a" * 250 + b"/x", re.DOTALL) is None
        assert re.fullmatch(path_regex(b"**/a/" * stars + b"b"), b"a/" * 500 + b"c", re.DOTALL) is None
