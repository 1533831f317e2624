"""The words that a scripted model server's script is written in, and a request as it arrived."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from tests.model_forms import Call, Part, Refusal, Reply, Text, Thought

Api = Literal["responses", "chat", "messages"]


@dataclass(frozen=True)
class Received:
    """One request as it arrived."""

    api: Api
    path: str
    headers: Mapping[str, str]
    raw: bytes
    body: dict[str, Any]

    @property
    def items(self) -> list[dict[str, Any]]:
        """The conversation: `input` items, or messages."""
        found: list[dict[str, Any]] = self.body["input" if self.api == "responses" else "messages"]
        return found

    @property
    def outputs(self) -> dict[str, str]:
        """The text of every tool output, by call id."""
        if self.api == "responses":
            return {i["call_id"]: i["output"] for i in self.items if i.get("type") == "function_call_output"}
        if self.api == "chat":
            return {i["tool_call_id"]: i["content"] for i in self.items if i["role"] == "tool"}
        blocks = [b for i in self.items if isinstance(i["content"], list) for b in i["content"]]
        return {b["tool_use_id"]: b["content"] for b in blocks if b["type"] == "tool_result"}

    @property
    def calls(self) -> list[str]:
        """The ids of all calls in the conversation, in order."""
        if self.api == "responses":
            return [i["call_id"] for i in self.items if i.get("type") == "function_call"]
        if self.api == "chat":
            return [c["id"] for i in self.items for c in i.get("tool_calls") or ()]
        blocks = [b for i in self.items if isinstance(i["content"], list) for b in i["content"]]
        return [b["id"] for b in blocks if b["type"] == "tool_use"]

    @property
    def user_texts(self) -> list[str]:
        """What the user and the program said, in order."""
        found = []
        for item in self.items:
            if item.get("role") == "user":
                content = item["content"]
                parts = [{"text": content}] if isinstance(content, str) else content
                found += [p["text"] for p in parts if "text" in p]
        return found

    @property
    def tool_names(self) -> list[str]:
        return [t["function"]["name"] if self.api == "chat" else t["name"] for t in self.body.get("tools", ())]


@dataclass(frozen=True)
class Status:
    """An HTTP error. `body` is sent as JSON unless it is a string."""

    code: int
    headers: Mapping[str, str] = field(default_factory=dict)
    body: Any = None


@dataclass(frozen=True)
class RawSse:
    """These bytes with status 200, and then a clean end unless `abort`."""

    content: bytes
    content_type: str = "text/event-stream"
    abort: bool = False


@dataclass(frozen=True)
class Hang:
    """The first `after` events of `reply`, then silence until the client leaves (or `seconds` are over).

    `comment_every` sends an SSE comment at that interval, which any patient client takes for life.
    With `resume`, the rest of the reply follows the silence.
    """

    seconds: float = 60.0
    reply: Reply | None = None
    after: int = 0
    comment_every: float | None = None
    resume: bool = False


@dataclass(frozen=True)
class Cut:
    """The first `after` events of `reply`, then the end: clean (a whole HTTP body), or an aborted connection."""

    reply: Reply
    after: int
    clean: bool = False


Entry = Reply | Status | RawSse | Hang | Cut
Scripted = Entry | Callable[[Received], Entry]


def text(content: str, phase: str | None = None) -> Text:
    return Text(content, phase)


def call(name: str, arguments: Any = None, call_id: str | None = None) -> Call:
    """A call; `arguments` is an object, or a string to be sent as it is. Without an id the server numbers it."""
    raw = arguments if isinstance(arguments, str) else json.dumps(arguments if arguments is not None else {})
    return Call(name, raw, call_id)


def thought(content: str = "thinking") -> Thought:
    return Thought(content)


def refusal(content: str) -> Refusal:
    return Refusal(content)


def reply(
    *parts: Part | str, finish: str | None = None, usage: tuple[int, int, int] | None = None, pace: float = 0.0
) -> Reply:
    """A whole response. A string is a text part.

    `finish`: `length`, `content_filter`, `failed`, `pause`, `context`, `refusal` are said in each API's own
    words, anything else is sent as it is; None is what a finished response of that API says. `usage` is
    (input with cached, cached, output) tokens; `pace` seconds pass before each event.
    """
    return Reply(tuple(Text(p) if isinstance(p, str) else p for p in parts), finish, usage, pace)


def status(code: int, headers: Mapping[str, str] | None = None, body: Any = None) -> Status:
    return Status(code, headers or {}, body)


def raw_sse(*events: Any, content_type: str = "text/event-stream", abort: bool = False) -> RawSse:
    """Bytes or strings as they are; anything else as a `data:` line of JSON."""
    chunks = []
    for event in events:
        if isinstance(event, bytes):
            chunks.append(event)
        elif isinstance(event, str):
            chunks.append(event.encode())
        else:
            name = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            chunks.append(f"{name}data: {json.dumps(event)}\n\n".encode())
    return RawSse(b"".join(chunks), content_type, abort)


def hang(
    seconds: float = 60.0,
    reply: Reply | None = None,
    after: int = 0,
    comment_every: float | None = None,
    resume: bool = False,
) -> Hang:
    return Hang(seconds, reply, after, comment_every, resume)


def cut(reply: Reply, after: int = 3, clean: bool = False) -> Cut:
    return Cut(reply, after, clean)
