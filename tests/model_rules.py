"""What real servers reject, for the scripted one: the shape of each request, the pairing of calls and outputs,
reasoning that lost its companion, and an earlier request that is no longer a prefix of a later one."""

from __future__ import annotations

from collections.abc import Mapping

from tests.model_memory import (
    NAME,
    Json,
    Memory,
    Rejection,
    Wrong,
    as_text,
    function,
    only,
    require,
    surrogate,
    unique,
    words,
)
from tests.model_rules_chat import check_chat
from tests.model_rules_messages import check_messages

PARAMETERS = {
    "responses": words(
        "model input instructions tools tool_choice parallel_tool_calls max_output_tokens max_tool_calls reasoning "
        "text include store stream stream_options previous_response_id conversation context_management "
        "truncation prompt_cache_key prompt_cache_options service_tier background safety_identifier metadata "
        "temperature top_p"
    ),
    "compact": words(
        "model input instructions previous_response_id prompt_cache_key prompt_cache_options prompt_cache_retention "
        "service_tier image"
    ),
    "chat": words(
        "model messages tools tool_choice parallel_tool_calls max_completion_tokens max_tokens stream "
        "stream_options reasoning_effort prompt_cache_key seed temperature top_p stop response_format thinking "
        "store metadata"
    ),
    "messages": words(
        "model messages max_tokens system tools tool_choice thinking output_config cache_control stream "
        "stop_sequences metadata service_tier"
    ),
}


def rejection(api: str, body: Json, headers: Mapping[str, str], memory: Memory) -> Rejection | None:
    """The first thing that a real server would not accept, or None. `compact` is the compaction of `responses`."""
    try:
        only(body, PARAMETERS[api], "")
        if not isinstance(body.get("model"), str) or not body["model"]:
            raise Wrong("you must provide a model parameter", "missing_required_parameter", "model")
        if surrogate(body):
            raise Wrong("the body holds text that is not Unicode")
        if api == "responses":
            _responses(body, memory)
        elif api == "compact":
            _input({**body, "store": bool(memory.stored)}, memory)
        elif api == "chat":
            check_chat(body)
        else:
            check_messages(body, headers, memory)
    except Wrong as wrong:
        return wrong.rejection
    except (TypeError, AttributeError, KeyError) as error:
        return Rejection(f"a field has the wrong type: {error!r}")
    return None


def prefix_fault(api: str, earlier: Json, later: Json) -> tuple[str | None, bool]:
    """What changed in the part that both requests share, and whether it is an item of the conversation."""
    for key in ("instructions", "system", "tools"):
        if as_text(earlier.get(key)) != as_text(later.get(key)):
            return f"`{key}` changed", False
    key = "input" if api == "responses" else "messages"
    before, after = earlier[key], later[key]
    if len(after) < len(before):
        return f"`{key}` shrank from {len(before)} to {len(after)}", True
    for index, (old, new) in enumerate(zip(before, after, strict=False)):
        if as_text(old) != as_text(new):
            return f"`{key}[{index}]` changed from {as_text(old)} to {as_text(new)}", True
    return None, False


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
        only(tool, {"type", "name", "description", "parameters", "strict"}, "tools[].")
        require(tool.get("type") == "function", "Invalid value for tools[].type", "invalid_value", "tools")
        require("strict" in tool, "Missing required parameter: 'tools[].strict'.", "missing_required_parameter")
        function(tool, "parameters")
    unique([tool["name"] for tool in tools], "tool")
    unknown = set(body.get("include") or ()) - INCLUDES
    require(not unknown, f"Invalid value: {unknown}", "invalid_value", "include")
    _input(body, memory)


def _input(body: Json, memory: Memory) -> None:
    require(body.get("input"), "Missing required parameter: 'input'.", "missing_required_parameter", "input")
    given = body["input"]
    for index, item in enumerate([] if isinstance(given, str) else given):
        _input_item(item, f"input[{index}].", body, memory)
    try:
        items = memory.input_of(body)
    except KeyError:
        message = f"Previous response with id '{body['previous_response_id']}' not found."
        raise Wrong(message, "previous_response_not_found", "previous_response_id") from None
    _response_pairs(items)
    _reasoning_pairs(items, len(items) - (1 if isinstance(given, str) else len(given)), memory)


def _input_item(item: Json, where: str, body: Json, memory: Memory) -> None:
    kind = item.get("type", "message")
    require(kind in ITEM_KEYS, f"Invalid value: '{kind}' for {where}type", "invalid_value", f"{where}type")
    only(item, ITEM_KEYS[kind], where)
    issued = memory.compacted.get(item.get("id") or "")
    if kind == "message":
        _response_message(item, where)
        require(issued in (None, item), f"Item '{item.get('id')}' is not what the compaction gave.")
    elif kind == "compaction":
        require(item.get("encrypted_content"), f"Missing required parameter: '{where}encrypted_content'.")
        message = f"The encrypted content for item {item.get('id')} could not be verified."
        require(item == issued, message, "invalid_encrypted_content")
    elif kind == "function_call":
        require(isinstance(item.get("arguments"), str), f"Invalid type for '{where}arguments'", "invalid_type")
        require(NAME.match(str(item.get("name"))), f"Invalid '{where}name': it does not match the pattern.")
        _call_id(item, where)
    elif kind == "function_call_output":
        require(isinstance(item.get("output"), (str, list)), f"Invalid type for '{where}output'", "invalid_type")
        _call_id(item, where)
    elif kind == "reasoning":
        require("summary" in item and "id" in item, f"Missing '{where}summary'", "missing_required_parameter")
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
    require(item.get("role") in roles, f"Invalid value for '{where}role'", "invalid_value")
    content = item.get("content")
    if isinstance(content, str):
        return
    require(isinstance(content, list), f"Invalid type for '{where}content'", "invalid_type")
    assert isinstance(content, list)
    allowed = (
        ("output_text", "refusal") if item["role"] == "assistant" else ("input_text", "input_image", "input_file")
    )
    for part in content:
        require(
            part.get("type") in allowed, f"Invalid value: '{part.get('type')}' in {where}content", "invalid_value"
        )


def _call_id(item: Json, where: str) -> None:
    call_id = item.get("call_id")
    require(isinstance(call_id, str) and call_id, f"Missing required parameter: '{where}call_id'.")
    assert isinstance(call_id, str)
    long = f"Invalid '{where}call_id': string too long. Expected a string with maximum length 64."
    require(len(call_id) <= 64, long, "string_above_max_length")


def _response_pairs(items: list[Json]) -> None:
    open_calls: list[str] = []
    calls = [i["call_id"] for i in items if i.get("type") == "function_call"]
    unique(calls, "function call with call_id")
    unique([i["call_id"] for i in items if i.get("type") == "function_call_output"], "output for call_id")
    unique([i["id"] for i in items if i.get("id") and i.get("type") != "function_call_output"], "item with id")
    for item in items:
        if item.get("type") == "function_call":
            open_calls.append(item["call_id"])
        elif item.get("type") == "function_call_output":
            message = f"No tool call found for function call output with call_id {item['call_id']}."
            require(item["call_id"] in open_calls, message, None, "input")
            open_calls.remove(item["call_id"])
    require(not open_calls, f"No tool output found for function call {open_calls[:1]}.", None, "input")


def _reasoning_pairs(items: list[Json], stored: int, memory: Memory) -> None:
    """Of the first `stored` items, which the server itself has kept, nothing is asked."""
    present = {item["id"] for item in items if item.get("type") == "reasoning"}
    for index, item in enumerate(items):
        follower = items[index + 1] if index + 1 < len(items) else {}
        if item.get("type") == "reasoning" and index >= stored:
            kept = follower.get("type") in ("reasoning", "function_call") or follower.get("role") == "assistant"
            lost = f"Item '{item['id']}' of type 'reasoning' was provided without its required following item."
            require(kept, lost)
        needed = memory.needs_reasoning.get(item.get("id") or "")
        if needed is not None and needed not in present:
            what = f"Item '{item['id']}' of type '{item.get('type')}'"
            raise Wrong(f"{what} was provided without its required 'reasoning' item: '{needed}'.")
