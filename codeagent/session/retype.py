"""Raw output of a stored response back into items, by the code that read it when it came."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from codeagent.conversation import AssistantMessage, Item, Source, ToolCall

_MODULES = {
    "responses": "codeagent.providers.responses_items",
    "chat": "codeagent.providers.chat_items",
    "messages": "codeagent.providers.messages_items",
}
"""Each has `items_of(provider, model, raw)`; imported when a log holds such a response."""


class Retyping:
    """Retypes one response after the other; elements that no provider could have written are left out and counted."""

    def __init__(self) -> None:
        self.left_out = 0

    def __call__(self, api: str, provider: str, model: str, raw: Sequence[Any]) -> Sequence[Item]:
        items = _tried(api, provider, model, raw)
        if items is not None:
            return items
        sound = [one for one in raw if _tried(api, provider, model, [one]) is not None]
        self.left_out += len(raw) - len(sound)
        return _tried(api, provider, model, sound) or ()


def _tried(api: str, provider: str, model: str, raw: Sequence[Any]) -> Sequence[Item] | None:
    """The items; None when an element is of no form that the API has."""
    try:
        items = retype(api, provider, model, raw)
    except (TypeError, AttributeError, LookupError, ValueError, RecursionError):
        return None
    sound = all(isinstance(one, dict) for one in raw) and all(map(_is_sound, items))
    return items if sound else None


def _is_sound(item: Item) -> bool:
    texts = {
        AssistantMessage: ("text",),
        ToolCall: ("call_id", "name", "arguments"),
    }.get(type(item), ())
    source = getattr(item, "source", None)
    return (source is None or isinstance(source.payload, dict)) and all(
        isinstance(getattr(item, name), str) for name in texts
    )


def retype(api: str, provider: str, model: str, raw: Sequence[Any]) -> Sequence[Item]:
    """The items of one response. An API of a newer version leaves the texts that can be told from the raw output."""
    if api in _MODULES:
        items: Sequence[Item] = import_module(_MODULES[api]).items_of(provider, model, raw)
        return items
    if api == "offline":
        from codeagent.providers.offline.provider import item_of

        return [item_of(payload, Source(api, provider, model, payload)) for payload in raw]
    texts = [part["text"] for part in raw if isinstance(part, dict) and isinstance(part.get("text"), str)]
    return [AssistantMessage(text, Source(api, provider, model, {"text": text})) for text in texts]
