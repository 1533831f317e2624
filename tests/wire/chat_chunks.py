"""Chunks of streamed chat completions, as the servers that differ send them."""

from __future__ import annotations

from typing import Any

from tests.model_script import RawSse
from tests.model_server import raw_sse

Json = dict[str, Any]


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    return {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def tool(arguments: Any, name: str | None = None, **more: Any) -> Json:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"tool_calls": [{**more, "type": "function", "function": function}]}


def stream(*chunks: Any, done: bool = True) -> RawSse:
    return raw_sse(*chunks, *(["data: [DONE]\n\n"] if done else []))
