"""The record of a verification: values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from codeagent.events import Verified


class VerificationStatus(StrEnum):
    """What is known of a change. Never an outcome: that says why a loop stopped."""

    NOT_REQUESTED = "not_requested"
    NOT_RUN = "not_run"
    NOT_REPRODUCED = "not_reproduced"
    FAILED = "failed"
    FLAKY = "flaky"
    PASSED = "passed"


@dataclass(frozen=True, slots=True)
class TestCount:
    """What a test runner says of its run. `run` is how many tests were executed, None when it does not say."""

    __test__ = False  # the name is the field's, not a test class of pytest's

    runner: str
    run: int | None
    failed: int | None = None
    skipped: int | None = None
    nothing: bool = False
    """The runner ended on no test executed."""


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One run of the command in a fresh container. `exit_code` is None when it was ended from outside."""

    exit_code: int | None
    duration_ms: int
    output_tail: str
    timed_out: bool = False
    out_of_memory: bool = False
    tests: TestCount | None = None
    unusable: str = ""
    """Why a failing run says nothing about the code (see `runners.unusable`)."""


@dataclass(frozen=True, slots=True)
class Side:
    """The runs before, or after the change; all of them made the same way."""

    runs: tuple[CheckRun, ...]
    passed: int = 0

    def published(self) -> dict[str, Any]:
        """The published form: the last run's fields, and how many of the runs passed."""
        last = self.runs[-1]
        counted = last.tests
        return {
            "exit_code": last.exit_code,
            "duration_ms": last.duration_ms,
            "tests": counted.run if counted else None,
            "output_tail": last.output_tail,
            "runs": len(self.runs),
            "passed_runs": self.passed,
            "timed_out": last.timed_out,
            "runner": counted.runner if counted else None,
            "failed_tests": counted.failed if counted else None,
            "skipped_tests": counted.skipped if counted else None,
        }


@dataclass(frozen=True, slots=True)
class Verification:
    """The whole record. `command` ran in the repository's root; `image` is the image's digest."""

    status: VerificationStatus
    reason: str = ""
    before: Side | None = None
    after: Side | None = None
    tests_modified: tuple[str, ...] = ()
    command: str = ""
    image: str = ""

    def event(self) -> Verified:
        return Verified(
            status=self.status,
            reason=self.reason,
            before=self.before.published() if self.before else None,
            after=self.after.published() if self.after else None,
            tests_modified=list(self.tests_modified),
            command=self.command,
            image=self.image,
        )


NOT_REQUESTED: Mapping[str, Any] = {"status": "not_requested"}
