"""Applying a diff to the real repository: all of it or nothing, and never outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeagent.applying.plan import Write, plan, runs_elsewhere
from codeagent.applying.write import write
from codeagent.beneath import NotBeneath, opened_root, read_beneath
from codeagent.patches import parse, reverse

EDIT = b"""diff --git a/src/a.py b/src/a.py
index 78981922613b2afb6025042ff6bd878ac1994e85..61780798228d17af2d34fce4cfbdf35556832472 100644
--- a/src/a.py
+++ b/src/a.py
@@ -1 +1 @@
-a
+b
diff --git a/new/deep/file.txt b/new/deep/file.txt
new file mode 100755
--- /dev/null
+++ b/new/deep/file.txt
@@ -0,0 +1 @@
+x
diff --git a/old.txt b/old.txt
deleted file mode 100644
--- a/old.txt
+++ /dev/null
@@ -1 +0,0 @@
-bye
"""


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    (tmp_path / "src").mkdir()
    (tmp_path / "src/a.py").write_bytes(b"a\n")
    (tmp_path / "src/a.py").chmod(0o640)
    (tmp_path / "old.txt").write_bytes(b"bye\n")
    return tmp_path


def snapshot(repo: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(repo)): (
            str(path.readlink()) if path.is_symlink() else path.read_text(),
            path.lstat().st_mode,
        )
        for path in sorted(repo.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


def applied(repo: Path, patch: bytes, *, merge: bool = False, back: bool = False) -> dict[str, str]:
    patches = [reverse(each) for each in parse(patch)] if back else parse(patch)
    with opened_root(repo) as root:
        made = plan(root, patches, merge=merge)
        if not made.conflicts:
            write(root, made.writes)
    return made.conflicts


def test_a_diff_is_applied_and_taken_back(repo: Path) -> None:
    before = snapshot(repo)
    assert applied(repo, EDIT) == {}
    umask = os.umask(0)
    os.umask(umask)
    assert snapshot(repo) == {
        "src/a.py": ("b\n", 0o100640),
        "new/deep/file.txt": ("x\n", 0o100777 & ~umask),
    }
    assert applied(repo, EDIT, back=True) == {}
    assert snapshot(repo) == before
    assert not (repo / "new").exists()


def test_a_file_changed_since_is_named_and_nothing_is_written(repo: Path) -> None:
    (repo / "src/a.py").write_bytes(b"a\nmore\n")
    before = snapshot(repo)
    assert applied(repo, EDIT) == {"src/a.py": "it was changed since the copy was made"}
    assert snapshot(repo) == before
    assert applied(repo, EDIT, merge=True) == {}
    assert (repo / "src/a.py").read_bytes() == b"b\nmore\n"


def test_a_merge_that_does_not_fit_is_refused(repo: Path) -> None:
    (repo / "src/a.py").write_bytes(b"something else\n")
    before = snapshot(repo)
    assert list(applied(repo, EDIT, merge=True)) == ["src/a.py"]
    assert snapshot(repo) == before


def test_a_deleted_and_a_new_file_in_the_way_are_conflicts(repo: Path) -> None:
    (repo / "old.txt").unlink()
    (repo / "new/deep").mkdir(parents=True)
    (repo / "new/deep/file.txt").write_text("mine")
    assert applied(repo, EDIT) == {
        "new/deep/file.txt": "there is a file of this name now",
        "old.txt": "it was deleted since the copy was made",
    }


@pytest.mark.parametrize("name", [".git/hooks/post-commit", "sub/.git/config", ".GIT/config"])
def test_gits_own_folder_is_never_written(repo: Path, name: str) -> None:
    patch = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n@@ -0,0 +1 @@\n+x\n"
    assert applied(repo, patch.encode()) == {name: "git's own folder is never written"}


def test_a_link_in_the_way_leads_nowhere(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.py").write_bytes(b"a\n")
    (repo / "src/a.py").unlink()
    (repo / "src").rmdir()
    (repo / "src").symlink_to(outside)
    assert list(applied(repo, EDIT)) == ["src/a.py"]
    assert (outside / "a.py").read_bytes() == b"a\n"
    with opened_root(repo) as root:
        with pytest.raises(NotBeneath):
            write(root, [Write("src/b.py", b"x", 0o100644)])
        with pytest.raises(NotBeneath):
            read_beneath(root, "src/a.py", 100)
    assert sorted(path.name for path in outside.iterdir()) == ["a.py"]


def test_a_failure_in_the_middle_leaves_everything_as_it_was(repo: Path) -> None:
    (repo / "folder").mkdir()
    before = snapshot(repo)
    writes = [
        Write("src/a.py", b"changed\n", 0o100644),
        Write("old.txt", None, None),
        Write("n/new.txt", b"", 0o100644),
        Write("folder", b"a folder is in the way", 0o100644),
    ]
    with opened_root(repo) as root, pytest.raises(NotBeneath):
        write(root, writes)
    assert snapshot(repo) == before
    assert sorted(path.name for path in repo.iterdir()) == ["folder", "old.txt", "src"]


def test_links_are_written_as_links(repo: Path) -> None:
    hunk = b"@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"
    patch = b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n" + hunk
    assert applied(repo, patch) == {}
    assert (repo / "l").readlink() == Path("/etc/passwd")


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        (".envrc", True),
        (".vscode/tasks.json", True),
        ("a/Makefile", True),
        (".github/x.yml", True),
        ("src/a.py", False),
    ],
)
def test_files_that_other_programs_execute_are_known(path: str, expected: bool) -> None:
    assert runs_elsewhere(path) is expected
