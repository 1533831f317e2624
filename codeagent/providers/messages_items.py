"""Items of a conversation to and from the content blocks of the Messages API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codeagent.conversation import AssistantMessage, Item, Json, Reasoning, Source, ToolCall, ToolOutput, UserMessage
from codeagent.providers.arguments import parsed_object
from codeagent.providers.call_ids import messages_ids, tool_name
from codeagent.providers.encoding import digest, encoded
from codeagent.providers.source import groups, named_types, not_taken, source_of

API = "messages"
_THINKING = ("thinking", "redacted_thinking")
RAW_INPUT = "input_json"
"""Beside `input` in the stored form of a call: its arguments as they were streamed, when they are no JSON object."""


def items_of(provider: str, model: str, raw: Sequence[Any]) -> tuple[Item, ...]:
    """The typed items of the content blocks; what is neither text nor a call stays opaque."""
    response = digest(list(raw))
    return tuple(
        _item(block, Source(API, provider, model, block, response, position))
        for position, block in enumerate(raw)
        if isinstance(block, dict)
    )


def _item(block: Json, source: Source) -> Item:
    if block.get("type") == "text":
        return AssistantMessage(str(block.get("text") or ""), source)
    if block.get("type") == "tool_use":
        streamed = block.get(RAW_INPUT)
        arguments = streamed if isinstance(streamed, str) else encoded(block.get("input") or {}).decode()
        return ToolCall(str(block.get("id") or ""), str(block.get("name") or ""), arguments, source)
    return Reasoning(source)


class MessageList:
    """Encodes items for one provider and model."""

    def __init__(self, provider: str, model: str) -> None:
        self._provider = provider
        self._model = model
        self._ids = messages_ids()
        self._unreadable: set[str] = set()  # responses whose thinking the server no longer takes
        self._unknown: set[str] = set()  # types of opaque blocks that the server does not know

    def forget_thinking(self, items: Sequence[Item]) -> bool:
        """Never send the thinking of these again. False when there is none."""
        sources = [source_of(i) for i in items if isinstance(i, Reasoning)]
        responses = {s.response for s in sources if s is not None and self._same_model(s)}
        self._unreadable |= responses
        return bool(responses)

    def forget_unknown(self, items: Sequence[Item], words: str) -> str:
        """Never send again the opaque blocks of these whose type the server names in its refusal; empty when none."""
        sources = [item.source for item in items if isinstance(item, Reasoning) and self._same_model(item.source)]
        unknown = named_types(sources, words) - {*_THINKING, "compaction"} - self._unknown
        self._unknown |= unknown
        return not_taken(unknown) if unknown else ""

    def encode(self, items: Sequence[Item], start: int) -> list[bytes]:
        """The messages of the items from `start` on. A response never continues before `start`: what one request
        sent stays as it is, and the API joins messages of the same role."""
        messages: list[Json] = []
        held: list[Json] = []  # what was said while calls were open: results must follow their calls directly
        open_calls = 0
        for group in groups(items[start:]):
            first = group[0]
            if isinstance(first, UserMessage):
                held.append({"role": "user", "content": [_text(first.text)]})
            elif isinstance(first, ToolOutput):
                open_calls -= len(group)
                results = [self._result(item) for item in group if isinstance(item, ToolOutput)]
                messages.append({"role": "user", "content": results})
            else:
                open_calls += sum(isinstance(item, ToolCall) for item in group)
                blocks = self._assistant(group)
                if blocks:
                    messages.append({"role": "assistant", "content": blocks})
            if open_calls <= 0:
                messages, held = messages + held, []
        return [encoded(message) for message in messages + held]

    def _result(self, output: ToolOutput) -> Json:
        result = {
            "type": "tool_result",
            "tool_use_id": self._ids(output.call_id),
            "content": output.text if output.text.strip() else "(no output)",
        }
        return {**result, "is_error": True} if output.error_kind is not None else result

    def _assistant(self, group: Sequence[Item]) -> list[Json]:
        blocks = [block for item in group if (block := self._block(item)) is not None]
        # Thinking that led to nothing, because the response was cut, is refused as the end of a message.
        while blocks and blocks[-1].get("type") in _THINKING:
            blocks.pop()
        return blocks

    def _block(self, item: Item) -> Json | None:
        source = source_of(item)
        own = source is not None and source.api == API and source.provider == self._provider
        payload = source.payload if source is not None and own else {}
        if isinstance(item, AssistantMessage):
            if not item.text.strip():
                return None  # the API refuses blank text
            return payload or _text(item.text)
        if isinstance(item, ToolCall):
            kept = {key: value for key, value in payload.items() if key != RAW_INPUT} or {"type": "tool_use"}
            given = payload.get("input") if RAW_INPUT not in payload else None
            arguments = given if isinstance(given, dict) else parsed_object(item.arguments) or {}
            return {**kept, "id": self._ids(item.call_id), "name": tool_name(item.name), "input": arguments}
        readable = source is not None and self._same_model(source) and source.response not in self._unreadable
        kind = payload.get("type")
        taken = isinstance(kind, str) and kind not in ("", "tool_result", *self._unknown)
        return payload if readable and taken else None

    def _same_model(self, source: Source) -> bool:
        return source.api == API and source.provider == self._provider and source.model == self._model


def _text(text: str) -> Json:
    return {"type": "text", "text": text if text.strip() else "(empty)"}
