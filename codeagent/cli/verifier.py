"""Verification beside a turn: the baseline before it, the run with the change after it, the record and exit code."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from dataclasses import replace
from threading import Event as Flag
from typing import TYPE_CHECKING, Any

from codeagent.agent.interrupts import Interrupts
from codeagent.events import body
from codeagent.outcome import Outcome
from codeagent.sandbox.output import saved_name
from codeagent.sandbox.seam import Diff, Sandbox, Steps
from codeagent.session.store import Session

if TYPE_CHECKING:
    from codeagent.cli.afterwards import Afterwards
    from codeagent.cli.choices import Choices
    from codeagent.cli.means import Means
    from codeagent.verification.host import Snapshot
    from codeagent.verification.record import Verification
    from codeagent.verification.verify import Baseline, Check

Fresh = Callable[[], AbstractContextManager[Sandbox]]

NOT_VERIFIED = 5
_NO_RUN_AFTER = (Outcome.INTERRUPTED, Outcome.MODEL_FAILED, Outcome.SANDBOX_FAILED)


class Verifier:
    """One turn's verification. Without `--verify` it does nothing and says `not_requested`."""

    def __init__(self, choices: Choices, session: Session, steps: Steps) -> None:
        self._choices = choices
        self._session = session
        self._steps = steps
        self._check: Check | None = None
        self._baseline: Baseline | None = None
        self._verification: Verification | None = None
        self._no_change = False
        self._snapshot: Snapshot | None = None

    def run_baseline(self, fresh: Fresh, image: str) -> None:
        """Runs the command on the untouched repository, where one was given."""
        if self._choices.verify is None:
            return
        from codeagent.verification.host import Snapshot
        from codeagent.verification.verify import Check, run_baseline

        self._snapshot = Snapshot.of(self._choices.repo, self._steps)
        self._check = Check(
            self._choices.verify,
            fresh,
            self._output_of,
            self._steps,
            repeat=self._choices.verify_repeat,
            timeout_seconds=self._choices.config.verify_time_limit,
            image=image,
        )
        self._baseline = run_baseline(self._check, Flag())

    @property
    def forbids_turn(self) -> bool:
        """A fix of something that cannot be seen to fail is not begun, unless it is forced."""
        if self._baseline is None or self._baseline.reproduced or not self._choices.patching:
            return False
        return not (self._choices.force and self._baseline.side is not None)

    def verify(
        self, outcome: Outcome | None, means: Means | None, interrupts: Interrupts, after: Afterwards
    ) -> Mapping[str, Any]:
        """Records the verification and returns its fields, as the final event carries them. Never raises."""
        if self._choices.verify is None:
            return {"status": "not_requested"}
        unmade = self._unmade(means)
        made = after.attempt(
            "the verification",
            lambda: self._made(unmade, outcome, means, interrupts),
            lambda error: replace(unmade, reason=error.message.rstrip("."), remedy=error.remedy),
        )
        self._verification = after.attempt(
            "the look at your repository", lambda: self._with_repository(made, interrupts), lambda _error: made
        )
        event = self._verification.event()
        after.record(event)
        return body(event)

    def _with_repository(self, verification: Verification, interrupts: Interrupts) -> Verification:
        if self._snapshot is None:
            return verification
        from codeagent.verification.host import compare

        repository = compare(self._snapshot, self._choices.repo, self._steps, interrupts)
        return replace(verification, repository=repository)

    def _unmade(self, means: Means | None) -> Verification:
        """The record of a verification that was not run with the change."""
        from codeagent.verification.record import Verification, VerificationStatus

        reason, remedy = "it was stopped before the run had ended", ""
        if self._baseline is not None:
            reason, remedy = self._baseline.reason, self._baseline.remedy
        return Verification(
            VerificationStatus.NOT_RUN,
            reason=reason,
            remedy=remedy,
            before=self._baseline.side if self._baseline is not None else None,
            command=str(self._choices.verify),
            image=means.image if means else "",
        )

    @property
    def exit_code(self) -> int:
        """5 unless the change is proven; a question that changed nothing had nothing to prove."""
        from codeagent.verification.record import VerificationStatus

        if self._verification is None or self._verification.status is VerificationStatus.PASSED:
            return 0
        return 0 if self._no_change and not self._choices.patching else NOT_VERIFIED

    def _made(
        self, unmade: Verification, outcome: Outcome | None, means: Means | None, interrupts: Interrupts
    ) -> Verification:
        from codeagent.verification.verify import verify

        if self._check is None or self._baseline is None or means is None:
            return unmade
        if outcome in _NO_RUN_AFTER:
            return replace(unmade, reason=f"the turn ended as {outcome}", remedy="")
        diff = means.sandbox.diff() if outcome is not None else Diff()
        self._no_change = not diff.patch and self._baseline.reproduced
        with interrupts.waiting():
            return verify(self._check, self._baseline, diff, Flag())

    def _output_of(self, run_id: str) -> str | None:
        try:
            return (self._session.outputs / saved_name(run_id)).read_text("utf-8", "replace")
        except OSError:
            return None
