"""The record of a verification: values only."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
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
    """What a test runner says of its run. `run` is how many tests were executed, `collected` how many it found, each
    None when it does not say.
    """

    __test__ = False  # the name is the field's, not a test class of pytest's

    runner: str
    run: int | None
    failed: int | None = None
    skipped: int | None = None
    nothing: bool = False
    """The runner ended on no test executed."""
    collected: int | None = None
    unloaded: int = 0
    """How many files or packages of tests could not be loaded. No other number has them in it, but for `collected`
    of runners that take them for tests."""
    errors: int = 0
    """How many tests could not be set up: they are in `failed` and `collected`, and not in `run`."""
    summaries: int = 1
    """How many summaries stand in the output."""
    parts: tuple[TestCount, ...] = ()
    """The count of each runner, where several were at work."""
    each: tuple[tuple[int, int], ...] = field(default=(), compare=False)
    """How many tests ran and how many were skipped, by summary, where the runner's form tells that."""

    @property
    def begun(self) -> int | None:
        """How many tests ran or could not be set up."""
        return None if self.run is None else self.run + self.errors

    def first(self, summaries: int) -> TestCount:
        """What as many summaries say, from the first on; the whole where they are not told apart."""
        if summaries >= self.summaries or len(self.each) != self.summaries:
            return self
        known = self.each[:summaries]
        run, skipped = sum(run for run, _ in known), sum(skipped for _, skipped in known)
        return replace(self, run=run, skipped=skipped, summaries=summaries)

    def of_each(self) -> dict[str, TestCount]:
        """The counts by runner."""
        return {part.runner: part for part in self.parts or (self,)}


@dataclass(frozen=True, slots=True)
class CheckRun:
    """One run of the command in a fresh container. `exit_code` is None when it was ended from outside."""

    exit_code: int | None
    duration_ms: int
    output_tail: str
    stopped: str = ""
    """What ended it from outside, as a clause (`it was still running at its time limit of 900 s`)."""
    timed_out: bool = False
    starved: bool = False
    """A limit of the container (memory, processes) was reached meanwhile."""
    tests: TestCount | None = None
    unusable: str = ""
    """Why a failing run says nothing about the code (see `runners.unusable`)."""
    remedy: str = ""
    """What to do about that, where it is known."""
    silent: tuple[str, ...] = ()
    """Runners that the command names and that printed no summary."""


@dataclass(frozen=True, slots=True)
class Side:
    """The runs before, or after the change; all of them made the same way.

    `faults` says for each run why it is no pass, with an empty text where it is one. `tree` is the hash of what the
    command ran on (see `Sandbox.tree_hash`), empty when it is not known.
    """

    runs: tuple[CheckRun, ...]
    faults: tuple[str, ...]
    tree: str = ""

    @property
    def passed(self) -> int:
        return self.faults.count("")

    def published(self) -> dict[str, Any]:
        """The published form: the fields of the last run that is no pass (else the last), and every run in short."""
        failed = [run for run, fault in zip(self.runs, self.faults, strict=True) if fault]
        told = (failed or self.runs)[-1]
        counted = told.tests
        return {
            "exit_code": told.exit_code,
            "duration_ms": told.duration_ms,
            "tests": counted.begun if counted else None,
            "output_tail": told.output_tail,
            "runs": len(self.runs),
            "passed_runs": self.passed,
            "timed_out": told.timed_out,
            "runner": counted.runner if counted else None,
            "collected_tests": counted.collected if counted else None,
            "failed_tests": counted.failed if counted else None,
            "skipped_tests": counted.skipped if counted else None,
            "tree": self.tree,
            "each": [
                {
                    "exit_code": run.exit_code,
                    "duration_ms": run.duration_ms,
                    "tests": run.tests.begun if run.tests else None,
                    "fault": fault,
                }
                for run, fault in zip(self.runs, self.faults, strict=True)
            ],
        }


@dataclass(frozen=True, slots=True)
class Repository:
    """The host's repository before the baseline and after the last run, each as one hash; `changed` are paths that
    differ. codeagent writes none of it: a difference is somebody else's doing.
    """

    before: str = ""
    after: str = ""
    changed: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Verification:
    """The whole record. `image` is the image's digest, `diff_sha256` the hash of the agent's diff, of which
    `tests_modified` was left out; `notices` are files and lines of the rest that a person should look at.
    `before_again` are further runs without the change.
    """

    status: VerificationStatus
    reason: str = ""
    remedy: str = ""
    before: Side | None = None
    after: Side | None = None
    before_again: Side | None = None
    tests_modified: tuple[str, ...] = ()
    command: str = ""
    image: str = ""
    diff_sha256: str = ""
    notices: tuple[str, ...] = ()
    repository: Repository = field(default_factory=Repository)

    def event(self) -> Verified:
        return Verified(
            status=self.status,
            reason=self.reason,
            remedy=self.remedy,
            before=self.before.published() if self.before else None,
            after=self.after.published() if self.after else None,
            before_again=self.before_again.published() if self.before_again else None,
            tests_modified=list(self.tests_modified),
            command=self.command,
            directory=DIRECTORY,
            image=self.image,
            diff_sha256=self.diff_sha256,
            notices=list(self.notices),
            repository={
                "before": self.repository.before,
                "after": self.repository.after,
                "changed": list(self.repository.changed),
            },
        )


DIRECTORY = "/workspace"
"""Where the command runs: the top of the repository."""
