"""Why a turn stopped, and how the process exits for it. An outcome never says that anything is right."""

from __future__ import annotations

from enum import StrEnum


class Outcome(StrEnum):
    """The values are the contract of the log, of `--json` and of scripts."""

    ANSWERED = "answered"
    NEEDS_INPUT = "needs_input"
    REFUSED = "refused"
    TRUNCATED = "truncated"
    EMPTY = "empty"
    ROUND_LIMIT = "round_limit"
    TIME_LIMIT = "time_limit"
    TOKEN_LIMIT = "token_limit"  # noqa: S105 -- a published name, not a secret
    REPEATED_CALLS = "repeated_calls"
    TOO_MANY_ERRORS = "too_many_errors"
    STOPPED_BY_USER = "stopped_by_user"
    INTERRUPTED = "interrupted"
    MODEL_FAILED = "model_failed"
    SANDBOX_FAILED = "sandbox_failed"

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES.get(self, 7)


_EXIT_CODES = {
    Outcome.ANSWERED: 0,
    Outcome.NEEDS_INPUT: 6,
    Outcome.INTERRUPTED: 130,
    Outcome.MODEL_FAILED: 3,
    Outcome.SANDBOX_FAILED: 4,
}
