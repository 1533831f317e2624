"""How long a request is tried again: the only such layer; the SDK's own is switched off.

The wait doubles from half a second to eight, less a random quarter, unless the server names one. No attempt begins
later than `retry_seconds` after the first failure. `time.sleep` ends at once when a signal handler raises.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable

from codeagent.providers.failures import Failure, Kind, call_refused, transient

_FIRST_WAIT = 0.5
_LONGEST_WAIT = 8.0
_ATTEMPTS = 10
_ATTEMPTS_UNREACHABLE = 4
"""A server that was never reached is more likely misspelt than restarting: the user waits 3 s, not 40."""
_ATTEMPTS_CALL_REFUSED = 3


class Patience:
    """Counts the attempts of one request. `attempts` are those that failed so far."""

    def __init__(
        self,
        seconds: float,
        reached_before: bool = False,
        clock: Callable[[], float] = time.monotonic,
        attempts: int = _ATTEMPTS,
    ) -> None:
        self._seconds = seconds
        self._most = attempts
        self._reached = reached_before
        self._clock = clock
        self._deadline: float | None = None
        self.attempts = 0

    def wait_after(self, failure: Failure) -> float | None:
        """Seconds until the next attempt; None when there is to be none."""
        self.attempts += 1
        now = self._clock()
        if self._deadline is None:
            self._deadline = now + self._seconds
        self._reached = self._reached or failure.kind is not Kind.UNREACHABLE
        if not transient(failure) or self.attempts >= self._limit(failure):
            return None
        wait = failure.retry_after or self._backoff()
        return wait if now + wait <= self._deadline else None

    def _limit(self, failure: Failure) -> int:
        if call_refused(failure):
            return _ATTEMPTS_CALL_REFUSED
        return self._most if self._reached else min(self._most, _ATTEMPTS_UNREACHABLE)

    def _backoff(self) -> float:
        longest = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0 ** (self.attempts - 1))
        return longest * (1 - random.random() / 4)  # noqa: S311  # jitter is no secret
