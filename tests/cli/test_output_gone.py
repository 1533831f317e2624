"""A stdout that cannot take what is printed, has no reader any more, or was never there."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

PROGRAM = str(Path(sys.executable).with_name("codeagent"))


def shell(script: str, home: Path) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(home), "codeagent": PROGRAM}
    return subprocess.run(["bash", "-c", script], env=env, capture_output=True, text=True, timeout=60)


@pytest.mark.parametrize("command", ["policy check ls", "config show", "--help", "completion bash"])
def test_a_full_disk_is_said_and_is_no_success(command: str, tmp_path: Path) -> None:
    ran = shell(f"$codeagent {command} >/dev/full", tmp_path)
    assert ran.returncode == 1
    assert ran.stderr == (
        "codeagent: error: What was to be printed could not be written: No space left on device.\n"
        "Free some space, or write somewhere else.\n"
    )


def test_a_full_disk_takes_only_the_display_of_a_session(tmp_path: Path) -> None:
    flags = f"--repo {tmp_path} --model offline --docker-host unix:///nowhere.sock"
    ran = shell(f"$codeagent ask why {flags} --json >/dev/full", tmp_path / "home")
    (session,) = (tmp_path / "home" / "sessions").iterdir()
    assert ran.stderr.splitlines()[-2:] == [
        "codeagent: error: What was to be printed could not be written: No space left on device.",
        "Free some space, or write somewhere else. Nothing is lost: codeagent sessions show " + session.name,
    ]
    assert ran.returncode == 4


@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize(
    ("command", "code"), [("policy check ls", 0), ("ask", 2), ("sessions show nothing", 2), ("sessions delete", 2)]
)
def test_a_stderr_that_takes_nothing_changes_no_exit_code(
    command: str, code: int, unbuffered: str, tmp_path: Path
) -> None:
    ran = shell(f"PYTHONUNBUFFERED={unbuffered} $codeagent {command} 2>/dev/full", tmp_path)
    assert ran.returncode == code


def test_a_reader_that_has_gone_is_left_in_peace(tmp_path: Path) -> None:
    ran = shell("( sleep 0.3; $codeagent policy check ls; echo $? >&2 ) | true", tmp_path)
    assert ran.stderr == "141\n"


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&- 2>&-"])
def test_streams_that_were_closed_before_are_not_missed(closed: str, tmp_path: Path) -> None:
    ran = shell(f"$codeagent policy check ls {closed}", tmp_path)
    assert (ran.returncode, ran.stderr) == (0, "")
