"""What a run must be like before the change, and with it."""

from __future__ import annotations

from dataclasses import replace

import pytest

from codeagent.verification.judge import PASSES_ALREADY, fault_of, judge_baseline
from codeagent.verification.record import CheckRun, Side, TestCount, VerificationStatus
from codeagent.verification.runners import added, count_tests, named_runners, unusable

PYTEST = named_runners("pytest")
FAILS = CheckRun(1, 10, "", tests=TestCount("pytest", 3, 1, 0))
PASSES = replace(FAILS, exit_code=0, tests=TestCount("pytest", 3, 0, 0))
NOTHING = TestCount("pytest", 0, 0, 2, nothing=True)


def test_a_fault_to_fix_is_a_run_that_fails_by_running() -> None:
    assert judge_baseline(FAILS, PYTEST) == (None, "", "")
    assert judge_baseline(CheckRun(1, 10, ""), ()) == (None, "", "")


def test_code_that_crashes_its_tests_is_a_fault_even_without_a_summary() -> None:
    assert judge_baseline(CheckRun(139, 10, ""), PYTEST) == (None, "", "")
    assert unusable(139, "ModuleNotFoundError: No module named 'ujson'\nSegmentation fault\n", PYTEST, None) is None


@pytest.mark.parametrize(
    ("run", "reason"),
    [
        (CheckRun(1, 10, ""), "pytest ended without saying that it ran a test"),
        (CheckRun(0, 10, ""), "pytest ended without saying that it ran a test"),
        (replace(FAILS, tests=NOTHING), "pytest executed no test"),
        (
            replace(FAILS, tests=NOTHING, unusable="pytest ran no test: python found no module yaml", remedy="x"),
            "pytest ran no test: python found no module yaml",
        ),
        (replace(FAILS, exit_code=0), "it hides its exit code: 1 test failed, yet it exits 0"),
        (replace(FAILS, unusable="python found no module yaml"), "python found no module yaml"),
        (
            CheckRun(None, 10, "", stopped="it was ended from outside"),
            "it was ended from outside, before any change",
        ),
    ],
)
def test_a_run_that_shows_no_fault_has_a_reason_and_a_remedy(run: CheckRun, reason: str) -> None:
    status, said, remedy = judge_baseline(run, PYTEST)
    assert (status, said) == (VerificationStatus.NOT_RUN, reason) and remedy


def test_a_run_that_used_up_its_container_says_which_limits_to_raise() -> None:
    starved = replace(FAILS, starved=True, unusable="it reached the container's limit of 64 processes")
    status, reason, remedy = judge_baseline(starved, PYTEST)
    assert (status, reason) == (VerificationStatus.NOT_RUN, "it reached the container's limit of 64 processes")
    assert remedy.startswith("Raise `memory` or `pids` under [sandbox]")


def test_a_run_that_passes_leaves_nothing_to_reproduce() -> None:
    status, reason, remedy = judge_baseline(PASSES, PYTEST)
    assert (status, reason) == (VerificationStatus.NOT_REPRODUCED, PASSES_ALREADY) and "--force" in remedy
    assert judge_baseline(CheckRun(0, 10, ""), ())[0] is VerificationStatus.NOT_REPRODUCED


def test_a_run_with_the_change_passes_with_its_summary_and_no_fewer_tests() -> None:
    assert fault_of(PASSES, "pytest", FAILS) == ""
    assert fault_of(CheckRun(0, 10, ""), "", CheckRun(1, 10, "")) == ""
    unknown = replace(PASSES, tests=TestCount("go test", None))
    assert fault_of(unknown, "go test", FAILS) == ""


@pytest.mark.parametrize(
    ("run", "fault"),
    [
        (FAILS, "it exited 1 with the change"),
        (replace(PASSES, tests=None), "it exited 0, but pytest did not print its summary"),
        (replace(PASSES, silent=("jest",)), "it exited 0, but jest did not print its summary"),
        (replace(PASSES, tests=NOTHING), "it exited 0, but no test was executed"),
        (replace(FAILS, exit_code=0), "it exited 0, but 1 test failed"),
        (
            replace(PASSES, tests=TestCount("pytest", 3, 0, 0, unloaded=1)),
            "it exited 0, but tests could not be loaded (1 error)",
        ),
        (replace(PASSES, tests=TestCount("pytest", 2, 0, 0)), "only 2 tests ran, 3 before the change"),
        (replace(PASSES, tests=TestCount("pytest", 3, 0, 2)), "2 tests were skipped, 0 before the change"),
        (CheckRun(None, 10, "", stopped="it ran out of memory"), "it ran out of memory"),
        (replace(FAILS, exit_code=2, unusable="make has no target x"), "make has no target x"),
    ],
)
def test_every_other_run_with_the_change_is_no_pass(run: CheckRun, fault: str) -> None:
    assert fault_of(run, "pytest", FAILS) == fault


ERRORS = replace(FAILS, tests=TestCount("pytest", 1, 2, 1, errors=2))


def test_a_test_that_could_not_be_set_up_before_may_not_be_left_out_after() -> None:
    def after(run: int, skipped: int) -> str:
        return fault_of(replace(PASSES, tests=TestCount("pytest", run, 0, skipped)), "pytest", ERRORS)

    assert (after(3, 1), after(4, 0)) == ("", "")
    assert after(1, 3) == "only 1 test ran, 3 before the change"
    assert after(3, 2) == "2 tests were skipped, 1 before the change"


def test_a_test_that_could_not_be_set_up_is_among_those_told_as_failed() -> None:
    told = Side((ERRORS,), ("it exited 1",)).published()
    assert (told["tests"], told["failed_tests"], told["each"][0]["tests"]) == (3, 2, 3)


def test_each_runner_is_compared_with_itself() -> None:
    def both(*counts: TestCount) -> CheckRun:
        return replace(PASSES, tests=added(counts))

    unit, node = TestCount("unittest", 1, 0, 0), TestCount("node --test", 2, 1, 0)
    before = both(unit, node)
    assert fault_of(both(unit, replace(node, failed=0)), "", before) == ""
    fewer = both(replace(unit, run=3), replace(node, run=1, failed=0))
    assert fault_of(fewer, "", before) == "only 1 test ran, 2 before the change"
    unknown = TestCount("gradle", None)
    assert fault_of(both(replace(node, run=1, failed=0), unknown), "", both(node, unknown)).startswith("only 1 test")


def test_what_a_check_only_comes_to_with_the_change_may_hold_skipped_tests() -> None:
    stopped = replace(FAILS, tests=TestCount("pytest", 3, 1, 0))
    both = replace(PASSES, tests=TestCount("pytest", 9, 0, 4, summaries=2))
    assert fault_of(both, "pytest", stopped) == ""
    assert (
        fault_of(
            replace(PASSES, tests=added([TestCount("pytest", 3, 0, 0), TestCount("jest", 2, 0, 1)])), "", stopped
        )
        == ""
    )


def test_each_part_of_a_check_is_compared_with_itself_though_more_follow_after_the_change() -> None:
    runners = named_runners("pytest a && pytest b")

    def run(code: int, output: str) -> CheckRun:
        return CheckRun(code, 10, "", tests=count_tests(output, runners))

    before = run(1, "1 failed, 2 passed in 0.1s\n")
    assert fault_of(run(0, "3 passed in 0.1s\n5 passed, 4 skipped in 0.1s\n"), "pytest", before) == ""
    hides = run(0, "2 passed, 1 skipped in 0.1s\n5 passed in 0.1s\n")
    assert fault_of(hides, "pytest", before) == "only 2 tests ran, 3 before the change"
