"""What is particular to the Responses API."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codeagent.conversation import AssistantMessage, Reasoning, ToolCall, ToolOutput, UserMessage, text_of
from codeagent.errors import ErrorKind, ModelError
from codeagent.inference import Finish
from tests.model_script import Scripted
from tests.model_server import ModelServer, Rejection, call, raw_sse, reply, status, text, thought
from tests.wire.talk import Talk

Json = dict[str, Any]
API = "responses"
LOOK = reply(thought("hm"), text("I look.", phase="commentary"), call("read_file", {"path": "a"}, "c1"))


def test_the_request_is_stateless_and_asks_for_encrypted_reasoning() -> None:
    with ModelServer([reply("ok")]) as server:
        Talk(server, API, reasoning_effort="high", max_output_tokens=900).ask("Why?")
    body = dict(server.requests[0].body)
    tools = body.pop("tools")
    assert body == {
        "model": "m-1",
        "instructions": "Be brief.",
        "stream": True,
        "store": False,
        "include": ["reasoning.encrypted_content"],
        "prompt_cache_key": "session-1",
        "max_output_tokens": 900,
        "reasoning": {"effort": "high"},
        "input": [{"type": "message", "role": "user", "content": "Why?"}],
    }
    assert [(t["type"], t["name"], t["strict"]) for t in tools] == [
        ("function", "read_file", True),
        ("function", "run_command", True),
    ]
    assert server.requests[0].headers["authorization"] == "Bearer key-123"


def test_every_output_item_goes_back_as_it_came() -> None:
    with ModelServer([LOOK, reply("Done.")]) as server:
        talk = Talk(server, API)
        first = talk.ask("Why?")
        talk.answer("CODE")
        talk.infer()
    output = {"type": "function_call_output", "call_id": "c1", "output": "CODE"}
    assert server.requests[1].items == [*server.requests[0].items, *first.raw, output]
    assert [item["type"] for item in first.raw] == ["reasoning", "message", "function_call"]
    assert first.raw[1]["phase"] == "commentary"


def test_items_and_fields_that_nobody_knows_are_kept() -> None:
    items = [
        {"type": "web_search_call", "id": "ws_1", "status": "completed", "action": {"type": "search", "query": "x"}},
        {
            "type": "message",
            "id": "msg_9",
            "role": "assistant",
            "new_field": [1],
            "content": [{"type": "output_text", "text": "Found.", "annotations": [{"type": "url_citation"}]}],
        },
    ]
    events = [{"type": "response.output_item.done", "output_index": i, "item": item} for i, item in enumerate(items)]
    done = {"type": "response.completed", "response": {"id": "resp_1", "status": "completed", "output": items}}
    with ModelServer([raw_sse({"type": "response.unheard_of"}, *events, done)]) as server:
        talk = Talk(server, API)
        first = talk.ask("Why?")
        assert [type(item) for item in first.items] == [Reasoning, AssistantMessage]
        assert first.raw == tuple(items)
        with ModelServer([reply("x")], rejections="allow") as lax:  # the strict rules know neither
            talk.switch(lax, API)
            with pytest.raises(ModelError):
                talk.ask("And?")
    assert lax.requests[0].items[1:3] == items


def done(item: Json, index: int | None) -> Json:
    place = {} if index is None else {"output_index": index}
    return {"type": "response.output_item.done", **place, "item": item}


def function(call_id: str, path: str, **more: Any) -> Json:
    arguments = json.dumps({"path": path})
    return {
        "type": "function_call",
        "id": f"fc_{path}",
        "call_id": call_id,
        "name": "read_file",
        "arguments": arguments,
    } | more


def ended(kind: str = "completed", output: list[Json] | None = None, **more: Any) -> Json:
    response = {"id": "resp_1", "status": kind, "output": output or [], **more}
    return {"type": f"response.{kind}", "response": response}


def calls_of(*events: Json) -> list[tuple[str, str, bool]]:
    with ModelServer([raw_sse(*events), reply("ok")]) as server:
        talk = Talk(server, API)
        inference = talk.ask("Why?")
        talk.answer()
        talk.infer()
    calls = [item for item in inference.items if isinstance(item, ToolCall)]
    return [(c.call_id, json.loads(c.arguments)["path"], bool(c.defect)) for c in calls]


def test_items_stand_in_the_order_of_their_index() -> None:
    events = [done(function("c2", "b"), 1), done(function("c1", "a"), 0), ended()]
    assert calls_of(*events) == [("c1", "a", False), ("c2", "b", False)]


def test_items_without_an_index_stand_in_the_order_of_arrival() -> None:
    events = [done(function("c2", "b"), None), done(function("c1", "a"), None), ended()]
    assert calls_of(*events) == [("c2", "b", False), ("c1", "a", False)]


def test_ids_that_change_between_the_events_do_not_double_an_item() -> None:
    added = {
        "type": "response.output_item.added",
        "output_index": 0,
        "item": function("c1", "a", id="fc_1", arguments=""),
    }
    events = [added, done(function("c1", "a", id="fc_2"), 0), ended(output=[function("c1", "a", id="fc_3")])]
    assert calls_of(*events) == [("c1", "a", False)]


def test_an_item_that_is_told_twice_is_one_item() -> None:
    assert calls_of(done(function("c1", "a"), 0), done(function("c1", "a"), 0), ended()) == [("c1", "a", False)]


def test_a_response_that_is_told_only_at_its_end() -> None:
    assert calls_of(ended(output=[function("c1", "a")])) == [("c1", "a", False)]


def test_text_that_is_told_only_in_pieces() -> None:
    pieces = [{"type": "response.output_text.delta", "delta": piece} for piece in ("It ", "works.")]
    with ModelServer([raw_sse(*pieces, ended()), reply("ok")]) as server:
        talk = Talk(server, API)
        assert text_of(talk.ask("Why?").items) == "It works."
        talk.ask("And?")


def test_a_call_without_an_id_is_defective_and_answerable() -> None:
    item = function("", "a")
    del item["call_id"]
    assert calls_of(done(item, 0), ended()) == [("call", "a", True)]


def test_an_item_that_is_incomplete_makes_the_response_incomplete() -> None:
    # llama.cpp says `completed` where it has cut.
    with ModelServer([raw_sse(done(function("c1", "a", status="incomplete"), 0), ended())]) as server:
        assert Talk(server, API).ask("Why?").finish is Finish.TRUNCATED


def test_a_call_that_was_cut_and_never_done_is_kept_to_be_answered() -> None:
    cut_call = function("c1", "a", status="incomplete", arguments='{"pa')
    end = ended("incomplete", [cut_call], incomplete_details={"reason": "max_output_tokens"})
    with ModelServer([raw_sse(end), reply("ok")]) as server:
        talk = Talk(server, API)
        inference = talk.ask("Why?")
        assert (inference.finish, inference.finish_word) == (Finish.TRUNCATED, "max_output_tokens")
        talk.answer(error=ErrorKind.CANCELLED)
        talk.infer()


def test_a_failure_that_may_pass_is_tried_again_and_one_that_may_not_is_the_outcome() -> None:
    passing = ended("failed", error={"code": "server_error", "message": "sorry"})
    lasting = ended("failed", error={"code": "invalid_prompt", "message": "The prompt breaks the rules."})
    with ModelServer([raw_sse(passing), raw_sse(lasting)]) as server:
        talk = Talk(server, API)
        inference = talk.ask("Why?")
    assert [n.reason for n in talk.notices] == ["sorry"]
    assert inference.finish is Finish.FAILED
    assert (inference.finish_word, inference.detail) == ("invalid_prompt", "The prompt breaks the rules.")


def test_reasoning_that_led_to_nothing_is_not_sent_again() -> None:
    with ModelServer([reply(thought("hm"), finish="length"), reply("ok")]) as server:
        talk = Talk(server, API)
        assert talk.ask("Why?").finish is Finish.TRUNCATED
        talk.ask("Shorter.")
    assert [i["type"] for i in server.requests[1].items] == ["message", "message"]


def test_another_model_gets_neither_the_reasoning_nor_the_ids_that_need_it() -> None:
    with ModelServer([LOOK, reply("ok")], prefix="free") as server:
        talk = Talk(server, API)
        talk.ask("Why?")
        talk.answer()
        talk.switch(server, API, model="m-2")
        talk.infer()
    items = server.requests[1].items
    assert [(i["type"], "id" in i) for i in items[1:3]] == [("message", False), ("function_call", False)]
    assert items[1]["phase"] == "commentary"


def test_a_call_that_lost_its_reasoning_loses_its_id() -> None:
    with ModelServer([LOOK, reply("ok")], prefix="free") as server:
        talk = Talk(server, API)
        talk.ask("Why?")
        talk.answer()
        talk.history = [item for item in talk.history if not isinstance(item, Reasoning)]
        talk.infer()
    assert not any("id" in item for item in server.requests[1].items)


def test_reasoning_that_lost_its_call_is_not_sent() -> None:
    with ModelServer(
        [reply(thought("hm"), call("read_file", {"path": "a"}, "c1")), reply("ok")], prefix="free"
    ) as server:
        talk = Talk(server, API)
        talk.ask("Why?")
        talk.history = [item for item in talk.history if not isinstance(item, ToolCall)]
        talk.ask("And?")


def test_reasoning_that_the_server_can_no_longer_read_is_given_up_for_good() -> None:
    unreadable = status(
        400, body={"error": {"message": "could not be verified", "code": "invalid_encrypted_content"}}
    )
    with ModelServer([LOOK, unreadable, reply("One."), LOOK, reply("Two.")], prefix="free") as server:
        talk = Talk(server, API)
        assert talk.turn("first") == "One."
        talk.history.append(UserMessage("second"))
        talk.infer()
        calls = [i for i in talk.history if isinstance(i, ToolCall)]
        talk.history.append(ToolOutput(calls[-1].call_id, "x"))
        talk.infer()
    reasoning = [[i["type"] for i in r.items].count("reasoning") for r in server.requests]
    assert reasoning == [0, 1, 0, 0, 1]


@pytest.mark.parametrize(
    "words", ["Encrypted content is not supported with this model.", "Unknown parameter: 'include'."]
)
def test_a_model_without_encrypted_reasoning_is_not_asked_for_it_again(words: str) -> None:
    def rule(api: str, body: Json) -> Rejection | None:
        return Rejection(words, None, "include") if "include" in body else None

    with ModelServer([reply("1"), reply("2")], rules=[rule], rejections="allow") as server:
        talk = Talk(server, API)
        talk.ask("a")
        talk.ask("b")
    assert len(server.rejected) == 1


def test_unsealed_reasoning_is_only_sent_back_where_it_can_be_read() -> None:
    sealed_nowhere = {"type": "reasoning", "id": "rs_1", "summary": [], "content": []}
    open_text = {**sealed_nowhere, "id": "rs_2", "content": [{"type": "reasoning_text", "text": "hm"}]}
    for item, kept in ((sealed_nowhere, []), (open_text, [open_text])):
        events = [done(item, 0), done(function("c1", "a"), 1), ended()]
        with ModelServer([raw_sse(*events)]) as server, ModelServer([reply("x")], rejections="allow") as lax:
            talk = Talk(server, API)
            talk.ask("Why?")
            talk.answer()
            talk.switch(lax, API)
            try:
                talk.infer()
            except ModelError:
                assert kept  # the strict rules want every reasoning sealed
            assert [i for i in lax.requests[0].items if i["type"] == "reasoning"] == kept


# The server keeps the conversation -------------------------------------------------------------------------


def test_with_state_on_the_server_only_what_is_new_is_sent() -> None:
    script: list[Scripted] = [LOOK, lambda r: reply(f"It says {r.outputs['c1']}"), reply("Two.")]
    with ModelServer(script) as server:
        talk = Talk(server, API, state="server")
        talk.ask("first")
        talk.answer("CODE")
        assert text_of(talk.infer().items) == "It says CODE"
        assert text_of(talk.ask("second").items) == "Two."
    assert [len(r.items) for r in server.requests] == [1, 1, 1]
    assert [bool(r.body.get("previous_response_id")) for r in server.requests] == [False, True, True]
    assert all(r.body["store"] and r.body["instructions"] == "Be brief." for r in server.requests)
    assert all(r.tool_names == ["read_file", "run_command"] for r in server.requests)


def test_a_call_that_the_server_knows_by_another_id_is_sent_again_with_its_output() -> None:
    long = "x" * 90
    look = reply(call("read_file", {"path": "a", "start_line": None}, long))
    with ModelServer([look, reply("One."), reply("Two.")]) as server:
        talk = Talk(server, API, state="server")
        assert talk.turn("first") == "One."
        talk.ask("second")
    assert [bool(r.body.get("previous_response_id")) for r in server.requests] == [False, False, True]


def test_a_server_that_forgot_is_sent_everything() -> None:
    with ModelServer([LOOK, reply("One."), reply("Two."), reply("Three.")], rejections="allow") as server:
        talk = Talk(server, API, state="server")
        talk.turn("first")
        server.forget_responses()
        assert text_of(talk.ask("second").items) == "Two."
        assert text_of(talk.ask("third").items) == "Three."
    assert server.rejected == [
        f"Previous response with id '{server.requests[2].body['previous_response_id']}' not found."
    ]
    assert [len(r.items) for r in server.requests] == [1, 1, 1, 7, 1]
    assert talk.waits == []


def test_a_server_that_never_keeps_anything_is_asked_only_once() -> None:
    def rule(api: str, body: Json) -> Rejection | None:
        given = "previous_response_id" in body
        return Rejection("llama.cpp does not support 'previous_response_id'.") if given else None

    with ModelServer([reply("1"), reply("2"), reply("3")], rules=[rule], rejections="allow") as server:
        talk = Talk(server, API, state="server")
        for question in ("a", "b", "c"):
            talk.ask(question)
    assert len(server.rejected) == 1


def test_a_conversation_that_was_shortened_is_sent_as_it_is_now() -> None:
    with ModelServer([LOOK, reply("One."), reply("Two.")], prefix="compacted") as server:
        talk = Talk(server, API, state="server")
        talk.turn("first")
        talk.history = [
            ToolOutput("c1", "(cleared)") if isinstance(item, ToolOutput) else item for item in talk.history
        ]
        talk.ask("second")
    assert "previous_response_id" not in server.requests[2].body
    assert server.requests[2].outputs == {"c1": "(cleared)"}


def test_what_was_interrupted_leaves_the_server_where_it_was() -> None:
    with ModelServer([reply("1"), status(500), status(400, body={"error": {"message": "no"}}), reply("2")]) as server:
        talk = Talk(server, API, state="server")
        talk.ask("a")
        with pytest.raises(ModelError):
            talk.ask("b")
        talk.ask("c")
    assert [i["content"] for i in server.requests[-1].items] == ["b", "c"]
