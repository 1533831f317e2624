"""Puts the chunks of a streamed chat completion together into one message.

Servers agree on the shape of a chunk and on little else: the index of a call may be missing, repeated or start
above 0, its id may be missing or come again with every fragment, its name may be empty in later fragments. A
fragment is given to a call by its id, then its index, then a name that opens a new call, then the last open call.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

from codeagent.conversation import Json
from codeagent.providers.encoding import Shown, decoded

_JOINED = ("text", "summary", "data")


@dataclass
class _Call:
    index: object = None
    call_id: str = ""
    name: str = ""
    pieces: list[str] = field(default_factory=list)
    further: dict[str, Any] = field(default_factory=dict)

    @property
    def whole(self) -> bool:
        """Whether the arguments so far are JSON."""
        try:
            decoded("".join(self.pieces))
        except ValueError:
            return False
        return True

    def message(self) -> dict[str, Any]:
        made = {"type": "function", "function": {"name": self.name, "arguments": "".join(self.pieces)}}
        return {**({"id": self.call_id} if self.call_id else {}), **made, **self.further}


class Assembly:
    """One message as it grows. `finish` is the last reason given, `usage` the last count."""

    def __init__(self, show: Shown) -> None:
        self._show = show
        self._texts: dict[str, list[str]] = {}
        self._content_parts: list[Json] = []
        self._details: list[dict[str, Any]] = []
        self._calls: list[_Call] = []
        self.finish = ""
        self.usage: Json = {}
        self.chunks = 0

    def take(self, chunk: Json) -> None:
        """One chunk without an error in it."""
        self.chunks += 1
        usage = chunk.get("usage") or (chunk.get("x_groq") or {}).get("usage")
        if isinstance(usage, dict):
            self.usage = usage
        for choice in chunk.get("choices") or ():
            if isinstance(choice, dict) and not choice.get("index"):
                self._delta(choice.get("delta") or choice.get("message") or {})
                self.finish = str(choice.get("finish_reason") or self.finish)

    def _delta(self, delta: Json) -> None:
        for name in ("reasoning_content", "reasoning", "refusal"):
            if isinstance(delta.get(name), str):
                self._texts.setdefault(name, []).append(delta[name])
        self._content(delta.get("content"))
        for detail in delta.get("reasoning_details") or ():
            if isinstance(detail, dict):
                self._detail(detail)
        for fragment in delta.get("tool_calls") or ():
            if isinstance(fragment, dict):
                self._fragment(fragment)
        if isinstance(delta.get("function_call"), dict):  # the form before tools
            self._fragment({"index": "function_call", "function": delta["function_call"]})

    def _content(self, content: object) -> None:
        if isinstance(content, str):
            self._show(content)
            self._texts.setdefault("content", []).append(content)
        elif isinstance(content, list):
            for part in content:
                if isinstance(part, dict) and part.get("type") == "text":
                    self._content(part.get("text"))
                elif isinstance(part, dict):
                    self._content_parts.append(part)

    def _detail(self, detail: Json) -> None:
        """Fragments of one reasoning detail have one index and type; their texts are joined."""
        last = self._details[-1] if self._details else {}
        same = last and (last.get("index"), last.get("type")) == (detail.get("index"), detail.get("type"))
        if not same or detail.get("index") is None:
            self._details.append(dict(detail))
            return
        for name, value in detail.items():
            if name in _JOINED and isinstance(value, str):
                last[name] = (last.get(name) or "") + value
            elif value is not None:
                last[name] = value

    def _fragment(self, fragment: Json) -> None:
        function = fragment.get("function") or {}
        name, arguments = function.get("name"), function.get("arguments")
        call = self._call_of(fragment, name if isinstance(name, str) else "")
        call.call_id = call.call_id or str(fragment.get("id") or "")
        if isinstance(name, str) and name and name != call.name and not "".join(call.pieces):
            call.name += name
        if arguments is not None:
            call.pieces.append(arguments if isinstance(arguments, str) else json.dumps(arguments))
        kept = ("index", "id", "type", "function")
        call.further.update({key: value for key, value in fragment.items() if key not in kept and value is not None})

    def _call_of(self, fragment: Json, name: str) -> _Call:
        call_id, index = str(fragment.get("id") or ""), fragment.get("index")
        last = self._calls[-1] if self._calls else None
        if call_id:
            for call in self._calls:
                if call.call_id == call_id and call.index == index and not (name and call.whole):
                    return call
            if name or last is None:
                return self._open(index)
        if index is not None:
            for call in reversed(self._calls):
                if call.index == index and not (name and call.whole):
                    return call
        if name or last is None or (call_id and last.whole):
            return self._open(index)
        return last

    def _open(self, index: object) -> _Call:
        self._calls.append(_Call(index))
        return self._calls[-1]

    def message(self) -> dict[str, Any]:
        """The assistant message, in the form of an answer that was not streamed."""
        message: dict[str, Any] = {"role": "assistant", "content": None}
        for name, pieces in self._texts.items():
            if pieces and (name != "content" or "".join(pieces)):
                message[name] = "".join(pieces)
        if self._content_parts:
            text = [{"type": "text", "text": message["content"]}] if message["content"] else []
            message["content"] = [*self._content_parts, *text]
        if self._details:
            message["reasoning_details"] = self._details
        if self._calls:
            message["tool_calls"] = [call.message() for call in self._calls]
        return message
