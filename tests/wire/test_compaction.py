"""The compaction of the Responses API over a real socket, and servers that have none."""

from __future__ import annotations

from typing import Any

import pytest

from codeagent.conversation import Reasoning, UserMessage
from codeagent.inference import Inference, Request, Usage
from codeagent.providers.adapter import NO_COMPACTION
from tests.model_memory import Rejection
from tests.model_script import Entry, RawSse, Received, Scripted, call, hang, reply, status, text, thought
from tests.model_server import ModelServer
from tests.wire.talk import READ_FILE, RUN_COMMAND, Talk

API = "responses"
LOOK = reply(thought("hm"), text("Let me look."), call("read_file", {"path": "a", "start_line": None}, "c1"))


def talked(server: ModelServer, **settings: Any) -> Talk:
    """A conversation of one whole turn."""
    talk = Talk(server, API, **settings)
    talk.turn("Why?")
    return talk


def compacted(talk: Talk) -> Inference | None:
    """What the provider makes of the whole conversation."""
    request = Request("Be brief.", list(talk.history), (READ_FILE, RUN_COMMAND), "session-1")
    return talk.provider.compact(request, talk.progress)


def test_the_conversation_goes_out_whole_and_what_comes_back_goes_back_unchanged() -> None:
    with ModelServer([LOOK, reply("Because."), reply("So.")], prefix="compacted") as server:
        talk = talked(server)
        made = compacted(talk)
        assert made is not None
        talk.history[:] = [*made.items, UserMessage("And then?")]
        talk.infer()
    (asked,) = server.compactions
    assert asked.path == "/v1/responses/compact"
    assert asked.body.keys() == {"model", "instructions", "prompt_cache_key", "input"}
    assert [item["type"] for item in asked.items] == [
        *("message", "reasoning", "message", "function_call", "function_call_output", "message")
    ]
    assert made.items[0] == UserMessage("Why?", "program", made.items[0].source)  # type: ignore[union-attr]
    assert isinstance(made.items[1], Reasoning)
    assert made.usage.output_tokens == 400
    assert server.requests[-1].items == [*made.raw, {"type": "message", "role": "user", "content": "And then?"}]
    assert "".join(talk.shown) == "Let me look.Because.So."  # nothing of the compaction
    assert talk.notices == []


def answered(body: Any) -> Entry:
    return status(200, body=body)


STRANGE: dict[str, Entry] = {
    "no such path": status(404, body={"detail": "Not Found"}),
    "a page": status(404, body="<html><title>Not Found</title></html>"),
    "no such method": status(405, body={"error": {"message": "Method Not Allowed"}}),
    "not for this model": status(400, body={"error": {"message": "Compaction is not supported with this model."}}),
    "not implemented": status(501),
    "not allowed": status(403, body={"error": {"message": "Missing scopes: api.responses.write"}}),
    "a word about it": answered({"error": "Unexpected endpoint or method. (POST /v1/responses/compact)"}),
    "a response": answered({"object": "response", "status": "completed", "output": [{"type": "message"}]}),
    "nothing sealed": answered({"object": "response.compaction", "output": [{"type": "compaction"}]}),
    "a call": answered(
        {
            "object": "response.compaction",
            "output": [
                {"type": "compaction", "id": "cmp", "encrypted_content": "x"},
                {"type": "function_call", "call_id": "c9", "name": "t", "arguments": "{}"},
            ],
        }
    ),
    "items of no form": answered({"object": "response.compaction", "output": ["compaction", 1]}),
    "a list": answered([1]),
    "a stream": RawSse(b'event: response.created\ndata: {"type": "response.created"}\n\n'),
}


@pytest.mark.parametrize("answer", STRANGE)
def test_a_server_that_has_none_is_asked_no_second_time(answer: str) -> None:
    with ModelServer([LOOK, reply("Because."), reply("So.")], compacts=STRANGE[answer]) as server:
        talk = talked(server)
        assert compacted(talk) is None
        asked = len(server.compactions)
        assert compacted(talk) is None
        assert talk.ask("And then?").items  # and everything else goes on
    assert len(server.compactions) == asked <= 2
    assert talk.notices[-1].reason.startswith(NO_COMPACTION)
    assert "key-123" not in str(talk.notices)


def test_one_that_is_known_to_have_none_is_not_asked() -> None:
    with ModelServer([LOOK, reply("Because.")]) as server:
        assert compacted(talked(server, options={"without": ["compaction"]})) is None
    assert server.compactions == []


def test_one_that_never_answers_is_asked_no_second_time() -> None:
    with ModelServer([LOOK, reply("Because.")], compacts=hang(30)) as server:
        talk = talked(server, idle_timeout_seconds=0.5)
        assert compacted(talk) is None
        assert compacted(talk) is None
        assert len(server.compactions) == 1


@pytest.mark.parametrize(
    "failure",
    [
        status(500),
        status(429, {"retry-after": "1"}),
        status(200, body={"error": {"message": "Overloaded", "type": "overloaded_error"}}),
    ],
)
def test_what_may_pass_is_tried_once_more_and_again_the_next_time(failure: Entry) -> None:
    answers: list[bool | Entry] = [failure, True, failure, failure, True]
    with ModelServer([LOOK, reply("Because.")], compacts=lambda _: answers.pop(0)) as server:
        talk = talked(server)
        assert compacted(talk) is not None
        assert compacted(talk) is None
        assert compacted(talk) is not None
    assert len(talk.waits) == 2
    assert [notice.reason.startswith(NO_COMPACTION) for notice in talk.notices] == [False, False, True]


@pytest.mark.parametrize(
    "refusal",
    [
        status(400, body={"error": {"message": "too long", "code": "context_length_exceeded"}}),
        status(429, body={"error": {"message": "no credit", "code": "insufficient_quota"}}),
    ],
)
def test_what_says_nothing_about_the_server_is_not_remembered(refusal: Entry) -> None:
    answers: list[bool | Entry] = [refusal, True]
    with ModelServer([LOOK, reply("Because.")], compacts=lambda _: answers.pop(0)) as server:
        talk = talked(server)
        assert compacted(talk) is None
        assert compacted(talk) is not None


def test_a_field_that_is_not_taken_is_left_out_from_then_on() -> None:
    def rule(api: str, body: dict[str, Any]) -> Rejection | None:
        refused = api == "compact" and "prompt_cache_key" in body
        return Rejection("Unknown parameter: 'prompt_cache_key'.", "unknown_parameter") if refused else None

    with ModelServer([LOOK, reply("Because.")], rules=[rule], rejections="allow") as server:
        talk = talked(server)
        assert compacted(talk) is not None
        assert compacted(talk) is not None
    assert len(server.rejected) == 1


def test_a_compaction_that_can_no_longer_be_read_is_left_out_and_the_messages_stay() -> None:
    with ModelServer([LOOK, reply("Because."), reply("So."), reply("Yes.")], prefix="free", rejections="allow") as s:
        talk = talked(s)
        made = compacted(talk)
        assert made is not None
        talk.history[:] = [*made.items, UserMessage("And then?")]
        s.forget_compactions()
        talk.infer()
        talk.ask("Sure?")
    assert s.rejected == [f"The encrypted content for item {made.raw[1]['id']} could not be verified."]
    assert [item["type"] for item in s.requests[-1].items] == ["message"] * 4
    assert s.requests[-1].user_texts == ["Why?", "And then?", "Sure?"]


def test_a_server_that_does_not_take_such_items_is_sent_none() -> None:
    def rule(_api: str, body: dict[str, Any]) -> Rejection | None:
        items = [item for item in body["input"] if item.get("type") == "compaction"]
        return Rejection("Invalid input type 'compaction' at index 1") if items else None

    with (
        ModelServer([LOOK, reply("Because.")]) as server,
        ModelServer([reply("So.")], rules=[rule], rejections="allow") as other,
    ):
        talk = talked(server)
        made = compacted(talk)
        assert made is not None
        talk.history[:] = [*made.items, UserMessage("And then?")]
        talk.switch(other, API)
        other.memory.compacted.update(server.memory.compacted)
        talk.infer()
    assert other.rejected == ["Invalid input type 'compaction' at index 1"]


@pytest.mark.parametrize(("api", "model"), [("responses", "m-2"), ("chat", "m-1"), ("messages", "m-1")])
def test_nobody_else_is_sent_what_it_cannot_read(api: str, model: str) -> None:
    with ModelServer([LOOK, reply("Because.")]) as server, ModelServer([reply("So.")]) as other:
        talk = talked(server)
        made = compacted(talk)
        assert made is not None
        talk.history[:] = [*made.items, UserMessage("And then?")]
        talk.switch(other, api, model=model)
        talk.infer()
    assert b"compact" not in other.requests[0].raw
    assert b"msg_" not in other.requests[0].raw
    assert other.requests[0].user_texts == ["Why?", "And then?"]


@pytest.mark.parametrize("api", ["chat", "messages"])
def test_the_other_apis_have_none(api: str) -> None:
    with ModelServer([reply("Because.")]) as server:
        talk = Talk(server, api)
        talk.turn("Why?")
        assert compacted(talk) is None
    assert server.compactions == []


def test_where_the_server_keeps_the_conversation_a_fresh_chain_begins_after_it() -> None:
    def said(received: Received) -> Entry:
        return reply(f"{len(received.items)} new")

    script: list[Scripted] = [LOOK, reply("Because."), said, said]
    with ModelServer(script, prefix="free") as server:
        talk = talked(server, state="server")
        made = compacted(talk)
        assert made is not None
        talk.history[:] = [*made.items, UserMessage("And then?")]
        talk.infer()
        talk.ask("Sure?")
    assert "previous_response_id" not in server.compactions[0].body
    chained = [bool(request.body.get("previous_response_id")) for request in server.requests]
    assert chained == [False, True, False, True]
    assert [len(request.items) for request in server.requests[2:]] == [3, 1]


def test_reasoning_that_a_compaction_cannot_read_is_left_out() -> None:
    with ModelServer([LOOK, reply("Because.")], rejections="allow") as server:
        talk = talked(server)
        server.memory.reasoning.clear()
        assert compacted(talk) is not None
    assert len(server.rejected) == 1
    assert "reasoning" not in [item["type"] for item in server.compactions[-1].items]


def test_its_tokens_are_counted() -> None:
    with ModelServer([LOOK, reply("Because.")]) as server:
        made = compacted(talked(server))
    assert made is not None
    assert made.usage == Usage(made.usage.input_tokens, 0, 400)
    assert made.usage.input_tokens > 100
