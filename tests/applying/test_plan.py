"""What applying a diff would do, and that it is done: all of it or nothing, and never outside."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from guest.patching import Side, file_patch

from codeagent.applying.names import belongs_to_git, runs_elsewhere
from codeagent.applying.plan import Plan, State, Write
from codeagent.applying.write import Changed
from codeagent.beneath import NotBeneath, opened_root, read_beneath
from tests.applying.applied import applied, carry_out, make, patch_between, planned, tree

BEFORE = {"src/a.py": (0o100644, b"a\n"), "old.txt": (0o100644, b"bye\n")}
AFTER = {"src/a.py": (0o100644, b"b\n"), "new/deep/file.txt": (0o100755, b"x\n")}
EDIT = patch_between(BEFORE, AFTER)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = make(tmp_path / "repo", BEFORE)
    (repo / "src/a.py").chmod(0o640)
    return repo


def snapshot(repo: Path) -> dict[str, tuple[str, int]]:
    return {
        str(path.relative_to(repo)): (
            str(path.readlink()) if path.is_symlink() else path.read_text(),
            path.lstat().st_mode,
        )
        for path in sorted(repo.rglob("*"))
        if path.is_symlink() or path.is_file()
    }


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
    (repo / "src/a.py").unlink()
    (repo / "new/deep").mkdir(parents=True)
    (repo / "new/deep/file.txt").write_text("mine")
    assert applied(repo, EDIT) == {
        "new/deep/file.txt": "there is a file of this name now",
        "src/a.py": "it was deleted since the copy was made",
    }


GITS = [".git", ".GIT", ".git ", ".git.", ".Git . .", "git~1", "GIT~1", ".git::$INDEX_ALLOCATION", ".g\u200cit"]


@pytest.mark.parametrize("name", GITS)
def test_gits_own_folder_is_never_written_however_it_is_spelt(repo: Path, name: str) -> None:
    before = tree(repo)
    paths = (name, f"{name}/config", f"sub/{name}/hooks/post-commit")
    for path in paths:
        assert applied(repo, patch_between({}, {path: (0o100644, b"x")})) == {
            path: "git's own folder is never written"
        }
    assert tree(repo) == before


@pytest.mark.parametrize("name", [".gitignore", ".github/x", "git", "x.git", ".git2", "git~10"])
def test_other_names_with_git_in_them_are_written(repo: Path, name: str) -> None:
    assert not belongs_to_git(name)
    assert applied(repo, patch_between({}, {name: (0o100644, b"x")})) == {}


def test_a_folder_that_git_would_take_for_its_own_is_never_written_nor_made(repo: Path) -> None:
    apart = {"meta/HEAD": (0o100644, b"ref: x\n"), "meta/refs/x": (0o100644, b""), "meta/objects/x": (0o100644, b"")}
    new = {**apart, "meta/config": (0o100644, b"[core]\n\tfsmonitor = x\n")}
    refused = "git's own folder is never written"
    assert applied(repo, patch_between({}, new)) == dict.fromkeys(new, refused)
    make(repo / "sub", apart)
    hook = {"sub/meta/hooks/post-commit": (0o100755, b"x")}
    assert applied(repo, patch_between({}, hook)) == {"sub/meta/hooks/post-commit": refused}


def test_a_link_in_the_way_leads_nowhere(repo: Path, tmp_path_factory: pytest.TempPathFactory) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "a.py").write_bytes(b"a\n")
    (repo / "src/a.py").unlink()
    (repo / "src").rmdir()
    (repo / "src").symlink_to(outside)
    assert list(applied(repo, EDIT)) == ["src/a.py"]
    assert (outside / "a.py").read_bytes() == b"a\n"
    with pytest.raises(Changed):
        carry_out(repo, Plan((Write("src/b.py", b"x", 0o100644),), {}))
    with opened_root(repo) as root, pytest.raises(NotBeneath):
        read_beneath(root, "src/a.py", 100)
    assert sorted(path.name for path in outside.iterdir()) == ["a.py"]


def test_links_are_written_as_links(repo: Path) -> None:
    hunk = b"@@ -0,0 +1 @@\n+/etc/passwd\n\\ No newline at end of file\n"
    patch = b"diff --git a/l b/l\nnew file mode 120000\n--- /dev/null\n+++ b/l\n" + hunk
    assert applied(repo, patch) == {}
    assert (repo / "l").readlink() == Path("/etc/passwd")


def test_a_change_that_is_there_already_is_no_conflict_and_no_write(repo: Path) -> None:
    assert applied(repo, EDIT) == {}
    assert planned(repo, EDIT) == Plan((), {}, ("old.txt", "new/deep/file.txt", "src/a.py"))
    (repo / "src/a.py").write_bytes(b"a\n")  # one file was taken back by hand
    made = planned(repo, EDIT)
    assert (made.conflicts, [one.path for one in made.writes]) == ({}, ["src/a.py"])
    assert made.writes[0].before == State(b"a\n")


def test_taking_back_what_was_edited_since_is_a_conflict(repo: Path) -> None:
    assert applied(repo, EDIT) == {}
    (repo / "new/deep/file.txt").write_bytes(b"x\nmine\n")
    before = tree(repo)
    assert applied(repo, EDIT, back=True) == {"new/deep/file.txt": "it was changed since the copy was made"}
    assert tree(repo) == before


def test_a_folder_with_files_of_the_users_does_not_make_way_for_a_file(repo: Path) -> None:
    patch = patch_between({"src/a.py": (0o100644, b"a\n")}, {"src": (0o100644, b"now a file\n")})
    (repo / "src/mine.pyc").write_bytes(b"")
    assert applied(repo, patch) == {"src": "there is a folder of this name now"}
    (repo / "src/mine.pyc").unlink()
    (repo / "src/empty").mkdir(mode=0o700)
    assert applied(repo, patch) == {}
    assert tree(repo) == {"old.txt": (0o100644, b"bye\n"), "src": (0o100644, b"now a file\n")}


def test_a_file_in_the_place_of_a_folder_is_a_conflict(repo: Path) -> None:
    (repo / "new").write_bytes(b"mine")
    assert applied(repo, EDIT) == {"new/deep/file.txt": "a file stands where its folder was"}


def test_what_stands_there_as_something_else_is_a_conflict(repo: Path) -> None:
    (repo / "src/a.py").unlink()
    (repo / "src/a.py").symlink_to("a\n")
    os.mkfifo(repo / "new")
    assert applied(repo, EDIT) == {
        "src/a.py": "it is a symbolic link now",
        "new/deep/file.txt": "new: Not a directory (links are not followed)",
    }


def test_the_users_own_permissions_stay_where_the_patch_changes_none(repo: Path) -> None:
    (repo / "src/a.py").chmod(0o750)
    assert applied(repo, EDIT) == {}
    assert snapshot(repo)["src/a.py"] == ("b\n", 0o100750)


def test_owners_of_others_are_kept_and_new_files_take_their_folders(repo: Path) -> None:
    if os.geteuid() != 0:
        pytest.fail("this needs root, to give files away")
    os.chown(repo / "src/a.py", 1234, 2345)
    os.chown(repo, 77, 88)
    assert applied(repo, EDIT) == {}
    owners = {name: (repo / name).stat() for name in ("src/a.py", "new", "new/deep", "new/deep/file.txt")}
    assert {name: (found.st_uid, found.st_gid) for name, found in owners.items()} == {
        "src/a.py": (1234, 2345),
        "new": (77, 88),
        "new/deep": (77, 88),
        "new/deep/file.txt": (77, 88),
    }


def test_the_other_names_of_a_file_keep_its_content(repo: Path, tmp_path: Path) -> None:
    os.link(repo / "src/a.py", tmp_path / "store")
    os.link(repo / "src/a.py", repo / "twin")
    assert applied(repo, EDIT) == {}
    assert [path.read_bytes() for path in (tmp_path / "store", repo / "twin", repo / "src/a.py")] == [
        b"a\n",
        b"a\n",
        b"b\n",
    ]


EXECUTED = [
    *(".envrc", ".vscode/tasks.json", "a/Makefile", ".github/x.yml", ".gitattributes", "a/.gitattributes"),
    *(
        ".githooks/pre-commit",
        "hooks/post-merge",
        "CMakeLists.txt",
        "sub/package.json",
        "vite.config.mts",
        ".eslintrc.cjs",
    ),
    *("Jenkinsfile", "conftest.py", ".cargo/config.toml", ".pre-commit-config.yaml", "AGENTS.md", "x.code-workspace"),
]


@pytest.mark.parametrize("path", EXECUTED)
def test_files_that_other_programs_execute_are_known(path: str) -> None:
    assert runs_elsewhere(path)


@pytest.mark.parametrize(
    "path", ["src/a.py", "README.md", "docs/makefile.md", "environment.py", "github/x", "hook.c"]
)
def test_files_that_nothing_executes_by_name_are_not(path: str) -> None:
    assert not runs_elsewhere(path)


def test_a_repository_with_sha256_names_is_compared_as_well(repo: Path) -> None:
    sides = Side(0o100644, b"a\n"), Side(0o100644, b"b\n")
    patch = b"".join(file_patch(b"src/a.py", *sides, "sha256"))
    (repo / "src/a.py").write_bytes(b"a\nmine\n")
    assert applied(repo, patch) == {"src/a.py": "it was changed since the copy was made"}
    (repo / "src/a.py").write_bytes(b"a\n")
    assert applied(repo, patch) == {}
    assert planned(repo, patch).there == ("src/a.py",)


def test_what_to_look_at_twice_is_named(repo: Path) -> None:
    new = {
        ".envrc": (0o100644, b"x"),
        "a": (0o120000, b"../../etc"),
        "b": (0o120000, b"src/../old.txt"),
        "c": (0o100755, b""),
        "d/e": (0o120000, b"../../x"),
        "f": (0o120000, b"/etc/passwd"),
    }
    assert planned(repo, patch_between({}, new)).warnings == [
        (".envrc", "other programs execute or obey a file of this name"),
        ("a", "a link that leads out of the repository, to ../../etc"),
        ("c", "becomes executable"),
        ("d/e", "a link that leads out of the repository, to ../../x"),
        ("f", "a link that leads out of the repository, to /etc/passwd"),
    ]
