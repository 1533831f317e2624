"""The private copy in real containers: made once, seen by all tools, compared exactly, gone at the end."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

import pytest

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.copying import Edit
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.image import Image
from codeagent.sandbox.sandbox import DockerSandbox
from codeagent.sandbox.seam import Diff, FileChange
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings
from tests.clocks import wait_until
from tests.docker.conftest import USER, Open
from tests.guest.trees import git, write


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    write(
        top, {"a.txt": "one\ntwo\n", "bin": b"\0\1\2", "src/m.py": "x = 1\n", ".gitignore": "node_modules/\n*.log\n"}
    )
    write(top, {"node_modules/dep/index.js": "1\n", ".env": "SECRET=hunter2\n", "run.sh": "#!/bin/sh\necho run\n"})
    git(top, "init", "-q", "-b", "main")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    return top


def tree(top: Path) -> dict[str, tuple[int, bytes]]:
    return {
        str(path.relative_to(top)): (
            path.lstat().st_mode,
            os.fsencode(path.readlink()) if path.is_symlink() else path.read_bytes(),
        )
        for path in top.rglob("*")
        if (path.is_file() or path.is_symlink()) and ".git" not in path.parts
    }


CHANGES = """
sed -i s/two/2/ a.txt
printf '\\0\\3' > bin
chmod +x run.sh
mkdir -p new/deep && echo n > new/deep/file && : > empty
ln -s a.txt link
mv src/m.py src/moved.py
printf 'no end' > 'odd name'
echo changed > node_modules/dep/index.js; echo l > x.log
"""


LISTED = "find . -name .git -prune -o -type f -print"
LEFT_OUT = ("node_modules/dep/index.js", ".env", "link")


def test_a_change_in_the_copy_is_seen_by_all_and_leaves_the_repository_alone(open_one: Open, repo: Path) -> None:
    before = tree(repo)
    opened = open_one(repo=repo)
    assert opened.output("echo x > a.txt 2>&1; cat a.txt").endswith("one\ntwo\n")
    assert not opened.sandbox.has_copy
    assert opened.sandbox.diff() == Diff()
    result = opened.run(CHANGES, writable=True)
    assert (result.exit_code, opened.sandbox.has_copy) == (0, True)
    for writable in (True, False):
        assert opened.output(
            "cat a.txt node_modules/dep/index.js; pwd; stat -c %u . a.txt | sort -u", writable=writable
        ) == (f"one\n2\nchanged\n/workspace\n{repo.stat().st_uid}\n")
    assert opened.run("echo x > a.txt").exit_code != 0
    assert [line.text for line in opened.sandbox.read_file("a.txt", None, None).lines] == ["one", "2"]
    assert "new" in [entry.path for entry in opened.sandbox.list_dir(".", 1, 0).entries]
    assert opened.sandbox.fetch("odd name") == b"no end"
    diff = opened.sandbox.diff()
    assert tree(repo) == before
    assert set(diff.paths) == {
        *("a.txt", "bin", "run.sh", "new/deep/file", "empty", "link", "src/m.py", "src/moved.py", "odd name")
    }
    assert diff.ignored == 2
    git(repo, "apply", "-", given=diff.patch)
    sums = set(opened.output(f"{LISTED} | xargs -d '\\n' sha256sum").splitlines())
    there = {path: content for path, (_, content) in tree(repo).items() if path not in LEFT_OUT}
    assert {f"{hashlib.sha256(content).hexdigest()}  ./{path}" for path, content in there.items()} <= sums
    assert os.access(repo / "run.sh", os.X_OK)


def test_it_is_the_same_in_an_image_that_holds_nothing_but_busybox(
    open_one: Open, repo: Path, busybox_image: str
) -> None:
    opened = open_one(repo=repo, image=busybox_image)
    assert opened.output("wc -c < .env; cat .env") == "0\n"
    assert opened.run(CHANGES, writable=True).exit_code == 0
    diff = opened.sandbox.diff()
    git(repo, "apply", "-", given=diff.patch)
    assert (repo / "a.txt").read_text() == "one\n2\n"
    assert opened.sandbox.read_file("src/moved.py", None, None).total_lines == 1


def test_writing_from_outside_goes_into_the_copy_and_user_edits_follow(open_one: Open, repo: Path) -> None:
    opened = open_one(repo=repo)
    opened.sandbox.store([FileChange("a.txt", b"one\nagent\n"), FileChange("new", b"n\n", 0o755)])
    assert opened.output("cat a.txt; ./new 2>/dev/null; ls -l new | cut -c1-10") == "one\nagent\n-rwxr-xr-x\n"
    assert set(opened.sandbox.diff().paths) == {"a.txt", "new"}
    write(repo, {"src/m.py": "x = 2\n", "a.txt": "user\n"})
    assert opened.sandbox.sync_host_edit("src/m.py") is Edit.SYNCED
    assert opened.sandbox.sync_host_edit("a.txt") is Edit.CONFLICT
    assert opened.output("cat src/m.py a.txt") == "x = 2\none\nagent\n"
    assert set(opened.sandbox.diff().paths) == {"a.txt", "new"}


def test_commands_cannot_change_what_the_diff_compares_with(open_one: Open, repo: Path) -> None:
    opened = open_one(repo=repo)
    opened.run("echo changed >> a.txt", writable=True)
    script = "for f in /codeagent-baseline/*; do echo x >> $f; rm -f $f; done; rm -rf /codeagent-baseline; true"
    opened.run(script, writable=True)
    assert b"+changed" in opened.sandbox.diff().patch
    assert "hunter2" not in opened.output("cat /codeagent-baseline/* | strings -n 4 || cat /codeagent-baseline/*")


def test_a_copy_over_the_limit_is_an_error_and_the_session_goes_on(open_one: Open, repo: Path) -> None:
    write(repo, {"node_modules/big": bytes(range(256)) * 4096 * 4})
    opened = open_one(repo=repo, settings=SandboxSettings(copy_limit=1 << 20))
    with pytest.raises(ToolError) as caught:
        opened.run("true", writable=True)
    assert caught.value.kind == ErrorKind.TOO_LARGE
    assert "copy_limit" in caught.value.sentence
    assert (opened.output("cat a.txt"), opened.sandbox.has_copy) == ("one\ntwo\n", False)
    assert opened.volumes() == []


def test_what_cannot_be_copied_is_counted_in_a_note_to_the_model(open_one: Open, repo: Path) -> None:
    os.mkfifo(repo / "pipe")
    opened = open_one(repo=repo)
    assert opened.run("true", writable=True).notes == (
        "1 entry was left out of the private copy (closed to the repository's owner, sockets, devices)",
    )
    assert opened.run("true", writable=True).notes == ()


def test_folders_can_be_left_out_of_the_copy(open_one: Open, repo: Path) -> None:
    opened = open_one(repo=repo, settings=SandboxSettings(copy_exclude=("node_modules/",)))
    assert opened.output("ls -A", writable=True) == ".env\n.git\n.gitignore\na.txt\nbin\nrun.sh\nsrc\n"


def test_progress_counts_files_and_bytes(
    engine: Engine, image: str, toolbox: Toolbox, repo: Path, tmp_path: Path
) -> None:
    from codeagent.sandbox import image as images
    from codeagent.sandbox.sandbox import open_sandbox

    found = images.find(engine, image)
    assert isinstance(found, Image)
    seen: list[tuple[str, int, int]] = []
    with open_sandbox(
        engine,
        found,
        toolbox,
        repo,
        SandboxSettings(),
        "test-progress",
        tmp_path / "o",
        lambda *step: seen.append(step),
    ) as sandbox:
        sandbox.store([FileChange("x", b"")])
    what, done, total = seen[-1]
    assert what.startswith("copying the repository (")
    assert 0 < done <= total


def test_a_repository_that_the_engine_does_not_see_is_uploaded(
    open_one: Open, repo: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DockerSandbox, "_mount", lambda self: False)  # as for a remote engine
    opened = open_one(repo=repo)
    assert opened.output("cat a.txt; git status --short; wc -c < .env") == "one\ntwo\n M .env\n0\n"
    assert opened.sandbox.has_copy
    opened.run(CHANGES, writable=True)
    diff = opened.sandbox.diff()
    git(repo, "apply", "-", given=diff.patch)
    assert (repo / "a.txt").read_text() == "one\n2\n"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a repository to another user")
def test_a_closed_repository_of_another_user_is_copied_with_its_rights(open_one: Open, repo: Path) -> None:
    subprocess.run(["chown", "-R", f"{USER}:{USER}", str(repo)], check=True)
    repo.chmod(0o700)
    opened = open_one(repo=repo)
    assert opened.output("id -u; echo new >> a.txt; stat -c %u a.txt", writable=True) == f"{USER}\n{USER}\n"
    assert opened.sandbox.diff().paths == ("a.txt",)


def test_a_lost_writer_is_replaced_and_the_diff_is_the_same(open_one: Open, repo: Path, engine: Engine) -> None:
    opened = open_one(repo=repo)
    opened.run("echo more >> a.txt", writable=True)
    before = opened.sandbox.diff()
    writer = opened.sandbox._writing_slot().container
    assert writer is not None
    engine.client.api.kill(writer.name)
    wait_until(writer.channel.loss)
    opened.run("true", writable=True)
    assert opened.sandbox.diff() == before
