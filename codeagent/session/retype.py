"""Raw output of a stored response back into items, by the code that read it when it came."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

from codeagent.conversation import AssistantMessage, Item, Source

_MODULES = {
    "responses": "codeagent.providers.responses_items",
    "chat": "codeagent.providers.chat_items",
    "messages": "codeagent.providers.messages_items",
}
"""Each has `items_of(provider, model, raw)`; imported when a log holds such a response."""


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
