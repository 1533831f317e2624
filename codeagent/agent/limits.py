"""The program's own bounds on a turn: rounds, time, tokens, repetition, errors in a row."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from codeagent.conversation import ToolCall, ToolOutput
from codeagent.inference import Usage
from codeagent.outcome import Outcome

MAX_ERROR_ROUNDS = 8
LONGEST_CYCLE = 6  # calls; a longer cycle is caught by the other bounds
WARN_AT = 3
STOP_AT = 4


@dataclass
class Clock:
    """Wall time of a turn, without the time spent waiting for the user or for an image build."""

    started: float = field(default_factory=time.monotonic)
    paused: float = 0.0

    def elapsed(self) -> float:
        return time.monotonic() - self.started - self.paused

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """Time inside does not count."""
        began = time.monotonic()
        try:
            yield
        finally:
            self.paused += time.monotonic() - began


@dataclass(frozen=True, slots=True)
class Bounds:
    """What the user set. `seconds` of wall time, `tokens` of input plus output."""

    rounds: int = 40
    seconds: float = 900.0
    tokens: int | None = None


class Limits:
    """Knows how much of a turn's budget is used, and which bound was reached first."""

    def __init__(self, bounds: Bounds, clock: Clock) -> None:
        self.bounds = bounds
        self.clock = clock
        self.usage = Usage()
        self.rounds = 0
        self._last = 0  # tokens of the last inference
        self._error_rounds = 0
        self._repetition = Repetition()

    def seconds_left(self) -> float:
        return self.bounds.seconds - self.clock.elapsed()

    def spend(self, usage: Usage) -> None:
        self.usage = self.usage + usage
        self._last = usage.total

    def budget_left(self) -> bool:
        """Whether one more inference may be afforded, rounds aside."""
        return self.seconds_left() > 0 and not self._tokens_used()

    def affords(self, inferences: int) -> bool:
        """Whether the tokens that are left are enough for so many more inferences like the last."""
        return self.bounds.tokens is None or self.usage.total + inferences * self._last < self.bounds.tokens

    def repeated(self, call: ToolCall, output: ToolOutput) -> int:
        """How many times in a row this call, or the cycle it closes, has had these results."""
        return self._repetition.seen(call, output)

    def close_round(self, outputs: Sequence[ToolOutput]) -> None:
        """Counts a round whose calls have all been answered (no outputs: a call written as text)."""
        self._repetition.close_round()
        failed = all(output.error_kind is not None for output in outputs)
        self._error_rounds = self._error_rounds + 1 if failed else 0

    def reached(self) -> Outcome | None:
        """The bound that ends the turn before another round with calls; the most specific first."""
        if self._repetition.longest >= STOP_AT:
            return Outcome.REPEATED_CALLS
        if self._error_rounds >= MAX_ERROR_ROUNDS:
            return Outcome.TOO_MANY_ERRORS
        if self.seconds_left() <= 0:
            return Outcome.TIME_LIMIT
        if self._tokens_used():
            return Outcome.TOKEN_LIMIT
        if self.rounds >= self.bounds.rounds:
            return Outcome.ROUND_LIMIT
        return None

    def _tokens_used(self) -> bool:
        return self.bounds.tokens is not None and self.usage.total >= self.bounds.tokens


class Repetition:
    """Finds the same call, or the same short cycle of calls, with the same results.

    Results are compared, so polling a file that changes, or the same test after an edit, is no repetition. Equal
    calls of one response count once: the model has not seen a result, nor a warning, when it makes the next one.
    """

    def __init__(self) -> None:
        self._seen: list[tuple[str, ...]] = []
        self._this_round: set[tuple[str, ...]] = set()
        self.longest = 0

    def close_round(self) -> None:
        self._this_round.clear()

    def seen(self, call: ToolCall, output: ToolOutput) -> int:
        """Records one answered call; returns how often the cycle that it closes has now run (0: said already)."""
        same = sameness(call, output)
        if same in self._this_round:
            return 0
        self._this_round.add(same)
        self._seen.append(same)
        del self._seen[: -LONGEST_CYCLE * STOP_AT]
        runs = max(self._runs(length) for length in range(1, LONGEST_CYCLE + 1))
        self.longest = max(self.longest, runs)
        return runs

    def _runs(self, length: int) -> int:
        """How many times the last `length` calls stand at the end, one after the other."""
        block = self._seen[-length:]
        runs = 0
        for end in range(len(self._seen), length - 1, -length):
            if self._seen[end - length : end] != block:
                break
            runs += 1
        return runs


def sameness(call: ToolCall, output: ToolOutput) -> tuple[str, ...]:
    """What is equal for two runs of the same thing: a call and its result, without its id and its duration."""
    try:
        arguments = _SORTED.encode(json.loads(call.arguments))
    except (ValueError, RecursionError):
        arguments = call.arguments
    header, _, rest = output.text.replace(call.call_id, "").partition("\n")
    return call.name, arguments, _DURATION.sub("", header), rest


_SORTED = json.JSONEncoder(sort_keys=True)
_DURATION = re.compile(r"\d+(\.\d+)? ?m?s\b")
