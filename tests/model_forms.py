"""How a scripted reply is written in each of the three APIs, as a stream of SSE frames or as one object."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from tests.model_memory import Memory

Json = dict[str, Any]


@dataclass(frozen=True)
class Text:
    content: str
    phase: str | None = None


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str
    call_id: str | None = None


@dataclass(frozen=True)
class Thought:
    content: str


@dataclass(frozen=True)
class Refusal:
    content: str


Part = Text | Call | Thought | Refusal


@dataclass(frozen=True)
class Reply:
    parts: tuple[Part, ...]
    finish: str | None = None
    usage: tuple[int, int, int] | None = None
    pace: float = 0.0


def frames(api: str, body: Json, reply: Reply, memory: Memory) -> list[bytes]:
    """Every SSE frame of the streamed reply."""
    streams: dict[str, Callable[[Json, Reply, Memory], list[bytes]]] = {
        "responses": _responses_stream,
        "chat": _chat_stream,
        "messages": _messages_stream,
    }
    return streams[api](body, reply, memory)


def whole(api: str, body: Json, reply: Reply, memory: Memory) -> Json:
    """The reply as the one JSON object of a request without `stream`."""
    objects: dict[str, Callable[[Json, Reply, Memory], Json]] = {
        "responses": _response,
        "chat": _completion,
        "messages": _message,
    }
    return objects[api](body, reply, memory)


def _tokens(body: Json, reply: Reply) -> tuple[int, int, int]:
    if reply.usage is not None:
        return reply.usage
    written = sum(len(p.arguments if isinstance(p, Call) else p.content) for p in reply.parts)
    return len(json.dumps(body)) // 4, 0, written // 4 + 1


def _pieces(content: str, count: int = 3) -> list[str]:
    size = max(1, -(-len(content) // count))
    return [content[i : i + size] for i in range(0, len(content), size)]


def _call_id(part: Call, memory: Memory, prefix: str) -> str:
    return f"{prefix}{memory.number()}" if part.call_id is None else part.call_id


# Responses -----------------------------------------------------------------------------------------------


def _response_items(reply: Reply, memory: Memory) -> list[Json]:
    cut = reply.finish in ("length", "content_filter")
    items = []
    for position, part in enumerate(reply.parts):
        status = "incomplete" if cut and position == len(reply.parts) - 1 else "completed"
        items.append(_response_item(part, status, memory))
    reasoning = None
    for item in items:
        if item["type"] == "reasoning":
            reasoning = item["id"]
            memory.reasoning[item["id"]] = item["encrypted_content"]
        elif reasoning is not None:
            memory.needs_reasoning[item["id"]] = reasoning
    return items


def _response_item(part: Part, status: str, memory: Memory) -> Json:
    number = memory.number()
    if isinstance(part, Thought):
        summary = [{"type": "summary_text", "text": part.content}] if part.content else []
        sealed = f"sealed-{number}"
        return {"id": f"rs_{number}", "type": "reasoning", "summary": summary, "encrypted_content": sealed}
    if isinstance(part, Call):
        call_id = _call_id(part, memory, "call_")
        call = {"id": f"fc_{number}", "type": "function_call", "status": status, "arguments": part.arguments}
        return {**call, "call_id": call_id, "name": part.name}
    content: Json = {"type": "refusal", "refusal": part.content}
    if isinstance(part, Text):
        content = {"type": "output_text", "annotations": [], "logprobs": [], "text": part.content}
    message = {"id": f"msg_{number}", "type": "message", "status": status, "role": "assistant", "content": [content]}
    if isinstance(part, Text) and part.phase is not None:
        message["phase"] = part.phase
    return message


def _response_shell(body: Json, number: int) -> Json:
    kept = ("instructions", "tools", "tool_choice", "parallel_tool_calls", "store", "previous_response_id")
    shell = {"id": f"resp_{number}", "object": "response", "created_at": 1_790_000_000, "model": body["model"]}
    return {
        **shell,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "output": [],
        "usage": None,
    } | {key: body.get(key) for key in kept}


def _response(body: Json, reply: Reply, memory: Memory) -> Json:
    return _response_end(_response_shell(body, memory.number()), body, reply, _response_items(reply, memory), memory)


def _response_end(shell: Json, body: Json, reply: Reply, items: list[Json], memory: Memory) -> Json:
    reasons = {"length": "max_output_tokens", "content_filter": "content_filter"}
    given, cached, written = _tokens(body, reply)
    response = {
        **shell,
        "status": "completed",
        "output": items,
        "usage": {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
            "output_tokens": written,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + written,
        },
    }
    if reply.finish in reasons:
        response |= {"status": "incomplete", "incomplete_details": {"reason": reasons[reply.finish]}}
    elif reply.finish == "failed":
        error = {"code": "server_error", "message": "The server had an error processing your request."}
        response |= {"status": "failed", "error": error, "output": []}
    elif reply.finish is not None and reply.finish != "refusal":
        response |= {"status": "incomplete", "incomplete_details": {"reason": reply.finish}}
    if body.get("store", True) and reply.finish != "failed":
        memory.store(response["id"], body, items)
    return response


def compacted(body: Json, memory: Memory) -> Json:
    """What `/responses/compact` answers: the user's messages as they were, and one item that stands for the rest."""
    given = memory.input_of(body)
    output: list[Json] = []
    for message in (item for item in given if item.get("role") == "user"):
        content = message["content"]
        parts = [{"type": "input_text", "text": content}] if isinstance(content, str) else content
        said = {"id": f"msg_{memory.number()}", "type": "message", "status": "completed", "role": "user"}
        output.append({**said, "content": parts})
    number = memory.number()
    output.append({"id": f"cmp_{number}", "type": "compaction", "encrypted_content": f"compacted-{number}-" * 100})
    memory.compacted.update({item["id"]: item for item in output})
    size = len(json.dumps(body)) // 4
    return {
        "id": f"resp_{number}",
        "object": "response.compaction",
        "created_at": 1_790_000_000,
        "output": output,
        "usage": {
            "input_tokens": size,
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": 400,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": size + 400,
        },
    }


def _responses_stream(body: Json, reply: Reply, memory: Memory) -> list[bytes]:
    shell = _response_shell(body, memory.number())
    items = _response_items(reply, memory)
    events: list[Json] = [{"type": f"response.{name}", "response": shell} for name in ("created", "in_progress")]
    for index, item in enumerate(items):
        events += _item_events(index, item)
    end = _response_end(shell, body, reply, items, memory)
    events.append({"type": f"response.{end['status']}", "response": end})
    return [
        f"event: {event['type']}\ndata: {json.dumps({**event, 'sequence_number': number})}\n\n".encode()
        for number, event in enumerate(events)
    ]


def _item_events(index: int, item: Json) -> list[Json]:
    place = {"item_id": item["id"], "output_index": index}
    added = {"type": "response.output_item.added", "output_index": index}
    done = {"type": "response.output_item.done", "output_index": index, "item": item}
    if item["type"] == "reasoning":
        # What `added` carries is sealed differently from what `done` carries, as it is on the real server.
        return [{**added, "item": {**item, "summary": [], "encrypted_content": "sealed-early"}}, done]
    if item["type"] == "function_call":
        name = "response.function_call_arguments"
        deltas = [{"type": f"{name}.delta", **place, "delta": p} for p in _pieces(item["arguments"])]
        finished = {"type": f"{name}.done", **place, "arguments": item["arguments"]}
        return [{**added, "item": {**item, "status": "in_progress", "arguments": ""}}, *deltas, finished, done]
    part = item["content"][0]
    kind, field = ("output_text", "text") if part["type"] == "output_text" else ("refusal", "refusal")
    place = {**place, "content_index": 0}
    empty = {**part, field: ""}
    return [
        {**added, "item": {**item, "status": "in_progress", "content": []}},
        {"type": "response.content_part.added", **place, "part": empty},
        *({"type": f"response.{kind}.delta", **place, "delta": p, "obfuscation": "x"} for p in _pieces(part[field])),
        {"type": f"response.{kind}.done", **place, field: part[field]},
        {"type": "response.content_part.done", **place, "part": part},
        done,
    ]


# Chat Completions ----------------------------------------------------------------------------------------


def _chat_message(reply: Reply, memory: Memory) -> tuple[Json, str]:
    texts = [p.content for p in reply.parts if isinstance(p, Text)]
    thoughts = [p.content for p in reply.parts if isinstance(p, Thought)]
    refusals = [p.content for p in reply.parts if isinstance(p, Refusal)]
    calls = [
        {
            "id": _call_id(p, memory, "call_"),
            "type": "function",
            "function": {"name": p.name, "arguments": p.arguments},
        }
        for p in reply.parts
        if isinstance(p, Call)
    ]
    message: Json = {"role": "assistant", "content": "".join(texts) if texts else None}
    if thoughts:
        message["reasoning_content"] = "".join(thoughts)
    if refusals:
        message["refusal"] = "".join(refusals)
    if calls:
        message["tool_calls"] = calls
    return message, reply.finish or ("tool_calls" if calls else "stop")


def _chat_usage(body: Json, reply: Reply) -> Json:
    given, cached, written = _tokens(body, reply)
    details = {"prompt_tokens_details": {"cached_tokens": cached}}
    return {"prompt_tokens": given, "completion_tokens": written, "total_tokens": given + written, **details}


def _completion(body: Json, reply: Reply, memory: Memory) -> Json:
    message, finish = _chat_message(reply, memory)
    choice = {"index": 0, "message": message, "finish_reason": finish}
    head = {"id": f"chatcmpl-{memory.number()}", "object": "chat.completion", "model": body["model"], "created": 1}
    return {**head, "choices": [choice], "usage": _chat_usage(body, reply)}


def _chat_stream(body: Json, reply: Reply, memory: Memory) -> list[bytes]:
    message, finish = _chat_message(reply, memory)
    head = {
        "id": f"chatcmpl-{memory.number()}",
        "object": "chat.completion.chunk",
        "model": body["model"],
        "created": 1,
    }
    deltas: list[Json] = [{"role": "assistant", "content": ""}]
    for field in ("reasoning_content", "content", "refusal"):
        deltas += [{field: piece} for piece in _pieces(message.get(field) or "")]
    for index, made in enumerate(message.get("tool_calls", ())):
        opened = {**made, "index": index, "function": {**made["function"], "arguments": ""}}
        deltas.append({"tool_calls": [opened]})
        pieces = _pieces(made["function"]["arguments"])
        deltas += [{"tool_calls": [{"index": index, "function": {"arguments": piece}}]} for piece in pieces]
    chunks: list[Json] = [{**head, "choices": [{"index": 0, "delta": d, "finish_reason": None}]} for d in deltas]
    if finish == "failed":
        chunks.append({"error": {"code": "server_error", "message": "The server had an error."}})
    else:
        chunks.append({**head, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]})
        if (body.get("stream_options") or {}).get("include_usage"):
            chunks.append({**head, "choices": [], "usage": _chat_usage(body, reply)})
    return [f"data: {json.dumps(chunk)}\n\n".encode() for chunk in chunks] + [b"data: [DONE]\n\n"]


# Messages ------------------------------------------------------------------------------------------------


def _blocks(reply: Reply, memory: Memory) -> tuple[list[Json], str]:
    blocks: list[Json] = []
    thinking = None
    for part in reply.parts:
        if isinstance(part, Thought):
            thinking = f"signature-{memory.number()}"
            memory.signatures[thinking] = part.content
            blocks.append({"type": "thinking", "thinking": part.content, "signature": thinking})
        elif isinstance(part, Call):
            block = {"type": "tool_use", "id": _call_id(part, memory, "toolu_"), "name": part.name}
            blocks.append({**block, "input": part.arguments})
            if thinking is not None:
                memory.needs_thinking[block["id"]] = thinking
        else:
            blocks.append({"type": "text", "text": part.content})
    words = {
        "length": "max_tokens",
        "content_filter": "refusal",
        "pause": "pause_turn",
        "context": "model_context_window_exceeded",
        None: "tool_use" if any(b["type"] == "tool_use" for b in blocks) else "end_turn",
    }
    if any(isinstance(part, Refusal) for part in reply.parts):
        words[None] = "refusal"
    return blocks, words.get(reply.finish, reply.finish or "")


def _message_usage(body: Json, reply: Reply) -> Json:
    given, cached, written = _tokens(body, reply)
    read = {"cache_creation_input_tokens": 0, "cache_read_input_tokens": cached}
    return {"input_tokens": given - cached, **read, "output_tokens": written}


def _message(body: Json, reply: Reply, memory: Memory) -> Json:
    blocks, stop = _blocks(reply, memory)
    content = [{**b, "input": json.loads(b["input"] or "{}")} if b["type"] == "tool_use" else b for b in blocks]
    head = {"id": f"msg_{memory.number()}", "type": "message", "role": "assistant", "model": body["model"]}
    return {
        **head,
        "content": content,
        "stop_reason": stop,
        "stop_sequence": None,
        "usage": _message_usage(body, reply),
    }


def _messages_stream(body: Json, reply: Reply, memory: Memory) -> list[bytes]:
    blocks, stop = _blocks(reply, memory)
    usage = _message_usage(body, reply)
    head = {"id": f"msg_{memory.number()}", "type": "message", "role": "assistant", "model": body["model"]}
    message = {
        **head,
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {**usage, "output_tokens": 1},
    }
    events: list[Json] = [{"type": "message_start", "message": message}, {"type": "ping"}]
    for index, block in enumerate(blocks):
        events += _block_events(index, block)
    if stop == "failed":
        events.append({"type": "error", "error": {"type": "api_error", "message": "Internal server error"}})
    else:
        delta = {"stop_reason": stop, "stop_sequence": None}
        events.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": usage["output_tokens"]}})
        events.append({"type": "message_stop"})
    return [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in events]


def _block_events(index: int, block: Json) -> list[Json]:
    if block["type"] == "thinking":
        start = {**block, "thinking": "", "signature": ""}
        deltas = [{"type": "thinking_delta", "thinking": piece} for piece in _pieces(block["thinking"])]
        deltas.append({"type": "signature_delta", "signature": block["signature"]})
    elif block["type"] == "tool_use":
        start = {**block, "input": {}}
        deltas = [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *_pieces(block["input"])]]
    else:
        start = {**block, "text": ""}
        deltas = [{"type": "text_delta", "text": piece} for piece in _pieces(block["text"])]
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]
