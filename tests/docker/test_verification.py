"""Fail before, pass after, in real containers; and every way in which a change cheats."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.seam import Diff
from codeagent.sandbox.toolbox import Toolbox
from codeagent.verification.record import VerificationStatus
from codeagent.verification.verify import Baseline
from tests.docker.verifying import Change, Verifying

SOURCE = "def half(n):\n    return n // 3\n"
RIGHT = "def half(n):\n    return n // 2\n"
TEST = """\
from calc import half


def test_half():
    assert half(4) == 2


def test_zero():
    assert half(0) == 0
"""
UNIT = """\
import unittest

from calc import half
from more_itertools import first


class HalfTest(unittest.TestCase):
    def test_half(self):
        self.assertEqual(first([half(4)]), 2)
"""
SCRIPT = """\
import { readFileSync } from 'node:fs';
import { wanted } from './wanted.mjs';
const right = readFileSync('calc.py', 'utf8').includes(wanted);
console.log(`1 checks, ${right ? 0 : 1} failed`);
process.exit(right ? 0 : 1);
"""
RUST = """\
pub fn half(n: u32) -> u32 {
    n / 3
}

#[cfg(test)]
mod tests {
    #[test]
    fn halves() {
        assert_eq!(super::half(4), 2);
    }
}
"""
PYTEST = "python3 -m pytest -q -p no:cacheprovider tests"
IMPORTING = "python3 -c 'import calc; assert calc.half(4) == 2'"
UNITTEST = "python3 -m unittest tests.test_unit"
REPOSITORY = {
    "calc.py": SOURCE,
    "tests/test_calc.py": TEST,
    "tests/__init__.py": "",
    "tests/test_unit.py": UNIT,
    "Makefile": f"RUN ?= {PYTEST}\n-include local.rules\ntest:\n\tsh scripts/check.sh '$(RUN)'\n",
    "scripts/check.sh": ". ./shell-functions\nrun $1\n",
    "shell-functions": 'run() { "$@"; }\n',
    "tools/npm": 'exec sh -c "$(node -p "require(\'./package.json\').scripts.$1")"\n',
    "package.json": '{"scripts": {"test": "node --no-warnings scripts/all.mjs"}}\n',
    "scripts/all.mjs": SCRIPT,
    "scripts/wanted.mjs": "export const wanted = '// 2';\n",
    ".gitignore": "*.log\n",
    "src/lib.rs": RUST,
    "tools/mvn": f"{PYTEST} --junitxml=target/surefire-reports/TEST-calc.xml > /dev/null\n",
    "target/surefire-reports/TEST-old.xml": "<testsuite><testcase/><testcase/></testsuite>\n",
}


def made(repo: Path) -> Path:
    for path, text in REPOSITORY.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text)
    return repo


@pytest.fixture(scope="module")
def verifying(
    engine: Engine, toolbox: Toolbox, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Verifying]:
    """Shared, because nothing writes into its repository: that is asserted at the end."""
    top = tmp_path_factory.mktemp("verifying")
    verifying = Verifying(made(top / "repo"), top, engine, toolbox)
    yield verifying
    assert {path: (verifying.repo / path).read_text() for path in REPOSITORY} == REPOSITORY
    assert verifying.left() == []


def hash_of(files: dict[str, str]) -> str:
    entries = (f"100644 {hashlib.sha256(files[path].encode()).hexdigest()} {path}\0" for path in sorted(files))
    return hashlib.sha256("".join(entries).encode()).hexdigest()


def test_a_right_change_passes_and_everything_about_it_is_recorded(verifying: Verifying) -> None:
    diff = verifying.diff({"calc.py": RIGHT})
    record = verifying.record(PYTEST, diff).event()
    assert (record.status, record.tests_modified, record.remedy) == ("passed", [], "")
    assert record.before is not None and record.after is not None
    before, after = dict(record.before), dict(record.after)
    assert "2 failed, 1 passed" in before.pop("output_tail") and "3 passed" in after.pop("output_tail")
    for side in (before, after):
        assert side.pop("duration_ms") == side["each"][0].pop("duration_ms") > 0
    assert before == {
        "exit_code": 1,
        "tests": 3,
        "runs": 1,
        "passed_runs": 0,
        "timed_out": False,
        "runner": "pytest",
        "collected_tests": 3,
        "failed_tests": 2,
        "skipped_tests": 0,
        "tree": hash_of(REPOSITORY),
        "each": [{"exit_code": 1, "tests": 3, "fault": "it exited 1"}],
    }
    assert after == {
        **before,
        "exit_code": 0,
        "passed_runs": 1,
        "failed_tests": 0,
        "tree": hash_of({**REPOSITORY, "calc.py": RIGHT}),
        "each": [{"exit_code": 0, "tests": 3, "fault": ""}],
    }
    assert (record.command, record.directory, record.image) == (PYTEST, "/workspace", verifying.image.id)
    assert record.diff_sha256 == hashlib.sha256(diff.patch).hexdigest()


SAYS = "3 passed in 0.01s"
NPM = "sh tools/npm test"  # what npm does, where there is none
TESTS: Change = {"tests/test_calc.py": None, "tests/test_unit.py": None, "tests/__init__.py": None}

# What a change does, and the check that it should get past. Each file alone would do: one that was let through shows.
CHEATS: dict[str, tuple[str, Change]] = {
    "weakened, emptied and unselected tests, and what stands before them": (
        PYTEST,
        {
            "tests/test_calc.py": TEST.replace("== 2", ">= 0"),
            "tests/test_unit.py": "",
            "tests/__init__.py": "import pytest\npytestmark = pytest.mark.skip\n",
            "conftest.py": "def pytest_collection_modifyitems(items):\n    del items[:]\n",
            "pytest.py": f"print('{SAYS}')\n",
            "pluggy/__init__.py": f"print('{SAYS}')\nraise SystemExit(0)\n",
            "pytest.ini": "[pytest]\naddopts = -k zero\n",
            "setup.cfg": "[tool:pytest]\naddopts = -k zero\n",
            "cheat.dist-info/entry_points.txt": "[pytest11]\ncheat = cheat_plugin\n",
            "cheat.dist-info/METADATA": "Name: cheat\nVersion: 1\n",
        },
    ),
    "deleted tests": (PYTEST, {**TESTS, "tests/test_a.py": "def test_a():\n    pass\n" * 3}),
    "a link in the place of the tests": (PYTEST, {**TESTS, "tests": "-> scripts"}),
    "a sitecustomize": (
        f"PYTHONPATH=. {PYTEST}",
        {"sitecustomize.py": f"import os\nprint('{SAYS}', flush=True)\nos._exit(0)\n"},
    ),
    "a shadowing unittest, and a module that a test imports": (
        UNITTEST,
        {
            "unittest.py": "print('Ran 1 test in 0.0s\\n\\nOK')\n",
            "more_itertools.py": "def first(_):\n    return 2\n",
        },
    ),
    "a link to such a module": (UNITTEST, {"more_itertools": "-> tests"}),
    "a Makefile, one that is found first, and what it includes, runs and sources": (
        "make test",
        {
            "Makefile": f"test:\n\t@echo '{SAYS}'\n",
            "GNUmakefile": f"test:\n\t@echo '{SAYS}'\n",
            "local.rules": f"RUN = echo '{SAYS}'\n",
            "scripts/check.sh": f"echo '{SAYS}'\n",
            "shell-functions": f"run() {{ echo '{SAYS}'; }}\n",
        },
    ),
    "a package.json script, and a file that it runs": (
        NPM,
        {
            "package.json": '{"scripts": {"test": "echo 1 checks, 0 failed"}}\n',
            "scripts/all.mjs": "console.log('1 checks, 0 failed')\n",
        },
    ),
}


@pytest.mark.parametrize("cheat", CHEATS)
def test_a_change_to_what_decides_the_check_does_not_decide(verifying: Verifying, cheat: str) -> None:
    command, change = CHEATS[cheat]
    record = verifying.changed(command, change)
    assert (record.status, record.tests_modified) == (VerificationStatus.FAILED, tuple(sorted(change)))
    assert record.reason.startswith("it exited ") and " guarded file" in record.reason


def test_tests_in_a_source_file_are_as_before_and_its_code_is_as_changed(verifying: Verifying) -> None:
    check = "grep -rq 'n / 2' src && grep -rq 'half(4), 2' src"  # there is no Rust in the image
    weak = RUST.replace("n / 3", "n / 2").replace("assert_eq!(super::half(4), 2)", "assert!(true)")
    record = verifying.changed(check, {"src/lib.rs": weak})
    assert (record.status, record.tests_modified) == (VerificationStatus.PASSED, ("src/lib.rs",))


def test_a_change_may_delete_move_and_link_files(verifying: Verifying) -> None:
    change = {
        "calc.py": None,
        "calc/__init__.py": "from calc.half import half\n",
        "calc/half.py": "-> ../shared/half.py",
    }
    record = verifying.changed(PYTEST, {**change, "shared/half.py": RIGHT})
    assert (record.status, record.tests_modified) == (VerificationStatus.PASSED, ())


def test_a_right_change_beside_a_changed_test_passes_with_the_test_restored(verifying: Verifying) -> None:
    more = TEST + "\n\ndef test_new():\n    assert half(2) == 1\n"
    record = verifying.changed(PYTEST, {"calc.py": RIGHT, "tests/test_calc.py": more})
    assert (record.status, record.tests_modified) == (VerificationStatus.PASSED, ("tests/test_calc.py",))
    assert record.after is not None and record.after.tree == hash_of({**REPOSITORY, "calc.py": RIGHT})


@pytest.mark.parametrize(
    ("command", "runner"), [(PYTEST, "pytest"), (UNITTEST, "unittest"), ("make test", "pytest")]
)  # fmt: skip
def test_code_that_exits_0_in_the_middle_of_the_tests_fails(verifying: Verifying, command: str, runner: str) -> None:
    record = verifying.changed(command, {"calc.py": "import os\n\n\ndef half(n):\n    os._exit(0)\n"})
    assert (record.status, record.reason) == (
        VerificationStatus.FAILED,
        f"it exited 0, but {runner} did not print its summary",
    )
    assert record.notices == ("calc.py:5 ends the process with success: os._exit(0)",)


def test_a_run_that_prints_nothing_is_not_judged_by_what_an_earlier_one_printed(verifying: Verifying) -> None:
    verifying.outputs.mkdir(exist_ok=True)
    (verifying.outputs / "verification-after-1.txt").write_text("3 passed in 0.01s\n")
    record = verifying.changed(f"{PYTEST} > /dev/null", {"calc.py": RIGHT})
    assert record.status is VerificationStatus.NOT_RUN  # the run before prints nothing either
    silent = verifying.record(PYTEST + " -s", verifying.diff({"calc.py": "import os\nos._exit(0)\n"}))
    assert silent.reason == "it exited 0, but pytest did not print its summary"


def test_fewer_tests_than_before_are_no_pass(verifying: Verifying) -> None:
    change = {"calc.py": f"import sys\n{RIGHT}sys.modules.pop('tests.test_unit', None)\n"}
    record = verifying.record(PYTEST, verifying.diff(change), baseline=more_tests(verifying))
    assert (record.status, record.reason) == (
        VerificationStatus.FAILED,
        "only 3 tests ran, 4 before the change",
    )


def test_a_test_that_could_not_be_set_up_may_not_be_skipped_after(verifying: Verifying) -> None:
    lines = (
        "import calc, pytest",
        "@pytest.fixture",
        "def ready(): calc.ready() or pytest.skip()",
        "def test_a(ready): assert calc.half(4) == 2",
        "def test_b(): assert calc.half(0) == 0",
    )
    command = f"printf '%s\\n' {' '.join(map(repr, lines))} > test_skips.py; python3 -m pytest -q test_skips.py"
    skipped = verifying.changed(command, {"calc.py": f"{SOURCE}\n\ndef ready():\n    return False\n"})
    assert (skipped.status, skipped.reason) == (VerificationStatus.FAILED, "only 1 test ran, 2 before the change")
    right = verifying.changed(command, {"calc.py": f"{RIGHT}\n\ndef ready():\n    return True\n"})
    assert right.status is VerificationStatus.PASSED


def more_tests(verifying: Verifying) -> Baseline:
    """The run before the change, had it executed one test more."""
    baseline = verifying.baseline(PYTEST)
    assert baseline.side is not None and baseline.run is not None and baseline.run.tests is not None
    more = replace(baseline.run, tests=replace(baseline.run.tests, run=4))
    return replace(baseline, side=replace(baseline.side, runs=(more,)))


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("nosuchrunner --all", "the command was not found in the image"),
        ("python3 -m nox", "the test runner nox is not installed"),
        ("python3 -m pytest -q nothing_here.py", "pytest executed no test"),
        (
            "echo import tornado > test_lacks.py; python3 -m pytest -q test_lacks.py",
            "pytest ran no test: python found no module tornado",
        ),
        ("python3 -m pytest --version", "pytest ended without saying that it ran a test"),
        ("python3 -c 'import no_such_module'", "python found no module no_such_module"),
        ("make tset", "make has no target tset"),
        (f"sh -c '{PYTEST} | tail -3'", "it hides its exit code: 2 tests failed, yet it exits 0"),
        (f"{PYTEST} || true", "it hides its exit code: 2 tests failed, yet it exits 0"),
        (f"{PYTEST} | tail -3", "the command is a pipeline, whose exit code is its last part's and not the tests'"),
        (f"{PYTEST} &", "the command ends in the background, where its exit code is lost"),
    ],
)
def test_a_check_that_says_nothing_is_not_run_and_says_what_to_do(
    verifying: Verifying, command: str, reason: str
) -> None:
    record = verifying.record(command, Diff())
    assert (record.status, record.reason, record.after) == (VerificationStatus.NOT_RUN, reason, None)
    assert record.remedy


def test_a_check_that_does_not_end_is_not_run(verifying: Verifying) -> None:
    record = verifying.record("sleep 60", Diff(), seconds=1)
    assert (record.status, record.reason) == (
        VerificationStatus.NOT_RUN,
        "it was still running at its time limit of 1 s, before any change",
    )
    assert record.remedy == "Raise --verify-time-limit, or name a narrower command."


def test_a_check_that_breeds_processes_is_not_run_and_nothing_is_left(verifying: Verifying) -> None:
    record = verifying.record("f() { f & f; }; f 2> /dev/null", Diff(), seconds=5)
    assert record.status is VerificationStatus.NOT_RUN and record.remedy
    assert verifying.left() == []


def test_a_flood_of_output_is_kept_in_part_and_its_end_counts(verifying: Verifying) -> None:
    flood = f"head -c 200000000 /dev/zero | tr '\\0' 'x\\n' > /dev/stderr; {PYTEST}"
    record = verifying.changed(flood, {"calc.py": RIGHT})
    assert record.status is VerificationStatus.PASSED
    assert record.after is not None and record.after.published()["tests"] == 3
    assert (verifying.outputs / "verification-after-1.txt").stat().st_size < 17 << 20


def test_a_repository_that_is_edited_between_the_runs_says_nothing(verifying: Verifying, tmp_path: Path) -> None:
    baseline = verifying.baseline(PYTEST)
    edited = verifying.repo / "notes.txt"
    edited.write_text("mine\n")
    try:
        record = verifying.record(PYTEST, verifying.diff({"calc.py": RIGHT}), baseline=baseline)
    finally:
        edited.unlink()
    assert (record.status, record.reason) == (
        VerificationStatus.NOT_RUN,
        "the run with the change could not be made: the repository was changed after the run before the change",
    )
    (verifying.repo / "run.log").write_text("ignored\n")
    assert verifying.changed(PYTEST, {"calc.py": RIGHT}).status is VerificationStatus.PASSED


def test_a_repository_that_is_moved_away_between_the_runs_is_said_to_be_gone(verifying: Verifying) -> None:
    baseline, diff = verifying.baseline(PYTEST), verifying.diff({"calc.py": RIGHT})
    elsewhere = verifying.repo.rename(verifying.repo.with_name("elsewhere"))
    try:
        record = verifying.record(PYTEST, diff, baseline=baseline)
    finally:
        elsewhere.rename(verifying.repo)
    gone = f"the run with the change could not be made: the repository is no longer there: {verifying.repo}"
    assert (record.status, record.reason) == (VerificationStatus.NOT_RUN, gone)
    assert record.remedy.startswith("Put it back")


def test_a_report_in_junits_form_counts_the_tests_of_a_runner_that_does_not_speak(verifying: Verifying) -> None:
    command = f"{PYTEST} --junitxml=out/report.xml > /dev/null"
    record = verifying.changed(command, {"calc.py": RIGHT})
    assert record.status is VerificationStatus.PASSED
    assert record.before is not None and record.after is not None
    before, after = record.before.published(), record.after.published()
    assert (before["runner"], before["tests"], before["failed_tests"], after["failed_tests"]) == (
        "JUnit XML",
        3,
        2,
        0,
    )


def test_the_reports_in_mavens_own_folders_count_but_for_those_of_earlier_runs(verifying: Verifying) -> None:
    record = verifying.changed("sh tools/mvn -q test", {"calc.py": RIGHT})
    assert record.status is VerificationStatus.PASSED and record.after is not None
    assert record.after.published()["tests"] == 3


def test_a_change_that_breaks_what_passed_before_fails(verifying: Verifying) -> None:
    check = "! grep -rq 'n // 5' ."
    record = verifying.changed(check, {"calc.py": SOURCE.replace("3", "5")})
    assert (record.status, record.reason) == (VerificationStatus.FAILED, "it exited 1 with the change")
    assert verifying.changed(check, {"calc.py": RIGHT}).status is VerificationStatus.NOT_REPRODUCED


def test_without_a_change_there_is_nothing_to_verify(verifying: Verifying) -> None:
    record = verifying.record(PYTEST, Diff())
    assert (record.status, record.reason) == (VerificationStatus.NOT_RUN, "no change to verify")
    assert record.before is not None and record.before.published()["exit_code"] == 1


def test_a_check_that_fails_by_chance_is_found_by_running_it_again_without_the_change(verifying: Verifying) -> None:
    # Fails in the run before, and passes in the run but two after it, as far as the check can see by chance.
    sizes = (64 << 20, 32 << 20)
    verifying.tmp_sizes = sizes if verifying.opened % 2 == 0 else (sizes[1], sizes[0])
    check = f"{IMPORTING} || test $(stat -f -c %b /tmp) -gt 10000"
    record = verifying.changed(check, {"calc.py": RIGHT}, repeat=2)
    assert (record.status, record.reason) == (
        VerificationStatus.NOT_REPRODUCED,
        "without the change it passed, too, when it was run again (2 runs): it fails by chance",
    )
    assert record.before is not None and record.after is not None and record.before_again is not None
    assert [side.passed for side in (record.before, record.after, record.before_again)] == [0, 2, 1]


def test_a_repeated_check_that_fails_each_time_without_the_change_passes(verifying: Verifying) -> None:
    record = verifying.changed(IMPORTING, {"calc.py": RIGHT}, repeat=3)
    assert (record.status, record.reason) == (
        VerificationStatus.PASSED,
        "it fails before the change and passes after it in 3 of 3 runs",
    )
    assert record.before_again is not None
    assert (len(record.before_again.runs), record.before_again.passed) == (2, 0)
    assert record.event().before_again == record.before_again.published()


def test_a_change_to_what_a_makefile_decides_by_is_put_back(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> None:
    more: Change = {
        ".gitignore": "calc.py\n",  # a test that git ignores, for a linter
        "check/notes.txt": "x\n",  # a folder of the target's name
        "verify/run.py": "import calc\n",  # a script that a variable of several lines runs
    }
    files = {
        "calc.py": SOURCE,
        "verify/run.py": "from calc import half\nassert half(4) == 2\n",
        "Makefile": "define run\ngrep -qsx calc.py .gitignore || PYTHONPATH=. python3 verify/run.py\nendef\n"
        "check:\n\t$(run)\n",
    }
    repo = tmp_path / "repo"
    for path, text in files.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text)
    small = Verifying(repo, tmp_path, engine, toolbox)
    record = small.changed("make check", more)
    assert (record.status, record.tests_modified) == (VerificationStatus.FAILED, tuple(more))
    assert small.changed("make check", {**more, "calc.py": RIGHT}).status is VerificationStatus.PASSED


READING = """\
import json

from calc import half
from kit.near import check


def test_half(wanted):
    check(half(4), wanted)
    for given, right in json.load(open("data/halves.json")):
        check(half(given), right)
"""
DECIDING = {
    "calc.py": "import sys\n\n\n" + SOURCE + "\n\nif __name__ == '__main__':\n    print(half(int(sys.argv[1])))\n",
    "verify-all.sh": 'D=$(cd "$(dirname "$0")" && pwd)\n. "$D/support/run.sh"\n'
    "run python3 -m doctest usage.rst\nrun python3 -m pytest -q -p no:cacheprovider tests\n"
    "for f in samples/*.in; do python3 calc.py $(cat $f) | diff - ${f%.in}.out || exit 1; done\n",
    "support/run.sh": 'run() { "$@" || exit 1; }\n',
    "usage.rst": ">>> from calc import half\n>>> half(4)\n2\n",
    "samples/a.in": "4\n",
    "samples/a.out": "2\n",
    "tests/test_reading.py": READING,
    "conftest.py": "from kit.given import wanted\n",
    "kit/given.py": "import pytest\n\n\n@pytest.fixture\ndef wanted():\n    return 2\n",
    "kit/near.py": "def check(a, b):\n    assert a == b\n",
    "data/halves.json": "[[4, 2]]\n",
}


def test_what_a_check_sources_reads_and_compares_with_is_put_back_and_what_else_it_uses_is_told(
    tmp_path: Path, engine: Engine, toolbox: Toolbox
) -> None:
    repo = tmp_path / "repo"
    for path, text in DECIDING.items():
        (repo / path).parent.mkdir(parents=True, exist_ok=True)
        (repo / path).write_text(text)
    small = Verifying(repo, tmp_path, engine, toolbox)
    right = DECIDING["calc.py"].replace("// 3", "// 2")
    cheats: Change = {
        "data/halves.json": "[]\n",
        "kit/given.py": DECIDING["kit/given.py"].replace("2", "1"),
        "samples/a.out": "1\n",
        "support/run.sh": "run() { :; }\n",
        "usage.rst": "no examples\n",
    }
    record = small.changed("sh verify-all.sh", cheats)
    assert (record.status, record.tests_modified) == (VerificationStatus.FAILED, tuple(cheats))
    record = small.changed("sh verify-all.sh", {**cheats, "calc.py": right})
    assert (record.status, record.notices) == (VerificationStatus.PASSED, ())
    record = small.changed("python3 -m pytest -q -p no:cacheprovider", {"kit/near.py": "def check(a, b): pass\n"})
    told = "kit/near.py: tests/test_reading.py asserts with its check"
    assert (record.status, record.notices) == (VerificationStatus.PASSED, (told,))
    assert record.reason == (
        f"it fails before the change and passes after it, but perhaps by what is checked: look at {told}"
    )


def test_a_check_that_passes_on_the_very_files_that_it_failed_on_fails_by_chance(verifying: Verifying) -> None:
    sizes = (64 << 20, 32 << 20)
    verifying.tmp_sizes = sizes if verifying.opened % 2 == 0 else (sizes[1], sizes[0])
    check = f"{IMPORTING} || test 10000 -lt $(stat -f -c %b /tmp)"
    record = verifying.changed(check, {"tests/test_calc.py": ""})
    assert (record.status, record.reason) == (
        VerificationStatus.NOT_REPRODUCED,
        "it passes on what it failed on (1 guarded file put back as before): it fails by chance",
    )
