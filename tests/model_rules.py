"""What real servers reject, for the scripted one: the shape of each request, the pairing of calls and outputs,
reasoning that lost its companion, and an earlier request that is no longer a prefix of a later one."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


@dataclass(frozen=True)
class Rejection:
    message: str
    code: str | None = None
    param: str | None = None
    status: int = 400

    def body(self, api: str) -> Json:
        if api == "messages":
            return {"type": "error", "error": {"type": "invalid_request_error", "message": self.message}}
        kind = {"type": "invalid_request_error", "param": self.param, "code": self.code}
        return {"error": {"message": self.message, **kind}}


@dataclass
class Memory:
    """What the server issued: sealed reasoning, signatures, and which items cannot do without them."""

    reasoning: dict[str, str] = field(default_factory=dict)
    needs_reasoning: dict[str, str] = field(default_factory=dict)
    signatures: dict[str, str] = field(default_factory=dict)
    needs_thinking: dict[str, str] = field(default_factory=dict)
    stored: dict[str, list[Json]] = field(default_factory=dict)
    _numbers: Any = field(default_factory=lambda: itertools.count(1))

    def number(self) -> int:
        return int(next(self._numbers))

    def input_of(self, body: Json) -> list[Json]:
        """The whole input, with what an earlier response stored. KeyError when that is gone."""
        given = body["input"]
        items = [{"role": "user", "content": given}] if isinstance(given, str) else list(given)
        earlier = body.get("previous_response_id")
        return [*self.stored[earlier], *items] if earlier else items

    def store(self, response_id: str, body: Json, output: list[Json]) -> None:
        self.stored[response_id] = [*self.input_of(body), *output]


class Wrong(Exception):
    def __init__(self, message: str, code: str | None = None, param: str | None = None) -> None:
        self.rejection = Rejection(message, code, param)


def rejection(api: str, body: Json, headers: Mapping[str, str], memory: Memory) -> Rejection | None:
    """The first thing that a real server would not accept, or None."""
    try:
        _only(body, PARAMETERS[api], "")
        if not isinstance(body.get("model"), str) or not body["model"]:
            raise Wrong("you must provide a model parameter", "missing_required_parameter", "model")
        if _surrogate(body):
            raise Wrong("the body holds text that is not Unicode")
        if api == "responses":
            _responses(body, memory)
        elif api == "chat":
            _chat(body)
        else:
            _messages(body, headers, memory)
    except Wrong as wrong:
        return wrong.rejection
    return None


def prefix_fault(api: str, earlier: Json, later: Json) -> tuple[str | None, bool]:
    """What changed in the part that both requests share, and whether it is an item of the conversation."""
    for key in ("instructions", "system", "tools"):
        if _text(earlier.get(key)) != _text(later.get(key)):
            return f"`{key}` changed", False
    key = "input" if api == "responses" else "messages"
    before, after = earlier[key], later[key]
    if len(after) < len(before):
        return f"`{key}` shrank from {len(before)} to {len(after)}", True
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if _text(old) != _text(new):
            return f"`{key}[{index}]` changed from {_text(old)} to {_text(new)}", True
    return None, False


def _words(names: str) -> set[str]:
    return set(names.split())


PARAMETERS = {
    "responses": _words(
        "model input instructions tools tool_choice parallel_tool_calls max_output_tokens max_tool_calls reasoning "
        "text include store stream stream_options previous_response_id conversation context_management "
        "truncation prompt_cache_key prompt_cache_options service_tier background safety_identifier metadata "
        "temperature top_p"
    ),
    "chat": _words(
        "model messages tools tool_choice parallel_tool_calls max_completion_tokens max_tokens stream "
        "stream_options reasoning_effort prompt_cache_key seed temperature top_p stop response_format thinking "
        "store metadata"
    ),
    "messages": _words(
        "model messages max_tokens system tools tool_choice thinking output_config cache_control stream "
        "stop_sequences metadata service_tier"
    ),
}

NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}\Z")


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def _surrogate(value: Any) -> bool:
    return any("\ud800" <= c <= "\udfff" for c in _text(value))


def _only(value: Json, allowed: set[str], where: str) -> None:
    for key in value:
        if key not in allowed:
            raise Wrong(f"Unknown parameter: '{where}{key}'.", "unknown_parameter", f"{where}{key}")


def _require(condition: object, message: str, code: str | None = None, param: str | None = None) -> None:
    if not condition:
        raise Wrong(message, code, param)


def _function(tool: Json, schema_key: str) -> None:
    name = tool.get("name")
    _require(isinstance(name, str) and NAME.match(name), f"Invalid tool name: {name!r}", "invalid_value")
    schema = tool.get(schema_key)
    _require(isinstance(schema, dict) and schema.get("type") == "object", f"Invalid schema for function '{name}'")
    if tool.get("strict"):
        assert isinstance(schema, dict)
        _strict(schema, str(name))


def _strict(schema: Json, name: str) -> None:
    start = f"Invalid schema for function '{name}': "
    kinds = schema.get("type")
    if "object" in (kinds if isinstance(kinds, list) else [kinds]):
        properties = schema.get("properties", {})
        closed = schema.get("additionalProperties") is False
        _require(closed, start + "'additionalProperties' is required to be false.", "invalid_function_parameters")
        complete = sorted(schema.get("required", [])) == sorted(properties)
        _require(complete, start + "'required' must name every property.", "invalid_function_parameters")
        for inner in properties.values():
            _strict(inner, name)
    if isinstance(schema.get("items"), dict):
        _strict(schema["items"], name)
    for inner in schema.get("anyOf", ()):
        _strict(inner, name)


def _unique(names: list[str], what: str) -> None:
    for name in names:
        _require(names.count(name) == 1, f"Duplicate {what}: {name}", "duplicate_item")


# Responses -----------------------------------------------------------------------------------------------


ITEM_KEYS = {
    "message": {"type", "role", "content", "id", "status", "phase"},
    "function_call": {"type", "call_id", "name", "arguments", "id", "status", "namespace", "caller"},
    "function_call_output": {"type", "call_id", "output", "id", "status"},
    "reasoning": {"type", "id", "summary", "content", "encrypted_content", "status"},
    "compaction": {"type", "id", "encrypted_content"},
}
INCLUDES = {"reasoning.encrypted_content", "message.output_text.logprobs", "file_search_call.results"}


def _responses(body: Json, memory: Memory) -> None:
    tools = body.get("tools", [])
    for tool in tools:
        _only(tool, {"type", "name", "description", "parameters", "strict"}, "tools[].")
        _require(tool.get("type") == "function", "Invalid value for tools[].type", "invalid_value", "tools")
        _require("strict" in tool, "Missing required parameter: 'tools[].strict'.", "missing_required_parameter")
        _function(tool, "parameters")
    _unique([tool["name"] for tool in tools], "tool")
    unknown = set(body.get("include") or ()) - INCLUDES
    _require(not unknown, f"Invalid value: {unknown}", "invalid_value", "include")
    _require(body.get("input"), "Missing required parameter: 'input'.", "missing_required_parameter", "input")
    given = body["input"]
    for index, item in enumerate([] if isinstance(given, str) else given):
        _input_item(item, f"input[{index}].", body, memory)
    try:
        items = memory.input_of(body)
    except KeyError:
        message = f"Previous response with id '{body['previous_response_id']}' not found."
        raise Wrong(message, "previous_response_not_found", "previous_response_id") from None
    _response_pairs(items)
    _reasoning_pairs(items, memory)


def _input_item(item: Json, where: str, body: Json, memory: Memory) -> None:
    kind = item.get("type", "message")
    _require(kind in ITEM_KEYS, f"Invalid value: '{kind}' for {where}type", "invalid_value", f"{where}type")
    _only(item, ITEM_KEYS[kind], where)
    if kind == "message":
        _response_message(item, where)
    elif kind == "function_call":
        _require(isinstance(item.get("arguments"), str), f"Invalid type for '{where}arguments'", "invalid_type")
        _require(isinstance(item.get("name"), str) and item["name"], f"Missing '{where}name'", "invalid_value")
        _call_id(item, where)
    elif kind == "function_call_output":
        _require(isinstance(item.get("output"), (str, list)), f"Invalid type for '{where}output'", "invalid_type")
        _call_id(item, where)
    elif kind == "reasoning":
        _require("summary" in item and "id" in item, f"Missing '{where}summary'", "missing_required_parameter")
        sealed = item.get("encrypted_content")
        if body.get("store") is False and not sealed:
            raise Wrong(
                f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
            )
        if sealed and memory.reasoning.get(item["id"]) != sealed:
            raise Wrong(
                f"The encrypted content for item {item['id']} could not be verified.", "invalid_encrypted_content"
            )


def _response_message(item: Json, where: str) -> None:
    roles = ("user", "assistant", "system", "developer")
    _require(item.get("role") in roles, f"Invalid value for '{where}role'", "invalid_value")
    content = item.get("content")
    if isinstance(content, str):
        return
    _require(isinstance(content, list), f"Invalid type for '{where}content'", "invalid_type")
    assert isinstance(content, list)
    allowed = (
        ("output_text", "refusal") if item["role"] == "assistant" else ("input_text", "input_image", "input_file")
    )
    for part in content:
        _require(
            part.get("type") in allowed, f"Invalid value: '{part.get('type')}' in {where}content", "invalid_value"
        )


def _call_id(item: Json, where: str) -> None:
    call_id = item.get("call_id")
    _require(isinstance(call_id, str) and call_id, f"Missing required parameter: '{where}call_id'.")
    assert isinstance(call_id, str)
    long = f"Invalid '{where}call_id': string too long. Expected a string with maximum length 64."
    _require(len(call_id) <= 64, long, "string_above_max_length")


def _response_pairs(items: list[Json]) -> None:
    open_calls: list[str] = []
    calls = [i["call_id"] for i in items if i.get("type") == "function_call"]
    _unique(calls, "function call with call_id")
    _unique([i["call_id"] for i in items if i.get("type") == "function_call_output"], "output for call_id")
    _unique([i["id"] for i in items if i.get("id") and i.get("type") != "function_call_output"], "item with id")
    for item in items:
        if item.get("type") == "function_call":
            open_calls.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            message = f"No tool call found for function call output with call_id {item['call_id']}."
            _require(item["call_id"] in open_calls, message, None, "input")
            open_calls.remove(item["call_id"])
    _require(not open_calls, f"No tool output found for function call {open_calls[:1]}.", None, "input")


def _reasoning_pairs(items: list[Json], memory: Memory) -> None:
    present = {item["id"] for item in items if item.get("type") == "reasoning"}
    for index, item in enumerate(items):
        follower = items[index + 1] if index + 1 < len(items) else {}
        if item.get("type") == "reasoning":
            kept = follower.get("type") in ("reasoning", "function_call") or follower.get("role") == "assistant"
            lost = f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            _require(kept, lost)
        needed = memory.needs_reasoning.get(item.get("id") or "")
        if needed is not None and needed not in present:
            what = f"Item '{item['id']}' of type '{item.get('type')}'"
            raise Wrong(f"{what} was provided without its required 'reasoning' item: '{needed}'.")


# Chat Completions ----------------------------------------------------------------------------------------


MESSAGE_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": _words("role content name tool_calls refusal reasoning_content reasoning reasoning_details"),
    "tool": {"role", "content", "tool_call_id"},
}


def _chat(body: Json) -> None:
    for tool in body.get("tools", []):
        _only(tool, {"type", "function"}, "tools[].")
        _require(tool.get("type") == "function", "Invalid value for tools[].type", "invalid_value", "tools")
        _only(tool["function"], {"name", "description", "parameters", "strict"}, "tools[].function.")
        _function(tool["function"], "parameters")
    _unique([tool["function"]["name"] for tool in body.get("tools", [])], "tool")
    _require("tools" not in body or body["tools"], "[] is too short - 'tools'", None, "tools")
    _require(
        "tool_choice" not in body or body.get("tools"), "'tool_choice' is only allowed when 'tools' are specified."
    )
    messages = body.get("messages")
    _require(isinstance(messages, list) and messages, "[] is too short - 'messages'", None, "messages")
    assert isinstance(messages, list)
    for index, message in enumerate(messages):
        _chat_message(message, f"messages[{index}].")
    _chat_pairs(messages)


def _chat_message(message: Json, where: str) -> None:
    role = message.get("role")
    _require(role in MESSAGE_KEYS, f"Invalid value: '{role}' for {where}role", "invalid_value")
    assert isinstance(role, str)
    _only(message, MESSAGE_KEYS[role], where)
    _require("content" in message, f"Missing required parameter: '{where}content'.", None, f"{where}content")
    content, calls = message["content"], message.get("tool_calls")
    if role == "assistant":
        _require(calls is None or calls, f"[] is too short - '{where}tool_calls'")
        _require(content is None or isinstance(content, str), f"Invalid type for '{where}content'", "invalid_type")
        _require(content is not None or calls, f"Invalid value for '{where}content': expected a string, got null.")
        for made in calls or ():
            _only(made, {"id", "type", "function"}, f"{where}tool_calls[].")
            _require(isinstance(made.get("id"), str) and made["id"], f"Missing '{where}tool_calls[].id'")
            _require(made.get("type") == "function", f"Invalid '{where}tool_calls[].type'")
            _require(isinstance(made["function"].get("arguments"), str), f"Invalid '{where}tool_calls[].arguments'")
            _require(made["function"].get("name"), f"Invalid '{where}tool_calls[].function.name': empty string")
    else:
        _require(isinstance(content, (str, list)), f"Invalid type for '{where}content'", "invalid_type")


def _chat_pairs(messages: list[Json]) -> None:
    seen: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            stray = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            _require(message["tool_call_id"] in open_calls, stray)
            open_calls.remove(message["tool_call_id"])
            continue
        _require(not open_calls, _chat_open(open_calls))
        for made in message.get("tool_calls") or ():
            _require(made["id"] not in seen, f"Duplicate tool call id: {made['id']}")
            seen.append(made["id"])
            open_calls.append(made["id"])
    _require(not open_calls, _chat_open(open_calls))


def _chat_open(ids: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(ids)}"
    )


# Messages ------------------------------------------------------------------------------------------------


BLOCK_KEYS = {
    "text": {"type", "text", "cache_control", "citations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}
OF_ASSISTANT = ("text", "thinking", "redacted_thinking", "tool_use")


def _messages(body: Json, headers: Mapping[str, str], memory: Memory) -> None:
    _require(headers.get("anthropic-version"), "anthropic-version: header is required")
    _require(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
    for tool in body.get("tools", []):
        _only(tool, {"name", "description", "input_schema", "strict", "cache_control", "type"}, "tools.")
        _function(tool, "input_schema")
    _unique([tool["name"] for tool in body.get("tools", [])], "tool")
    _require(
        "tool_choice" not in body or body.get("tools"), "tool_choice may only be specified while providing tools"
    )
    messages = body.get("messages")
    _require(isinstance(messages, list) and messages, "messages: at least one message is required")
    assert isinstance(messages, list)
    _require(messages[0].get("role") == "user", "messages: first message must use the user role")
    for index, message in enumerate(messages):
        _one_message(message, f"messages.{index}", memory)
    _require(
        json.dumps(body).count('"cache_control": {') <= 4, "A maximum of 4 blocks with cache_control may be provided."
    )
    _use_pairs(messages)
    _thinking_kept(messages, memory)


def _one_message(message: Json, where: str, memory: Memory) -> None:
    _only(message, {"role", "content"}, f"{where}.")
    _require(message.get("role") in ("user", "assistant"), f"{where}.role: Input should be 'user' or 'assistant'")
    content = message.get("content")
    if isinstance(content, str):
        _require(content.strip(), f"{where}: user messages must have non-empty content")
        return
    _require(isinstance(content, list) and content, f"{where}: all messages must have non-empty content")
    assert isinstance(content, list)
    for index, block in enumerate(content):
        _block(block, f"{where}.content.{index}", message["role"], memory)


def _block(block: Json, where: str, role: str, memory: Memory) -> None:
    kind = block.get("type")
    _require(kind in BLOCK_KEYS, f"{where}: Input tag '{kind}' does not match any of the expected tags")
    assert isinstance(kind, str)
    _only(block, BLOCK_KEYS[kind], f"{where}.")
    _require(
        kind == "text" or (kind in OF_ASSISTANT) == (role == "assistant"), f"{where}: {kind} in a {role} message"
    )
    if kind == "text":
        _require(block["text"].strip(), "messages: text content blocks must contain non-whitespace text")
    elif kind == "tool_use":
        allowed = re.fullmatch(r"[a-zA-Z0-9_-]+", str(block.get("id")))
        _require(allowed, f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        _require(isinstance(block.get("input"), dict), f"{where}.input: Input should be a valid dictionary")
        _require(
            NAME.match(str(block.get("name"))), f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        )
    elif kind == "tool_result":
        empty = block.get("is_error") and not block.get("content")
        _require(not empty, f"{where}: content cannot be empty if `is_error` is true")
    elif kind == "thinking":
        issued = memory.signatures.get(block.get("signature", "")) == block.get("thinking")
        _require(issued, f"{where}: Invalid `signature` in `thinking` block")


def _use_pairs(messages: list[Json]) -> None:
    # The API joins consecutive messages of one role before it looks at the pairs.
    joined: list[tuple[str, list[Json]]] = []
    for message in messages:
        content = message["content"]
        blocks = [{"type": "text", "text": content}] if isinstance(content, str) else content
        if joined and joined[-1][0] == message["role"]:
            joined[-1][1].extend(blocks)
        else:
            joined.append((message["role"], list(blocks)))
    seen: list[str] = []
    expected: list[str] = []
    for index, (role, blocks) in enumerate(joined):
        results = list(itertools.takewhile(lambda b: b["type"] == "tool_result", blocks))
        answered = [b["tool_use_id"] for b in results]
        missing = [i for i in expected if i not in answered]
        lost = (
            f"messages.{index}: `tool_use` ids were found without `tool_result` blocks immediately after: {missing}"
        )
        _require(not missing, lost)
        for block in blocks:
            if block["type"] == "tool_result":
                used = block["tool_use_id"]
                stray = f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {used}"
                _require(used in expected, stray)
                _require(answered.count(used) == 1, "each tool_use must have a single result")
        expected = [b["id"] for b in blocks if b["type"] == "tool_use"] if role == "assistant" else []
        for name in expected:
            _require(name not in seen, f"messages.{index}: `tool_use` ids must be unique")
            seen.append(name)
    _require(not expected, f"messages: `tool_use` ids were found without `tool_result` blocks: {expected}")


def _thinking_kept(messages: list[Json], memory: Memory) -> None:
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    present = {b.get("signature") for b in blocks}
    for block in blocks:
        needed = memory.needs_thinking.get(block.get("id", ""))
        kept = needed is None or needed in present
        _require(kept, "Expected `thinking` or `redacted_thinking`, but found `tool_use`.")
