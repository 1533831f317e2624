"""What the live view remembers of the running turn."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codeagent.settings import Price
from codeagent.ui import wording
from codeagent.ui.calls import Call
from codeagent.ui.preview import Preview
from codeagent.ui.screen import Line

SANDBOX = "starting the sandbox"
MODEL = "waiting for the model"


@dataclass(slots=True)
class Step:
    """Something slow beside the calls: an image build, the copy, a verification run."""

    what: str
    done: int
    total: int
    started: float
    told: float

    @property
    def kind(self) -> str:
        """What stays the same while `what` says how far it is (`building the image: step 3 of 8`)."""
        return re.split(r"[:(]", self.what, maxsplit=1)[0].strip()

    def text(self) -> str:
        if self.total <= 1:  # of one thing there is no share
            return self.what
        percent = f"{100 * self.done // self.total}%"
        if self.total >= 10_000:  # bytes: the share says more
            return f"{self.what}: {percent}"
        return f"{self.what}: {self.done} of {self.total} ({percent})"


@dataclass(slots=True)
class Turn:
    """Times are of the monotonic clock, in seconds. `calls` are those not yet shown for good, in order."""

    price: Price | None
    started: float
    running: bool = False
    round: int = 0
    usage: dict[str, int] = field(default_factory=dict)
    calls: dict[str, Call] = field(default_factory=dict)
    preview: Preview = field(default_factory=Preview)
    said: str = ""
    asking: bool = False
    """The screen belongs to someone else: a prompt, or an error that is told."""
    thinking_since: float | None = None
    waiting_for: str = MODEL
    """What is going on since `thinking_since`."""
    steps: list[Step] = field(default_factory=list)
    """What is under way beside the calls, the outermost first."""
    waiting_lines: list[Line] = field(default_factory=list)
    afterwards: list[Line] = field(default_factory=list)

    @property
    def current_step(self) -> Step | None:
        return self.steps[-1] if self.steps else None

    def step(self, what: str, done: int, total: int, now: float) -> Step | None:
        """The current step after this report; None when nothing is under way.

        An empty `what` ends everything. A step within one that has a measure (the copy that a verification is run on)
        leaves the outer one when it is over; one without a measure is over when the next begins.
        """
        begun = Step(what, done, total, now, float("-inf"))
        over = bool(total) and done >= total
        if not what:
            self.steps.clear()
        elif known := next((step for step in self.steps if step.kind == begun.kind), None):
            known.what, known.done, known.total = what, done, total
            del self.steps[self.steps.index(known) + (not over) :]
        elif not over:
            if self.steps and not self.steps[-1].total:
                self.steps.pop()
            self.steps.append(begun)
        return self.current_step

    def spend(self, usage: Mapping[str, int]) -> None:
        for name, count in usage.items():
            self.usage[name] = self.usage.get(name, 0) + int(count or 0)

    def respond(self, usage: Mapping[str, int], text: str) -> None:
        self.spend(usage)
        self.said, self.thinking_since = text, None
        if self.waiting_for == SANDBOX:
            self.waiting_for = MODEL
        self.preview.clear()

    def end(self, record: Mapping[str, Any]) -> None:
        """The turn's own totals are the truth; what was added up on the way was only for the footer."""
        usage = record.get("usage") or {}
        self.usage = {name: int(count or 0) for name, count in usage.items()} or self.usage
        self.round = int(record.get("rounds") or 0)
        self.thinking_since = None

    def take_text(self) -> str:
        text, self.said = self.said, ""
        return text

    def take_finished(self) -> list[Call]:
        """The finished calls that no unfinished one precedes: calls are shown for good in their order."""
        finished: list[Call] = []
        for call in self.calls.values():
            if not call.finished:
                break
            finished.append(call)
        for call in finished:
            del self.calls[call.call_id]
        return finished

    def forget_running(self) -> None:
        self.running, self.asking, self.thinking_since = False, False, None
        self.preview.clear()
        self.calls.clear()
        self.steps.clear()

    def footers(self, now: float, dot: str) -> list[str]:
        """Round, tokens, the share that came from the cache, cost when known, time; then shorter forms of it."""
        sent, cached = self.usage.get("input_tokens", 0), self.usage.get("cached_input_tokens", 0)
        out = self.usage.get("output_tokens", 0)
        share = f" ({100 * cached // sent}% cached)" if sent else ""
        # What is asked now is a round of its own, and its number comes with its response.
        round_ = f"round {self.round + (self.thinking_since is not None)}"
        cost = "" if (known := cost_of(self.usage, self.price)) is None else f"cost {known:.4f}"
        time = wording.duration(now - self.started)
        forms: list[list[str]] = []
        if any(self.usage.values()):
            counts = f"{wording.tokens(sent)} tokens in{share}, {wording.tokens(out)} out"
            total = f"{wording.tokens(sent + out)} tokens"
            forms = [[round_, counts, cost, time], [round_, total, cost, time], [round_, total, time]]
        return [dot.join(filter(None, parts)) for parts in [*forms, [round_, time]]]


def cost_of(usage: Mapping[str, int], price: Price | None) -> float | None:
    """In the currency of the price; None where there is no price."""
    if price is None:
        return None
    cached = usage.get("cached_input_tokens", 0)
    fresh = usage.get("input_tokens", 0) - cached
    cached_price = price.input if price.cached_input is None else price.cached_input
    return (fresh * price.input + cached * cached_price + usage.get("output_tokens", 0) * price.output) / 1_000_000
