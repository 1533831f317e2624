"""The items of a conversation, and the one rule about them: every call has exactly one output.

Items are plain values. What a model produced carries its `Source`: the payload exactly as it arrived,
and who wrote it, so that an adapter can send it back verbatim to the same API, and rebuild it from the
typed fields for another one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from codeagent.errors import ErrorKind, ToolError

Json = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Source:
    """Who produced an item, and the item as it came over the wire (one output item, block or field).

    `response` tells the responses of a conversation apart, and `position` is the item's place in its
    response, from 0, so that an adapter sees where a response begins and whether a part of it is missing.
    """

    api: str
    provider: str
    model: str
    payload: Json
    response: str = ""
    position: int = 0


@dataclass(frozen=True, slots=True)
class UserMessage:
    """Text from the user, or from the program on the user's behalf.

    `origin` tells them apart in reports: `user` is what was typed; `program` is a note that codeagent
    adds (a changed file, a summary, the request to say what is known before a limit stops the turn);
    `repository` is untrusted text such as AGENTS.md. One that an API's compaction gave back has a `source`.
    """

    text: str
    origin: Literal["user", "program", "repository"] = "user"
    source: Source | None = None


@dataclass(frozen=True, slots=True)
class AssistantMessage:
    """Text that the model addressed to the user. `refusal` is true when the API marked it as one."""

    text: str
    source: Source | None = None
    refusal: bool = False


@dataclass(frozen=True, slots=True)
class Reasoning:
    """An opaque item, such as a compaction; returned verbatim to the provider and model that wrote it, and to nobody
    else."""

    source: Source


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A proposed call. `arguments` is the raw string, parsed once, at the border of the tool.

    `call_id` is unique within the conversation (see `adopted`). `defect` says what is wrong with the
    call itself (a missing or repeated id, a call cut short): a defective call is answered with an
    error and never run.
    """

    call_id: str
    name: str
    arguments: str
    source: Source | None = None
    defect: str = ""


@dataclass(frozen=True, slots=True)
class ToolOutput:
    """The one output of a call, as the model reads it."""

    call_id: str
    text: str
    error_kind: ErrorKind | None = None

    @property
    def status(self) -> Literal["ok", "error"]:
        return "ok" if self.error_kind is None else "error"


Item = UserMessage | AssistantMessage | Reasoning | ToolCall | ToolOutput


def unanswered(items: Iterable[Item]) -> list[ToolCall]:
    """The calls with no output yet, in their order. No provider accepts a request that has any."""
    calls: dict[str, ToolCall] = {}
    for item in items:
        if isinstance(item, ToolCall):
            calls[item.call_id] = item
        elif isinstance(item, ToolOutput):
            calls.pop(item.call_id, None)
    return list(calls.values())


def answer_all(items: Sequence[Item], kind: ErrorKind, sentence: str) -> list[ToolOutput]:
    """An error output for every call that has none."""
    text = ToolError(kind, sentence).text()
    return [ToolOutput(call.call_id, text, kind) for call in unanswered(items)]


def adopted(items: Iterable[Item], history: Iterable[Item]) -> tuple[Item, ...]:
    """The items of a new response, with call ids that are unique in the conversation.

    An id that an earlier response used is replaced by a fresh one, which is deterministic and no fault of
    the call: some servers number from 0 in each response. An id that is missing, or that repeats within
    the response, makes the call defective: nobody can say which call an output would belong to.
    """
    used = {item.call_id for item in history if isinstance(item, ToolCall)}
    within: set[str] = set()
    result: list[Item] = []
    for item in items:
        if isinstance(item, ToolCall):
            defect = item.defect or _defect_of_id(item.call_id, within)
            within.add(item.call_id)
            fresh = _fresh(item.call_id or "call", used)
            if fresh != item.call_id or defect != item.defect:
                item = replace(item, call_id=fresh, defect=defect)
            used.add(fresh)
        result.append(item)
    return tuple(result)


def _defect_of_id(call_id: str, within: set[str]) -> str:
    if not call_id:
        return "the call came without an id; it was not run"
    if call_id in within:
        return f"the id {call_id!r} was already used by another call of the same response; this call was not run"
    return ""


def _fresh(call_id: str, used: set[str]) -> str:
    candidate, number = call_id, 2
    while candidate in used:
        candidate, number = f"{call_id}_{number}", number + 1
    return candidate


def text_of(items: Iterable[Item]) -> str:
    """All assistant text among `items`, joined by blank lines; refusals are not an answer."""
    return "\n\n".join(
        item.text for item in items if isinstance(item, AssistantMessage) and item.text.strip() and not item.refusal
    )
