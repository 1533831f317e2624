"""Building without a registry: what is reported, and what a failing build leaves."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox import debian
from tests.clocks import wait_until

Step = tuple[str, int, int]


def build(script: str, work: Path) -> tuple[bytes, list[Step]]:
    steps: list[Step] = []
    file = work / "build.sh"
    file.write_text(script)
    lock = os.open(work / "lock", os.O_CREAT | os.O_RDWR)
    try:
        with debian.root_archive(file, work, lambda *step: steps.append(step), lock) as archive:
            return archive.read(), steps
    finally:
        os.close(lock)


@pytest.mark.slow
def test_the_archive_comes_whole_and_the_steps_count_packages(tmp_path: Path) -> None:
    archive, steps = build(
        """
        for package in libc6 dash; do echo "I: Retrieving $package 1.0" >&2; done
        echo "I: Validating libc6 1.0" >&2
        echo "I: Installing core packages..." >&2
        for package in libc6 dash; do echo "I: Unpacking $package..." >&2; done
        echo "I: Configuring libc6..." >&2
        echo "W: something odd" >&2
        echo "I: Importing" >&2
        head -c 300000 /dev/zero
        """,
        tmp_path,
    )
    assert archive == bytes(300_000)
    assert steps == [
        ("fetching packages", 1, 0),
        ("fetching packages", 2, 0),
        ("fetching packages", 2, 0),
        ("unpacking packages", 1, 2),
        ("unpacking packages", 2, 2),
        ("configuring packages", 1, 2),
        ("importing the image", 0, 0),
    ]


@pytest.mark.parametrize("output", ["", "half an archive"])
@pytest.mark.slow
def test_a_build_that_fails_says_its_last_words(tmp_path: Path, output: str) -> None:
    with pytest.raises(SandboxError) as raised:
        build(f"printf '{output}'; echo 'E: Failed getting release file' >&2; exit 3", tmp_path)
    assert raised.value.message == (
        "Building the default image from Debian packages failed: E: Failed getting release file"
    )
    assert str(tmp_path) in raised.value.remedy


@pytest.mark.slow
def test_a_build_that_is_given_up_leaves_no_process_and_no_tree(tmp_path: Path) -> None:
    script = tmp_path / "build.sh"
    script.write_text('mkdir "$1/root"; sleep 987654 & echo $! > "$1/sleeper"; echo started; wait')
    lock = os.open(tmp_path / "lock", os.O_CREAT | os.O_RDWR)
    with (
        pytest.raises(KeyboardInterrupt),
        debian.root_archive(script, tmp_path, lambda *step: None, lock) as archive,
    ):
        assert archive.readline() == b"started\n"
        raise KeyboardInterrupt
    os.close(lock)
    assert not (tmp_path / "root").exists()
    sleeper = (tmp_path / "sleeper").read_text().strip()
    wait_until(lambda: not running(sleeper))


@pytest.mark.slow
def test_a_build_whose_reader_was_killed_ends_and_leaves_no_half_made_system(tmp_path: Path) -> None:
    script = tmp_path / "build"
    script.write_text(
        'set -e\nmkdir "$1/root"\ntouch "$1/root/file"\n'
        'while sleep 0.05; do echo "I: Retrieving a 1.0" >&2; echo started; done\n'
    )
    program = (
        "import os, sys\nfrom pathlib import Path\nfrom codeagent.sandbox import debian\n"
        "lock = os.open(sys.argv[1] + '/lock', os.O_CREAT | os.O_RDWR)\n"
        "work = Path(sys.argv[1])\n"
        "with debian.root_archive(work / 'build', work, lambda *step: None, lock) as archive:\n"
        "    archive.readline()\n    os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", program, str(tmp_path)]).returncode == -signal.SIGKILL
    wait_until(lambda: not (tmp_path / "root").exists())


def running(pid: str) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def test_an_engine_on_another_kind_of_machine_is_named() -> None:
    missing = debian.missing("riscv64")
    assert missing is not None
    if os.geteuid() == 0:
        assert missing.message.startswith("the engine's machine is riscv64 and this one is ")
    else:
        assert missing.message == "building from Debian packages needs root."


@pytest.mark.slow
def test_the_mirror_is_an_address(tmp_path: Path) -> None:
    assert debian.mirror().startswith(("http://", "https://", "file:"))
    assert not debian.mirror().endswith("/")
