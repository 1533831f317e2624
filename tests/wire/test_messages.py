"""What is particular to the Messages API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codeagent.conversation import Reasoning, ToolCall, ToolOutput, UserMessage, text_of
from codeagent.errors import ErrorKind, ModelError
from codeagent.inference import Finish, Usage
from tests.model_server import ModelServer, Rejection, call, raw_sse, reply, status, thought
from tests.wire.talk import Talk

Json = dict[str, Any]
API = "messages"
LOOK = reply(
    thought("hm"), "I look.", call("read_file", {"path": "a"}, "c1"), call("run_command", {"command": "ls"}, "c2")
)
MARK = {"cache_control": {"type": "ephemeral"}}


def test_the_request_as_the_api_wants_it() -> None:
    with ModelServer([reply("ok")]) as server:
        Talk(server, API, reasoning_effort="high").ask("Why?")
    body, headers = dict(server.requests[0].body), server.requests[0].headers
    tools = body.pop("tools")
    assert body == {
        "model": "m-1",
        "max_tokens": 32_000,
        **MARK,
        "system": [{"type": "text", "text": "Be brief.", **MARK}],
        "thinking": {"type": "adaptive"},
        "output_config": {"effort": "high"},
        "stream": True,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "Why?"}]}],
    }
    assert [sorted(tool) for tool in tools] == [["description", "input_schema", "name", "strict"]] * 2
    assert (headers["anthropic-version"], headers["authorization"]) == ("2026-10-21", "Bearer key-123")
    assert "x-api-key" not in headers


@pytest.mark.parametrize("url", ["root", "url"])
def test_the_base_url_may_name_the_version_or_not(url: str) -> None:
    with ModelServer([reply("ok")]) as server:
        Talk(getattr(server, url), API).ask("Why?")
    assert server.requests[0].path == "/v1/messages"


def test_an_earlier_version_of_the_api_takes_the_key_in_its_own_header() -> None:
    with ModelServer([reply("ok")], key="key-123") as server:
        Talk(server, API, options={"anthropic_version": "2023-06-01"}).ask("Why?")
    headers = server.requests[0].headers
    assert (headers["anthropic-version"], headers["x-api-key"]) == ("2023-06-01", "key-123")
    assert "authorization" not in headers


def test_an_assistant_message_goes_back_as_it_came_with_all_results_in_one_message() -> None:
    with ModelServer([LOOK, reply("Done.")]) as server:
        talk = Talk(server, API)
        first = talk.ask("Why?")
        talk.history += [ToolOutput("c1", "CODE"), ToolOutput("c2", "error: denied: no", ErrorKind.DENIED)]
        talk.history.append(UserMessage("a.py changed", "program"))
        talk.infer()
    assert [block["type"] for block in first.raw] == ["thinking", "text", "tool_use", "tool_use"]
    assert server.requests[1].items[1:] == [
        {"role": "assistant", "content": list(first.raw)},
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "c1", "content": "CODE"},
                {"type": "tool_result", "tool_use_id": "c2", "content": "error: denied: no", "is_error": True},
            ],
        },
        {"role": "user", "content": [{"type": "text", "text": "a.py changed"}]},
    ]


def block(index: int | None, start: Json, *deltas: Json) -> list[Json]:
    return [
        {"type": "content_block_start", "index": index, "content_block": start},
        *({"type": "content_block_delta", "index": index, "delta": delta} for delta in deltas),
        {"type": "content_block_stop", "index": index},
    ]


def message(*blocks: list[Json], stop: str = "end_turn", usage: Json | None = None, **delta: Any) -> list[Json]:
    return [
        {"type": "message_start", "message": {"id": "msg_1", "usage": {"input_tokens": 9, "output_tokens": 1}}},
        *(event for events in blocks for event in events),
        {"type": "message_delta", "delta": {"stop_reason": stop, **delta}, "usage": usage or {"output_tokens": 5}},
        {"type": "message_stop"},
    ]


def test_redacted_thinking_and_unknown_blocks_are_kept_in_their_place() -> None:
    blocks = [
        block(0, {"type": "redacted_thinking", "data": "sealed"}),
        block(1, {"type": "thinking", "thinking": ""}, {"type": "signature_delta", "signature": "s"}),
        block(2, {"type": "brand_new", "x": 1}),
        block(3, {"type": "text", "text": ""}, {"type": "text_delta", "text": "Hi"}, {"type": "unheard_of"}),
    ]
    with ModelServer([raw_sse({"type": "ping"}, {"type": "unheard_of"}, *message(*blocks))]) as server:
        talk = Talk(server, API)
        first = talk.ask("Why?")
    assert [b["type"] for b in first.raw] == ["redacted_thinking", "thinking", "brand_new", "text"]
    with ModelServer([reply("ok")], rejections="allow", prefix="free") as lax:  # the strict rules do not know them
        talk.switch(lax, API)
        talk.ask("And?")
    assert lax.requests[0].items[1]["content"] == list(first.raw)


def test_a_compaction_that_the_users_options_ask_for_is_kept_and_gone_on_from() -> None:
    compaction = block(0, {"type": "compaction", "content": None}, {"type": "compaction_delta", "content": "So far."})
    with ModelServer([raw_sse(*message(compaction, stop="compaction"))]) as server:
        talk = Talk(server, API)
        assert talk.ask("Why?").finish is Finish.PAUSED
    with ModelServer(rejections="allow") as without:  # the strict rules do not know it
        talk.switch(without, API)
        with pytest.raises(ModelError):
            talk.infer()
    assert without.requests[0].items[1] == {
        "role": "assistant",
        "content": [{"type": "compaction", "content": "So far."}],
    }


@pytest.mark.parametrize(
    ("start", "deltas", "arguments"),
    [
        ({"input": {}}, [], "{}"),
        ({}, ['{"path"', ': "a"}'], '{"path":"a"}'),  # llama.cpp: no input in the start block
        ({"input": {"path": "a"}}, [], '{"path":"a"}'),
        ({"input": {}}, ["", '{"path": "a'], '{"path": "a'),
        ({"input": {}}, ['{"a":1}{"a":1}'], '{"a":1}{"a":1}'),
        ({"input": {}}, ['["a"]'], '["a"]'),
    ],
)
def test_the_input_of_a_call_however_it_is_streamed(start: Json, deltas: list[str], arguments: str) -> None:
    pieces = [{"type": "input_json_delta", "partial_json": piece} for piece in deltas]
    use = block(0, {"type": "tool_use", "id": "t1", "name": "read_file", **start}, *pieces)
    with ModelServer([raw_sse(*message(use, stop="tool_use")), reply("ok")]) as server:
        talk = Talk(server, API)
        calls = [i for i in talk.ask("Why?").items if isinstance(i, ToolCall)]
        assert [(c.call_id, c.arguments) for c in calls] == [("t1", arguments)]
        talk.answer()
        talk.infer()
    sent = server.requests[1].items[1]["content"][0]
    assert sorted(sent) == ["id", "input", "name", "type"]


@pytest.mark.parametrize("index", [None, 0, 7], ids=["missing", "repeated", "starting above 0"])
def test_blocks_are_told_apart_by_their_starts(index: int | None) -> None:
    parts = [
        block(
            index,
            {"type": "tool_use", "id": call_id, "name": "read_file", "input": {}},
            {"type": "input_json_delta", "partial_json": json.dumps({"path": call_id})},
        )
        for call_id in ("t1", "t2")
    ]
    for event in (event for part in parts for event in part if index is None):
        del event["index"]
    with ModelServer([raw_sse(*message(*parts, stop="tool_use"))]) as server:
        calls = [item for item in Talk(server, API).ask("Why?").items if isinstance(item, ToolCall)]
    assert [(each.call_id, json.loads(each.arguments)) for each in calls] == [(n, {"path": n}) for n in ("t1", "t2")]


@pytest.mark.parametrize(
    ("stop", "finish"),
    [
        ("end_turn", Finish.COMPLETE),
        ("stop_sequence", Finish.COMPLETE),
        ("tool_use", Finish.COMPLETE),
        ("pause_turn", Finish.PAUSED),
        ("max_tokens", Finish.TRUNCATED),
        ("model_context_window_exceeded", Finish.CONTEXT_FULL),
        ("refusal", Finish.REFUSED),
        ("brand_new", Finish.TRUNCATED),
    ],
)
def test_each_reason_to_stop(stop: str, finish: Finish) -> None:
    with ModelServer([reply("Text", finish=stop)]) as server:
        inference = Talk(server, API).ask("Why?")
    assert (inference.finish, inference.finish_word) == (finish, stop)


def test_a_refusal_is_explained_in_the_server_s_words() -> None:
    details = {"category": "cyber", "explanation": "It asks for malware."}
    with ModelServer([raw_sse(*message(stop="refusal", stop_details=details))]) as server:
        inference = Talk(server, API).ask("Why?")
    assert (inference.finish, inference.detail) == (Finish.REFUSED, "It asks for malware.")


def test_a_paused_turn_goes_on_when_the_same_conversation_is_sent_again() -> None:
    with ModelServer(
        [reply("First half.", finish="pause"), reply(thought("t"), "Second."), reply("Next.")]
    ) as server:
        talk = Talk(server, API)
        assert talk.ask("Why?").finish is Finish.PAUSED
        assert text_of(talk.infer().items) == "Second."
        talk.ask("And?")
    assert [m["role"] for m in server.requests[1].items] == ["user", "assistant"]


def test_the_count_is_of_the_whole_prompt() -> None:
    start = {"input_tokens": 3, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 100, "output_tokens": 1}
    events = message(block(0, {"type": "text", "text": "x"}), usage={"output_tokens": 7, "input_tokens": None})
    events[0]["message"]["usage"] = start
    with ModelServer([raw_sse(*events)]) as server:
        assert Talk(server, API).ask("Why?").usage == Usage(123, 100, 7)


def test_blank_text_is_never_sent() -> None:
    with ModelServer([reply("\n", call("run_command", {"command": "true"}, "c1")), reply("ok")]) as server:
        talk = Talk(server, API)
        talk.ask("Why?")
        talk.history.append(ToolOutput("c1", " ", ErrorKind.TIMEOUT))
        talk.history.append(UserMessage("  "))
        talk.infer()
    assert server.requests[1].outputs == {"c1": "(no output)"}


def test_thinking_that_led_to_nothing_is_not_sent_again() -> None:
    with ModelServer([reply("So:", thought("hm"), finish="length"), reply("ok")]) as server:
        talk = Talk(server, API)
        talk.ask("Why?")
        talk.ask("Shorter.")
    assert [b["type"] for b in server.requests[1].items[1]["content"]] == ["text"]


def test_another_model_is_not_given_the_thinking() -> None:
    with ModelServer([LOOK]) as server, ModelServer([reply("ok")]) as other:
        talk = Talk(server, API)
        assert isinstance(talk.ask("Why?").items[0], Reasoning)
        talk.answer()
        talk.switch(other, API, model="m-2")
        talk.infer()
    assert [b["type"] for b in other.requests[0].items[1]["content"]] == ["text", "tool_use", "tool_use"]


def test_a_signature_that_is_no_longer_taken_is_given_up_for_good() -> None:
    refused = status(
        400, body={"type": "error", "error": {"message": "messages.1: Invalid `signature` in `thinking` block"}}
    )
    with ModelServer([reply(thought("a"), "One."), refused, reply("Two."), reply("Three.")], prefix="free") as server:
        talk = Talk(server, API)
        for question in ("a", "b", "c"):
            talk.ask(question)
    assert [json.dumps(r.body).count('"thinking"') for r in server.requests] == [0, 2, 0, 0]


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("cache_control", "cache_control: Extra inputs are not permitted"),
        ("strict", "tools.0.custom.strict: Extra inputs are not permitted"),
        ("output_config", "output_config: effort is not supported by this model"),
    ],
)
def test_a_refused_parameter_is_left_out_from_then_on(name: str, words: str) -> None:
    def rule(api: str, body: Json) -> Rejection | None:
        return Rejection(words) if f'"{name}"' in json.dumps(body) else None

    with ModelServer([reply("1"), reply("2")], rules=[rule], rejections="allow", prefix="free") as server:
        talk = Talk(server, API, reasoning_effort="low")
        talk.ask("a")
        talk.ask("b")
    assert len(server.rejected) == 1


def test_the_longest_output_of_a_model_is_learned() -> None:
    words = "max_tokens: 32000 > 8192, which is the maximum allowed number of output tokens for m-1"
    refused = status(400, body={"type": "error", "error": {"type": "invalid_request_error", "message": words}})
    with ModelServer([refused, reply("1"), reply("2")]) as server:
        talk = Talk(server, API)
        talk.ask("a")
        talk.ask("b")
    assert [r.body["max_tokens"] for r in server.requests] == [32_000, 8192, 8192]
