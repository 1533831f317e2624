"""What git ignores, compared with git itself on generated trees."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import pytest
from guest.listing import list_dir
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.guest.trees import git, opened, write

NAMES = st.sampled_from(
    ["a", "b", "ab", "abc", "a.b", "b.log", ".c", "A", "a b", "b ", "!a", "#b", "[a]", "a\\b", "é"]
)
FOLDERS = st.lists(st.sampled_from(["a", "b", "ab", "a b", ".c"]), max_size=3)
WILD = [
    "*",
    "*",
    "**",
    "?",
    "/",
    "/",
    "[ab]",
    "[!a]",
    "[^b]",
    "[]a]",
    "[a-c]",
    "[[:alpha:]]",
    "[[:nope:]]",
    "[a-",
    "[\\]]",
]
PLAIN = ["a", "b", "c", "ab", ".log", "\\a", "\\*", "\\ ", " ", "!", "#", "[", "\\", "é", "."]
PIECE = st.sampled_from(WILD + PLAIN)
PATTERN = st.builds(
    lambda negated, pieces, end: negated + "".join(pieces) + end,
    st.sampled_from(["", "", "!"]),
    st.lists(PIECE, min_size=1, max_size=5),
    st.sampled_from(["", "", "/", " ", "\r"]),
)
IGNORE_FILE = st.lists(PATTERN, max_size=4).map("\n".join)


def listed(top: Path) -> set[bytes]:
    """Every file that list_dir shows, as git would name it."""
    with opened(top) as tree:
        fields, body = list_dir(tree, ".", 64, 0)
    assert fields["counted"]
    assert isinstance(body, bytes)
    return {path.encode("utf-8", "surrogateescape") for path, kind, *_ in json.loads(body) if kind != "directory"}


def known_to_git(top: Path) -> set[bytes]:
    output = git(top, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
    return {path for path in output.split(b"\0") if path and (top / path.decode()).exists()}


@pytest.mark.slow
@settings(max_examples=120, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    files=st.lists(st.tuples(FOLDERS, NAMES), min_size=1, max_size=8),
    ignores=st.lists(st.tuples(FOLDERS, IGNORE_FILE), min_size=1, max_size=3),
    exclude=IGNORE_FILE,
    tracked=st.sets(st.integers(0, 7), max_size=2),
)
def test_list_dir_shows_what_git_does_not_ignore(
    files: list[tuple[list[str], str]], ignores: list[tuple[list[str], str]], exclude: str, tracked: set[int]
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        git(top, "init", "-q")
        made: list[str] = []
        for folders, name in [*files, *((folders, ".gitignore") for folders, _ in ignores)]:
            path = top.joinpath(*folders, name)
            if not any(part.is_file() for part in path.parents) and not path.is_dir():
                write(top, {"/".join([*folders, name]): ""})
                made.append("/".join([*folders, name]))
        for folders, text in ignores:
            if top.joinpath(*folders, ".gitignore").is_file():
                top.joinpath(*folders, ".gitignore").write_bytes(text.encode())
        (top / ".git/info/exclude").write_bytes(exclude.encode())
        chosen = [made[number] for number in tracked if number < len(made)]
        if chosen:
            git(top, "--literal-pathspecs", "add", "-f", "--", *chosen)
        assert listed(top) == known_to_git(top)


@pytest.mark.parametrize("version", ["2", "3", "4"])
@pytest.mark.parametrize("hash_name", ["sha1", "sha256"])
def test_tracked_files_are_found_in_every_index_version(tmp_path: Path, version: str, hash_name: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={hash_name}")
    files = {f"build/{'long-name/' * (number % 40)}{number}/x{number}.o": "" for number in range(60)}
    write(tmp_path, {**files, ".gitignore": "build/\n", "build/1/untracked.o": ""})
    git(tmp_path, "add", "-f", *files)
    if version == "3":  # an entry with extended flags
        git(tmp_path, "add", "-N", ".gitignore")
    git(tmp_path, "update-index", f"--index-version={version}")
    assert listed(tmp_path) == {name.encode() for name in [*files, ".gitignore"]}


def test_a_split_index_is_read_with_its_base(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {".gitignore": "*.o\n", "a.o": "", "b.o": "", "c.o": ""})
    git(tmp_path, "add", "-f", "a.o")
    git(tmp_path, "update-index", "--split-index")
    git(tmp_path, "add", "-f", "b.o")
    assert listed(tmp_path) == {b".gitignore", b"a.o", b"b.o"}


def test_a_damaged_index_means_that_nothing_is_tracked(tmp_path: Path) -> None:
    git(tmp_path, "init", "-q")
    write(tmp_path, {".gitignore": "*.o\n", "a.o": ""})
    git(tmp_path, "add", "-f", "a.o")
    whole = (tmp_path / ".git/index").read_bytes()
    for length in range(0, len(whole), 7):
        (tmp_path / ".git/index").write_bytes(whole[:length])
        assert listed(tmp_path) <= {b".gitignore", b"a.o"}
