"""Puts the events of a streamed message together into content blocks.

Each start opens a block. What follows goes to the newest block of the same index, or to the last one: servers that
only look like the API leave the index out, or repeat it.
"""

from __future__ import annotations

from typing import Any

from codeagent.conversation import Json
from codeagent.providers.arguments import parsed_object
from codeagent.providers.encoding import Shown, clean
from codeagent.providers.messages_items import RAW_INPUT

_TEXTS = {
    "text_delta": "text",
    "thinking_delta": "thinking",
    "signature_delta": "signature",
    "compaction_delta": "content",
}


class Blocks:
    """One message as it grows. `stop` is the delta that says why the model stopped; `usage` is merged."""

    def __init__(self, show: Shown) -> None:
        self._show = show
        self._blocks: list[dict[str, Any]] = []
        self._inputs: list[list[str]] = []
        self._places: dict[object, int] = {}
        self.stop: dict[str, Any] = {}
        self.usage: dict[str, Any] = {}

    def take(self, event: Json) -> None:
        """One event; those of unknown types are passed over."""
        kind = event.get("type")
        if kind == "message_start":
            self._count((event.get("message") or {}).get("usage"))
        elif kind == "content_block_start":
            self._start(event.get("index"), event.get("content_block") or {})
        elif kind == "content_block_delta":
            self._delta(event.get("index"), event.get("delta") or {})
        elif kind == "message_delta":
            self.stop.update(event.get("delta") or {})
            self._count(event.get("usage"))

    def _count(self, usage: object) -> None:
        if isinstance(usage, dict):
            self.usage.update({name: value for name, value in usage.items() if value is not None})

    def _start(self, index: object, block: Json) -> None:
        self._open(index, dict(block))
        if block.get("type") == "text":
            self._show(block.get("text"))

    def _delta(self, index: object, delta: Json) -> None:
        kind = str(delta.get("type"))
        if index not in self._places and (not self._blocks or kind == "text_delta"):
            self._open(index, {"type": "text"})
        place = self._places.get(index, -1)
        block = self._blocks[place]
        name = _TEXTS.get(kind)
        if name is not None:
            piece = str(delta.get(name) or "")
            block[name] = str(block.get(name) or "") + piece
            if name == "text":
                self._show(piece)
        elif kind == "input_json_delta":
            self._inputs[place].append(str(delta.get("partial_json") or ""))
        elif kind == "citations_delta":
            block["citations"] = [*(block.get("citations") or ()), delta.get("citation")]

    def content(self) -> list[Json]:
        """The blocks in the order of their starts; a call's streamed arguments become its `input`."""
        return [_finished(block, "".join(pieces)) for block, pieces in zip(self._blocks, self._inputs, strict=True)]

    def _open(self, index: object, block: dict[str, Any]) -> None:
        self._places[index] = len(self._blocks)
        self._blocks.append(block)
        self._inputs.append([])


def _finished(block: dict[str, Any], streamed: str) -> Json:
    if block.get("type") not in ("tool_use", "server_tool_use"):
        return block
    streamed = clean(streamed)
    if not streamed:
        return {**block, "input": block.get("input") or {}}
    parsed = parsed_object(streamed)
    return {**block, "input": {}, RAW_INPUT: streamed} if parsed is None else {**block, "input": parsed}
