"""The private copy: made, changed, compared, kept up with the user's edits. Without a container in between."""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox import copying, protected
from codeagent.sandbox.copying import Edit, Plan
from codeagent.sandbox.seam import Diff, FileChange
from codeagent.sandbox.upload import repository_tree, upload
from tests.guest.in_process import InProcess, in_process
from tests.guest.trees import git, write

PROTECT = [list(pattern) for pattern in protected.regexes()]
LIMIT = 1 << 30


class Copied:
    """A repository, its copy, and the guest that has the copy."""

    def __init__(self, repo: Path, copy: Path, guest: InProcess) -> None:
        self.repo = repo
        self.copy = copy
        self.guest = guest

    def diff(self) -> Diff:
        return copying.diff(self.guest)

    def sync(self, path: str) -> Edit:
        change = copying.host_edit(self.repo, path)
        assert change is not None
        return copying.sync(self.guest, change)


@contextmanager
def copied(tmp_path: Path, files: dict[str, bytes | str], uploaded: bool = False, **plan: Any) -> Iterator[Copied]:
    repo, copy, baseline = (tmp_path / name for name in ("repo", "copy", "baseline"))
    for folder in (repo, copy, baseline):
        folder.mkdir(exist_ok=True)
    write(repo, files)
    source = baseline / "upload" if uploaded else repo
    folders = {"source": str(source), "baseline": str(baseline)}
    with in_process(copy, protect=PROTECT, folders=folders) as guest:
        if uploaded:
            upload(guest, repository_tree(repo, protected.find(repo, protected.regexes())), LIMIT, lambda *_: None)
        copying.fill(guest, Plan(**{"limit": LIMIT, **plan}), lambda *_: None)
        yield Copied(repo, copy, guest)


def tree(top: Path) -> dict[str, tuple[int, bytes]]:
    found: dict[str, tuple[int, bytes]] = {}
    for path in top.rglob("*"):
        mode = path.lstat().st_mode
        content = os.fsencode(path.readlink()) if stat.S_ISLNK(mode) else path.read_bytes() if path.is_file() else b""
        found[str(path.relative_to(top))] = mode, content
    return found


@pytest.mark.parametrize("uploaded", [False, True])
def test_the_copy_is_the_repository_without_what_is_protected(tmp_path: Path, uploaded: bool) -> None:
    repo = tmp_path / "repo"
    write(repo, {"bin/run": "#!/bin/sh\n", ".env": "SECRET", ".aws/credentials": "SECRET", "a/.env.example": "ok"})
    write(
        repo,
        {".git/HEAD": "ref: refs/heads/main\n", ".git/config": "[core]\n\tfsmonitor = x\n", ".git/hooks/post": "x"},
    )
    (repo / "bin/run").chmod(0o755)
    (repo / "bin/link").symlink_to("run")
    (repo / "out").symlink_to("/etc/passwd")
    (repo / "empty").mkdir(mode=0o700)
    os.utime(repo / "bin/run", ns=(1_000_000_000, 1_500_000_000))
    replaced = {".git/config": "[core]\n\tbare = false\n"}
    with copied(tmp_path, {}, uploaded, replaced=replaced, emptied=[".git/hooks"]) as made:
        copy, original = tree(made.copy), tree(repo)
        assert made.diff() == Diff()
        assert (made.copy / "bin/run").stat().st_mtime_ns == 1_500_000_000
    different = {
        path: copy.pop(path, None) for path in (".env", ".aws/credentials", ".git/config", ".git/hooks/post")
    }
    assert different == {
        ".env": (stat.S_IFREG | 0o444, b""),
        ".aws/credentials": None,
        ".git/config": (stat.S_IFREG | 0o644, replaced[".git/config"].encode()),
        ".git/hooks/post": None,
    }
    assert stat.S_IMODE(copy.pop(".aws")[0]) == 0o555
    assert copy == {path: original[path] for path in copy}
    assert set(original) - set(copy) == {*different, ".aws"}
    assert not (tmp_path / "baseline/upload").exists()
    assert b"SECRET" not in b"".join(path.read_bytes() for path in (tmp_path / "baseline").iterdir())


def test_every_kind_of_change_is_in_the_diff_exactly(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {
        "text": "a\nb\nc\n",
        "no end": "x",
        "binary": b"\0\1\2" * 100,
        "mode": "#!\n",
        "gone": "old\n",
        "renamed": "same\n" * 20,
        "to link": "file\n",
        "to folder": "file\n",
        "same": "untouched\n",
        "d/to file": "inner\n",
        "touched": "t\n",
    }
    with copied(tmp_path, files) as made:
        top = made.copy
        write(top, {"text": "a\nB\nc\n", "no end": "x\ny", "binary": b"\0\3\2" * 99, "new/deep": "n\n", "empty": ""})
        (top / "mode").chmod(0o755)
        (top / "gone").unlink()
        (top / "renamed").rename(top / "moved")
        (top / "to link").unlink()
        (top / "to link").symlink_to("text")
        (top / "to folder").unlink()
        write(top, {"to folder/inner": "i\n"})
        (top / "d/to file").unlink()
        (top / "d").rmdir()
        write(top, {"d": "now a file\n"})
        Path(os.fsdecode(os.fsencode(top) + b"/caf\xe9")).write_bytes(b"odd\n")
        os.utime(top / "touched")
        diff = made.diff()
        assert made.diff() == diff
        git(made.repo, "apply", "-", given=diff.patch)
        assert tree(made.repo) == tree(top)
    changed = {
        "text",
        "no end",
        "binary",
        "mode",
        "gone",
        "renamed",
        "moved",
        "to link",
        "to folder",
        "to folder/inner",
    }
    assert set(diff.paths) == changed | {"d", "d/to file", "new/deep", "empty", "caf\udce9"}
    assert (diff.ignored, diff.notes) == (0, ())


def test_a_change_that_hides_behind_size_and_mtime_is_found(tmp_path: Path) -> None:
    with copied(tmp_path, {"f": "one\n"}) as made:
        before = (made.copy / "f").stat()
        (made.copy / "f").write_text("two\n")
        os.utime(made.copy / "f", ns=(before.st_atime_ns, before.st_mtime_ns))
        assert made.diff().paths == ("f",)


def test_what_the_untouched_tree_ignores_is_counted_and_left_out(tmp_path: Path) -> None:
    git_files: dict[str, bytes | str] = {".gitignore": "*.log\nbuild/\n", "sub/.gitignore": "!keep.log\n", "a": "1"}
    (tmp_path / "repo").mkdir()
    git(tmp_path / "repo", "init", "-q")
    write(tmp_path / "repo", {"tracked.log": "t"})
    git(tmp_path / "repo", "add", "-f", "tracked.log")
    with copied(tmp_path, {**git_files, "old.log": "1", "build/x": "1", "build/same": "1"}) as made:
        top = made.copy
        write(
            top,
            {
                "old.log": "2",
                "new.log": "1",
                "sub/keep.log": "1",
                "build/x": "2",
                "build/new": "1",
                "node/build/y": "",
            },
        )
        write(top, {"tracked.log": "T", ".gitignore": "a\nkept.txt\n", "a": "2", "kept.txt": ""})
        diff = made.diff()
    assert set(diff.paths) == {"sub/keep.log", "tracked.log", ".gitignore", "a", "kept.txt"}
    assert diff.ignored == 5


def test_masked_paths_never_appear_in_the_diff(tmp_path: Path) -> None:
    with copied(tmp_path, {".env": "SECRET=1\n", "conf/server.pem": "SECRET", ".ssh/id": "SECRET"}) as made:
        (made.copy / ".env").unlink()
        write(made.copy, {".env": "changed"})
        (made.copy / "conf/server.pem").unlink()
        assert made.diff() == Diff()
        write(made.copy, {"new/.env.local": "made by a command"})
        assert made.diff() == Diff(notes=("new/.env.local is new, and is not in the diff: its name is protected",))


def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    write(tmp_path / "elsewhere", {"f": "outside\n"})
    with copied(tmp_path, {"d/f": "inside\n"}) as made:
        (made.copy / "d/f").unlink()
        (made.copy / "d").rmdir()
        (made.copy / "d").symlink_to(tmp_path / "elsewhere")
        diff = made.diff()
    assert diff.paths == ("d", "d/f")
    assert b"outside" not in diff.patch


def test_a_copy_over_the_limit_fails_before_anything_is_written(tmp_path: Path) -> None:
    with (
        pytest.raises(ToolError) as caught,
        copied(tmp_path, {"big": b"x" * 100_000, "vendor/lib": b"y" * 100_000}, limit=50_000),
    ):
        pass
    assert caught.value.kind == ErrorKind.TOO_LARGE
    assert "more than the limit of 48.8 KiB" in caught.value.sentence
    assert list((tmp_path / "copy").iterdir()) == []


def test_excluded_folders_are_left_out(tmp_path: Path) -> None:
    exclude = protected.compiled(["vendor/"], "copy_exclude")
    with copied(tmp_path, {"a": "1", "vendor/lib": b"y" * 100_000}, limit=50_000, exclude=exclude) as made:
        assert sorted(path.name for path in made.copy.iterdir()) == ["a"]


def test_sparse_files_stay_sparse_and_do_not_count(tmp_path: Path) -> None:
    (tmp_path / "repo").mkdir()
    with (tmp_path / "repo/sparse").open("wb") as file:
        file.write(b"begin")
        file.seek(200 << 20)
        file.write(b"end")
    with copied(tmp_path, {}, limit=1 << 20) as made:
        found = (made.copy / "sparse").stat()
        assert (found.st_size, found.st_blocks * 512 < 1 << 20) == ((200 << 20) + 3, True)
        assert made.diff() == Diff()
        with (made.copy / "sparse").open("ab") as file:
            file.write(b"x")
        diff = made.diff()
    assert (diff.paths, diff.patch) == (("sparse",), b"")
    assert diff.notes == ("sparse has changed, and is not in the diff: it is larger than 32.0 MiB",)


def test_stored_changes_are_all_or_nothing(tmp_path: Path) -> None:
    with copied(tmp_path, {"a": "old\n", "b": "b\n", "d/x": "x", ".env": "k"}) as made:
        (made.copy / "a").chmod(0o755)
        (made.copy / "out").symlink_to("/tmp")
        before = tree(made.copy)
        for bad in ("../x", "/etc/x", ".git/config", "sub/.git/hooks/x", ".env", "d", "out/x", "a/x", ""):
            with pytest.raises(ToolError):
                copying.store(made.guest, [FileChange("a", b"new"), FileChange("n/e/w", b""), FileChange(bad, b"x")])
            assert tree(made.copy) == before
        with pytest.raises(ToolError):
            copying.store(made.guest, [FileChange("b", None), FileChange("missing", None)])
        assert tree(made.copy) == before
        copying.store(made.guest, [FileChange("a", b"new"), FileChange("n/e/w", b"", 0o755), FileChange("b", None)])
        after = tree(made.copy)
    assert after["a"] == (stat.S_IFREG | 0o755, b"new")
    assert after["n/e/w"] == (stat.S_IFREG | 0o755, b"")
    assert "b" not in after
    assert not [path for path in after if "codeagent" in path]


def test_a_file_or_a_link_takes_the_place_of_a_folder_whose_files_all_go(tmp_path: Path) -> None:
    link = FileChange("d", b"e", stat.S_IFLNK)
    gone = [FileChange("d/x", None), FileChange("d/deep/er/y", None)]
    with copied(tmp_path, {"d/x": "x", "d/deep/er/y": "y", "e/x": "x"}) as made:
        before = tree(made.copy)
        for changes in ([link], [link, gone[0]], [link, *gone, FileChange("missing", None)]):
            with pytest.raises(ToolError):
                copying.store(made.guest, changes)
            assert tree(made.copy) == before
        copying.store(made.guest, [link, *gone])
        assert (made.copy / "d").readlink() == Path("e")
        copying.store(made.guest, [FileChange("d/x", b"1", 0o644), FileChange("d", None)])
        assert (made.copy / "d/x").read_bytes() == b"1"
        assert not [path for path in tree(made.copy) if "codeagent" in path]


def test_files_that_change_places_are_not_lost_and_a_moved_one_keeps_its_mode(tmp_path: Path) -> None:
    with copied(tmp_path, {"a": "a", "b": "b", "c": "c"}) as made:
        (made.copy / "c").chmod(0o755)
        swap = [FileChange("a", None), FileChange("b", b"a"), FileChange("b", None), FileChange("a", b"b")]
        copying.store(made.guest, [*swap, FileChange("c", None), FileChange("d", b"c", None, "c")])
        after = tree(made.copy)
    assert (after["a"][1], after["b"][1], after["d"]) == (b"b", b"a", (stat.S_IFREG | 0o755, b"c"))


def test_an_edit_of_the_users_comes_into_the_copy_unless_the_agent_changed_the_file(tmp_path: Path) -> None:
    with copied(
        tmp_path,
        {
            "mine": "1\n",
            "ours": "1\n",
            "theirs": "1\n",
            "gone": "1\n",
            "untouched": "1\n",
            "x.log": "",
            ".gitignore": "*.log\n",
        },
    ) as made:
        write(made.copy, {"theirs": "agent\n", "ours": "both\n"})
        write(
            made.repo,
            {"mine": "user\n", "ours": "both\n", "theirs": "user\n", "new/file": "user\n", "x.log": "user\n"},
        )
        (made.repo / "gone").unlink()
        paths = ("mine", "ours", "theirs", "new/file", "gone", "x.log", "mine")
        assert [made.sync(path) for path in paths] == [
            Edit.SYNCED,
            Edit.SAME,
            Edit.CONFLICT,
            Edit.SYNCED,
            Edit.SYNCED,
            Edit.SYNCED,
            Edit.SAME,
        ]
        write(made.repo, {"x.log": "user again\n"})
        write(made.copy, {"x.log": "agent\n"})
        assert made.sync("x.log") == Edit.IGNORED  # what it was is not kept, and it was touched
        write(made.copy, {"untouched": "agent\n"})
        assert made.sync("untouched") == Edit.UNCHANGED
        (made.copy / "untouched").write_text("1\n")
        assert (made.copy / "mine").read_text() == (made.copy / "new/file").read_text() == "user\n"
        assert not (made.copy / "gone").exists()
        assert made.diff().paths == ("theirs",)
        write(made.copy, {"mine": "agent\n"})
        assert made.diff().patch.startswith(b"diff --git a/mine b/mine\n")
        assert b"-user\n+agent\n" in made.diff().patch


def test_host_edits_are_read_from_inside_the_repository_only(tmp_path: Path) -> None:
    write(tmp_path, {"secret": "s", "repo/a": "1"})
    (tmp_path / "repo/link").symlink_to("../secret")
    (tmp_path / "repo/folder").symlink_to("..")
    os.mkfifo(tmp_path / "repo/pipe")
    assert [copying.host_edit(tmp_path / "repo", path) for path in ("link", "folder/secret", "pipe", "gone")] == [
        None,
        None,
        None,
        FileChange("gone", None),
    ]


def tree_hash_of(*files: tuple[str, bytes, bytes]) -> str:
    lines = (f"{mode} {hashlib.sha256(content).hexdigest()} ".encode() + path for mode, content, path in files)
    return hashlib.sha256(b"".join(line + b"\0" for line in lines)).hexdigest()


def test_the_hash_of_the_tree_covers_what_a_diff_compares(tmp_path: Path) -> None:
    files: dict[str, bytes | str] = {"a.txt": "one\n", "b/c.txt": "two\n", ".gitignore": "*.log\n", "x.log": "1"}
    with copied(tmp_path, {**files, ".env": "SECRET=1\n"}) as made:
        kept = ("100644", b"*.log\n", b".gitignore"), ("100644", b"one\n", b"a.txt")
        assert copying.tree_hash(made.guest) == tree_hash_of(*kept, ("100644", b"two\n", b"b/c.txt"))
        (made.copy / "x.log").write_text("2")  # ignored
        assert copying.tree_hash(made.guest) == tree_hash_of(*kept, ("100644", b"two\n", b"b/c.txt"))
        (made.copy / "b/c.txt").write_bytes(b"six\n")
        (made.copy / "b/c.txt").chmod(0o755)
        (made.copy / "b/new").symlink_to("c.txt")
        changed = ("100755", b"six\n", b"b/c.txt"), ("120000", b"c.txt", b"b/new")
        assert copying.tree_hash(made.guest) == tree_hash_of(*kept, *changed)
        (made.copy / "a.txt").unlink()
        assert copying.tree_hash(made.guest) == tree_hash_of(kept[0], *changed)
