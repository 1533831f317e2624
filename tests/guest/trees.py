"""Small trees on disk, and the guest's view of them."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from guest.protection import Protection
from guest.tree import Git, Tree

GIT_ENVIRONMENT = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
}


def write(top: Path, files: Mapping[str, bytes | str]) -> None:
    for name, content in files.items():
        path = top / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content.encode() if isinstance(content, str) else content)


def git(top: Path, *arguments: str, given: bytes | None = None) -> bytes:
    """Runs git on a tree that the test made itself."""
    done = subprocess.run(["git", "-C", str(top), *arguments], input=given, capture_output=True, env=GIT_ENVIRONMENT)
    assert done.returncode in (0, 1), done.stderr.decode()
    return done.stdout


@contextmanager
def opened(top: Path, protection: Protection | None = None, git: Git | None = None) -> Iterator[Tree]:
    root = os.open(top, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield Tree(root, git or Git(), protection or Protection())
    finally:
        os.close(root)
