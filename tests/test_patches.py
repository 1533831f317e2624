"""Patches made by the real git, parsed and applied: the same bytes come out."""

from __future__ import annotations

import subprocess
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.patches import FilePatch, PatchError, apply, is_blob, parse, reverse


def git(folder: Path, *argv: str) -> bytes:
    run = subprocess.run(
        ["git", "-c", "user.name=t", "-c", "user.email=t@example.org", "-c", "core.autocrlf=false", *argv],
        cwd=folder,
        capture_output=True,
        check=True,
    )
    return run.stdout


def git_diff(folder: Path, *flags: str) -> bytes:
    """What changes from folder/a to folder/b, as git writes it."""
    trees = []
    for side in ("a", "b"):
        work = [f"--git-dir={folder}/git", f"--work-tree={folder / side}"]
        git(folder, *work, "add", "-A", "-f")
        trees.append(git(folder, *work, "write-tree").decode().strip())
    return git(folder, f"--git-dir={folder}/git", "diff", "--binary", "--no-color", *flags, *trees)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    git(tmp_path, "init", "-q", "--bare", "git")
    return tmp_path


CONTENT = st.one_of(
    st.binary(max_size=200),
    st.lists(st.sampled_from([b"one\n", b"two\n", b"three\r\n", b"\n", b"x\x0cy\n"]), max_size=30).map(b"".join),
    st.lists(st.sampled_from([b"a\n", b"b\n"]), min_size=20, max_size=60).map(lambda lines: b"".join(lines) + b"end"),
)


@pytest.mark.slow
@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(old=CONTENT, new=CONTENT)
def test_what_git_wrote_gives_the_new_bytes_and_back(folder: Path, old: bytes, new: bytes) -> None:
    (folder / "a/f").write_bytes(old)
    (folder / "b/f").write_bytes(new)
    patches = parse(git_diff(folder))
    if old == new:
        assert patches == []
        return
    assert [apply(patch, old) for patch in patches] == [new]
    assert [apply(reverse(patch), new) for patch in patches] == [old]
    assert [(is_blob(old, patch.old_blob), is_blob(new, patch.new_blob)) for patch in patches] == [(True, True)]
    assert not is_blob(new, patches[0].old_blob)


@pytest.mark.parametrize("name", ["plain.txt", "with blank.txt", 'übér\nline\t"q".txt', " lead", "a b/a b"])
def test_names_of_new_and_empty_files_survive(folder: Path, name: str) -> None:
    path = folder / "b" / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")
    (patch,) = parse(git_diff(folder))
    assert (patch.old_path, patch.new_path, patch.new_mode, apply(patch, None)) == (None, name, 0o100644, b"")


def test_modes_links_deletions_and_renames(folder: Path) -> None:
    (folder / "a/run.sh").write_bytes(b"echo\n")
    (folder / "b/run.sh").write_bytes(b"echo\n")
    (folder / "b/run.sh").chmod(0o755)
    (folder / "b/link").symlink_to("run.sh")
    (folder / "a/gone").write_bytes(b"1\n2\n")
    (folder / "a/old").write_bytes(b"x\n" * 30)
    (folder / "b/new").write_bytes(b"x\n" * 30)
    found = {patch.path: patch for patch in parse(git_diff(folder, "-M"))}
    assert found["run.sh"] == FilePatch("run.sh", "run.sh", 0o100644, 0o100755)
    assert (found["link"].new_mode, apply(found["link"], None)) == (0o120000, b"run.sh")
    assert apply(found["gone"], b"1\n2\n") is None
    assert (found["new"].old_path, found["new"].paths) == ("old", ("old", "new"))


def test_a_hunk_fits_only_at_its_line_unless_it_may_move() -> None:
    patch = parse(b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,3 +1,3 @@\n a\n-b\n+B\n c\n")[0]
    moved = b"new\na\nb\nc\n"
    with pytest.raises(PatchError, match=r"f: hunk 1 of 1 does not fit at line 1"):
        apply(patch, moved)
    assert apply(patch, moved, anywhere=True) == b"new\na\nB\nc\n"
    with pytest.raises(PatchError):
        apply(patch, moved + moved, anywhere=True)  # two places: which one is not decided


@pytest.mark.parametrize(
    "patch",
    [
        b"hello\n",
        b"diff --git a/../x b/../x\n--- a/../x\n+++ b/../x\n@@ -1 +1 @@\n-a\n+b\n",
        b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1,2 +1 @@\n-a\n",
        b"diff --git a/f b/f\nBinary files a/f and b/f differ\n",
        b"diff --git a/f b/f\nGIT binary patch\nliteral 5\nE*****\n\n",
        b"diff --git a/f b/f\n--- a/f\n+++ b/f\n@@ -1 +1 @@\n?a\n",
    ],
)
def test_what_is_no_patch_is_refused(patch: bytes) -> None:
    with pytest.raises(PatchError):
        parse(patch)


@given(st.binary(max_size=300))
def test_nothing_but_a_patch_error_comes_of_damaged_bytes(noise: bytes) -> None:
    for head in (
        b"",
        b"diff --git a/f b/f\n",
        b"diff --git a/f b/f\nGIT binary patch\nliteral 3\n",
        b"diff --git a/f b/f\n@@ ",
    ):
        with suppress(PatchError):
            parse(head + noise)
