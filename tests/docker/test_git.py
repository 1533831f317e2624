"""git in the container: it works, and runs no program that the repository names.

The repository here names a canary in every place of its configuration that is known to run one; whatever starts it
leaves a mark in /tmp.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.docker.conftest import Open, Opened
from tests.guest.trees import GIT_ENVIRONMENT, git, write

MARK = "/tmp/canary-has-run"

CONFIG = """\
[core]
\tfsmonitor = {canary} fsmonitor
\thooksPath = .hooks
\tpager = {canary} pager
\teditor = {canary} editor
\taskPass = {canary} askpass
\tsshCommand = {canary} ssh
\tgitProxy = {canary} proxy
\talternateRefsCommand = {canary} alternates
[filter "x"]
\tclean = {canary} clean
\tsmudge = {canary} smudge
\trequired = true
[filter "y"]
\tprocess = {canary} process
[diff]
\texternal = {canary}-external
\tignoreSubmodules = none
\tsubmodule = diff
[diff "x"]
\ttextconv = {canary} textconv
\tcommand = {canary}-command
[gpg]
\tprogram = {canary}-gpg
[log]
\tshowSignature = true
[alias]
\tstatus = !{canary} alias
\tlast = !{canary} alias
[pager]
\tlog = {canary} pager-log
\tdiff = {canary} pager-diff
[credential]
\thelper = !{canary} credential
[interactive]
\tdiffFilter = {canary} filter
[uploadpack]
\tpackObjectsHook = {canary} pack
[remote "origin"]
\turl = ext::{canary} ext
\tuploadpack = {canary} uploadpack
\tpromisor = true
\tpartialclonefilter = blob:none
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
[submodule]
\trecurse = true
[status]
\tsubmoduleSummary = true
[include]
\tpath = ../evil.inc
"""

COMMANDS = [
    "git status",
    "git status --porcelain=v2 --branch --ignored",
    "git status -sb",
    "git diff",
    "git diff --stat",
    "git diff HEAD",
    "git diff --cached",
    "git diff HEAD~1 HEAD",
    "git diff HEAD~1 -- a.txt",
    "git log",
    "git log -p",
    "git log -p --stat --follow a.txt",
    "git log -S one",
    "git log -L 1,1:a.txt",
    "git log --format='%H %G?'",
    "git log --graph --all --oneline",
    "git show",
    "git show HEAD:a.txt",
    "git show --stat HEAD",
    "git blame a.txt",
    "git blame HEAD -- a.txt",
    "git ls-files",
    "git ls-files -s",
    "git ls-files -m -o -d --exclude-standard",
    "git ls-files --eol",
    "git grep one",
    "git grep one HEAD",
    "git grep -n --untracked o",
    "git rev-parse HEAD",
    "git rev-parse --show-toplevel",
    "git branch -a",
    "git branch -vv",
    "git tag -l",
    "git describe --always",
    "git describe --always --dirty",
    "git shortlog -sn HEAD",
    "git cat-file -p HEAD",
    "git cat-file -p HEAD:a.txt",
    "git cat-file -t HEAD",
]
LOOKING_FURTHER = [
    "git show HEAD~1",
    "git cat-file --batch-check --batch-all-objects",
    "git fetch origin",
    "git ls-remote",
    "git submodule status",
    "git last",
    "git show HEAD~1:gone.txt",
    "git log -p -- gone.txt",
    "git -C sub status",
    "cd sub && git log -p",
    "cd vendor/clone && git status && git diff",
]


@pytest.fixture(scope="module")
def hostile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    top = tmp_path_factory.mktemp("hostile") / "project"
    write(top, {"a.txt": "one\n", "b.txt": "same\n", "gone.txt": "gone\n", ".gitignore": "*.o\n", "x.o": ""})
    git(top, "init", "-q", "-b", "main")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    for name in ("sub", "vendor/clone"):
        write(top, {f"{name}/inner.txt": "inner\n"})
        git(top / name, "init", "-q", "-b", "main")
        git(top / name, "add", ".")
        git(top / name, "commit", "-qm", "inner")
    write(top, {"a.txt": "one\ntwo\n", ".gitattributes": "* filter=x diff=x\nb.txt filter=y !diff\n"})
    git(top, "add", "a.txt", ".gitattributes", "sub", "vendor")
    git(top, "commit", "-qm", "second")
    _sign(top)
    git(top, "tag", "v1")
    lost = git(top, "rev-parse", "HEAD~1:gone.txt").decode().strip()
    (top / ".git/objects" / lost[:2] / lost[2:]).unlink()
    _make_hostile(top)
    return top


def _sign(top: Path) -> None:
    """Makes the last commit one with a signature, which showing it would have checked."""
    commit = git(top, "cat-file", "commit", "HEAD").decode()
    head, _, message = commit.partition("\n\n")
    signature = "gpgsig -----BEGIN PGP SIGNATURE-----\n \n iQEz\n -----END PGP SIGNATURE-----"
    signed = git(
        top, "hash-object", "-t", "commit", "-w", "--stdin", given=f"{head}\n{signature}\n\n{message}".encode()
    )
    git(top, "update-ref", "HEAD", signed.decode().strip())


HOOKS = [
    f"{folder}/{hook}"
    for folder in (".hooks", ".git/hooks")
    for hook in ("post-index-change", "post-checkout", "pre-commit", "reference-transaction")
]


def _write_canaries(top: Path, mark: str | Path) -> None:
    write(top, dict.fromkeys(HOOKS, f"#!/bin/sh\necho hook >> {mark}\n"))
    for hook in HOOKS:
        (top / hook).chmod(0o755)
    for name in ("canary", "canary-external", "canary-command", "canary-gpg"):
        (top / name).write_text(f'#!/bin/sh\necho "$0 $@" >> {mark}\ncat 2>/dev/null\n')
        (top / name).chmod(0o755)


def _make_hostile(top: Path) -> None:
    _write_canaries(top, MARK)
    text = CONFIG.format(canary="/workspace/canary")
    write(top, {"evil.inc": text.partition("[filter")[0]})
    for folder in (".git", "sub/.git", "vendor/clone/.git"):
        config = top / folder / "config"
        config.write_text(config.read_text() + text)
    write(
        top,
        {"a.txt": "one\nTWO\n", "b.txt": "SAME\n", "sub/inner.txt": "INNER\n", "vendor/clone/inner.txt": "INNER\n"},
    )


@pytest.fixture
def opened(open_one: Open, hostile: Path) -> Opened:
    return open_one(repo=hostile)


def outputs(opened: Opened, commands: list[str], *, writable: bool) -> dict[str, tuple[int | None, str]]:
    """Exit code and output of each command; fails where a canary has run."""
    found = {}
    for command in commands:
        script = f"{command}; code=$?; if [ -e {MARK} ]; then echo CANARY; cat {MARK}; fi; exit $code"
        result = opened.run(script, writable=writable)
        printed = "".join(piece for _, piece in result.segments)
        assert "CANARY" not in printed, (command, printed)
        found[command] = (result.exit_code, printed)
    return found


def test_the_canaries_run_where_nothing_stops_them(hostile: Path, tmp_path: Path) -> None:
    """Or the other tests here could not fail."""
    subprocess.run(["cp", "-a", str(hostile), str(tmp_path / "copy")], check=True)
    top, mark = tmp_path / "copy", tmp_path / "mark"
    _write_canaries(top, mark)
    for config in (top / ".git/config", top / "evil.inc"):
        config.write_text(config.read_text().replace("/workspace/canary", str(top / "canary")))
    for command in ("status", "diff", "log -p", "blame a.txt", "cat-file -p HEAD~1:gone.txt"):
        subprocess.run(["git", *command.split()], cwd=top, env=GIT_ENVIRONMENT, capture_output=True, timeout=60)
    seen = mark.read_text()
    assert [
        word for word in ("fsmonitor", "external", "textconv", "gpg", "clean", "process", "hook") if word not in seen
    ] == []


def test_reading_commands_work_and_run_no_program_of_the_repository(opened: Opened) -> None:
    found = outputs(opened, COMMANDS, writable=False)
    assert {command: code for command, (code, _) in found.items() if code != 0} == {}
    assert "a.txt" in found["git status"][1]
    assert found["git diff"][1].count("+TWO") == 1
    for command in ("git show", "git log -p", "git diff HEAD~1 HEAD"):
        assert found[command][1].count("+Subproject commit") == 2, command
    assert found["git show HEAD:a.txt"][1] == "one\ntwo\n"
    assert found["git rev-parse --show-toplevel"][1] == "/workspace\n"
    assert "!! x.o" in outputs(opened, ["git status --porcelain --ignored"], writable=False).popitem()[1][1]


def test_what_reaches_further_fails_or_works_but_runs_nothing(opened: Opened) -> None:
    outputs(opened, LOOKING_FURTHER, writable=False)


def test_the_same_holds_in_the_private_copy(opened: Opened) -> None:
    for writable in (True, False):
        found = outputs(opened, COMMANDS, writable=writable)
        assert {command: code for command, (code, _) in found.items() if code != 0} == {}
    assert opened.sandbox.diff().paths == ()
    outputs(
        opened,
        ["git add a.txt && git commit -qm third && git log --oneline -1", "git checkout -q b.txt"],
        writable=True,
    )
    assert opened.sandbox.diff().paths == ("b.txt",)


def test_nothing_of_the_repositorys_configuration_can_be_read(opened: Opened) -> None:
    listed = opened.output("git config --list --local; cat .git/config sub/.git/config; ls -A .git/hooks")
    assert "canary" not in listed
    assert "core.repositoryformatversion=0" in listed
    assert "branch.main.merge=refs/heads/main" in listed


def test_a_configuration_that_the_host_rewrites_is_replaced_again(open_one: Open, tmp_path: Path) -> None:
    top = tmp_path / "project"
    write(top, {"a": "1\n"})
    git(top, "init", "-q")
    git(top, "add", ".")
    opened = open_one(repo=top)
    assert opened.run("git status").exit_code == 0
    git(top, "config", "core.fsmonitor", f"echo x >> {MARK}")
    assert outputs(opened, ["git status --short"], writable=False) == {"git status --short": (0, "A  a\n")}
    assert "fsmonitor" not in opened.output("cat .git/config")


def worktree(tmp_path: Path) -> Path:
    main = tmp_path / "main"
    write(main, {"a.txt": "1\n"})
    git(main, "init", "-q", "-b", "main")
    git(main, "add", ".")
    git(main, "commit", "-qm", "first")
    git(main, "worktree", "add", "-q", "-b", "other", "../linked")
    write(tmp_path / "linked", {"a.txt": "2\n"})
    git(main, "config", "core.fsmonitor", f"echo x >> {MARK}")
    return tmp_path / "linked"


def submodule(tmp_path: Path) -> Path:
    write(tmp_path / "lib", {"a.txt": "1\n"})
    git(tmp_path / "lib", "init", "-q", "-b", "other")
    git(tmp_path / "lib", "add", ".")
    git(tmp_path / "lib", "commit", "-qm", "first")
    top = tmp_path / "super"
    top.mkdir()
    git(top, "init", "-q")
    git(top, "-c", "protocol.file.allow=always", "submodule", "add", "-q", "../lib", "lib")
    write(top, {"lib/a.txt": "2\n"})
    git(top / "lib", "config", "core.fsmonitor", f"echo x >> {MARK}")
    return top / "lib"


@pytest.mark.parametrize("made", [worktree, submodule])
@pytest.mark.parametrize("writable", [False, True])
def test_a_git_directory_outside_of_the_mount_is_seen_beside_it(
    open_one: Open, tmp_path: Path, made: object, writable: bool
) -> None:
    assert callable(made)
    repo = made(tmp_path)
    common = (repo / git(repo, "rev-parse", "--git-common-dir").decode().strip()).resolve()
    write(common, {".env": "hunter2\n", "private/x": "hunter2\n"})
    opened = open_one(repo=repo)
    seen = opened.output("grep -r hunter2 /workspace.git; ls -A /workspace.git/private", writable=writable)
    assert seen == ""
    found = outputs(
        opened, ["git status -s", "git log --format=%s", "git diff", "git blame -s a.txt"], writable=writable
    )
    assert found["git status -s"] == (0, " M a.txt\n")
    assert found["git log --format=%s"] == (0, "first\n")
    assert "+2" in found["git diff"][1]
    assert found["git blame -s a.txt"][0] == 0
    assert str(tmp_path) not in opened.output("cat .git; env; git rev-parse --git-dir", writable=writable)
    assert opened.run("git update-ref refs/heads/x HEAD", writable=writable).exit_code != 0
    assert [entry.path for entry in opened.sandbox.list_dir(".", 1, 0).entries] == ["a.txt"]


def test_a_sub_folder_is_mounted_alone_and_its_history_can_be_read(open_one: Open, tmp_path: Path) -> None:
    top = tmp_path / "project"
    write(top, {"sub/a.txt": "1\n", "secret.txt": "not mounted\n", ".gitignore": "*.log\n", "sub/x.log": ""})
    git(top, "init", "-q")
    git(top, "add", ".")
    git(top, "commit", "-qm", "first")
    opened = open_one(repo=top / "sub")
    assert opened.output("ls -A") == "a.txt\nx.log\n"
    listing = opened.sandbox.list_dir(".", 1, 0)
    assert ([entry.path for entry in listing.entries], listing.ignored) == (["a.txt"], 1)
    assert opened.output("git log --format=%s -- sub/a.txt; git show HEAD:sub/a.txt") == "first\n1\n"
    refused = opened.run("git status")
    assert (refused.exit_code, "must be run in a work tree" in str(refused.segments)) == (128, True)


def test_another_repository_of_the_users_cannot_be_brought_in(open_one: Open, tmp_path: Path) -> None:
    write(tmp_path, {"private/secret.txt": "hunter2\n", "project/a": ""})
    git(tmp_path / "private", "init", "-q")
    git(tmp_path / "private", "add", ".")
    git(tmp_path / "private", "commit", "-qm", "secret")
    write(tmp_path, {"project/.git": f"gitdir: {tmp_path}/private/.git\n"})
    opened = open_one(repo=tmp_path / "project")
    printed = opened.output("git log -p; git show HEAD:secret.txt; ls /workspace.git")
    assert "hunter2" not in printed


def test_a_masked_file_is_not_seen_by_a_git_directory_that_is_the_repository(open_one: Open, tmp_path: Path) -> None:
    write(tmp_path, {".env": "hunter2\n", "a": "", "sub/.env": "hunter2\n"})
    git(tmp_path, "init", "-q")
    script = "mv .git/* .; rmdir .git; git config -f config core.worktree .; echo 'gitdir: .' > .git"
    subprocess.run(["sh", "-ec", script], cwd=tmp_path, check=True)
    opened = open_one(repo=tmp_path)
    for writable in (False, True):
        assert opened.output("cat .env; ls /workspace.git", writable=writable).startswith("ls: ")
        assert "hunter2" not in opened.output("grep -r hunter2 /workspace* /codeagent-*", writable=writable)
