"""Protected files in real containers: empty for every tool, in the mount and in the copy."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.settings import SandboxSettings
from tests.docker.conftest import Open, Opened
from tests.guest.trees import git, write

SECRETS = {
    ".env": "TOKEN=hunter2\n",
    "web/.ENV.local": "TOKEN=hunter2\n",
    "certs/Server.PEM": "hunter2\n",
    ".aws/credentials": "hunter2\n",
    "deep/er/.docker/config.json": "hunter2\n",
    "credentials.json": "hunter2\n",
    "my secrets/x": "hunter2\n",
}


SETTINGS = SandboxSettings(protect=("my secrets/",))


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    top = tmp_path / "project"
    write(top, {**SECRETS, ".env.example": "TOKEN=example\n", "a.txt": "a\n"})
    (top / "link").symlink_to(".env")
    (top / "conf").mkdir()
    (top / "conf/tls.key").symlink_to("../plain-name")
    (top / "soon.key").symlink_to("later")
    write(top, {"plain-name": "hunter2\n"})
    os.link(top / "credentials.json", top / "hard-link.json")
    git(top, "init", "-q")
    return top


def refusals(opened: Opened, *paths: str) -> list[str]:
    kinds = []
    for path in paths:
        with pytest.raises(ToolError) as caught:
            opened.sandbox.read_file(path, None, None)
        kinds.append(str(caught.value.kind))
    return kinds


@pytest.mark.parametrize("copied", [False, True])
def test_no_tool_sees_what_is_protected(open_one: Open, repo: Path, copied: bool) -> None:
    opened = open_one(repo=repo, settings=SETTINGS)
    if copied:
        assert opened.output("true", writable=True) == ""
    for writable in (False, True) if copied else (False,):
        assert "hunter2" not in opened.output(
            "grep -r '' . ; cat .env web/.ENV.local link conf/* hard-link.json", writable=writable
        )
        assert opened.output("wc -c < .env; ls -A .aws 'my secrets'; cat .env.example", writable=writable) == (
            "0\n.aws:\n\nmy secrets:\nTOKEN=example\n"
        )
    named = [*SECRETS, "link", "hard-link.json", "plain-name", "conf/tls.key", ".aws/anything"]
    assert refusals(opened, *named) == [str(ErrorKind.PROTECTED_PATH)] * len(named)
    entries = {entry.path: entry.protected for entry in opened.sandbox.list_dir(".", 1, 0).entries}
    assert {path for path, protected in entries.items() if protected} == {
        *(".env", ".aws", "credentials.json", "my secrets", "hard-link.json", "plain-name", "soon.key")
    }
    if copied:
        opened.output("rm -f .env; echo x > .env; echo y >> credentials.json", writable=True)
        diff = opened.sandbox.diff()
        assert (diff.paths, b"hunter2" in diff.patch) == ((), False)


def replaced(top: Path) -> None:
    """As editors, git checkout and package managers write."""
    write(top, {".env.new": "TOKEN=hunter3\n"})
    (top / ".env.new").rename(top / ".env")


def added(top: Path) -> None:
    write(top, {"new/folder/id_rsa": "hunter3\n"})


def removed_and_made_again(top: Path) -> None:
    (top / ".env").unlink()
    write(top, {".env": "hunter3\n"})


def linked(top: Path) -> None:
    write(top, {"other": "hunter3\n"})
    (top / "x.pem").symlink_to("other")


def led_elsewhere(top: Path) -> None:
    write(top, {"other": "hunter3\n"})
    (top / "conf/tls.key").unlink()
    (top / "conf/tls.key").symlink_to("../other")


def made_at_last(top: Path) -> None:
    """What a link has led to all the time."""
    write(top, {"later": "hunter3\n"})


def a_folder_linked(top: Path) -> None:
    write(top, {"home/ssh/key": "hunter3\n"})
    (top / ".ssh").symlink_to("home/ssh")


CHANGES = (replaced, added, removed_and_made_again, linked, led_elsewhere, made_at_last, a_folder_linked)


def test_a_mask_that_came_off_or_is_missing_is_noticed_before_the_next_call(open_one: Open, repo: Path) -> None:
    opened = open_one(repo=repo, settings=SETTINGS)
    assert "hunter" not in opened.output("grep -r hunter . || true")
    for change in CHANGES:
        change(repo)
        assert "hunter3" not in opened.output(
            "grep -r hunter . || true; cat .env* new/folder/id_rsa *.pem */*.key *.key .ssh/key"
        ), change.__name__


def test_links_cannot_keep_a_container_from_starting(open_one: Open, repo: Path) -> None:
    for number, target in enumerate((".git", ".git/config", ".git/hooks", "4.key", ".", "/")):
        (repo / f"{number}.key").symlink_to(target)
    opened = open_one(repo=repo, settings=SETTINGS)
    assert opened.output("cat .env a.txt && git status --short a.txt") == "a\n?? a.txt\n"


def test_a_secret_that_goes_away_does_no_harm(open_one: Open, repo: Path) -> None:
    opened = open_one(repo=repo, settings=SETTINGS)
    opened.output("true")
    (repo / ".env").unlink()
    (repo / "link").unlink()
    assert opened.output("ls -A .env .env.example 2>&1").endswith(".env.example\n")


def test_tracked_protected_files_are_named(open_one: Open, repo: Path) -> None:
    git(repo, "add", "-f", ".env", "a.txt", ".env.example")
    opened = open_one(repo=repo, settings=SETTINGS)
    assert opened.sandbox.tracked_protected() == [".env"]


def test_a_secret_whose_name_is_not_text_is_an_error_that_names_it(open_one: Open, repo: Path) -> None:
    Path(os.fsdecode(os.fsencode(repo) + b"/\xe9.pem")).write_text("hunter2\n")
    opened = open_one(repo=repo, settings=SETTINGS)
    with pytest.raises(SandboxError) as caught:
        opened.run("cat *.pem")
    assert "'\\udce9.pem' cannot be masked" in caught.value.message
