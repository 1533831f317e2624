"""Whatever is classified read-only is run for real on a writable tree of canaries, and must leave all untouched."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, given, settings

from codeagent.approval.classify import classify
from codeagent.approval.seam import CommandClass
from tests.approval.dangerous import SCRIPTS, plant, snapshot

SHELLS = (("dash",), ("bash", "--posix"), ("busybox", "ash"))


def run(shell: tuple[str, ...], script: str, root: Path) -> None:
    environ = {
        "PATH": f"{root}/bin:/usr/bin:/bin",
        "HOME": "/nonexistent",
        "GIT_OPTIONAL_LOCKS": "0",
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "safe.directory",
        "GIT_CONFIG_VALUE_0": "*",
    }
    program = next(found for folder in ("/usr/bin", "/bin") if os.access(found := f"{folder}/{shell[0]}", os.X_OK))
    subprocess.run(
        [program, *shell[1:], "-c", script],
        cwd=root,
        env=environ,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=30,
    )


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("canaries") / "repo"
    plant(root)
    return root


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=SCRIPTS)
def test_what_is_read_only_leaves_everything_untouched(script: str, tree: Path) -> None:
    assume(classify(script).class_ is CommandClass.READ_ONLY)
    before = snapshot(tree)
    for shell in SHELLS:
        run(shell, script, tree)
        assert snapshot(tree) == before, f"{shell[0]} changed something with {script!r}"


def test_the_canaries_would_tell(tree: Path, tmp_path: Path) -> None:
    root = tmp_path / "repo"
    plant(root)
    for script, mark in (
        ("./x", "ran-x"),
        ("git -c core.pager=x -p log", ""),
        ("touch new", "new"),
        ("less a", "ran-less"),
        ("git log --format=%G? -1", "ran-gpg"),
        ("git log --show-signature refs/tags/signed", "ran-gpg"),
        ("git stash list --format=%G?", "ran-gpg"),
    ):
        run(("dash",), script, root)
        if mark:
            assert (root / mark).exists(), script
            (root / mark).unlink()
