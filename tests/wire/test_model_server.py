"""The scripted server itself: it must reject what real servers reject, or the other tests prove nothing."""

from __future__ import annotations

import json
from typing import Any

import httpx2
import pytest

from tests.model_server import ModelServer, reply, text, thought
from tests.model_server import call as made

Json = dict[str, Any]
SCHEMA = {"type": "object", "properties": {"p": {"type": "string"}}, "required": ["p"], "additionalProperties": False}
PATHS = {"responses": "/responses", "chat": "/chat/completions", "messages": "/messages"}
COMPACT = "/responses/compact"


def post(server: ModelServer, api: str, body: Json) -> str:
    """The error's message, or nothing when the request was accepted. `api` may be a path as well."""
    headers = {"anthropic-version": "2026-10-21"}
    answer = httpx2.post(server.url + PATHS.get(api, api), content=json.dumps(body), headers=headers)
    return "" if answer.status_code == 200 else str(answer.json()["error"]["message"])


def responses(*items: Json, **more: Any) -> Json:
    tool = {"type": "function", "name": "t", "description": "", "parameters": SCHEMA, "strict": True}
    return {"model": "m", "tools": [tool], "store": False, "input": list(items), **more}


def chat(*messages: Json, **more: Any) -> Json:
    function = {"name": "t", "description": "", "parameters": SCHEMA, "strict": True}
    return {"model": "m", "tools": [{"type": "function", "function": function}], "messages": list(messages), **more}


def messages(*given: Json, **more: Any) -> Json:
    return {
        "model": "m",
        "max_tokens": 9,
        "tools": [{"name": "t", "input_schema": SCHEMA}],
        "messages": list(given),
        **more,
    }


USER: Json = {"role": "user", "content": "q"}
CALL: Json = {"type": "function_call", "call_id": "c", "name": "t", "arguments": "{}"}
OUT: Json = {"type": "function_call_output", "call_id": "c", "output": "x"}
REASONING: Json = {"type": "reasoning", "id": "rs", "summary": [], "encrypted_content": "forged"}
ASKED: Json = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "t", "arguments": "{}"}}],
}
TOOL: Json = {"role": "tool", "tool_call_id": "c", "content": "x"}
USE: Json = {"type": "tool_use", "id": "c", "name": "t", "input": {}}
RESULT: Json = {"type": "tool_result", "tool_use_id": "c", "content": "x"}


def said(*blocks: Json) -> Json:
    return {"role": "assistant", "content": list(blocks)}


def told(*blocks: Json) -> Json:
    return {"role": "user", "content": list(blocks)}


LOOSE = {**SCHEMA, "required": []}

WRONG: list[tuple[str, Json, str]] = [
    ("responses", responses(USER, CALL), "No tool output found"),
    ("responses", responses(USER, OUT), "No tool call found"),
    ("responses", responses(USER, OUT, CALL), "No tool call found"),
    ("responses", responses(USER, CALL, CALL, OUT), "Duplicate function call"),
    ("responses", responses(USER, CALL, OUT, OUT), "Duplicate output"),
    ("responses", responses(USER, REASONING, CALL, OUT), "could not be verified"),
    ("responses", responses(USER, {**REASONING, "encrypted_content": None}, CALL, OUT), "not persisted"),
    ("responses", responses(USER, {**CALL, "call_id": "c" * 65}, OUT), "maximum length 64"),
    ("responses", responses(USER, {**CALL, "name": "a b"}, OUT), "does not match the pattern"),
    ("responses", responses(USER, {**CALL, "extra": 1}, OUT), "Unknown parameter"),
    ("responses", responses(USER, {"type": "unheard_of"}), "Invalid value"),
    ("responses", responses(USER, max_tokens=5), "Unknown parameter: 'max_tokens'"),
    ("responses", responses(USER, include=["everything"]), "Invalid value"),
    ("responses", responses(USER, previous_response_id="resp_0"), "not found"),
    ("responses", responses(), "Missing required parameter"),
    ("responses", responses({"role": "user", "content": "\ud83d"}), "not Unicode"),
    ("responses", responses(USER, tools=[{"type": "function", "name": "t", "parameters": SCHEMA}]), "strict"),
    (
        "responses",
        responses(USER, tools=[{"type": "function", "name": "t", "parameters": LOOSE, "strict": True}]),
        "must name every property",
    ),
    ("chat", chat(USER, ASKED), "did not have response messages: c"),
    ("chat", chat(USER, ASKED, USER, TOOL), "did not have response messages: c"),
    ("chat", chat(USER, TOOL), "must be a response to a preceding message"),
    ("chat", chat(USER, ASKED, TOOL, TOOL), "must be a response to a preceding message"),
    ("chat", chat(USER, ASKED, TOOL, ASKED, TOOL), "Duplicate tool call id"),
    ("chat", chat(USER, {"role": "assistant", "content": None}), "got null"),
    ("chat", chat(USER, {"role": "assistant", "tool_calls": ASKED["tool_calls"]}, TOOL), "Missing required"),
    ("chat", chat(USER, {**ASKED, "tool_calls": []}), "too short"),
    ("chat", chat(USER, instructions="x"), "Unknown parameter"),
    ("chat", {"model": "m", "messages": [USER], "tool_choice": "none"}, "only allowed when 'tools'"),
    ("messages", messages(USER, said(USE)), "without `tool_result` blocks"),
    ("messages", messages(USER, said(USE), USER), "without `tool_result` blocks"),
    ("messages", messages(USER, said(USE), told({"type": "text", "text": "x"}, RESULT)), "without `tool_result`"),
    ("messages", messages(USER, told(RESULT)), "unexpected `tool_use_id`"),
    ("messages", messages(USER, said(USE), told(RESULT, RESULT)), "single result"),
    ("messages", messages(USER, said(USE), told(RESULT), said(USE), told(RESULT)), "must be unique"),
    ("messages", messages(USER, said({**USE, "id": "a:b"}), told(RESULT)), "should match pattern"),
    ("messages", messages(USER, said({**USE, "input": "{}"}), told(RESULT)), "valid dictionary"),
    ("messages", messages(USER, said({"type": "thinking", "thinking": "x", "signature": "forged"})), "signature"),
    ("messages", messages(USER, said({"type": "text", "text": " "})), "non-whitespace"),
    ("messages", messages(said({"type": "text", "text": "x"})), "must use the user role"),
    ("messages", messages(USER, said(USE), told({**RESULT, "content": "", "is_error": True})), "cannot be empty"),
    ("messages", messages(USER, temperature=0), "Unknown parameter"),
    ("messages", {"model": "m", "messages": [USER]}, "max_tokens"),
]


@pytest.mark.parametrize(("api", "body", "words"), WRONG, ids=lambda v: v if isinstance(v, str) else "")
def test_a_wrong_request_is_rejected_and_fails_the_test(api: str, body: Json, words: str) -> None:
    with pytest.raises(AssertionError, match="request 1 was rejected"), ModelServer([reply("x")]) as server:
        assert words in post(server, api, body)
    assert server.left == 1


RIGHT: list[tuple[str, Json]] = [
    ("responses", responses(USER, CALL, OUT)),
    ("responses", responses({**CALL, "call_id": "d"}, CALL, OUT, {**OUT, "call_id": "d"})),
    ("responses", {"model": "m", "input": "q"}),
    ("chat", chat({"role": "system", "content": "s"}, USER, ASKED, TOOL)),
    ("messages", messages(USER, said(USE), told(RESULT, {"type": "text", "text": "x"}))),
    ("messages", messages(USER, said(USE), told(RESULT), USER)),
]


@pytest.mark.parametrize(("api", "body"), RIGHT)
@pytest.mark.parametrize("stream", [True, False])
def test_a_right_request_is_answered(api: str, body: Json, stream: bool) -> None:
    with ModelServer([reply("x")]) as server:
        assert post(server, api, {**body, "stream": stream}) == ""


def test_an_item_that_lost_its_reasoning_is_rejected() -> None:
    with ModelServer([reply(thought("t"), made("t", {}, "c")), reply("x")], rejections="allow") as server:
        post(server, "responses", responses(USER))
        named = {**CALL, "id": next(iter(server.memory.needs_reasoning))}
        assert "without its required 'reasoning' item" in post(server, "responses", responses(USER, named, OUT))
        sealed = next(iter(server.memory.reasoning.items()))
        alone = {**REASONING, "id": sealed[0], "encrypted_content": sealed[1]}
        assert "without its required following item" in post(server, "responses", responses(USER, alone, USER))
        assert post(server, "responses", responses(USER, alone, named, OUT)) == ""


COMPACTED: Json = {"model": "m", "input": [USER, CALL, OUT]}
WRONG_TO_COMPACT: list[tuple[Json, str]] = [
    ({"model": "m", "input": [USER, CALL]}, "No tool output found"),
    ({"model": "m", "input": [USER, OUT]}, "No tool call found"),
    ({"model": "m", "input": [USER, REASONING, CALL, OUT]}, "could not be verified"),
    ({**COMPACTED, "tools": []}, "Unknown parameter: 'tools'"),
    ({**COMPACTED, "stream": True}, "Unknown parameter: 'stream'"),
    ({"model": "m", "input": [USER, {**CALL, "extra": 1}, OUT]}, "Unknown parameter"),
    ({"model": "m"}, "Missing required parameter: 'input'"),
    ({"input": [USER]}, "you must provide a model parameter"),
]


@pytest.mark.parametrize(("body", "words"), WRONG_TO_COMPACT)
def test_what_cannot_be_compacted_is_rejected(body: Json, words: str) -> None:
    with pytest.raises(AssertionError, match="was rejected"), ModelServer() as server:
        assert words in post(server, COMPACT, body)


def test_a_compaction_is_only_taken_back_as_it_was_given() -> None:
    with ModelServer([reply("x")], rejections="allow") as server:
        assert post(server, COMPACT, COMPACTED) == ""
        message, compaction = server.memory.compacted.values()
        changed = {**compaction, "encrypted_content": "other"}
        unsealed = {key: value for key, value in compaction.items() if key != "encrypted_content"}
        retold = {**message, "content": [{"type": "input_text", "text": "other"}]}
        assert "could not be verified" in post(server, "responses", responses(message, changed, USER))
        assert "encrypted_content" in post(server, "responses", responses(message, unsealed, USER))
        assert "not what the compaction gave" in post(server, "responses", responses(retold, compaction, USER))
        assert post(server, "responses", responses(message, compaction, USER)) == ""
        assert post(server, COMPACT, {"model": "m", "input": [message, compaction, CALL, OUT]}) == ""


def test_a_call_that_lost_its_thinking_is_rejected() -> None:
    with ModelServer([reply(thought("t"), made("t", {}, "c"))], rejections="allow") as server:
        post(server, "messages", messages(USER))
        assert "Expected `thinking`" in post(server, "messages", messages(USER, said(USE), told(RESULT)))


@pytest.mark.parametrize("api", PATHS)
def test_a_changed_prefix_fails_the_test(api: str) -> None:
    build = {"responses": responses, "chat": chat, "messages": messages}[api]
    first, other = build(USER), build({"role": "user", "content": "Q"}, USER)
    with ModelServer([reply("x"), reply("y")]) as server:
        post(server, api, first)
        post(server, api, build(USER, USER))
    with pytest.raises(AssertionError, match="changed from"), ModelServer([reply("x"), reply("y")]) as server:
        post(server, api, first)
        post(server, api, other)
    with ModelServer([reply("x"), reply("y")], prefix="compacted") as server:
        post(server, api, first)
        post(server, api, other)
    assert server.prefix_changes == 1
    with (
        pytest.raises(AssertionError, match="`tools` changed"),
        ModelServer([reply("x")] * 2, prefix="compacted") as server,
    ):
        post(server, api, first)
        post(
            server, api, {**first, "tools": []} if api != "chat" else {k: v for k, v in first.items() if k != "tools"}
        )
    with ModelServer([reply("x"), reply("y")]) as server:
        post(server, api, first)
        server.forget()
        post(server, api, other)


def test_more_requests_than_the_script_holds_fail_the_test() -> None:
    with (
        pytest.raises(AssertionError, match="after the end of the script"),
        ModelServer([reply(text("x"))]) as server,
    ):
        post(server, "chat", chat(USER))
        post(server, "chat", chat(USER, USER))


def test_keys_and_models_are_checked_where_the_test_wants_it() -> None:
    with ModelServer([reply("x")], key="secret", models=["m"]) as server:
        assert "Incorrect API key" in post(server, "chat", chat(USER))
    with ModelServer([reply("x")], models=["other"]) as server:
        assert "does not exist" in post(server, "chat", chat(USER))
