"""Fail before, pass after: the same command in fresh containers, without and with the change.

Nothing here trusts the conversation: the containers are made from the untouched repository, the change is the
agent's diff without its guarded part, and what the command's runner says of itself is counted.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import Event as Flag
from typing import Literal

from codeagent.errors import SandboxError, ToolError
from codeagent.patches import SYMLINK, FilePatch, PatchError, apply, parse
from codeagent.sandbox.seam import Command, CommandResult, Diff, Ending, EntryKind, FileChange, Sandbox
from codeagent.verification.exitcode import hidden
from codeagent.verification.guard import Guarded, Untouched, guard
from codeagent.verification.insource import with_old_tests
from codeagent.verification.judge import fault_of, judge_baseline
from codeagent.verification.notices import notices
from codeagent.verification.record import CheckRun, Side, Verification, VerificationStatus
from codeagent.verification.reports import count_reports, read_reports
from codeagent.verification.runners import (
    Runner,
    count_tests,
    named_runners,
    runner_called,
    silent,
    unusable,
    with_report,
)
from codeagent.verification.shadowing import FolderKind, installed_in
from codeagent.verification.tree import tree_of

TAIL_CHARACTERS = 4_000
LOOK = "`codeagent doctor` looks at the engine; then run it again."
AGAIN = 'The change is kept. Run it again with: codeagent resume "verify it again".'
STEADY = "Give a command that fails every time."
_PROGRESS = {"before": "verifying: before the change", "after": "verifying: with the change"}

Fresh = Callable[[], AbstractContextManager[Sandbox]]
"""Opens a container of its own over the untouched repository, with a private copy made from it."""

Steps = Callable[[str, int, int], None]


@dataclass(frozen=True)
class Check:
    """A verification command and the means to run it. `output_of` gives the whole output of a run by its id."""

    command: str
    fresh: Fresh
    output_of: Callable[[str], str | None]
    steps: Steps
    repeat: int = 1
    timeout_seconds: float = 900.0
    image: str = ""


@dataclass(frozen=True, slots=True)
class Baseline:
    """The run on the untouched repository. `status` is None when it failed as a baseline must."""

    status: VerificationStatus | None
    reason: str = ""
    side: Side | None = None
    remedy: str = ""

    @property
    def reproduced(self) -> bool:
        return self.status is None

    @property
    def run(self) -> CheckRun | None:
        return self.side.runs[-1] if self.side else None


def run_baseline(check: Check, cancel: Flag) -> Baseline:
    """Runs the command before anything changed, and says whether that is something to compare with."""
    if reason := hidden(check.command):
        remedy = "Give a command whose own exit code counts: for a pipeline, bash -o pipefail -c '…'."
        return Baseline(VerificationStatus.NOT_RUN, reason, remedy=remedy)
    runners = named_runners(check.command)
    try:
        run, tree = _run(check, "before", 1, runners, lambda _sandbox: "", cancel)
    except (SandboxError, ToolError) as error:
        reason, remedy = f"it could not be run: {_sentence(error)}", getattr(error, "remedy", "") or LOOK
        return Baseline(VerificationStatus.NOT_RUN, reason, remedy=remedy)
    status, reason, remedy = judge_baseline(run, runners)
    return Baseline(status, reason, Side((run,), ("" if run.exit_code == 0 else failing(run),), tree), remedy)


def failing(run: CheckRun) -> str:
    """Why a run without the change is no pass."""
    return run.stopped or run.unusable or f"it exited {run.exit_code}"


def verify(check: Check, baseline: Baseline, diff: Diff, cancel: Flag) -> Verification:
    """The whole record, after the turn. Runs nothing where the baseline or the diff leaves nothing to compare."""
    record = Verification(
        VerificationStatus.NOT_RUN,
        baseline.reason,
        baseline.remedy,
        before=baseline.side,
        command=check.command,
        image=check.image,
        diff_sha256=hashlib.sha256(diff.patch).hexdigest() if diff.patch else "",
    )
    if baseline.status is VerificationStatus.NOT_RUN:
        return record
    if not diff.patch:
        if baseline.status is VerificationStatus.NOT_REPRODUCED:
            return replace(record, status=baseline.status)
        return replace(record, reason="no change to verify")
    after = _After(check, baseline, diff)
    try:
        after.run(cancel)
        again = after.run_without(cancel)
    except (SandboxError, ToolError, PatchError) as error:
        reason = f"the run with the change could not be made: {_sentence(error)}"
        remedy = getattr(error, "remedy", "") or AGAIN
        return replace(record, reason=reason, remedy=remedy, tests_modified=tuple(after.touched))
    record = replace(record, tests_modified=tuple(after.touched), notices=tuple(after.notices))
    return _by_chance(replace(after.judged(record), before_again=again))


def _by_chance(record: Verification) -> Verification:
    """A check that passes without the change as well, sooner or later, has shown nothing of it."""
    again = record.before_again
    if record.status is not VerificationStatus.PASSED or again is None or not again.passed:
        return record
    reason = (
        f"without the change it passed, too, when it was run again ({len(again.runs) + 1} runs): it fails by chance"
    )
    return replace(record, status=VerificationStatus.NOT_REPRODUCED, reason=reason, remedy=STEADY)


class _After:
    """The runs with the change."""

    def __init__(self, check: Check, baseline: Baseline, diff: Diff) -> None:
        self._check = check
        self._baseline = baseline
        self._patches = parse(diff.patch)
        self._runners = named_runners(check.command)
        if not self._runners and baseline.run and baseline.run.tests:
            self._runners = runner_called(baseline.run.tests.runner)
        self._guard = Guarded()
        self._retested: set[str] = set()
        self._tree = ""
        self._runs: list[CheckRun] = []

    def run(self, cancel: Flag) -> None:
        """Raises SandboxError, ToolError and PatchError."""
        for number in range(1, self._check.repeat + 1):
            run, self._tree = _run(self._check, "after", number, self._runners, self._change, cancel)
            self._runs.append(run)

    def run_without(self, cancel: Flag) -> Side | None:
        """As many runs without the change as with it, the first one included, up to one that passes. None where one
        run shall do, or where the change has not passed. Raises SandboxError and ToolError."""
        if self._check.repeat < 2 or any(self._faults()) or not self._baseline.reproduced:
            return None
        runs: list[CheckRun] = []
        tree = ""
        while len(runs) < self._check.repeat - 1 and not (runs and runs[-1].exit_code == 0):
            run, tree = _run(self._check, "before", len(runs) + 2, self._runners, self._same, cancel)
            runs.append(run)
        return Side(tuple(runs), tuple("" if run.exit_code == 0 else failing(run) for run in runs), tree)

    def _same(self, sandbox: Sandbox) -> str:
        """Raises SandboxError when a fresh copy is not what the run before the change ran on. Returns its hash."""
        was, now = self._baseline.side.tree if self._baseline.side else "", sandbox.tree_hash()
        if was and now != was:
            raise SandboxError(
                "the repository was changed after the run before the change.",
                f"{AGAIN} Leave the repository alone meanwhile.",
            )
        return now

    def _change(self, sandbox: Sandbox) -> str:
        """Brings the change into a fresh copy; returns the hash of the tree that it makes."""
        self._same(sandbox)
        if not self._runs:
            self._guard = guard(self._patches, self._check.command, _untouched(sandbox))
        if changes := [each for patch in self.allowed for each in self._with_old_tests(patch, sandbox)]:
            sandbox.store(changes)
        return sandbox.tree_hash()

    @property
    def allowed(self) -> list[FilePatch]:
        """The part of the change that decides."""
        return [patch for patch in self._patches if not set(patch.paths) & set(self._guard.paths)]

    @property
    def notices(self) -> list[str]:
        return [*self._guard.doubts, *notices(self.allowed)]

    @property
    def touched(self) -> list[str]:
        """The paths whose tests, or the whole of which, do not decide as the change makes them."""
        return sorted({*self._guard.paths, *self._retested})

    def _with_old_tests(self, patch: FilePatch, sandbox: Sandbox) -> list[FileChange]:
        """What a patch does, but for the tests that stand in the file itself."""
        changes = changes_of(patch, sandbox)
        last = changes[-1]
        if patch.old_path is None or last.content is None or SYMLINK in (patch.old_mode, patch.new_mode):
            return changes
        old, new = (
            content.decode("utf-8", "surrogateescape") for content in (sandbox.fetch(patch.old_path), last.content)
        )
        kept = with_old_tests(patch.path, old, new, doctests=self._guard.doctests)
        if kept == new:
            return changes
        self._retested.add(patch.path)
        return [*changes[:-1], replace(last, content=kept.encode("utf-8", "surrogateescape"))]

    def _faults(self) -> tuple[str, ...]:
        expected = self._runners[0].name if self._runners else ""
        return tuple(fault_of(run, expected, self._baseline.run) for run in self._runs)

    def judged(self, record: Verification) -> Verification:
        faults = self._faults()
        side = Side(tuple(self._runs), faults, self._tree)
        record = replace(record, after=side, remedy="")
        touched = len(self.touched)
        restored = f" ({touched} guarded file{'s' * (touched > 1)} put back as before)" if touched else ""
        count = len(faults)
        if 0 < side.passed < count:
            reason = f"{side.passed} of {count} runs with the change passed{restored}"
            return replace(record, status=VerificationStatus.FLAKY, reason=reason)
        if not side.passed:
            return replace(record, status=VerificationStatus.FAILED, reason=f"{faults[-1]}{restored}")
        if self._baseline.status is VerificationStatus.NOT_REPRODUCED:
            return replace(record, status=VerificationStatus.NOT_REPRODUCED, remedy=self._baseline.remedy)
        if self._tree and record.before and self._tree == record.before.tree:
            reason = f"it passes on what it failed on{restored}: it fails by chance"
            return replace(record, status=VerificationStatus.NOT_REPRODUCED, reason=reason, remedy=STEADY)
        times = f" in {count} of {count} runs" if count > 1 else ""
        reason = f"it fails before the change and passes after it{times}{restored}"
        if doubts := self._guard.doubts:
            more = f", and {len(doubts) - 1} more" if len(doubts) > 1 else ""
            reason += f", but perhaps by what is checked: look at {doubts[0]}{more}"
        return replace(record, status=VerificationStatus.PASSED, reason=reason)


def _run(
    check: Check,
    side: Literal["before", "after"],
    number: int,
    runners: Sequence[Runner],
    change: Callable[[Sandbox], str],
    cancel: Flag,
) -> tuple[CheckRun, str]:
    """One run in a container that nothing else has used, and the hash of the tree that it ran on."""
    progress = _PROGRESS[side] if side == "after" or number == 1 else "verifying: without the change again"
    check.steps(progress, number - 1, check.repeat if side == "after" or number > 1 else 1)
    run_id = f"verification-{side}-{number}"
    try:
        with check.fresh() as sandbox:
            tree = change(sandbox) or sandbox.tree_hash()
            reports = read_reports(sandbox, check.command)
            result = sandbox.run(
                Command(run_id, check.command, timeout_seconds=check.timeout_seconds, writable=True), cancel
            )
            if result.ending is Ending.CANCELLED:
                raise SandboxError("the run was interrupted", "")
            if result.ending is Ending.FULL:
                # The engine's whole disk is looked at, so it may have been another program.
                raise SandboxError(
                    "it, or another program on the engine's disk, wrote more than the private copy may grow",
                    "Raise `copy_limit` under [sandbox] in the configuration, or run it again.",
                )
            report = count_reports(reports, read_reports(sandbox, check.command))
    finally:
        check.steps("", 0, 0)
    # A run that printed nothing leaves the file of an earlier one where it is.
    whole = check.output_of(run_id) if result.saved else None
    output = "".join(text for _, text in result.segments) if whole is None else whole
    tests = with_report(count_tests(output, runners), report)
    useless = unusable(result.exit_code, output, runners, tests) if result.exit_code else None
    return (
        CheckRun(
            exit_code=result.exit_code,
            duration_ms=result.duration_ms,
            output_tail=output[-TAIL_CHARACTERS:],
            stopped=_stopped(result, check),
            timed_out=result.ending is Ending.TIMEOUT,
            starved=bool(result.starved),
            tests=tests,
            unusable=(result.starved or (useless.reason if useless else "")) if result.exit_code else "",
            remedy=useless.remedy if useless else "",
            silent=() if "||" in check.command or (report and len(runners) < 2) else silent(output, runners),
        ),
        tree,
    )


def _stopped(result: CommandResult, check: Check) -> str:
    """What ended a run from outside, as a clause."""
    return {
        Ending.TIMEOUT: f"it was still running at its time limit of {check.timeout_seconds:g} s",
        Ending.MEMORY: result.starved or "it ran out of memory",
    }.get(result.ending, "" if result.exit_code is not None else "it was ended from outside")


def changes_of(patch: FilePatch, sandbox: Sandbox) -> list[FileChange]:
    """What a patch does to one file of the untouched tree. Raises PatchError or ToolError."""
    content: bytes | None = None
    if patch.old_path is not None:
        # A link is not followed: its content, the target, is what the patch says that it was.
        is_link = patch.old_mode == SYMLINK
        content = (
            b"".join(line for hunk in patch.hunks for line in hunk.old) if is_link else sandbox.fetch(patch.old_path)
        )
    new = apply(patch, content)
    changes = []
    is_moved = patch.old_path is not None and patch.new_path not in (None, patch.old_path) and not patch.copied
    if is_moved:
        changes.append(FileChange(str(patch.old_path), None))
    changes.append(FileChange(patch.path, new, patch.new_mode if new is not None else None))
    return changes


def _untouched(sandbox: Sandbox) -> Untouched:
    """Looks at a fresh copy before the change is in it."""

    def read(path: str) -> str | None:
        try:
            return sandbox.fetch(path).decode("utf-8", "replace")
        except ToolError:
            return None

    def kind_of(folder: str) -> FolderKind:
        try:
            entries = sandbox.list_dir(folder, 1, 0).entries
        except ToolError:
            return "missing"
        is_package = any(entry.path == "__init__.py" and entry.kind is EntryKind.FILE for entry in entries)
        return "package" if is_package else "plain"

    return Untouched(kind_of, read, installed_in(sandbox), tree_of(sandbox))


def _sentence(error: Exception) -> str:
    said = str(getattr(error, "sentence", None) or getattr(error, "message", None) or error).rstrip(".")
    # What becomes of a session after a lost container does not matter to a container that served for one run.
    return said.partition(" and a new one has taken its place")[0]
