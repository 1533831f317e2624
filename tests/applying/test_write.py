"""Writing a change while everything goes wrong: killed, failing or raced at each of its steps, one after the other.

A child process carries it out. An audit hook of the interpreter, which is told of every operation on the file system
before it happens, does the harm at step N; N runs until the write ends without meeting it.
"""

from __future__ import annotations

import errno
import os
import shutil
import signal
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codeagent.applying.plan import Plan
from codeagent.applying.write import Changed, NotPutBack, recover, write
from codeagent.beneath import opened_root
from tests.applying.applied import Tree, applied, make, patch_between, planned, put, record_of, recovered, tree

OLD: Tree = {
    "src/edit.py": (0o100644, b"a\n"),
    "src/mode.sh": (0o100644, b"#!\n"),
    "src/gone/only.txt": (0o100644, b"bye\n"),
    "folder/inner/x": (0o100644, b"x\n"),
    "file": (0o100644, b"f\n"),
    "link": (0o120000, b"src/edit.py"),
    "to link": (0o100644, b"l\n"),
    "untouched": (0o100755, b"u\n"),
    ".git/HEAD": (0o100644, b"ref: refs/heads/main\n"),
}
NEW: Tree = {
    "src/edit.py": (0o100644, b"b\n"),
    "src/mode.sh": (0o100755, b"#!\n"),
    "folder": (0o100644, b"now a file\n"),
    "file/inner/y": (0o100644, b"y\n"),
    "link": (0o120000, b"untouched"),
    "to link": (0o120000, b"file"),
    "new/deep/z": (0o100755, b"z\n"),
    "untouched": OLD["untouched"],
    ".git/HEAD": OLD[".git/HEAD"],
}
PATCH = patch_between(OLD, NEW)
OUTSIDE: Tree = {"edit.py": OLD["src/edit.py"], "mode.sh": OLD["src/mode.sh"]}
STEPS = frozenset(
    ("open", "os.rename", "os.link", "os.symlink", "os.mkdir", "os.rmdir", "os.remove", "os.chmod", "os.chown")
)


def in_child(act: Callable[[], int]) -> int:
    """The exit status of a child that does it; -N when signal N ended it."""
    child = os.fork()
    if child == 0:
        code = 99
        try:
            code = act()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def at_step(number: int, harm: Callable[[], object]) -> None:
    """Does the harm, once, before the Nth operation from here on."""
    left = [number]

    def hook(event: str, _arguments: tuple[object, ...]) -> None:
        if event in STEPS and left[0] >= 0:
            left[0] -= 1
            if left[0] == -1:
                harm()

    sys.addaudithook(hook)


WRITTEN, CHANGED, FAILED, NOT_PUT_BACK, NOT_MET = range(5)
Harm = Callable[[Path], object]


def outcomes(
    tmp_path: Path, harm: Harm, every: int = 1, old: Tree = OLD, patch: bytes = PATCH
) -> Iterator[tuple[int, Path]]:
    """How the write ended, and the repository, for harm at each step; ends when the harm is not met any more."""
    for number in range(0, 500, every):
        repo = make(tmp_path / str(number) / "repo", old)
        outside = make(tmp_path / str(number) / "outside", OUTSIDE)
        made = planned(repo, patch)

        def child(repo: Path = repo, number: int = number, made: Plan = made) -> int:
            met: list[bool] = []
            with record_of(repo) as record, opened_root(repo) as root:

                def do() -> None:
                    met.append(True)
                    harm(repo)

                at_step(number, do)
                try:
                    write(root, made.writes, record)
                except Changed:
                    return CHANGED
                except OSError:
                    return FAILED
                except NotPutBack:
                    return NOT_PUT_BACK
            return WRITTEN if met else NOT_MET

        code = in_child(child)
        if code == NOT_MET:
            assert number > 40
            return
        yield code, repo
        assert tree(outside) == OUTSIDE
        shutil.rmtree(repo.parent)
    pytest.fail("the write never ended")


def without_work(now: Tree) -> Tree:
    return {path: what for path, what in now.items() if not path.startswith(".codeagent-") and path[-1] != "/"}


def killed(_repo: Path) -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def full(_repo: Path) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_change_of_every_kind_is_written_and_taken_back(tmp_path: Path) -> None:
    repo = make(tmp_path / "repo", OLD)
    assert applied(repo, PATCH) == {}
    assert tree(repo) == NEW
    assert planned(repo, PATCH).writes == ()
    assert applied(repo, PATCH, back=True) == {}
    assert tree(repo) == OLD


@pytest.mark.slow
def test_killed_at_any_step_it_is_all_or_nothing_for_the_next(tmp_path: Path) -> None:
    ends = set()
    for code, repo in outcomes(tmp_path, killed, every=3):
        assert code == -signal.SIGKILL
        said = recovered(repo)
        now = tree(repo)
        ends.add((said.partition(";")[0], now == NEW))
        assert now in (OLD, NEW)
        assert recovered(repo) == ""
        assert applied(repo, PATCH) == {}
        assert tree(repo) == NEW
    assert ends == {
        ("", False),  # before anything was touched
        ("An earlier `codeagent apply` was killed in the middle", False),
        ("An earlier `codeagent apply` was killed after its last file was in place", True),
    }


@pytest.mark.slow
def test_killed_again_while_putting_things_back_nothing_is_lost(tmp_path: Path) -> None:
    for _, repo in outcomes(tmp_path, killed, every=17):
        for again in range(0, 60, 7):

            def child(repo: Path = repo, again: int = again) -> int:
                with record_of(repo) as record, opened_root(repo) as root:
                    at_step(again, lambda: killed(repo))
                    recover(root, record)
                return 0

            in_child(child)
        recovered(repo)
        assert tree(repo) in (OLD, NEW)


EDITED = [f"edit/{number}" for number in range(6)]
MOVED = [f"here/{number}" for number in range(6)]
MANY: Tree = {path: (0o100644, f"{path}\n".encode()) for path in (*EDITED, *MOVED)}
MANY_NEW: Tree = dict.fromkeys(EDITED, (0o100644, b"new\n")) | {
    path.replace("here", "there"): MANY[path] for path in MOVED
}


def missing(repo: Path) -> int:
    """How many files are neither as they were nor as they shall be."""
    there = tree(repo)
    return sum(path not in there and path.replace("here", "there") not in there for path in MANY)


@pytest.mark.slow
def test_killed_at_any_step_of_writing_or_putting_back_one_file_at_most_is_missing(tmp_path: Path) -> None:
    met = set()
    for _, repo in outcomes(tmp_path, killed, every=13, old=MANY, patch=patch_between(MANY, MANY_NEW)):
        met.add(missing(repo))
        for again in range(1, 60, 19):

            def child(repo: Path = repo, again: int = again) -> int:
                with record_of(repo) as record, opened_root(repo) as root:
                    at_step(again, lambda: killed(repo))
                    recover(root, record)
                return 0

            in_child(child)
            met.add(missing(repo))
        recovered(repo)
        assert tree(repo) in (MANY, MANY_NEW)
    assert met == {0, 1}


@pytest.mark.slow
def test_what_the_user_has_put_back_after_a_kill_is_not_in_the_way(tmp_path: Path) -> None:
    # As `git checkout .` does when files are found missing.
    for code, repo in outcomes(tmp_path, killed, every=5):
        assert code == -signal.SIGKILL
        for name in OLD:
            for path in [*reversed((repo / name).relative_to(repo).parents)][1:]:
                if (repo / path).is_file() or (repo / path).is_symlink():
                    (repo / path).unlink()
            if (repo / name).is_dir() and not (repo / name).is_symlink():
                shutil.rmtree(repo / name)
        done = without_work(tree(repo)) == NEW
        put(repo, OLD)
        recovered(repo)
        assert done or {name: state for name, state in tree(repo).items() if name in OLD} == OLD
        assert not [name for name in tree(repo) if name.startswith(".codeagent-")]


def test_asked_to_stop_between_two_files_everything_is_as_it_was(tmp_path: Path) -> None:
    for last in range(20):
        repo = make(tmp_path / str(last) / "repo", MANY)
        calls = iter(range(last))
        made = planned(repo, patch_between(MANY, MANY_NEW))
        with record_of(repo) as record, opened_root(repo) as root, pytest.raises(StopIteration):
            write(root, made.writes, record, lambda calls=calls: next(calls))  # type: ignore[misc]
        assert tree(repo) == MANY
        assert recovered(repo) == ""


@pytest.mark.slow
def test_a_failure_at_any_step_leaves_everything_as_it_was(tmp_path: Path) -> None:
    ends = set()
    for code, repo in outcomes(tmp_path, full, every=3):
        now = tree(repo)
        # What was kept is thrown away at the end, as far as it can be: a failure in that is none of the write.
        assert (code, now) == (FAILED, OLD) or (code, without_work(now)) == (WRITTEN, NEW)
        ends.add(code)
    assert ends == {FAILED, WRITTEN}


def edits(repo: Path) -> None:
    (repo / "src/edit.py").write_bytes(b"mine\n")


def replaces(repo: Path) -> None:
    (repo / "half").write_bytes(b"mine\n")
    (repo / "half").replace(repo / "src/edit.py")


def deletes(repo: Path) -> None:
    (repo / "src/edit.py").unlink(missing_ok=True)


def links(repo: Path) -> None:
    deletes(repo)
    (repo / "src/edit.py").symlink_to("../../outside/edit.py")


def links_folder(repo: Path) -> None:
    (repo / "src").rename(repo / "moved")
    (repo / "src").symlink_to("../outside")


def creates(repo: Path) -> None:
    (repo / "new/deep").mkdir(parents=True, exist_ok=True)
    (repo / "new/deep/z").write_bytes(b"mine\n")


def fills_folder(repo: Path) -> None:
    if (repo / "folder").is_dir():
        (repo / "folder/mine").write_bytes(b"mine\n")


def paths_of(edit: Harm, folder: Path) -> set[str]:
    """Every path that an edit makes, changes or removes, whatever it finds."""
    found: set[str] = set()
    for before in (OLD, NEW):
        repo = make(folder / "repo", before)
        edit(repo)
        found |= {path for path, _ in set(tree(repo).items()) ^ set(before.items())}
        shutil.rmtree(folder)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("edit", [edits, replaces, deletes, links, links_folder, creates, fills_folder])
def test_whatever_the_user_does_at_any_step_stays_and_leads_nowhere(tmp_path: Path, edit: Harm) -> None:
    mine = paths_of(edit, tmp_path / "mine")
    for code, repo in outcomes(tmp_path, edit, every=5):
        found = tree(repo)
        expected = NEW if code == WRITTEN else OLD
        rest = {path: what for path, what in without_work(found).items() if path not in mine}
        assert rest == {path: what for path, what in expected.items() if path not in mine}
        contents = {content for _, content in found.values()}
        if edit in (edits, replaces, creates):
            assert b"mine\n" in contents
        if edit is links_folder and code != WRITTEN:
            assert {content for _, content in OLD.values()} <= contents
