"""Which files are protected, and which mounts that takes; without a container."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from codeagent.errors import SandboxError, UsageError
from codeagent.sandbox import protected
from codeagent.sandbox.hardening import Mount
from codeagent.sandbox.protected import Found
from codeagent.sandbox.workspace import RepositoryLayout
from codeagent.settings import SandboxSettings
from tests.guest.trees import write

PROTECTED = [
    *(".env", "a/.ENV", ".env.local", "x/.Env.Production", ".envrc", "server.pem", "SECRETS/Key.PEM", "tls.key"),
    *("id_rsa", "id_rsa.pub", "id_ed25519_work", "a.p12", "a.pfx", "a.jks", ".netrc", ".npmrc", ".pypirc"),
    *("credentials.json", "x/credentials.json", ".docker/config.json", "x/.docker/config.json"),
]
OPEN = [
    *(
        ".env.example",
        "a/.env.sample",
        ".env.template",
        ".env.dist",
        ".ENV.EXAMPLE",
        "environment",
        "a.env",
        "x.pem.txt",
    ),
    *("keys", "config.json", "docker/config.json", "id_dsa", ".aws", "credentials.json.md", "my.environment"),
]


@pytest.mark.parametrize("path", PROTECTED)
def test_secrets_are_protected_whatever_the_letter_case(path: str) -> None:
    assert protected.matcher(protected.regexes())(path, False)


@pytest.mark.parametrize("path", OPEN)
def test_what_only_looks_like_one_is_not(path: str) -> None:
    assert not protected.matcher(protected.regexes())(path, False)


@pytest.mark.parametrize("path", [".aws", "home/.SSH", ".env"])
def test_whole_folders_are_protected(path: str) -> None:
    assert protected.matcher(protected.regexes())(path, True)


def test_the_users_patterns_come_last() -> None:
    matches = protected.matcher(protected.regexes(["/secrets/", "!test.pem", "*.vault"]))
    assert [matches(path, False) for path in ("test.pem", "other.pem", "a/b.vault")] == [False, True, True]
    assert (matches("secrets", True), matches("a/secrets", True)) == (True, False)


def test_a_pattern_that_cannot_be_read_is_named() -> None:
    with pytest.raises(UsageError) as caught:
        protected.regexes(["!"])
    assert "'!' under [sandbox] protect" in caught.value.message


def test_a_walk_finds_files_folders_links_and_further_names(tmp_path: Path) -> None:
    write(
        tmp_path,
        {".env": "s", "a/b.pem": "s", ".aws/x": "s", ".git/config": "", "sub/.git": "gitdir: x", "plain": ""},
    )
    write(tmp_path, {"real/secret": "s", "c/.ssh/deep/id_rsa": "s", ".git/id_rsa": "a branch of that name"})
    os.link(tmp_path / ".env", tmp_path / "a/other-name")
    (tmp_path / "x.key").symlink_to("real/secret")
    (tmp_path / "y.key").symlink_to("/etc/passwd")
    (tmp_path / "loop").symlink_to(".")
    os.mkfifo(tmp_path / "z.key")
    found = protected.find(tmp_path, protected.regexes())
    assert found == Found(
        files=(".env", "a/b.pem", "a/other-name", "real/secret"),
        folders=(".aws", "c/.ssh"),
        links=("x.key", "y.key"),
        gits=(".git", "sub/.git"),
    )
    assert protected.mounts(found, Path("/file"), Path("/folder")) == [
        *(Mount("bind", f"/workspace/{path}", "/folder") for path in found.folders),
        *(Mount("bind", f"/workspace/{path}", "/file") for path in found.files),
    ]


def test_further_names_are_found_of_what_lies_in_folders_and_behind_links(tmp_path: Path) -> None:
    write(tmp_path, {".ssh/deep/key": "s", "plain": "s", "d/in": "s"})
    os.link(tmp_path / ".ssh/deep/key", tmp_path / "my-key")
    os.link(tmp_path / "plain", tmp_path / "plain-too")
    os.link(tmp_path / "d/in", tmp_path / "in-too")
    (tmp_path / "x.pem").symlink_to("plain")
    (tmp_path / ".aws").symlink_to("d")
    found = protected.find(tmp_path, protected.regexes())
    assert found == Found(
        files=("in-too", "my-key", "plain", "plain-too"), folders=(".ssh", "d"), links=(".aws", "x.pem")
    )


@pytest.mark.slow
def test_packages_linked_into_a_folder_that_is_called_env_are_not_masked_elsewhere(tmp_path: Path) -> None:
    (tmp_path / ".env").mkdir()
    (tmp_path / ".venv").mkdir()
    for number in range(protected.MAX_LINKED_INSIDE + 1):
        (tmp_path / f".env/{number}.py").touch()
        os.link(tmp_path / f".env/{number}.py", tmp_path / f".venv/{number}.py")
    assert protected.find(tmp_path, protected.regexes()) == Found(folders=(".env",))


def test_links_that_lead_nowhere_or_to_what_git_has_are_harmless(tmp_path: Path) -> None:
    write(tmp_path, {".git/config": "", "sub/.git/config": ""})
    targets = {"a": "a.key", "b": "c.key", "c": "b.key", "d": "x" * 250, "e": ".git/config", "f": "sub/.git"}
    for name, target in targets.items():
        (tmp_path / f"{name}.key").symlink_to(target)
    found = protected.find(tmp_path, protected.regexes())
    assert (found.masks, len(found.links)) == ((), 6)


def test_a_repository_too_large_to_look_through_is_an_error(tmp_path: Path) -> None:
    layout = RepositoryLayout(tmp_path, SandboxSettings())
    layout._found = Found(complete=False)
    with pytest.raises(SandboxError) as caught:
        layout.mounted()
    assert "too large to find every protected file" in caught.value.message


def test_a_walk_is_bounded_in_time(tmp_path: Path) -> None:
    write(tmp_path, {"a/b/c/.env": ""})
    assert not protected.find(tmp_path, protected.regexes(), seconds=-1).complete


def test_a_name_that_is_not_text_is_told_apart(tmp_path: Path) -> None:
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/\xe9.pem")).write_text("s")
    found = protected.find(tmp_path, protected.regexes())
    assert (found.files, found.unmaskable) == ((), ("\udce9.pem",))
