"""`codeagent sandbox clean` on an engine that only says what it holds: nothing goes unless that was agreed to."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from codeagent.sandbox import toolbox
from codeagent.sandbox.owner import OWNER_LABEL, ROLE_LABEL, SESSION_LABEL, Owner
from tests.sandbox.fake_engine import Volumes, engine_at
from tests.terminals import listening

pytestmark = pytest.mark.slow

START = "from codeagent.cli.main import main; main()"
OF_NOBODY = {
    SESSION_LABEL: "k3f9x",
    ROLE_LABEL: "copy",
    OWNER_LABEL: "/".join((Owner.current().machine, "an earlier boot", "", "1", "1")),
}
VOLUMES = {"left-over": OF_NOBODY, "codeagent-toolbox-old": {toolbox.LABEL: "old"}}
SHOWN = """\
volume  left-over              0 B  session k3f9x, copy (ended)
volume  codeagent-toolbox-old  0 B  the toolbox of another version
1 of another version, perhaps of another installation: up to 0 B
"""


@pytest.fixture
def holding(tmp_path: Path) -> Iterator[Volumes]:
    with engine_at(tmp_path / "engine.sock", "20.10.24", VOLUMES) as held:
        yield held


@pytest.fixture
def host(tmp_path: Path) -> str:
    return f"unix://{tmp_path / 'engine.sock'}"


def clean(*arguments: str) -> tuple[int, str]:
    argv = [sys.executable, "-c", START, "sandbox", "clean", *arguments]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=60, check=False)
    assert "asking" not in done.stderr
    return done.returncode, done.stdout


def test_yes_shows_and_removes(holding: Volumes, host: str) -> None:
    assert clean("--yes", "--docker-host", host) == (0, f"{SHOWN}Removed 2 of 2, up to 0 B.\n")
    assert holding == {}


def test_without_a_terminal_or_with_dry_run_everything_stays(holding: Volumes, host: str) -> None:
    assert clean("--docker-host", host) == (2, SHOWN)
    assert clean("--dry-run", "--docker-host", host) == (0, SHOWN)
    assert holding == VOLUMES


def test_a_person_who_agrees_is_obeyed(holding: Volumes, host: str) -> None:
    arguments = ["-c", START, "sandbox", "clean", "--docker-host", host]
    child = pexpect.spawn(sys.executable, arguments, encoding="utf-8", timeout=30, dimensions=(24, 120))
    child.expect_exact("asking the engine")
    child.expect_exact("1 of another version, perhaps of another installation")
    child.expect_exact("Remove these 2? [y/N]:")
    assert holding == VOLUMES
    listening(child)
    child.sendline("y")
    child.expect_exact("Removed 2 of 2")
    child.expect(pexpect.EOF)
    assert holding == {}
