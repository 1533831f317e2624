"""What servers of Chat Completions reject."""

from __future__ import annotations

from tests.model_memory import NAME, Json, function, only, require, unique, words

MESSAGE_KEYS = {
    "system": {"role", "content", "name"},
    "developer": {"role", "content", "name"},
    "user": {"role", "content", "name"},
    "assistant": words("role content name tool_calls refusal reasoning_content reasoning reasoning_details"),
    "tool": {"role", "content", "tool_call_id"},
}


def check_chat(body: Json) -> None:
    for tool in body.get("tools", []):
        only(tool, {"type", "function"}, "tools[].")
        require(tool.get("type") == "function", "Invalid value for tools[].type", "invalid_value", "tools")
        only(tool["function"], {"name", "description", "parameters", "strict"}, "tools[].function.")
        function(tool["function"], "parameters")
    unique([tool["function"]["name"] for tool in body.get("tools", [])], "tool")
    require("tools" not in body or body["tools"], "[] is too short - 'tools'", None, "tools")
    require(
        "tool_choice" not in body or body.get("tools"), "'tool_choice' is only allowed when 'tools' are specified."
    )
    messages = body.get("messages")
    require(isinstance(messages, list) and messages, "[] is too short - 'messages'", None, "messages")
    assert isinstance(messages, list)
    for index, message in enumerate(messages):
        _chat_message(message, f"messages[{index}].")
    _chat_pairs(messages)


def _chat_message(message: Json, where: str) -> None:
    role = message.get("role")
    require(role in MESSAGE_KEYS, f"Invalid value: '{role}' for {where}role", "invalid_value")
    assert isinstance(role, str)
    only(message, MESSAGE_KEYS[role], where)
    require("content" in message, f"Missing required parameter: '{where}content'.", None, f"{where}content")
    content, calls = message["content"], message.get("tool_calls")
    if role == "assistant":
        require(calls is None or calls, f"[] is too short - '{where}tool_calls'")
        require(content is None or isinstance(content, str), f"Invalid type for '{where}content'", "invalid_type")
        require(content is not None or calls, f"Invalid value for '{where}content': expected a string, got null.")
        for made in calls or ():
            only(made, {"id", "type", "function"}, f"{where}tool_calls[].")
            require(isinstance(made.get("id"), str) and made["id"], f"Missing '{where}tool_calls[].id'")
            require(made.get("type") == "function", f"Invalid '{where}tool_calls[].type'")
            require(isinstance(made["function"].get("arguments"), str), f"Invalid '{where}tool_calls[].arguments'")
            named = NAME.match(str(made["function"].get("name")))
            require(named, f"Invalid '{where}tool_calls[].function.name': string does not match the pattern")
    else:
        require(isinstance(content, (str, list)), f"Invalid type for '{where}content'", "invalid_type")


def _chat_pairs(messages: list[Json]) -> None:
    seen: list[str] = []
    open_calls: list[str] = []
    for message in messages:
        if message["role"] == "tool":
            stray = "messages with role 'tool' must be a response to a preceding message with 'tool_calls'."
            require(message["tool_call_id"] in open_calls, stray)
            open_calls.remove(message["tool_call_id"])
            continue
        require(not open_calls, _chat_open(open_calls))
        for made in message.get("tool_calls") or ():
            require(made["id"] not in seen, f"Duplicate tool call id: {made['id']}")
            seen.append(made["id"])
            open_calls.append(made["id"])
    require(not open_calls, _chat_open(open_calls))


def _chat_open(ids: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(ids)}"
    )
