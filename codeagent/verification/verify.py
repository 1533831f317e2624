"""Fail before, pass after: the same command in fresh containers, without and with the change.

Nothing here trusts the conversation: the containers are made from the untouched repository, the change is the
agent's diff without its guarded part, and what the command's runner says of itself is counted.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from threading import Event as Flag
from typing import Literal

from codeagent.errors import SandboxError, ToolError
from codeagent.patches import SYMLINK, FilePatch, PatchError, apply, parse
from codeagent.sandbox.seam import Command, Diff, Ending, EntryKind, FileChange, Sandbox
from codeagent.verification.guard import FolderKind, guarded
from codeagent.verification.record import CheckRun, Side, Verification, VerificationStatus
from codeagent.verification.runners import Runner, count_tests, known_runner, unusable

TAIL_CHARACTERS = 4_000
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

    @property
    def reproduced(self) -> bool:
        return self.status is None


def run_baseline(check: Check, cancel: Flag) -> Baseline:
    """Runs the command before anything changed, and says whether that is something to compare with."""
    if _is_pipeline(check.command):
        return Baseline(
            VerificationStatus.NOT_RUN,
            "the command is a pipeline, whose exit code is its last part's and not the tests'; give it without `|`",
        )
    try:
        run = _run(check, "before", 1, lambda _sandbox: [], cancel)
    except (SandboxError, ToolError) as error:
        return Baseline(VerificationStatus.NOT_RUN, f"it could not be run: {_sentence(error)}")
    passed = int(run.exit_code == 0)
    status, reason = _judge_baseline(run, known_runner(check.command))
    return Baseline(status, reason, Side((run,), passed))


def verify(check: Check, baseline: Baseline, diff: Diff, cancel: Flag) -> Verification:
    """The whole record, after the turn. Runs nothing where the baseline or the diff leaves nothing to compare."""
    record = Verification(VerificationStatus.NOT_RUN, before=baseline.side, command=check.command, image=check.image)
    if baseline.status is VerificationStatus.NOT_RUN:
        return replace(record, reason=baseline.reason)
    if not diff.patch:
        if baseline.status is VerificationStatus.NOT_REPRODUCED:
            return replace(record, status=baseline.status, reason=baseline.reason)
        return replace(record, reason="no change to verify")
    try:
        patches = parse(diff.patch)
        touched, runs = _runs_with(check, patches, cancel)
    except (SandboxError, ToolError, PatchError) as error:
        return replace(record, reason=f"the run with the change could not be made: {_sentence(error)}")
    record = replace(record, tests_modified=tuple(touched))
    return _judge(record, check, baseline, runs)


def _runs_with(check: Check, patches: Sequence[FilePatch], cancel: Flag) -> tuple[list[str], list[CheckRun]]:
    """The guarded paths that the change touches, and the runs with the rest of it."""
    touched: list[str] = []

    def change(sandbox: Sandbox) -> list[FileChange]:
        touched[:] = guarded(patches, check.command, lambda folder: _kind(sandbox, folder))
        allowed = [patch for patch in patches if not set(patch.paths) & set(touched)]
        return [each for patch in allowed for each in changes_of(patch, sandbox)]

    runs = [_run(check, "after", number, change, cancel) for number in range(1, check.repeat + 1)]
    return touched, runs


def _run(
    check: Check,
    side: Literal["before", "after"],
    number: int,
    change: Callable[[Sandbox], list[FileChange]],
    cancel: Flag,
) -> CheckRun:
    """One run in a container that nothing else has used."""
    check.steps(_PROGRESS[side], number - 1, check.repeat if side == "after" else 1)
    run_id = f"verification-{side}-{number}"
    try:
        with check.fresh() as sandbox:
            if changes := change(sandbox):
                sandbox.store(changes)
            result = sandbox.run(
                Command(run_id, check.command, timeout_seconds=check.timeout_seconds, writable=True), cancel
            )
    finally:
        check.steps("", 0, 0)
    if result.ending is Ending.CANCELLED:
        raise SandboxError("the run was interrupted")
    shown = "".join(text for _, text in result.segments)
    output = check.output_of(run_id) or shown
    return CheckRun(
        exit_code=result.exit_code,
        duration_ms=result.duration_ms,
        output_tail=output[-TAIL_CHARACTERS:],
        timed_out=result.ending is Ending.TIMEOUT,
        out_of_memory=result.ending is Ending.MEMORY,
        tests=count_tests(output, known_runner(check.command)),
        unusable=unusable(result.exit_code, output, known_runner(check.command)),
    )


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
    if patch.old_path not in (None, patch.new_path) and not patch.copied:
        changes.append(FileChange(str(patch.old_path), None))
    changes.append(FileChange(patch.path, new, patch.new_mode if new is not None else None))
    return changes


def _kind(sandbox: Sandbox, folder: str) -> FolderKind:
    try:
        entries = sandbox.list_dir(folder, 1, 0).entries
    except ToolError:
        return "missing"
    is_package = any(entry.path == "__init__.py" and entry.kind is EntryKind.FILE for entry in entries)
    return "package" if is_package else "plain"


def _is_pipeline(command: str) -> bool:
    from codeagent.approval.shell import nodes, tree

    return any(node.type == "pipeline" for node in nodes(tree(command.encode("utf-8", "replace"))))


def _judge_baseline(run: CheckRun, runner: Runner | None) -> tuple[VerificationStatus | None, str]:
    if run.timed_out:
        return VerificationStatus.NOT_RUN, "it was still running at its time limit, before any change"
    if run.out_of_memory:
        return VerificationStatus.NOT_RUN, "it ran out of memory, before any change"
    if run.tests is not None and run.tests.nothing:
        return VerificationStatus.NOT_RUN, f"{run.tests.runner} executed no test, before any change"
    if run.exit_code == 0:
        if runner is not None and run.tests is None:
            return VerificationStatus.NOT_RUN, f"{runner.name} ended without saying that it ran a test"
        if run.tests is not None and run.tests.failed:
            return (
                VerificationStatus.NOT_RUN,
                f"it hides its exit code: {run.tests.failed} tests failed, yet it exits 0",
            )
        return VerificationStatus.NOT_REPRODUCED, "the command already passes on the untouched repository"
    return (VerificationStatus.NOT_RUN, run.unusable) if run.unusable else (None, "")


def _judge(record: Verification, check: Check, baseline: Baseline, runs: Sequence[CheckRun]) -> Verification:
    before = baseline.side.runs[-1] if baseline.side else None
    faults = [_fault(run, known_runner(check.command), before) for run in runs]
    passed = faults.count("")
    record = replace(record, after=Side(tuple(runs), passed))
    without = f" without the changes to {len(record.tests_modified)} guarded files" if record.tests_modified else ""
    if 0 < passed < len(runs):
        return replace(
            record,
            status=VerificationStatus.FLAKY,
            reason=f"{passed} of {len(runs)} runs with the change passed{without}",
        )
    if baseline.status is VerificationStatus.NOT_REPRODUCED:
        return replace(record, status=VerificationStatus.NOT_REPRODUCED, reason=baseline.reason)
    if not passed:
        return replace(record, status=VerificationStatus.FAILED, reason=f"{faults[-1]}{without}")
    times = f" in {passed} of {len(runs)} runs" if len(runs) > 1 else ""
    return replace(
        record,
        status=VerificationStatus.PASSED,
        reason=f"it fails before the change and passes after it{times}{without}",
    )


def _fault(run: CheckRun, runner: Runner | None, before: CheckRun | None) -> str:
    """Why a run with the change is no pass; empty when it is one."""
    expected = runner.name if runner else (before.tests.runner if before and before.tests else "")
    if run.timed_out:
        return "it did not end within its time limit"
    if run.out_of_memory:
        return "it ran out of memory"
    if run.exit_code != 0:
        return run.unusable or f"it exited {run.exit_code} with the change"
    if expected and run.tests is None:
        return f"it exited 0, but {expected} did not print its summary"
    if run.tests is not None and run.tests.nothing:
        return "it exited 0, but no test was executed"
    if run.tests is not None and run.tests.failed:
        return f"it exited 0, but {run.tests.failed} tests failed"
    was = before.tests.run if before and before.tests else None
    now = run.tests.run if run.tests else None
    if was is not None and now is not None and now < was:
        return f"only {now} tests were executed, {was} before the change"
    return ""


def _sentence(error: Exception) -> str:
    return str(getattr(error, "sentence", None) or error).rstrip(".")
