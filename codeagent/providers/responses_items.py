"""Items of a conversation to and from the `input` and `output` items of the Responses API."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

from codeagent.conversation import (
    AssistantMessage,
    Item,
    Json,
    Reasoning,
    Source,
    ToolCall,
    ToolOutput,
    UserMessage,
)
from codeagent.providers.arguments import usable_arguments
from codeagent.providers.call_ids import any_ids, tool_name
from codeagent.providers.encoding import digest, encoded
from codeagent.providers.failures import Failure
from codeagent.providers.source import named_types, not_taken, source_of

API = "responses"
_CALLS = {"function_call": "arguments", "custom_tool_call": "input"}
COMPACTION = "compaction"
_EXECUTED_BY_CLIENT = ("shell_call", "local_shell_call", "apply_patch_call", "computer_call", "mcp_approval_request")
"""Calls of tools that codeagent never offers. They could not be answered, and unanswered ones are refused."""
_NEVER_OPAQUE = (*_EXECUTED_BY_CLIENT, "message", "function_call_output", "custom_tool_call_output")
"""No server writes such an item in a form that has to be sent back unread: an edited log may hold one."""
_UNREADABLE = re.compile(r"invalid_encrypted_content|encrypted.*could not be")


def items_of(provider: str, model: str, raw: Sequence[Any]) -> tuple[Item, ...]:
    """The typed items of an output; what is neither text nor a call stays opaque."""
    response = digest(list(raw))
    return tuple(
        _item(item, Source(API, provider, model, item, response, position))
        for position, item in enumerate(raw)
        if isinstance(item, dict)
    )


def _item(item: Json, source: Source) -> Item:
    kind = item.get("type")
    if kind in _CALLS:
        arguments = item.get(_CALLS[kind])
        return ToolCall(
            str(item.get("call_id") or ""),
            str(item.get("name") or ""),
            arguments if isinstance(arguments, str) else encoded(arguments or {}).decode(),
            source,
        )
    if kind == "message" and item.get("role", "assistant") == "assistant":
        refusals = _texts(item, "refusal", "refusal")
        texts = _texts(item, "output_text", "text")
        return AssistantMessage("".join(refusals or texts), source, refusal=bool(refusals))
    if kind == "message" and item["role"] == "user":  # only a compaction gives one back
        return UserMessage("".join(_texts(item, "input_text", "text")), "program", source)
    return Reasoning(source)


def _texts(message: Json, kind: str, field: str) -> list[str]:
    """The texts of one kind of part; a content that is a plain string is a text."""
    content = message.get("content")
    if isinstance(content, str):
        return [content] if field == "text" else []
    return [str(part.get(field) or "") for part in content or () if part.get("type") == kind]


def refused_text(items: Sequence[Item]) -> str:
    """What the model said when it declined; empty when it did not."""
    refusals = [item.text for item in items if isinstance(item, AssistantMessage) and item.refusal]
    return "\n".join(refusals) or ("the model declined" if refusals else "")


class Input:
    """Encodes items for one provider and model. `stored`: the server keeps responses, so reasoning needs no seal."""

    def __init__(self, provider: str, model: str, *, stored: bool = False) -> None:
        self._provider = provider
        self._model = model
        self._stored = stored
        self.call_id = any_ids()
        self._unreadable: set[str] = set()  # responses whose opaque items the server can no longer open
        self._unknown: set[str] = set()  # types of opaque items that the server does not know
        self._custom: set[str] = set()  # call ids that are answered in the form of a custom tool

    def forget(self, items: Sequence[Item], failure: Failure) -> str:
        """Never send again which opaque items of these the server cannot read, as it says; empty when it does not.

        When it names a compaction, reasoning may still be readable; one that it names is seldom the only one.
        """
        words = failure.words
        opaque = [item.source for item in items if isinstance(item, Reasoning) and self._replayed(item)]
        if unknown := named_types(opaque, words) - {"reasoning", COMPACTION}:
            self._unknown |= unknown
            return not_taken(unknown)
        compactions = [source for source in opaque if source.payload.get("type") == COMPACTION]
        ids = [str(each.payload["id"]).lower() for each in compactions if each.payload.get("id")]
        named = COMPACTION in words or any(re.search(rf"\b{re.escape(each)}\b", words) for each in ids)
        if not (named or _UNREADABLE.search(words)) or not 400 <= (failure.status or 400) < 500:
            return ""
        unreadable = {source.response for source in (compactions if named else opaque)}
        self._unreadable |= unreadable
        what = COMPACTION if named else "reasoning"
        return f"the server cannot read its earlier {what}; sent again without it" if unreadable else ""

    def encode(self, items: Sequence[Item], start: int) -> list[bytes]:
        """The input items from `start` on, each as JSON."""
        written = (self._written(items, index) for index in range(start, len(items)))
        return [encoded(item) for item in written if item is not None]

    def _written(self, items: Sequence[Item], index: int) -> Json | None:
        item = items[index]
        match item:
            case UserMessage(text, _, source):
                if source is not None and self._own(source) and source.model == self._model:
                    return source.payload
                return {"type": "message", "role": "user", "content": text}
            case ToolOutput(call_id, text):
                kind = "custom_tool_call_output" if call_id in self._custom else "function_call_output"
                return {"type": kind, "call_id": self.call_id(call_id), "output": text}
            case ToolCall():
                return self._call(item, self._keeps_id(items, index))
            case AssistantMessage():
                return self._message(item, self._keeps_id(items, index))
            case Reasoning(source):
                alone = source.payload.get("type") == COMPACTION
                kept = self._replayed(item) and (alone or self._followed(items, index))
                return source.payload if kept else None

    def _own(self, source: Source | None) -> bool:
        return source is not None and source.api == API and source.provider == self._provider

    def _call(self, call: ToolCall, keeps_id: bool) -> Json:
        call_id, arguments = self.call_id(call.call_id), usable_arguments(call.arguments)
        payload = call.source.payload if call.source is not None and self._own(call.source) else {}
        if payload.get("type") == "custom_tool_call":
            self._custom.add(call.call_id)
            arguments = call.arguments
        elif not payload:
            payload = {"type": "function_call"}
        field = _CALLS[payload["type"]]
        changed = {"call_id": call_id, "name": tool_name(call.name), field: arguments}
        return _without_id({**payload, **changed}, keeps_id)

    def _message(self, message: AssistantMessage, keeps_id: bool) -> Json | None:
        if message.source is not None and self._own(message.source):
            return _without_id(message.source.payload, keeps_id)
        if not message.text.strip():
            return None
        return {"type": "message", "role": "assistant", "content": message.text}

    def _replayed(self, item: Item) -> bool:
        """Whether an opaque item may go back: to the model that wrote it, and readable for the server."""
        if not isinstance(item, Reasoning) or not self._own(item.source) or item.source.model != self._model:
            return False
        payload = item.source.payload
        if (
            not isinstance(payload.get("type"), str)
            or not payload["type"]
            or payload["type"] in _NEVER_OPAQUE
            or payload["type"] in self._unknown
            or item.source.response in self._unreadable
        ):
            return False
        # Without the seal, and without open text, the server would have to look the item up.
        return payload.get("type") != "reasoning" or bool(
            self._stored or payload.get("encrypted_content") or payload.get("content")
        )

    def _followed(self, items: Sequence[Item], index: int) -> bool:
        """Whether what the reasoning led to is still there; alone, it is refused. A compaction stands alone."""
        source = source_of(items[index])
        for item in items[index + 1 :]:
            other = source_of(item)
            if source is None or other is None or other.response != source.response:
                return False
            if not isinstance(item, Reasoning):
                return True
        return False

    def _keeps_id(self, items: Sequence[Item], index: int) -> bool:
        """An item may keep its id only beside everything of its response that came before it, reasoning included:
        the server knows by the id what belongs to it."""
        source = source_of(items[index])
        if source is None or source.model != self._model:
            return False
        for place in range(1, source.position + 1):
            before = items[index - place] if index >= place else items[index]
            other = source_of(before)
            if other is None or other.response != source.response or other.position != source.position - place:
                return False
            if isinstance(before, Reasoning) and not self._replayed(before):
                return False
        return True


def _without_id(payload: Json, keeps_id: bool) -> Json:
    return payload if keeps_id else {key: value for key, value in payload.items() if key != "id"}
