"""What the private copy's diff says, `git apply` and `codeagent apply` do, exact to the byte; and it goes back."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from codeagent.sandbox import copying
from codeagent.sandbox.seam import Diff
from tests.applying.applied import Tree, applied, make, patch_between, put, tree
from tests.guest.in_process import in_process
from tests.guest.trees import git

PARTS = st.sampled_from(
    [
        *(
            "a",
            "b",
            "c.py",
            " lead",
            "trail ",
            "two  blanks",
            "tab\tname",
            "line\nbreak",
            'quo"te',
            "back\\slash",
            "é",
        ),
        *("e\u0301", "caf\udce9", "-rf", "*", "b/ b", "a b", "\x1b[2J", "日本", "x" * 200, "\x7f", "dev", "null"),
    ]
)
PATHS = st.lists(PARTS.filter(lambda part: "/" not in part), min_size=1, max_size=3).map("/".join)
CONTENTS = st.one_of(
    st.binary(max_size=60),
    st.sampled_from(
        [b"", b"\n", b"no end", b"a\r\nb\r\n", b"\0\0", b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n", b"diff --git a/x b/x\n"]
    ),
    st.lists(st.sampled_from([b"one\n", b"two\n", b"x\x0cy\r\n", b"\xff\n"]), max_size=30).map(b"".join),
)
LINK = 0o120000
FILES = st.one_of(
    st.tuples(st.sampled_from([0o100644, 0o100755]), CONTENTS),
    st.tuples(st.just(LINK), st.sampled_from([b"a", b"../x", b"/etc/passwd", b"caf\xe9", b"line\nbreak"])),
)


def possible(files: Tree) -> Tree:
    """Without paths below other files."""
    return {path: what for path, what in files.items() if not any(path.startswith(f"{other}/") for other in files)}


TREES = st.dictionaries(PATHS, FILES, max_size=5).map(possible)


@pytest.mark.slow
@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=TREES, before=TREES, after=TREES)
@example(kept={}, before={"a": (0o100644, b"")}, after={"a/b": (0o120000, b"a")})
@example(kept={}, before={"a/b/c": (0o100644, b"")}, after={"a": (0o100755, b"\0")})
@example(kept={}, before={}, after={"trail /a": (0o100644, b""), "b b/c": (0o100755, b""), " d ": (0o100644, b"")})
@example(kept={}, before={"a": (0o100644, b"x")}, after={"a": (0o100755, b"x")})
def test_the_patch_makes_the_very_tree(tmp_path: Path, kept: Tree, before: Tree, after: Tree) -> None:
    old = possible({**kept, **before})
    new = possible({**after, **kept})
    patch = patch_between(old, new)
    shutil.rmtree(tmp_path, ignore_errors=True)
    by_git, ours = make(tmp_path / "git/repo", old), make(tmp_path / "ours/repo", old)
    if patch and not any(
        path.startswith(f"{link}/") for path in new for link, (mode, _) in old.items() if mode == LINK
    ):
        # git looks for a new file through a link that the same patch removes, and may find one, or a loop.
        git(by_git, "apply", "-", given=patch)
        assert tree(by_git) == new
    assert applied(ours, patch) == {}
    assert tree(ours) == new
    assert applied(ours, patch) == {}
    assert applied(ours, patch, back=True) == {}
    assert tree(ours) == old


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(kept=TREES, before=TREES, after=TREES)
def test_the_private_copys_own_diff_makes_the_very_tree(
    tmp_path: Path, kept: Tree, before: Tree, after: Tree
) -> None:
    old = possible({**kept, **before})
    new = possible({**after, **kept})
    shutil.rmtree(tmp_path, ignore_errors=True)
    repo, copy, baseline = make(tmp_path / "repo", old), make(tmp_path / "copy", {}), make(tmp_path / "baseline", {})
    with in_process(copy, folders={"source": str(repo), "baseline": str(baseline)}) as guest:
        copying.fill(guest, copying.Plan(1 << 30), lambda *_: None)
        assert copying.diff(guest) == Diff()
        for path in old.keys() - new.keys():
            (copy / path).unlink()
        for folder in sorted(
            (path for path in copy.rglob("*") if path.is_dir() and not path.is_symlink()), reverse=True
        ):
            folder.rmdir() if not any(folder.iterdir()) else None
        put(copy, {path: what for path, what in new.items() if old.get(path) != what})
        found = copying.diff(guest)
    assert tree(copy) == new
    assert sorted(found.paths) == sorted({path for path, _ in set(old.items()) ^ set(new.items())})
    assert applied(repo, found.patch) == {}
    assert tree(repo) == new
