"""Patches that the guest writes: taken by git, exact to the byte."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from pathlib import Path

import pytest
from guest.linediff import changed_blocks
from guest.patching import Side, file_patch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent import patches
from tests.clocks import processor_time_below
from tests.guest.trees import git

Files = dict[bytes, Side]


def tree_of(top: Path) -> Files:
    found: Files = {}
    for path in top.rglob("*"):
        mode = path.lstat().st_mode
        inner = os.fsencode(path.relative_to(top))
        if stat.S_ISLNK(mode):
            found[inner] = Side(0o120000, os.fsencode(path.readlink()))
        elif stat.S_ISREG(mode):
            found[inner] = Side(0o100755 if mode & 0o100 else 0o100644, path.read_bytes())
    return found


def write_tree(top: Path, files: Files) -> None:
    for path, side in files.items():
        place = Path(os.fsdecode(os.fsencode(top) + b"/" + path))
        place.parent.mkdir(parents=True, exist_ok=True)
        if side.mode == 0o120000:
            place.symlink_to(os.fsdecode(side.content))
        else:
            place.write_bytes(side.content)
            place.chmod(side.mode & 0o777)


def patch_of(old: Files, new: Files) -> bytes:
    return b"".join(b"".join(file_patch(path, old.get(path), new.get(path))) for path in sorted({*old, *new}))


def applied_by_git(old: Files, patch: bytes, *options: str) -> Files:
    with tempfile.TemporaryDirectory() as folder:
        top = Path(folder)
        write_tree(top, old)
        if patch:
            git(top, "apply", "--whitespace=nowarn", *options, "-", given=patch)
        return tree_of(top)


ODD_NAMES = [
    b"with blank",
    b"d/ lead",
    b"caf\xe9",
    "é".encode(),
    b'q"uote',
    b"back\\slash",
    b"tab\tname",
    b"new\nline",
]
NAMES = st.sampled_from([b"a", b"b.txt", b"d/a", b"d/e/f", b"-dash", b"trail ", b"d/b/x b/x", *ODD_NAMES])
LINE = st.sampled_from(
    [b"", b"a", b"b", b"c", b"x\r", b"\x0c", b"\xff\xfe", b"-- a", b"+++ b", b"@@ -1 +1 @@", b"\\ No"]
)
TEXT = st.builds(
    lambda lines, end: b"\n".join(lines) + end, st.lists(LINE, max_size=14), st.sampled_from([b"", b"\n"])
)
BINARY = st.binary(max_size=200).map(lambda content: b"\0" + content)
FILE = st.builds(Side, st.sampled_from([0o100644, 0o100644, 0o100755]), TEXT | TEXT | BINARY)
LINK = st.builds(Side, st.just(0o120000), st.sampled_from([b"a", b"../x", b"nowhere", b"n\nl"]))
TREE = st.dictionaries(NAMES, FILE | FILE | LINK, max_size=5)


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(TREE, TREE)
def test_git_apply_turns_the_old_tree_into_the_new_one(old: Files, new: Files) -> None:
    patch = patch_of(old, new)
    assert applied_by_git(old, patch) == new
    assert applied_by_git(new, patch, "--reverse") == old


@pytest.mark.slow
@settings(max_examples=150, deadline=None)
@given(TREE, TREE)
def test_the_host_reads_the_same_patch(old: Files, new: Files) -> None:
    result = {os.fsdecode(path): side.content for path, side in old.items()}
    for one in patches.parse(patch_of(old, new)):
        content = patches.apply(one, result.pop(one.old_path, None) if one.old_path else None)
        if content is not None and one.new_path is not None:
            result[one.new_path] = content
    assert result == {os.fsdecode(path): side.content for path, side in new.items()}


@pytest.mark.parametrize("version", ["sha1", "sha256"])
def test_binary_files_carry_whole_hashes_of_the_repositorys_kind(tmp_path: Path, version: str) -> None:
    git(tmp_path, "init", "-q", f"--object-format={version}")
    new = {b"b": Side(0o100644, bytes(range(256)) * 50)}
    git(tmp_path, "apply", "-", given=b"".join(file_patch(b"b", None, new[b"b"], version)))
    shutil.rmtree(tmp_path / ".git")
    assert tree_of(tmp_path) == new


def test_a_small_change_in_a_large_file_is_a_small_patch() -> None:
    lines = [b"line %d\n" % number for number in range(50_000)]
    changed = lines.copy()
    changed[100] = b"changed\n"
    del changed[40_000]
    changed.insert(20_000, b"new\n")
    patch = patch_of({b"f": Side(0o100644, b"".join(lines))}, {b"f": Side(0o100644, b"".join(changed))})
    assert patch.count(b"\n") == 5 + 3 + 8 + 7 + 7 - 1


@given(
    st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=25),
    st.lists(st.sampled_from([b"a", b"b", b"c"]), max_size=25),
)
def test_blocks_say_exactly_what_differs(old: list[bytes], new: list[bytes]) -> None:
    result: list[bytes] = []
    at = at_new = 0
    for start, end, new_start, new_end in changed_blocks(old, new):
        assert old[at:start] == new[at_new:new_start]
        result += old[at:start] + new[new_start:new_end]
        at, at_new = end, new_end
    assert old[at:] == new[at_new:]
    assert result + old[at:] == new


@pytest.mark.parametrize("kind", ["all different", "repeating", "reversed", "shuffled"])
@pytest.mark.slow
def test_no_texts_take_long_to_compare(kind: str) -> None:
    numbers = range(100_000)
    old = [b"%d" % (number % 7 if kind == "repeating" else number) for number in numbers]
    new = {
        "all different": [b"x%d" % number for number in numbers],
        "repeating": [b"%d" % (number % 5) for number in numbers],
        "reversed": old[::-1],
        "shuffled": [b"%d" % (number * 7919 % 100_000) for number in numbers],
    }[kind]
    with processor_time_below(10):
        changed_blocks(old, new)
