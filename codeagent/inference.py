"""One inference: what a model is asked, and its one response.

`Provider` is the seam behind which every wire API stands (`codeagent.providers`), the offline
investigator included.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal, Protocol

from codeagent.conversation import Item


class Finish(StrEnum):
    """Why the model stopped one response. Only `COMPLETE` may be an answer or have its calls run."""

    COMPLETE = "complete"  # the terminal event arrived and nothing was cut
    PAUSED = "paused"  # Messages API `pause_turn`: send the same conversation again
    TRUNCATED = "truncated"  # output limit or content filter
    REFUSED = "refused"
    CONTEXT_FULL = "context_full"  # the window was reached while writing
    FAILED = "failed"  # the server says that it failed, after a complete exchange


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens. `cached_input_tokens` is a part of `input_tokens`, whatever the API counts."""

    input_tokens: int = 0
    cached_input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.input_tokens + other.input_tokens,
            self.cached_input_tokens + other.cached_input_tokens,
            self.output_tokens + other.output_tokens,
        )

    @property
    def total(self) -> int:
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One function tool: a strict JSON schema and a description that the implementation keeps."""

    name: str
    description: str
    parameters: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Request:
    """What one inference is asked. `instructions` and `tools` never change within a turn.

    `cache_key` is the session's id: the same for all requests that share a prefix.
    """

    instructions: str
    items: Sequence[Item]
    tools: Sequence[ToolSpec]
    cache_key: str
    tool_choice: Literal["auto", "none"] = "auto"


@dataclass(frozen=True, slots=True)
class Inference:
    """A whole response.

    `items` are the typed items in order, calls under the ids that the server gave them; `raw` is the output verbatim,
    in the form of the API; `finish_word` is the API's own word; `detail` is the server's explanation when it gave
    one. `text_call` tells that the model wrote a tool call as text: nothing was called, and the text is no answer.
    """

    items: tuple[Item, ...]
    finish: Finish
    finish_word: str
    usage: Usage
    raw: tuple[Any, ...] = ()
    detail: str = ""
    text_call: bool = False


@dataclass(frozen=True, slots=True)
class TextDelta:
    """A piece of assistant text, as it arrives. For display only: what counts is the Inference."""

    text: str


@dataclass(frozen=True, slots=True)
class RetryNotice:
    """A request is about to be sent again. Text shown since the last request no longer counts."""

    attempt: int
    reason: str
    delay_ms: int


Progress = Callable[[TextDelta | RetryNotice], None]

Compact = Callable[[Sequence[Item]], Inference | None]
"""What stands for these items from now on, as `Provider.compact` makes it."""


class Provider(Protocol):
    """Answers requests. One object serves one conversation; it is used from one thread."""

    @property
    def name(self) -> str:
        """The configured name, for example `openai`."""

    @property
    def api(self) -> str:
        """The wire format: `responses`, `chat`, `messages` or `offline`."""

    @property
    def model(self) -> str: ...

    @property
    def context_window(self) -> int:
        """Tokens that a request and its response may have together."""

    def infer(self, request: Request, progress: Progress) -> Inference:
        """One request and its whole response, retried where that is right.

        Raises ModelError when the API failed for good or refused the request, ContextFull when the
        request is too long. May be left by Interrupted at any time; nothing of the response is kept.
        """

    def compact(self, request: Request, progress: Progress) -> Inference | None:
        """What the API itself makes of the request's items: fewer ones, opaque in part, that stand for them.

        None where the API or its server has nothing of the kind, or when it failed; never raises an error. No call is
        among the items, and none of those given may be unanswered. May be left by Interrupted at any time.
        """
