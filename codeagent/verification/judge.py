"""From runs to a status: what a run before the change must be like, and what a run with it."""

from __future__ import annotations

from collections.abc import Sequence

from codeagent.verification.record import CheckRun, TestCount, VerificationStatus
from codeagent.verification.runners import SELECT, TRY_IT, Runner

Judgement = tuple[VerificationStatus | None, str, str]
"""Status (None: there is a fault to fix), reason, remedy."""

PASSES_ALREADY = "the command already passes on the untouched repository"
_SHOW_FAULT = "Give a command that fails because of the fault; `--force` starts the turn all the same."


def judge_baseline(run: CheckRun, runners: Sequence[Runner]) -> Judgement:
    """Whether the run on the untouched repository failed, and by running."""
    not_run = VerificationStatus.NOT_RUN
    if run.stopped:
        return not_run, f"{run.stopped}, before any change", _remedy(run)
    if run.unusable:
        return not_run, run.unusable, _remedy(run)
    if run.tests is not None and run.tests.nothing:
        return not_run, f"{run.tests.runner} executed no test", SELECT
    crashed = run.exit_code is not None and run.exit_code >= 128
    if runners and run.tests is None and not crashed:
        name = runners[0].name
        remedy = f"Let {name} print its summary, and see that it comes as far as its tests."
        return not_run, f"{name} ended without saying that it ran a test", remedy
    if run.exit_code == 0:
        if run.tests is not None and (wrong := _wrong(run.tests)):
            reason = f"it hides its exit code: {wrong}, yet it exits 0"
            return not_run, reason, "Give a command whose exit code is that of its tests."
        return VerificationStatus.NOT_REPRODUCED, PASSES_ALREADY, _SHOW_FAULT
    return None, "", ""


def _remedy(run: CheckRun) -> str:
    """What to do about a run that was stopped, or that says nothing."""
    if run.timed_out:
        return "Raise --verify-time-limit, or name a narrower command."
    if run.starved:
        return "Raise `memory` or `pids` under [sandbox] in the configuration, or name a narrower command."
    return run.remedy or TRY_IT


def fault_of(run: CheckRun, expected: str, before: CheckRun | None) -> str:
    """Why a run with the change is no pass; empty when it is one. `expected` is the runner that must tell its end."""
    if run.stopped:
        return run.stopped
    if run.exit_code != 0:
        return run.unusable or f"it exited {run.exit_code} with the change"
    if expected and run.tests is None:
        return f"it exited 0, but {expected} did not print its summary"
    if run.silent:
        return f"it exited 0, but {run.silent[0]} did not print its summary"
    if run.tests is not None and run.tests.nothing:
        return "it exited 0, but no test was executed"
    if run.tests is not None and (wrong := _wrong(run.tests)):
        return f"it exited 0, but {wrong}"
    if before is None or before.tests is None or run.tests is None:
        return ""
    now, was = run.tests.of_each(), before.tests.of_each()
    pairs = [(run.tests, before.tests), *((now[name], was[name]) for name in now if name in was)]
    return next((fault for pair in pairs if (fault := _left_out(*pair))), "")


def _left_out(now: TestCount, was: TestCount) -> str:
    """What ran before, or could not be set up, and was left out after; empty when there is no sign of it."""
    now = now.first(was.summaries)
    if now.run is not None and was.begun is not None and now.run < was.begun:
        return f"only {_tests(now.run)} ran, {was.begun} before the change"
    # A further summary is that of a part which the run before did not come to, and may well hold skipped tests.
    comparable = now.skipped is not None and was.skipped is not None and now.summaries <= was.summaries
    if comparable and (now.skipped or 0) > (was.skipped or 0):
        verb = "was" if now.skipped == 1 else "were"
        return f"{_tests(now.skipped or 0)} {verb} skipped, {was.skipped} before the change"
    return ""


def _wrong(tests: TestCount) -> str:
    """What a runner reports against the code, as a clause."""
    if tests.failed:
        return f"{_tests(tests.failed)} failed"
    return f"tests could not be loaded ({tests.unloaded} error{'s' * (tests.unloaded > 1)})" if tests.unloaded else ""


def _tests(number: int) -> str:
    return f"{number} test{'' if number == 1 else 's'}"
