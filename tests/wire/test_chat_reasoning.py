"""The reasoning of Chat Completions: sent back where it must be, and nowhere else."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codeagent.conversation import Reasoning
from codeagent.errors import ModelError
from tests.model_server import ModelServer, Rejection, call, reply, thought
from tests.wire.chat_chunks import chunk, stream
from tests.wire.talk import Talk

Json = dict[str, Any]


def needs_reasoning(api: str, body: Json) -> Rejection | None:
    """As DeepSeek has it: what had calls must come back with its reasoning, even with an empty one."""
    for message in body["messages"]:
        if message.get("tool_calls") and "reasoning_content" not in message:
            return Rejection("The `reasoning_content` in the thinking mode must be passed back to the API.")
    return None


def refuses_reasoning(api: str, body: Json) -> Rejection | None:
    if any("reasoning_content" in message for message in body["messages"]):
        return Rejection("reasoning_content is not allowed in input messages")
    return None


def test_reasoning_goes_back_with_calls_and_not_without() -> None:
    script = [
        reply(thought("hm"), call("read_file", {"path": "a"}, "c1")),
        reply(thought("so"), "One."),
        reply("Two."),
    ]
    with ModelServer(script, rules=[needs_reasoning]) as server:
        talk = Talk(server, "chat")
        talk.turn("first")
        talk.turn("second")
    assert [m.get("reasoning_content") for m in server.requests[2].items if m["role"] == "assistant"] == ["hm", None]


def test_once_a_model_reasons_the_key_is_never_missing() -> None:
    script = [
        reply(thought("hm"), call("read_file", {"path": "a"}, "c1")),
        reply(call("read_file", {"path": "b"}, "c2")),  # nothing thought this time
        reply("Done."),
    ]
    with ModelServer(script, rules=[needs_reasoning]) as server:
        talk = Talk(server, "chat")
        assert talk.turn("first") == "Done."
    assert [m.get("reasoning_content") for m in server.requests[2].items if m["role"] == "assistant"] == ["hm", ""]
    assert talk.notices == []


def test_a_server_that_wants_reasoning_where_there_was_none_is_given_an_empty_one_for_good() -> None:
    script = [
        reply(call("read_file", {"path": "a"}, "c1")),
        reply(call("read_file", {"path": "b"}, "c2")),
        reply("Done."),
    ]
    with ModelServer(script, rules=[needs_reasoning], rejections="allow", prefix="free") as server:
        talk = Talk(server, "chat")
        assert talk.turn("first") == "Done."
    assert len(server.rejected) == 1
    assert [n.delay_ms for n in talk.notices] == [0]


def test_a_server_that_does_not_take_reasoning_back_is_not_given_it_again() -> None:
    script = [
        reply(thought("hm"), call("read_file", {"path": "a"}, "c1")),
        reply(thought("hm"), call("read_file", {"path": "b"}, "c2")),
        reply("Done."),
    ]
    with ModelServer(script, rules=[refuses_reasoning], rejections="allow", prefix="free") as server:
        assert Talk(server, "chat").turn("first") == "Done."
    assert len(server.rejected) == 1


def test_reasoning_goes_back_under_the_name_it_came_with_and_details_unchanged() -> None:
    details = [
        {"type": "reasoning.text", "index": 0, "text": "I ", "format": "x"},
        {"type": "reasoning.text", "index": 0, "text": "think", "signature": None},
        {"type": "reasoning.text", "index": 0, "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "sealed"},
    ]
    answer = stream(
        *(chunk({"reasoning": "I think", "reasoning_details": [detail]}) for detail in details),
        chunk(
            {
                "tool_calls": [
                    {
                        "index": 0,
                        "id": "a",
                        "function": {"name": "read_file", "arguments": '{"path": "a"}'},
                        "extra_content": {"google": {"thought_signature": "s"}},
                    }
                ]
            },
            "tool_calls",
        ),
    )
    with ModelServer([answer], prefix="free") as server:
        talk = Talk(server, "chat")
        talk.ask("Why?")
        talk.answer()
        sent: list[Json] = []

        def catch(request: Any) -> Any:
            sent.append(json.loads(request.raw))
            return reply("ok")

        # The strict rules do not know these fields, so they are looked at without them.
        with ModelServer(catch, rejections="allow") as open_server:
            talk.switch(open_server, "chat")
            with pytest.raises(ModelError):
                talk.infer()
            body = open_server.requests[0].body
    assistant = body["messages"][2]
    assert assistant["reasoning_details"] == [
        {"type": "reasoning.text", "index": 0, "text": "I think", "format": "x", "signature": "sig"},
        {"type": "reasoning.encrypted", "index": 1, "data": "sealed"},
    ]
    assert "reasoning" in assistant
    assert assistant["tool_calls"][0]["extra_content"] == {"google": {"thought_signature": "s"}}


def test_another_model_is_not_given_the_reasoning() -> None:
    script = [reply(thought("hm"), call("read_file", {"path": "a"}, "c1")), reply("ok")]
    with ModelServer(script, prefix="free") as server:
        talk = Talk(server, "chat")
        first = talk.ask("Why?")
        assert isinstance(first.items[0], Reasoning)
        talk.answer()
        talk.switch(server, "chat", model="m-2")
        talk.infer()
    assert "reasoning_content" not in server.requests[1].items[2]
