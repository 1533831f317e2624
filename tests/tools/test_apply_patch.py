"""apply_patch: the format as a whole, on a copy on disk."""

from __future__ import annotations

import json
import stat
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event
from typing import Any

import pytest

from codeagent.agent.dispatch import Action
from codeagent.agent.toolset import Toolset
from codeagent.approval.classify import classify
from codeagent.approval.rules import Rules
from codeagent.conversation import ToolCall
from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox import copying
from codeagent.sandbox.seam import FileChange
from tests.guest.in_process import InProcess, in_process
from tests.guest.trees import git, write


class Copy:
    """The parts of a sandbox that the tool uses, on a folder. `meanwhile` happens before the copy is made."""

    def __init__(self, guest: InProcess, meanwhile: Callable[[], None] = lambda: None) -> None:
        self._guest = guest
        self._meanwhile = meanwhile
        self.has_copy = False
        self.fetch = guest.fetch
        self.list_dir = guest.list_dir
        self.read_file = guest.read_file

    def store(self, changes: Sequence[FileChange]) -> None:
        if not self.has_copy:
            self._meanwhile()
            self.has_copy = True
        copying.store(self._guest, changes)


@contextmanager
def prepared(top: Path, patch: str, meanwhile: Callable[[], None] = lambda: None) -> Iterator[Action]:
    """The call as the dispatcher gets it."""
    with in_process(top, protect=[[r"^(?:.+/)?\.env(?:/|$)", True]]) as guest:
        copy: Any = Copy(guest, meanwhile)  # no commands are run
        tools = Toolset(copy, top, lambda command: classify(command, Rules()), lambda: None).tools(patching=True)
        yield tools["apply_patch"].prepare(ToolCall("c1", "apply_patch", json.dumps({"patch": patch})))


def apply(top: Path, patch: str, meanwhile: Callable[[], None] = lambda: None) -> str:
    with prepared(top, patch, meanwhile) as action:
        return action.run(Event(), 60.0).text


def wrapped(*lines: str) -> str:
    return "\n".join(["*** Begin Patch", *lines, "*** End Patch"])


def tree(top: Path) -> dict[str, bytes]:
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def refusal(top: Path, patch: str) -> ToolError:
    """Known before anybody is asked, and the same when the call is carried out; neither changes anything."""
    before = tree(top)
    with pytest.raises(ToolError) as first, prepared(top, patch) as action:
        assert action.review is not None
        action.review.check()
    with pytest.raises(ToolError) as caught:
        apply(top, patch)
    assert tree(top) == before
    assert first.value.kind == caught.value.kind
    return caught.value


def test_several_files_are_created_changed_moved_and_deleted_at_once(tmp_path: Path) -> None:
    write(
        tmp_path, {"a.py": "def f():\n    return 1\n\n\ndef g():\n    return 1\n", "old": "x\n", "run": "#!\necho\n"}
    )
    (tmp_path / "run").chmod(0o755)
    patch = wrapped(
        "*** Add File: new/b.py",
        "+first",
        "+",
        "+  last",
        "*** Update File: a.py",
        "@@ def g():",
        "-    return 1",
        "+    return 2",
        "*** Delete File: old",
        "*** Update File: run",
        "*** Move to: bin/run",
        "@@",
        " #!",
        "-echo",
        "+echo moved",
    )
    assert (
        apply(tmp_path, patch)
        == "added new/b.py\nupdated a.py: lines 6-6\ndeleted old\nmoved run to bin/run: lines 1-2"
    )
    assert tree(tmp_path) == {
        "new/b.py": b"first\n\n  last\n",
        "a.py": b"def f():\n    return 1\n\n\ndef g():\n    return 2\n",
        "bin/run": b"#!\necho moved\n",
    }
    assert stat.S_IMODE((tmp_path / "bin/run").stat().st_mode) == 0o755


def test_a_file_that_changes_after_the_question_is_not_overwritten(tmp_path: Path) -> None:
    write(tmp_path, {"a.py": "one\ntwo\nthree\n"})
    patch = wrapped("*** Update File: a.py", " one", "-two", "+2")

    def edit() -> None:
        write(tmp_path, {"a.py": "one\ntwo\nthree\nfour\n"})

    assert apply(tmp_path, patch, edit) == "updated a.py: lines 1-2"
    assert tree(tmp_path) == {"a.py": b"one\n2\nthree\nfour\n"}

    def undo() -> None:
        write(tmp_path, {"a.py": "another\n"})

    write(tmp_path, {"a.py": "one\ntwo\n"})
    with pytest.raises(ToolError, match="does not fit"):
        apply(tmp_path, patch, undo)
    assert tree(tmp_path) == {"a.py": b"another\n"}


FIRST = "class A:\n    def x(self):\n        pass\n\n"
CONTENT = FIRST + "class B:\n    def x(self):\n        pass\n"


@pytest.mark.parametrize(
    ("hunk", "expected"),
    [
        (
            ["@@ class B:", "@@     def x(self):", "-        pass", "+        return 2"],
            FIRST + "class B:\n    def x(self):\n        return 2\n",
        ),
        (
            ["@@ class B:", "     def x(self):", "-        pass", "+        y"],
            FIRST + "class B:\n    def x(self):\n        y\n",
        ),
        (
            [" class B:", "     def x(self):", "-        pass", "+        y"],
            FIRST + "class B:\n    def x(self):\n        y\n",
        ),
        (
            ["@@ class B:", " class B:", "-    def x(self):", "+    def z(self):"],
            FIRST + "class B:\n    def z(self):\n        pass\n",
        ),
        (["+# end", "*** End of File"], CONTENT + "# end\n"),
        (["-        pass", "*** End of File"], FIRST + "class B:\n    def x(self):\n"),
        (["@@ class A:", "+    y = 1"], CONTENT.replace("class A:\n", "class A:\n    y = 1\n")),
        (
            ["", " class B:", "-    def x(self):", "+    def y(self):"],
            FIRST + "class B:\n    def y(self):\n        pass\n",
        ),
    ],
)
def test_a_hunk_goes_where_its_context_says(tmp_path: Path, hunk: list[str], expected: str) -> None:
    write(tmp_path, {"f": CONTENT})
    apply(tmp_path, wrapped("*** Update File: f", *hunk))
    assert (tmp_path / "f").read_text() == expected


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        (["*** Update File: f", "@@", "-nothing like it", "+x"], "hunk 1 of 1 in f does not fit"),
        (
            ["*** Update File: f", " class A:", "-    def x(self):", "+y", "@@", "-gone", "+x"],
            "hunk 2 of 2 in f does not fit",
        ),
        (["*** Update File: f", "-        pass", "+x"], "hunk 1 of 1 in f fits in 2 places (lines 3, 7)"),
        (["*** Update File: f", "@@ class C:", "-        pass", "+x"], "no line after line 0 reads `class C:`"),
        (["*** Update File: f"], "the update of f has no hunk"),
        (
            ["*** Update File: f", "@@", "pass"],
            "line 4 of the patch: in the update of f, `p` begins no line of a hunk",
        ),
        (["*** Add File: f", "+x"], "f exists already"),
        (["*** Add File: g", "x"], "line 3 of the patch: each line of the new file g must begin with `+`"),
        (["*** Delete File: f", "*** Delete File: f"], "f was deleted or moved earlier in the patch"),
        (["*** Delete File: f", "-x"], "nothing may follow the deletion of f"),
        (["*** Update File: f", "*** Move to: other"], "other exists already"),
        (["x", "*** Delete File: f"], "line 2 of the patch stands before any"),
        ([], "the patch changes nothing"),
        (["*** Add File: "], "line 2 of the patch names no file"),
    ],
)
def test_what_does_not_fit_is_named_and_changes_nothing(tmp_path: Path, body: list[str], sentence: str) -> None:
    write(tmp_path, {"f": CONTENT, "other": ""})
    patch = (
        wrapped("*** Add File: before", "+x", *body) if sentence.startswith(("hunk", "f exists")) else wrapped(*body)
    )
    error = refusal(tmp_path, patch)
    assert error.kind == ErrorKind.PATCH_FAILED
    assert sentence in error.sentence


@pytest.mark.parametrize(
    "patch", ["", "hello", "*** Begin Patch\n*** Delete File: f", "*** Delete File: f\n*** End Patch"]
)
def test_a_text_that_is_no_patch_is_refused(tmp_path: Path, patch: str) -> None:
    write(tmp_path, {"f": ""})
    assert refusal(tmp_path, patch).kind == ErrorKind.PATCH_FAILED


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("gone", ErrorKind.FILE_NOT_FOUND),
        ("../x", ErrorKind.OUTSIDE_REPOSITORY),
        ("/etc/passwd", ErrorKind.OUTSIDE_REPOSITORY),
        (".env", ErrorKind.PROTECTED_PATH),
        ("d", ErrorKind.NOT_A_FILE),
    ],
)
def test_paths_are_held_to_the_same_rules_as_for_reading(tmp_path: Path, path: str, kind: ErrorKind) -> None:
    write(tmp_path, {"repo/.env": "k", "repo/d/x": "", "x": ""})
    assert refusal(tmp_path / "repo", wrapped(f"*** Update File: {path}", "-k", "+l")).kind == kind


def test_new_files_in_protected_or_git_paths_are_refused(tmp_path: Path) -> None:
    for path in (".env", ".git/hooks/pre-commit", "../out", "sub/.git/config"):
        assert refusal(tmp_path, wrapped("*** Add File: ok", "+x", f"*** Add File: {path}", "+x")).kind in (
            ErrorKind.PROTECTED_PATH,
            ErrorKind.OUTSIDE_REPOSITORY,
        )


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        (["*** Update File: .git/config", "-a", "+b"], ErrorKind.PROTECTED_PATH),
        (["*** Delete File: .git/config"], ErrorKind.PROTECTED_PATH),
        (["*** Update File: f", "*** Move to: .git/f"], ErrorKind.PROTECTED_PATH),
        (["*** Update File: d/../f", "-a", "+b"], ErrorKind.OUTSIDE_REPOSITORY),
        (["*** Add File: .", "+b"], ErrorKind.OUTSIDE_REPOSITORY),
        (["*** Add File: d", "+b"], ErrorKind.NOT_A_FILE),
        (["*** Add File: f/x", "+b"], ErrorKind.NOT_A_DIRECTORY),
        (["*** Add File: link/new", "+b"], ErrorKind.NOT_A_DIRECTORY),
        (["*** Add File: link/deep/er/new", "+b"], ErrorKind.NOT_A_DIRECTORY),
        (["*** Update File: link/x", "-a", "+b"], ErrorKind.NOT_A_DIRECTORY),
        (["*** Add File: out/x", "+b"], ErrorKind.OUTSIDE_REPOSITORY),
        (["*** Add File: n", "+x", "*** Add File: n/m", "+x"], ErrorKind.NOT_A_DIRECTORY),
    ],
)
def test_where_nothing_can_be_written_is_known_before_anybody_is_asked(
    tmp_path: Path, body: list[str], kind: ErrorKind
) -> None:
    write(tmp_path, {"repo/.git/config": "a\n", "repo/f": "a\n", "repo/d/x": "a\n", "other/x": "a\n"})
    (tmp_path / "repo/link").symlink_to("d")
    (tmp_path / "repo/out").symlink_to("../other")
    assert refusal(tmp_path / "repo", wrapped(*body)).kind == kind


def test_one_file_has_one_name(tmp_path: Path) -> None:
    write(tmp_path, {"d/f": "a\nb\n"})
    patch = wrapped(
        *("*** Update File: ./d/f", "-a", "+A", "*** Update File: d//f", "-b", "+B"),
        *("*** Update File: /workspace/d/f", "-B", "+C"),
    )
    assert apply(tmp_path, patch) == "updated d/f: lines 1-1\nupdated d/f: lines 2-2\nupdated d/f: lines 2-2"
    assert tree(tmp_path) == {"d/f": b"A\nC\n"}


def test_the_closest_lines_help_to_correct_a_hunk(tmp_path: Path) -> None:
    write(tmp_path, {"f": "one\ntwo\nthree\nfour\n"})
    error = refusal(tmp_path, wrapped("*** Update File: f", " two", "-tree", "+3"))
    assert error.detail == "closest in the file:\n2\ttwo\n3\tthree"


def test_line_ends_encoding_and_a_missing_end_are_kept(tmp_path: Path) -> None:
    write(
        tmp_path,
        {"crlf": b"a\r\nb\r\n", "no end": b"a\nb", "latin": "größe\nü\n".encode("cp1252"), "blank": b"a  \nb\n"},
    )
    for name in ("crlf", "no end", "blank"):
        apply(tmp_path, wrapped(f"*** Update File: {name}", " a", "-b", "+c", "+d"))
    apply(tmp_path, wrapped("*** Update File: latin", " größe", "-ü", "+ä"))
    assert tree(tmp_path) == {
        "crlf": b"a\r\nc\r\nd\r\n",
        "no end": b"a\nc\nd",
        "latin": "größe\nä\n".encode("cp1252"),
        "blank": b"a  \nc\nd\n",
    }
    error = refusal(tmp_path, wrapped("*** Update File: latin", "-ä", "+中"))
    assert error.sentence == "latin is written in cp1252, which cannot hold all of the new text"


def test_a_git_diff_is_taken_too(tmp_path: Path) -> None:
    write(tmp_path, {"repo/a": "1\n2\n3\n", "repo/gone": "x\n", "repo/b": "same\n" * 9})
    repo = tmp_path / "repo"
    git(repo, "init", "-q")
    git(repo, "add", ".")
    write(repo, {"a": "1\nII\n3\n", "new": "n\n"})
    (repo / "gone").unlink()
    (repo / "b").rename(repo / "c")
    git(repo, "add", "-A")
    patch = git(repo, "diff", "--cached", "-M", "4b825dc642cb6eb9a060e54bf8d69288fbee4904").decode()
    assert patch.count("diff --git") == 3
    git(repo, "commit", "-qm", "x")
    (tmp_path / "empty").mkdir()
    apply(tmp_path / "empty", patch)
    assert tree(tmp_path / "empty") == {"a": b"1\nII\n3\n", "new": b"n\n", "c": b"same\n" * 9}
    back = git(repo, "diff", "HEAD", "4b825dc642cb6eb9a060e54bf8d69288fbee4904").decode()
    apply(tmp_path / "empty", back)
    assert tree(tmp_path / "empty") == {}
    assert "does not exist" in refusal(tmp_path / "empty", back).sentence
