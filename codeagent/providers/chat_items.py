"""Items of a conversation to and from the messages of Chat Completions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from codeagent.conversation import AssistantMessage, Item, Json, Reasoning, Source, ToolCall, ToolOutput, UserMessage
from codeagent.providers.arguments import usable_arguments
from codeagent.providers.call_ids import CallIds, any_ids, tool_name
from codeagent.providers.encoding import digest, encoded
from codeagent.providers.source import groups

API = "chat"
REASONING_FIELDS = ("reasoning_content", "reasoning", "reasoning_details")

_THINKING = re.compile(r"\A\s*<think>.*?</think>\s*", re.DOTALL)


@dataclass
class Form:
    """How this server wants its messages: what is known of it from the options, and what it taught."""

    reasoning: Literal["with_calls", "always", "never"] = "with_calls"
    reasoning_required: bool = False  # the key must be there even where there was none
    empty_content: str | None = None
    ids: CallIds = field(default_factory=any_ids)
    user_after_tool: bool = True


def items_of(provider: str, model: str, raw: Sequence[Any]) -> tuple[Item, ...]:
    """The typed items of an assistant message: its reasoning, its text, its calls."""
    message = next((part for part in raw if isinstance(part, dict)), {})
    response = digest(message)
    payloads = list(_parts(message))
    return tuple(
        _item(payload, position, Source(API, provider, model, payload, response, position))
        for position, payload in enumerate(payloads)
    )


def _parts(message: Json) -> Iterable[Json]:
    reasoning = {name: message[name] for name in REASONING_FIELDS if message.get(name) is not None}
    if reasoning:
        yield reasoning
    if message.get("content"):
        yield {"content": message["content"]}
    if message.get("refusal"):
        yield {"refusal": message["refusal"]}
    yield from message.get("tool_calls") or ()


def _item(payload: Json, position: int, source: Source) -> Item:
    if "content" in payload:
        return AssistantMessage(text_in(payload["content"]), source)
    if "refusal" in payload:
        return AssistantMessage(str(payload["refusal"]), source, refusal=True)
    if "function" not in payload:
        return Reasoning(source)
    function = payload["function"]
    # A server that sends no ids means no harm by it; the place in the response is as good.
    call_id = payload.get("id") or f"call_{source.response}_{position}"
    return ToolCall(str(call_id), str(function.get("name") or ""), str(function.get("arguments") or ""), source)


def text_in(content: object) -> str:
    """The text of a content that may be a list of typed parts (Mistral), without thinking that a local server left
    in it; the stored message keeps both."""
    if isinstance(content, list):
        parts = [part for part in content if isinstance(part, dict) and part.get("type") == "text"]
        return "".join(str(part.get("text") or "") for part in parts)
    return _THINKING.sub("", content, count=1) if isinstance(content, str) else ""


class Messages:
    """Encodes items for one provider and model."""

    def __init__(self, provider: str, model: str, form: Form) -> None:
        self._provider = provider
        self._model = model
        self.form = form
        self._reasons = False  # the model has sent reasoning: from then on the key may not be missing

    def encode(self, items: Sequence[Item], start: int) -> list[bytes]:
        """The messages of the items from `start` on. A response never continues before `start`: what one request
        sent stays as it is."""
        if start == 0:
            self._reasons = False
        messages: list[Json] = []
        held: list[Json] = []  # what was said while calls were open: outputs must follow their calls directly
        open_calls = 0
        for group in groups(items[start:]):
            first = group[0]
            if isinstance(first, UserMessage):
                held.append({"role": "user", "content": first.text})
            elif isinstance(first, ToolOutput):
                open_calls -= len(group)
                messages += [self._output(item) for item in group if isinstance(item, ToolOutput)]
            else:
                open_calls += sum(isinstance(item, ToolCall) for item in group)
                messages += self._assistant(group)
            if open_calls <= 0:
                messages, held = messages + held, []
        after_tool = start > 0 and isinstance(items[start - 1], ToolOutput)
        return [encoded(message) for message in self._bridged(messages + held, after_tool)]

    def _output(self, output: ToolOutput) -> Json:
        return {"role": "tool", "tool_call_id": self.form.ids(output.call_id), "content": output.text}

    def _bridged(self, messages: list[Json], after_tool: bool) -> list[Json]:
        """Some servers want an assistant message between an output and what the user says next."""
        if self.form.user_after_tool:
            return messages
        bridged: list[Json] = []
        for message in messages:
            if message["role"] == "user" and after_tool:
                bridged.append({"role": "assistant", "content": "I have read the results."})
            bridged.append(message)
            after_tool = message["role"] == "tool"
        return bridged

    def _assistant(self, group: Sequence[Item]) -> list[Json]:
        """One assistant message out of the items of one response; none when nothing of it can be sent."""
        texts = [i.text for i in group if isinstance(i, AssistantMessage) and i.text.strip()]
        calls = [self._call(item) for item in group if isinstance(item, ToolCall)]
        if not texts and not calls:
            return []
        message: dict[str, Any] = {"role": "assistant"}
        message["content"] = "\n\n".join(texts) if texts else self.form.empty_content
        message.update(self._reasoning(group, with_calls=bool(calls)))
        if calls:
            message["tool_calls"] = calls
        return [message]

    def _reasoning(self, group: Sequence[Item], *, with_calls: bool) -> Json:
        form = self.form
        if form.reasoning == "never" or not (with_calls or form.reasoning == "always"):
            return {}
        for item in group:
            if isinstance(item, Reasoning) and self._own(item.source) and item.source.model == self._model:
                self._reasons = self._reasons or "reasoning_content" in item.source.payload
                return item.source.payload
        return {"reasoning_content": ""} if form.reasoning_required or self._reasons else {}

    def _own(self, source: Source | None) -> bool:
        return source is not None and source.api == API and source.provider == self._provider

    def _call(self, call: ToolCall) -> Json:
        payload = call.source.payload if call.source is not None and self._own(call.source) else {}
        # Further fields stay: some servers keep a signature of their reasoning in the call.
        function = {"name": tool_name(call.name), "arguments": usable_arguments(call.arguments)}
        return {**payload, "id": self.form.ids(call.call_id), "type": "function", "function": function}
