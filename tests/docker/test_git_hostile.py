"""Whatever leads git to a configuration in a repository, commands that only read run nothing that it names.

Each layout is made by a script: on the host under a running session, and by an allowed command in the private copy.
A command that is free of our environment then shows that the canary would have run.
"""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings
from tests.docker.conftest import Open, Opened, opening, text
from tests.guest.trees import git, write

MARK = "/tmp/canary-has-run"
EVIL = f"""
[filter "x"]
\tclean = "sh -c 'echo clean >> {MARK}; cat'"
[diff "x"]
\ttextconv = "sh -c 'echo textconv >> {MARK}; cat $0'"
"""
READING = ["git status -s", "git diff", "git log -p -1", "git show HEAD", "git status --ignore-submodules=none"]
FREE = "unset GIT_DIR GIT_WORK_TREE GIT_COMMON_DIR GIT_EXEC_PATH;"

PLAIN = "rm -rf .git sub/.git evil conf .gitmodules; cp -a pristine .git; cp -a pristine.sub sub/.git;"
TOP = {
    "its configuration is a link": "cat .git/config evil.inc > conf; ln -sf ../conf .git/config",
    "it has another common directory": "cp -a .git evil; cat evil.inc >> evil/config; echo ../evil > .git/commondir",
    "it is a link": "mv .git evil; cat evil.inc >> evil/config; ln -s evil .git",
    "it is a file": "mv .git evil; cat evil.inc >> evil/config; echo 'gitdir: evil' > .git",
    "it names a file of its own": "printf '[extensions]\\n\\tworktreeConfig = true\\n' > conf; "
    "ln -s ../evil.inc .git/config.worktree; cat .git/config >> conf; ln -sf ../conf .git/config",
    "it includes a file": "printf '[include]\\n\\tpath = ../evil.inc\\n' | cat .git/config - > conf; "
    "ln -sf ../conf .git/config",
}
SUBMODULE = {
    "its configuration is a link": "cat sub/.git/config evil.inc > conf; ln -sf ../../conf sub/.git/config",
    "it has another common directory": "cp -a sub/.git evil; cat evil.inc >> evil/config; "
    "echo ../../evil > sub/.git/commondir",
    "it is a link": "mv sub/.git evil; cat evil.inc >> evil/config; ln -s ../evil sub/.git",
    "it is a file": "mv sub/.git evil; cat evil.inc >> evil/config; echo 'gitdir: ../evil' > sub/.git",
    "it lies in the git directory": "cp crafted .git/index; mkdir .git/sub; cp -a sub .git; "
    "mv .git/sub/.git evil; cat evil.inc >> evil/config; echo 'gitdir: ../../evil' > .git/sub/.git",
}
NOT_IGNORED = "printf '[submodule \"sub\"]\\n\\tpath = sub\\n\\tignore = none\\n' > .gitmodules;"


@pytest.fixture(scope="module")
def repository(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With a submodule, and what the scripts need."""
    top = tmp_path_factory.mktemp("hostile") / "project"
    attributes = {".gitattributes": "* filter=x diff=x\n"}
    write(
        top,
        {"a.txt": "1\n", "evil.inc": EVIL, "sub/a.txt": "1\n", **attributes, "sub/.gitattributes": "* filter=x\n"},
    )
    for folder in (top / "sub", top):
        git(folder, "init", "-q", "-b", "main")
        git(folder, "add", ".")
        git(folder, "commit", "-qm", "first")
    write(top, {"a.txt": "2\n"})
    git(top, "commit", "-qam", "second")
    subprocess.run(["cp", "-a", ".git", "pristine"], cwd=top, check=True)
    subprocess.run(["cp", "-a", "sub/.git", "pristine.sub"], cwd=top, check=True)
    _craft(top)
    write(top, {"a.txt": "3\n", "sub/a.txt": "2\n"})
    return top


def _craft(top: Path) -> None:
    """An index as git would not write it: with a submodule inside of the git directory."""
    commit = git(top / "sub", "rev-parse", "HEAD").decode().strip()
    git(top, "update-index", "--add", "--cacheinfo", f"160000,{commit},-git/sub")
    index = (top / ".git/index").read_bytes()
    assert index.count(b"-git/sub") == 1
    (top / "crafted").write_bytes(index.replace(b"-git/sub", b".git/sub"))
    shutil.copy(top / "pristine/index", top / ".git/index")


def _shown(opened: Opened, layouts: dict[str, str], *, in_copy: bool) -> None:
    """Makes each layout, on the host or in the copy, and reads: nothing runs until our environment is left."""
    for what, script in layouts.items():
        if in_copy:
            assert opened.run(PLAIN + script, writable=True).exit_code == 0
        else:
            subprocess.run(["sh", "-ec", PLAIN + script], cwd=opened.repo, check=True)
        read = opened.output(f"{'; '.join(READING)}; cat {MARK}")
        assert f"cat: {MARK}: No such file" in read, (what, read)
        free = opened.output(f"{FREE} {'; '.join(READING)}; cat {MARK}; rm {MARK}")
        assert f"cat: {MARK}: No such file" not in free, (what, free)


def _some(layouts: dict[str, str], *names: str) -> dict[str, str]:
    return {what: NOT_IGNORED + script for what, script in layouts.items() if what in names}


def test_no_program_runs_however_git_is_led_to_a_configuration(open_one: Open, repository: Path) -> None:
    """The host changes what is mounted; each change makes a container of its own, so there are few."""
    opened = open_one(repo=repository)
    assert opened.run("true").exit_code == 0  # it has opened
    _shown(opened, _some(TOP, "its configuration is a link", "it is a file"), in_copy=False)
    _shown(opened, _some(SUBMODULE, "it is a link", "it lies in the git directory"), in_copy=False)


def test_nor_does_one_when_an_allowed_command_has_changed_the_private_copy(open_one: Open, repository: Path) -> None:
    subprocess.run(["sh", "-ec", PLAIN], cwd=repository, check=True)
    opened = open_one(repo=repository)
    _shown(opened, TOP, in_copy=True)
    _shown(opened, _some(SUBMODULE, *SUBMODULE), in_copy=True)
    rewritten = "cat evil.inc >> .git/config; cat evil.inc >> sub/.git/config;"
    _shown(opened, {"the copy's own": NOT_IGNORED + rewritten}, in_copy=True)


def test_a_copy_of_such_a_repository_runs_nothing_either(
    engine: Engine, toolbox: Toolbox, image: str, repository: Path, tmp_path: Path
) -> None:
    """Not even in a command that may write, which finds the repository by itself; all in one container here."""
    submodule = "cat sub/.git/config evil.inc > sub.conf; ln -sf ../../sub.conf sub/.git/config"
    layout = f"{PLAIN} {TOP['its configuration is a link']}; {submodule}"
    subprocess.run(["sh", "-ec", layout], cwd=repository, check=True)
    with opening(engine, toolbox, repository, tmp_path, image, SandboxSettings(), copy="engine") as opened:
        for writable in (True, False):
            read = text(opened.run(f"{'; '.join(READING)}; git -C sub diff; cat {MARK}", writable=writable))
            assert "+3" in read
            assert f"cat: {MARK}: No such file" in read, read
        made = "cd /tmp && git init -q x && git -C x status --short && echo made"
        assert opened.output(made, writable=True) == "made\n"
