"""Anthropic Messages: https://platform.claude.com/docs/en/api/messages

Spoken over the HTTP client that the `openai` SDK brings; docs/decisions/ says why.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from codeagent.conversation import Item, Json
from codeagent.inference import Finish, Inference, Request, ToolSpec, Usage
from codeagent.providers.adapter import Events
from codeagent.providers.counts import count
from codeagent.providers.encoding import Shown, cleaned, encoded
from codeagent.providers.failures import Failure, Kind, of_event
from codeagent.providers.learning import refused_field, without
from codeagent.providers.messages_items import MessageList, items_of
from codeagent.providers.messages_stream import Blocks
from codeagent.providers.options import Options
from codeagent.providers.written import Written
from codeagent.settings import ProviderSettings

_DEFAULT_MAX_TOKENS = 32_000
_OPTIONAL = ("cache_control", "strict", "output_config", "thinking", "tool_choice")
_FINISHES = {
    "end_turn": Finish.COMPLETE,
    "stop_sequence": Finish.COMPLETE,
    "tool_use": Finish.COMPLETE,
    "pause_turn": Finish.PAUSED,
    "compaction": Finish.PAUSED,  # only where the user's own options ask for it
    "max_tokens": Finish.TRUNCATED,
    "model_context_window_exceeded": Finish.CONTEXT_FULL,
    "refusal": Finish.REFUSED,
}


def headers(settings: ProviderSettings, options: Options) -> Mapping[str, str]:
    """Version and key. The API took the key as `x-api-key` before its versions of 2026, as a bearer token since."""
    named: dict[str, str] = {"anthropic-version": options.anthropic_version}
    if settings.api_key:
        if options.key_header:
            named[options.key_header] = settings.api_key
        elif options.anthropic_version < "2026":
            named["x-api-key"] = settings.api_key
        else:
            named["authorization"] = f"Bearer {settings.api_key}"
    return named


class Messages:
    """A Dialect (see `codeagent.providers.adapter`)."""

    path = "/messages"
    compaction = None

    def __init__(self, settings: ProviderSettings, options: Options) -> None:
        self._settings = settings
        self._options = options
        self._without = set(options.without)
        self._max_tokens = settings.max_output_tokens or _DEFAULT_MAX_TOKENS
        self._list = MessageList(settings.name, settings.model)
        self._written = Written(self._list.encode)
        self._sent: Sequence[Item] = ()

    def body(self, request: Request) -> bytes:
        self._sent = request.items
        messages = b",".join(self._written(request.items))
        return b'%s,"messages":[%s]}' % (encoded(self._fields(request))[:-1], messages)

    def _fields(self, request: Request) -> dict[str, Any]:
        settings = self._settings
        fields: dict[str, Any] = {"model": settings.model, "max_tokens": self._max_tokens}
        # Two marks: one on what never changes within a session, and the API's own, which moves with the end.
        marked = {} if "cache_control" in self._without else {"cache_control": {"type": "ephemeral"}}
        fields.update(marked)
        if request.instructions:
            fields["system"] = [{"type": "text", "text": request.instructions, **marked}]
        if request.tools:
            fields["tools"] = [self._tool(tool) for tool in request.tools]
            if request.tool_choice == "none":
                fields["tool_choice"] = {"type": "none"}
        if settings.reasoning_effort is not None:
            fields["thinking"] = {"type": "adaptive"}
            fields["output_config"] = {"effort": settings.reasoning_effort}
        fields["stream"] = self._options.stream
        fields.update(self._options.body)
        return {name: value for name, value in fields.items() if name not in self._without}

    def _tool(self, tool: ToolSpec) -> Json:
        named = {"name": tool.name, "description": tool.description}
        if "strict" in self._without:
            return {**named, "input_schema": tool.parameters}
        return {**named, "input_schema": _without_bounds(tool.parameters), "strict": True}

    def read(self, events: Events, show: Shown) -> Inference:
        blocks = Blocks(show)
        for event in events:
            if event is None:
                break
            kind = event.get("type")
            if kind == "error" or (kind is None and event.get("error")):
                raise of_event(event)
            if kind == "message_stop" and blocks.stop.get("stop_reason"):
                return self._ended(blocks.content(), blocks.stop, blocks.usage)
            blocks.take(event)
        raise Failure(Kind.CUT, "the stream ended without its terminal event")

    def read_whole(self, answer: Json) -> Inference:
        if not isinstance(answer.get("content"), list):
            raise Failure(Kind.FOREIGN, str(answer)[:200])
        return self._ended(answer["content"], answer, answer.get("usage"))

    def _ended(self, content: Sequence[Json], stop: Json, usage: object) -> Inference:
        raw = cleaned(list(content))
        items = items_of(self._settings.name, self._settings.model, raw)
        word = str(stop.get("stop_reason") or "")
        finish, detail = _FINISHES.get(word, Finish.TRUNCATED), ""
        if finish is Finish.REFUSED:
            told = stop.get("stop_details") or {}
            detail = str(told.get("explanation") or told.get("category") or "the model declined")
        elif word not in _FINISHES:
            detail = f"the server gave a reason that is not known: {word}"
        return Inference(items, finish, word, _usage(usage), tuple(raw), detail)

    def learn(self, failure: Failure) -> str:
        words = failure.words
        if failure.status != 400:
            return ""
        limit = re.search(r"max_tokens: (\d+) > (\d+)", words)
        if limit and int(limit[2]) < self._max_tokens:
            self._max_tokens = int(limit[2])
            return f"the model writes at most {self._max_tokens} tokens"
        if re.search(
            r"signature|thinking.*(cannot|could not|invalid|modified)", words
        ) and self._list.forget_thinking(self._sent):
            self._written.forget()
            return "the server does not take its earlier thinking; sent again without it"
        if forgotten := self._list.forget_unknown(self._sent, words):
            self._written.forget()
            return forgotten
        name = refused_field(failure, [name for name in _OPTIONAL if name not in self._without])
        if not name:
            return ""
        self._without.add(name)
        return without(name)


_BOUNDS = ("minimum", "maximum", "minLength", "maxLength", "pattern")


def _without_bounds(schema: Any) -> Any:
    """A strict schema may not hold bounds here; the tool checks them anyway."""
    if isinstance(schema, list):
        return [_without_bounds(each) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    inner = {name: value for name, value in schema.items() if name not in _BOUNDS or isinstance(value, Mapping)}
    return {name: _without_bounds(value) for name, value in inner.items()}


def _usage(usage: object) -> Usage:
    """`input_tokens` counts here only what was not in the cache."""
    fresh, read, written = (
        count(usage, name) for name in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
    )
    return Usage(fresh + read + written, read, count(usage, "output_tokens"))
