"""Fail before, pass after, in real containers; and every way in which a change cheats."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event as Flag

import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox import image as images
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.sandbox import DockerSandbox, open_sandbox
from codeagent.sandbox.seam import Diff
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings
from codeagent.verification.record import Verification, VerificationStatus
from codeagent.verification.verify import Baseline, Check, run_baseline, verify

SOURCE = "def half(n):\n    return n // 3\n"
RIGHT = "def half(n):\n    return n // 2\n"
TEST = """\
from calc import half


def test_half():
    assert half(4) == 2


def test_zero():
    assert half(0) == 0
"""
PYTEST = "python3 -m pytest -q -p no:cacheprovider"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    folder = tmp_path / "repo"
    (folder / "tests").mkdir(parents=True)
    (folder / "calc.py").write_text(SOURCE)
    (folder / "tests/test_calc.py").write_text(TEST)
    (folder / "Makefile").write_text("test:\n\t" + PYTEST + "\n")
    return folder


@pytest.fixture
def checked(repo: Path, tmp_path: Path, engine: Engine, image: str, toolbox: Toolbox) -> Callable[..., Verification]:
    """Runs the whole verification of a change that is made to a second copy of the repository on the host."""
    found = images.find(engine)
    assert found is not None
    outputs = tmp_path / "outputs"
    outputs.mkdir()

    @contextmanager
    def fresh() -> Iterator[DockerSandbox]:
        parts = (engine, found, toolbox, repo, SandboxSettings(), "verification-test", outputs)
        with open_sandbox(*parts, copy="engine") as sandbox:
            yield sandbox

    def output_of(run_id: str) -> str | None:
        file = outputs / f"{run_id}.txt"
        return file.read_text() if file.exists() else None

    def run(
        command: str, change: dict[str, str | None] | None = None, *, repeat: int = 1, seconds: float = 60
    ) -> Verification:
        check = Check(
            command, fresh, output_of, lambda *_: None, repeat=repeat, timeout_seconds=seconds, image=found.id
        )
        baseline = run_baseline(check, Flag())
        return verify(check, baseline, diff_of(repo, tmp_path, change or {}), Flag())

    return run


def diff_of(repo: Path, tmp_path: Path, change: dict[str, str | None]) -> Diff:
    """The diff of a change, as git writes it."""
    git = ["git", f"--git-dir={tmp_path}/git"]
    subprocess.run([*git[:1], "init", "-q", "--bare", str(tmp_path / "git")], check=True)
    work = tmp_path / "work"
    shutil.copytree(repo, work)

    def tree() -> str:
        subprocess.run([*git, f"--work-tree={work}", "add", "-A", "-f"], check=True)
        return subprocess.run([*git, "write-tree"], capture_output=True, text=True, check=True).stdout.strip()

    before = tree()
    for path, text in change.items():
        target = work / path
        if text is None:
            target.unlink()
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
    trees = [before, tree()]
    patch = subprocess.run([*git, "diff", "--binary", "--no-renames", *trees], capture_output=True, check=True).stdout
    return Diff(patch, tuple(change))


def test_a_right_change_passes_and_both_runs_are_recorded(checked: Callable[..., Verification], repo: Path) -> None:
    record = checked(PYTEST, {"calc.py": RIGHT})
    assert (record.status, record.tests_modified) == (VerificationStatus.PASSED, ())
    assert record.before is not None and record.after is not None
    before, after = record.before.published(), record.after.published()
    assert (before["exit_code"], before["tests"], before["runner"], before["runs"]) == (1, 2, "pytest", 1)
    assert (after["exit_code"], after["tests"], after["runs"], after["passed_runs"]) == (0, 2, 1, 1)
    assert "1 failed, 1 passed" in before["output_tail"] and "2 passed" in after["output_tail"]
    assert record.image.startswith("sha256:")
    assert (repo / "calc.py").read_text() == SOURCE


def test_a_wrong_change_fails(checked: Callable[..., Verification]) -> None:
    record = checked(PYTEST, {"calc.py": SOURCE.replace("3", "5")})
    assert (record.status, record.reason) == (VerificationStatus.FAILED, "it exited 1 with the change")


CHEATS: dict[str, dict[str, str | None]] = {
    "a weakened assertion": {"tests/test_calc.py": TEST.replace("== 2", ">= 0")},
    "an emptied test file": {"tests/test_calc.py": ""},
    "a deleted test file": {"tests/test_calc.py": None, "tests/test_other.py": "def test_a():\n    pass\n"},
    "skipped tests": {"tests/test_calc.py": "import pytest\npytestmark = pytest.mark.skip\n" + TEST},
    "a conftest that drops tests": {"conftest.py": "def pytest_collection_modifyitems(items):\n    del items[0]\n"},
    "a shadowing pytest": {"pytest.py": "print('2 passed in 0.01s')\n"},
    "a sitecustomize": {"sitecustomize.py": "import os\nos._exit(0)\n"},
    "a pytest.ini": {"pytest.ini": "[pytest]\naddopts = -k zero\n"},
    "a plugin by its metadata": {
        "cheat.dist-info/entry_points.txt": "[pytest11]\ncheat = cheat_plugin\n",
        "cheat.dist-info/METADATA": "Name: cheat\nVersion: 1\n",
    },
    "a setup.cfg": {"setup.cfg": "[tool:pytest]\naddopts = --deselect tests/test_calc.py::test_half\n"},
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_change_to_guarded_files_does_not_decide(checked: Callable[..., Verification], cheat: str) -> None:
    record = checked(PYTEST, CHEATS[cheat])
    assert (record.status, record.tests_modified) == (VerificationStatus.FAILED, tuple(sorted(CHEATS[cheat])))


def test_a_shadowing_unittest_does_not_decide(checked: Callable[..., Verification]) -> None:
    record = checked(
        "python3 -m unittest tests/test_calc.py", {"unittest.py": "print('Ran 2 tests in 0.0s\\n\\nOK')\n"}
    )
    assert record.status in (VerificationStatus.NOT_RUN, VerificationStatus.FAILED)


def test_a_makefile_does_not_decide(checked: Callable[..., Verification]) -> None:
    record = checked("make test", {"Makefile": "test:\n\t@true\n"})
    assert (record.status, record.tests_modified) == (VerificationStatus.FAILED, ("Makefile",))


def test_a_right_change_beside_a_changed_test_passes_with_the_test_restored(
    checked: Callable[..., Verification],
) -> None:
    record = checked(
        PYTEST, {"calc.py": RIGHT, "tests/test_calc.py": TEST + "\n\ndef test_new():\n    assert half(2) == 1\n"}
    )
    assert (record.status, record.tests_modified) == (VerificationStatus.PASSED, ("tests/test_calc.py",))


def test_code_that_exits_0_in_the_middle_of_the_tests_fails(checked: Callable[..., Verification]) -> None:
    record = checked(PYTEST, {"calc.py": "import os\n\n\ndef half(n):\n    os._exit(0)\n"})
    assert (record.status, record.reason) == (
        VerificationStatus.FAILED,
        "it exited 0, but pytest did not print its summary",
    )


def test_fewer_tests_than_before_are_no_pass(checked: Callable[..., Verification], repo: Path) -> None:
    (repo / "tests/test_calc.py").write_text("import calc\n\n\n" + "def test_half():\n    assert calc.half(4) == 2\n")
    (repo / "checks.py").write_text("import calc\nif calc.half(3) == 1:\n    def test_more():\n        pass\n")
    record = checked("python3 -m pytest -q checks.py tests", {"calc.py": "def half(n):\n    return n / 2\n"})
    assert (record.status, record.reason) == (
        VerificationStatus.FAILED,
        "only 1 tests were executed, 2 before the change",
    )


def test_a_check_that_already_passes_is_not_reproduced(checked: Callable[..., Verification]) -> None:
    record = checked("python3 -m pytest -q -k zero tests", {"calc.py": RIGHT})
    assert record.status is VerificationStatus.NOT_REPRODUCED


def test_runs_that_disagree_are_flaky(checked: Callable[..., Verification], repo: Path, tmp_path: Path) -> None:
    # A real chance of one half would be a flaky test of ours: the parity of the inode of a new file differs by run.
    (repo / "check.sh").write_text("grep -q 2 calc.py && [ $(( $(date +%s%N | cut -c 10) % 2 )) = 0 ]\n")
    for _ in range(4):
        record = checked("sh check.sh", {"calc.py": RIGHT}, repeat=8)
        shutil.rmtree(tmp_path / "work")
        if record.status is VerificationStatus.FLAKY:
            break
    assert record.status is VerificationStatus.FLAKY
    assert record.after is not None and record.after.published()["runs"] == 8


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("nosuchrunner --all", "the command was not found in the image"),
        ("python3 -m nox", "the test runner nox is not installed"),
        ("python3 -m pytest -q nothing_here.py", "pytest executed no test, before any change"),
        ("python3 -m pytest --version", "pytest ended without saying that it ran a test"),
        ("make tset", "make has no target tset"),
        (f"{PYTEST}; true", "it hides its exit code: 1 tests failed, yet it exits 0"),
        (f"{PYTEST} || true", "it hides its exit code: 1 tests failed, yet it exits 0"),
        (f"sh -c '{PYTEST} | tail -3'", "it hides its exit code: 1 tests failed, yet it exits 0"),
        ("python3 -m pytest -q | tail -3", "the command is a pipeline"),
    ],
)
def test_a_check_that_says_nothing_is_not_run(
    checked: Callable[..., Verification], command: str, reason: str
) -> None:
    record = checked(command, {"calc.py": RIGHT})
    assert (record.status, record.after) == (VerificationStatus.NOT_RUN, None)
    assert record.reason.startswith(reason)


def test_a_check_that_does_not_end_is_not_run(checked: Callable[..., Verification]) -> None:
    record = checked("sleep 60", {"calc.py": RIGHT}, seconds=1)
    assert (record.status, record.reason) == (
        VerificationStatus.NOT_RUN,
        "it was still running at its time limit of 1 s, before any change",
    )


def test_without_a_change_there_is_nothing_to_verify(checked: Callable[..., Verification]) -> None:
    record = checked(PYTEST)
    assert (record.status, record.reason) == (VerificationStatus.NOT_RUN, "no change to verify")
    assert record.before is not None and record.before.published()["exit_code"] == 1


def test_an_engine_that_dies_half_way_leaves_it_not_run() -> None:
    calls = []

    def fresh() -> DockerSandbox:
        calls.append(1)
        raise SandboxError("The engine stopped answering.", "Start it.")

    check = Check(PYTEST, fresh, lambda _: None, lambda *_: None)
    record = verify(check, Baseline(None), Diff(diff_bytes(), ("calc.py",)), Flag())
    assert (record.status, record.reason) == (
        VerificationStatus.NOT_RUN,
        "the run with the change could not be made: The engine stopped answering",
    )


def diff_bytes() -> bytes:
    return b"diff --git a/calc.py b/calc.py\n--- a/calc.py\n+++ b/calc.py\n@@ -1 +1 @@\n-a\n+b\n"
