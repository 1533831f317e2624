"""What the Messages API rejects."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping

from tests.model_memory import NAME, Json, Memory, function, only, require, unique

BLOCK_KEYS = {
    "text": {"type", "text", "cache_control", "citations"},
    "thinking": {"type", "thinking", "signature"},
    "redacted_thinking": {"type", "data"},
    "tool_use": {"type", "id", "name", "input", "cache_control", "caller"},
    "tool_result": {"type", "tool_use_id", "content", "is_error", "cache_control"},
}
OF_ASSISTANT = ("text", "thinking", "redacted_thinking", "tool_use")


def check_messages(body: Json, headers: Mapping[str, str], memory: Memory) -> None:
    require(headers.get("anthropic-version"), "anthropic-version: header is required")
    require(isinstance(body.get("max_tokens"), int), "max_tokens: Field required")
    for tool in body.get("tools", []):
        only(tool, {"name", "description", "input_schema", "strict", "cache_control", "type"}, "tools.")
        function(tool, "input_schema")
        bounded = tool.get("strict") and '"minimum": ' in json.dumps(tool)
        require(not bounded, "tools.0.input_schema: For 'integer' type, property 'minimum' is not supported")
    unique([tool["name"] for tool in body.get("tools", [])], "tool")
    require("tool_choice" not in body or body.get("tools"), "tool_choice may only be specified while providing tools")
    messages = body.get("messages")
    require(isinstance(messages, list) and messages, "messages: at least one message is required")
    assert isinstance(messages, list)
    require(messages[0].get("role") == "user", "messages: first message must use the user role")
    for index, message in enumerate(messages):
        _one_message(message, f"messages.{index}", memory)
    require(
        json.dumps(body).count('"cache_control": {') <= 4, "A maximum of 4 blocks with cache_control may be provided."
    )
    _use_pairs(messages)
    _thinking_kept(messages, memory)


def _one_message(message: Json, where: str, memory: Memory) -> None:
    only(message, {"role", "content"}, f"{where}.")
    require(message.get("role") in ("user", "assistant"), f"{where}.role: Input should be 'user' or 'assistant'")
    content = message.get("content")
    if isinstance(content, str):
        require(content.strip(), f"{where}: user messages must have non-empty content")
        return
    require(isinstance(content, list) and content, f"{where}: all messages must have non-empty content")
    assert isinstance(content, list)
    for index, block in enumerate(content):
        _block(block, f"{where}.content.{index}", message["role"], memory)


def _block(block: Json, where: str, role: str, memory: Memory) -> None:
    kind = block.get("type")
    require(kind in BLOCK_KEYS, f"{where}: Input tag '{kind}' does not match any of the expected tags")
    assert isinstance(kind, str)
    only(block, BLOCK_KEYS[kind], f"{where}.")
    require(kind == "text" or (kind in OF_ASSISTANT) == (role == "assistant"), f"{where}: {kind} in a {role} message")
    if kind == "text":
        require(block["text"].strip(), "messages: text content blocks must contain non-whitespace text")
    elif kind == "tool_use":
        allowed = re.fullmatch(r"[a-zA-Z0-9_-]+", str(block.get("id")))
        require(allowed, f"{where}.id: String should match pattern '^[a-zA-Z0-9_-]+$'")
        require(isinstance(block.get("input"), dict), f"{where}.input: Input should be a valid dictionary")
        require(
            NAME.match(str(block.get("name"))), f"{where}.name: String should match pattern '^[a-zA-Z0-9_-]{{1,64}}$'"
        )
    elif kind == "tool_result":
        empty = block.get("is_error") and not block.get("content")
        require(not empty, f"{where}: content cannot be empty if `is_error` is true")
    elif kind == "thinking":
        issued = memory.signatures.get(block.get("signature", "")) == block.get("thinking")
        require(issued, f"{where}: Invalid `signature` in `thinking` block")


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
        require(not missing, lost)
        for block in blocks:
            if block["type"] == "tool_result":
                used = block["tool_use_id"]
                stray = f"messages.{index}: unexpected `tool_use_id` found in `tool_result` blocks: {used}"
                require(used in expected, stray)
                require(answered.count(used) == 1, "each tool_use must have a single result")
        expected = [b["id"] for b in blocks if b["type"] == "tool_use"] if role == "assistant" else []
        for name in expected:
            require(name not in seen, f"messages.{index}: `tool_use` ids must be unique")
            seen.append(name)
    require(not expected, f"messages: `tool_use` ids were found without `tool_result` blocks: {expected}")


def _thinking_kept(messages: list[Json], memory: Memory) -> None:
    blocks = [b for m in messages if isinstance(m["content"], list) for b in m["content"]]
    present = {b.get("signature") for b in blocks}
    for block in blocks:
        needed = memory.needs_thinking.get(block.get("id", ""))
        kept = needed is None or needed in present
        require(kept, "Expected `thinking` or `redacted_thinking`, but found `tool_use`.")
