"""What servers of Chat Completions differ in: on the way back, and in what they accept."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from codeagent.conversation import AssistantMessage, Reasoning, ToolCall, UserMessage, text_of
from codeagent.errors import ModelError
from codeagent.inference import Finish, Usage
from tests.model_script import RawSse, Scripted
from tests.model_server import ModelServer, Rejection, call, raw_sse, reply, status, thought
from tests.wire.talk import Talk

Json = dict[str, Any]


def chunk(delta: Json, finish: str | None = None, **more: Any) -> Json:
    return {"id": "x", "choices": [{"index": 0, "delta": delta, "finish_reason": finish}], **more}


def tool(arguments: Any, name: str | None = None, **more: Any) -> Json:
    function = {"arguments": arguments} | ({} if name is None else {"name": name})
    return {"tool_calls": [{**more, "type": "function", "function": function}]}


def stream(*chunks: Any, done: bool = True) -> RawSse:
    return raw_sse(*chunks, *(["data: [DONE]\n\n"] if done else []))


def calls_of(answer: RawSse) -> list[tuple[str, str]]:
    """The names and arguments of the calls in an answer, which must also be answerable."""
    with ModelServer([answer, reply("ok")]) as server:
        talk = Talk(server, "chat")
        inference = talk.ask("Why?")
        assert inference.finish is Finish.COMPLETE
        calls = [item for item in inference.items if isinstance(item, ToolCall)]
        assert [c.defect for c in calls] == [""] * len(calls)
        talk.answer(*(f"output {n}" for n in range(len(calls))))
        talk.infer()
        assert list(server.requests[1].outputs.values()) == [f"output {n}" for n in range(len(calls))]
    return [(c.name, c.arguments) for c in calls]


TWO = [("read_file", '{"path": "a"}'), ("run_command", '{"command": "ls"}')]
A, LS = '{"path": "a"}', '{"command": "ls"}'

STREAMS = {
    "fragments by index": stream(
        chunk(tool("", "read_file", index=0, id="a")),
        chunk(tool('{"path"', index=0)),
        chunk(tool(': "a"}', index=0)),
        chunk(tool("", "run_command", index=1, id="b")),
        chunk(tool(LS, index=1)),
        chunk({}, "tool_calls"),
    ),
    "interleaved": stream(
        chunk(tool('{"path"', "read_file", index=0, id="a")),
        chunk(tool('{"command"', "run_command", index=1, id="b")),
        chunk(tool(': "a"}', index=0)),
        chunk(tool(': "ls"}', index=1)),
        chunk({}, "tool_calls"),
    ),
    "every index is 0": stream(
        chunk(tool(A, "read_file", index=0, id="a")), chunk(tool(LS, "run_command", index=0, id="b"), "tool_calls")
    ),
    "every index is 0 and there are no ids": stream(
        chunk(tool(A, "read_file", index=0)), chunk(tool(LS, "run_command", index=0), "tool_calls")
    ),
    "no index": stream(chunk(tool(A, "read_file", id="a")), chunk(tool(LS, "run_command", id="b"), "tool_calls")),
    "no index and no id": stream(chunk(tool(A, "read_file")), chunk(tool(LS, "run_command"), "stop")),
    "a null index and fragments": stream(
        chunk(tool('{"path"', "read_file", index=None, id="a")),
        chunk(tool(': "a"}', index=None)),
        chunk(tool(LS, "run_command", index=None, id="b")),
        chunk({}, "tool_calls"),
    ),
    "index from 1, after a text block": stream(
        chunk({"content": "Let me look."}),
        chunk(tool("", "read_file", index=1, id="a")),
        chunk(tool(A, index=1)),
        chunk(tool(LS, "run_command", index=2, id="b")),
        chunk({}, "tool_calls"),
    ),
    "fragments under another index": stream(
        chunk(tool('{"pa', "read_file", index=0, id="a")),
        chunk(tool('th": "a"}', index=1)),
        chunk(tool(LS, "run_command", index=2, id="b")),
        chunk({}, "tool_calls"),
    ),
    "name and id in every fragment": stream(
        chunk(tool('{"path"', "read_file", index=0, id="a")),
        chunk(tool(': "a"}', "read_file", index=0, id="a")),
        chunk(tool('{"command"', "run_command", index=1, id="b")),
        chunk(tool(': "ls"}', "run_command", index=1, id="b")),
        chunk({}, "tool_calls"),
    ),
    "empty names and other ids later": stream(
        chunk(tool('{"path"', "read_file", index=0, id="a")),
        chunk(tool(': "a"}', "", index=0, id="z")),
        chunk(tool(LS, "run_command", index=1, id="b")),
        chunk({}, "tool_calls"),
    ),
    "a name in pieces": stream(
        chunk(tool("", "read_", index=0, id="a")),
        chunk(tool("", "file", index=0)),
        chunk(tool(A, index=0)),
        chunk(tool(LS, "run_command", index=1, id="b"), "tool_calls"),
    ),
    "both in one delta, finished with stop": stream(
        chunk(
            {
                "role": "assistant",
                "content": None,
                "tool_calls": [
                    {"index": 0, "id": "a", "function": {"name": "read_file", "arguments": A}},
                    {"index": 1, "id": "b", "function": {"name": "run_command", "arguments": LS}},
                ],
            }
        ),
        chunk({}, "stop"),
    ),
    "finish in every later chunk, no DONE": stream(
        chunk(tool(A, "read_file", index=0, id="a")),
        chunk(tool(LS, "run_command", index=1, id="b"), "tool_calls"),
        chunk({"role": "assistant", "content": ""}, "tool_calls", usage={"prompt_tokens": 5, "completion_tokens": 2}),
        done=False,
    ),
    "no finish reason, only DONE": stream(
        chunk(tool(A, "read_file", index=0, id="a")), chunk(tool(LS, "run_command", index=1, id="b"))
    ),
    "no finish reason and no DONE, but a count": stream(
        chunk(tool(A, "read_file", index=0, id="a")),
        chunk(tool(LS, "run_command", index=1, id="b")),
        {"choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 2}},
        done=False,
    ),
    "an empty finish reason": stream(
        chunk(tool(A, "read_file", index=0, id="a"), ""), chunk(tool(LS, "run_command", index=1, id="b"), "")
    ),
    "arguments as an object": stream(
        chunk(tool({"path": "a"}, "read_file", index=0, id="a")),
        chunk(tool({"command": "ls"}, "run_command", index=1, id="b"), "tool_calls"),
    ),
    "filter results first, comments between": stream(
        {"id": "", "choices": [], "prompt_filter_results": [{"prompt_index": 0}]},
        ": OPENROUTER PROCESSING\n\n",
        chunk(tool(A, "read_file", index=0, id="a")),
        ": OPENROUTER PROCESSING\n\n",
        chunk(tool(LS, "run_command", index=1, id="b"), "tool_calls"),
    ),
    "carriage returns, an event without data, no last blank line": raw_sse(
        "event: ping\r\n\r\n",
        f"data: {json.dumps(chunk(tool(A, 'read_file', index=0, id='a')))}\r\n\r\ndata:\r\n\r\n",
        f"data: {json.dumps(chunk(tool(LS, 'run_command', index=1, id='b'), 'tool_calls'))}\n",
    ),
}


@pytest.mark.parametrize("name", STREAMS)
def test_calls_are_put_together_however_they_are_streamed(name: str) -> None:
    assert calls_of(STREAMS[name]) == TWO


@pytest.mark.parametrize(("arguments", "expected"), [(None, ""), ("", ""), ("{}", "{}")])
def test_a_call_without_arguments(arguments: str | None, expected: str) -> None:
    assert calls_of(stream(chunk(tool(arguments, "list", index=0, id="a"), "tool_calls"))) == [("list", expected)]


def test_the_form_before_tools_is_a_call() -> None:
    old = stream(
        chunk({"function_call": {"name": "read_file", "arguments": '{"path"'}}),
        chunk({"function_call": {"arguments": ': "a"}'}}, None),
        chunk({}, "function_call"),
    )
    assert calls_of(old) == [("read_file", A)]


@pytest.mark.parametrize(
    ("usage", "expected"),
    [
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_tokens_details": {"cached_tokens": 4}}, Usage(9, 4, 2)),
        ({"prompt_tokens": 9, "completion_tokens": 2, "prompt_cache_hit_tokens": 4}, Usage(9, 4, 2)),
        ({"prompt_tokens": 9, "completion_tokens": None, "prompt_tokens_details": None}, Usage(9, 0, 0)),
        (None, Usage()),
    ],
)
def test_tokens_are_counted_as_each_server_says_them(usage: Json | None, expected: Usage) -> None:
    for answer in (
        stream(chunk({"content": "x"}), chunk({}, "stop", usage=usage)),
        stream(chunk({"content": "x"}), chunk({}, "stop"), {"choices": [], "usage": usage}),
        stream(chunk({"content": "x"}), chunk({}, "stop", x_groq={"usage": usage})),
    ):
        with ModelServer([answer]) as server:
            assert Talk(server, "chat").ask("Why?").usage == expected


def test_content_may_be_a_list_of_parts() -> None:
    thinking = {"type": "thinking", "thinking": [{"type": "text", "text": "hm"}]}
    answer = stream(
        chunk({"content": [thinking]}),
        chunk({"content": [{"type": "text", "text": "Be"}]}),
        chunk({"content": "cause."}, "stop"),
    )
    with ModelServer([answer, reply("ok")]) as server:
        talk = Talk(server, "chat")
        first = talk.ask("Why?")
        assert text_of(first.items) == "Because."
        assert first.raw == ({"role": "assistant", "content": [thinking, {"type": "text", "text": "Because."}]},)
        talk.ask("And?")
    assert server.requests[1].items[2] == {"role": "assistant", "content": "Because."}


def test_a_response_thrown_away_by_the_server_s_own_check_is_asked_for_again_twice() -> None:
    thrown = stream(
        chunk({"role": "assistant"}),
        {"error": {"message": "Failed to call a function.", "code": "tool_use_failed", "failed_generation": "<f"}},
        done=False,
    )
    with ModelServer(
        [thrown, status(400, body={"error": {"message": "x", "code": "tool_use_failed"}}), reply("ok")]
    ) as s:
        assert text_of(Talk(s, "chat").ask("Why?").items) == "ok"
    with ModelServer([thrown] * 3) as server, pytest.raises(ModelError, match="Failed to call a function"):
        Talk(server, "chat").ask("Why?")


@pytest.mark.parametrize("word", ["error", "insufficient_system_resource", "abort"])
def test_a_server_that_gives_up_in_the_middle_is_asked_again(word: str) -> None:
    with ModelServer([stream(chunk({"content": "Half"}), chunk({}, word)), reply("Whole.")]) as server:
        talk = Talk(server, "chat")
        assert text_of(talk.ask("Why?").items) == "Whole."
    assert len(talk.notices) == 1


# Reasoning -------------------------------------------------------------------------------------------------


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
                        "function": {"name": "read_file", "arguments": A},
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


# What servers accept ---------------------------------------------------------------------------------------

Rule = Callable[[str, Json], Rejection | None]


def refuses(name: str, message: str, param: str | None = None, code: int = 400) -> Rule:
    def rule(api: str, body: Json) -> Rejection | None:
        return Rejection(message, None, param, code) if name in json.dumps(body) else None

    return rule


@pytest.mark.parametrize(
    "rule",
    [
        refuses('"stream_options"', "Unknown parameter: 'stream_options'.", "stream_options"),
        refuses('"stream_options"', "stream_options: Extra inputs are not permitted", code=422),
        refuses('"strict"', "Unrecognized request argument supplied: strict"),
        refuses('"strict"', "property 'strict' is unsupported", "tools[0].function.strict"),
        refuses('"max_completion_tokens"', "max_completion_tokens is not supported; use max_tokens"),
        refuses(
            '"max_completion_tokens"', '{"type":"extra_forbidden","loc":["body","max_completion_tokens"]}', code=422
        ),
        refuses('"reasoning_effort"', "Unsupported parameter: reasoning_effort", "reasoning_effort"),
    ],
)
def test_a_refused_parameter_is_left_out_from_then_on(rule: Rule) -> None:
    script = [reply("1"), reply("2"), reply("3")]
    with ModelServer(script, rules=[rule], rejections="allow", prefix="free") as server:
        talk = Talk(server, "chat", max_output_tokens=500, reasoning_effort="high")
        for question in ("a", "b", "c"):
            talk.ask(question)
    assert len(server.rejected) == 1
    assert len(talk.notices) == 1
    assert (talk.notices[0].delay_ms, talk.waits) == (0, [])


def test_a_limit_that_is_only_known_by_its_old_name() -> None:
    rule = refuses('"max_completion_tokens"', "Unknown field max_completion_tokens", "max_completion_tokens")
    with ModelServer([reply("1")], rules=[rule], rejections="allow") as server:
        Talk(server, "chat", max_output_tokens=500).ask("a")
    assert server.requests[-1].body["max_tokens"] == 500
    assert "max_completion_tokens" not in server.requests[-1].body


def test_a_parameter_known_from_the_options_is_never_sent() -> None:
    with ModelServer([reply("1")], rules=[refuses('"strict"', "no strict")]) as server:
        Talk(server, "chat", options={"without": ["strict", "stream_options"], "body": {"seed": 7}}).ask("a")
    assert sorted(server.requests[0].body) == ["messages", "model", "seed", "stream", "tools"]


def test_a_refusal_that_teaches_nothing_is_told_once() -> None:
    refused = status(400, body={"error": {"message": "Something about messages is wrong"}})
    with ModelServer([refused]) as server, pytest.raises(ModelError, match="refused the request: Something about"):
        Talk(server, "chat").ask("a")


def wants_content(kind: str) -> Rule:
    def rule(api: str, body: Json) -> Rejection | None:
        for message in body["messages"]:
            if message["role"] == "assistant" and message.get("tool_calls"):
                if kind == "text" and message["content"] is None:
                    return Rejection("messages[2].content: expected a string, got null")
                if kind == "null" and message["content"] == "":
                    return Rejection("messages: content must be non-empty")
        return None

    return rule


@pytest.mark.parametrize(("kind", "options"), [("text", {}), ("null", {}), ("null", {"empty_content": "empty"})])
def test_the_content_beside_calls_is_null_or_empty_as_the_server_wants_it(kind: str, options: Json) -> None:
    script = [
        reply(call("read_file", {"path": "a"}, "c1")),
        reply(call("read_file", {"path": "b"}, "c2")),
        reply("ok"),
    ]
    with ModelServer(script, rules=[wants_content(kind)], rejections="allow", prefix="free") as server:
        assert Talk(server, "chat", options=options).turn("a") == "ok"
    assert len(server.rejected) == (0 if kind == "null" and not options else 1)


def mistral(api: str, body: Json) -> Rejection | None:
    roles = [message["role"] for message in body["messages"]]
    if ("tool", "user") in itertools.pairwise(roles):
        return Rejection("Unexpected role 'user' after role 'tool'")
    ids = [c["id"] for m in body["messages"] for c in m.get("tool_calls") or ()]
    if not all(len(i) == 9 and i.isalnum() for i in ids):
        return Rejection("Tool call id was call_1 but must be a-z, A-Z, 0-9, with a length of 9.")
    return None


@pytest.mark.parametrize("options", [{}, {"call_ids": "nine"}])
def test_ids_and_roles_as_mistral_wants_them(options: Json) -> None:
    script: list[Scripted] = [
        reply(call("read_file", {"path": "a"}, "call_1"), call("read_file", {"path": "b"}, "call_2")),
        lambda r: reply(" ".join(r.outputs.values())),
    ]
    with ModelServer(script, rules=[mistral], rejections="allow", prefix="free") as server:
        talk = Talk(server, "chat", options=options)
        talk.ask("Why?")
        talk.answer("A", "B")
        talk.history.append(UserMessage("a.py changed", "program"))
        assert text_of(talk.infer().items) == "A B"
    assert len(server.rejected) == (1 if options else 2)


def test_nothing_that_is_not_needed_is_sent_to_an_unknown_server() -> None:
    with ModelServer([reply("1")]) as server:
        Talk(server, "chat").ask("a")
    assert sorted(server.requests[0].body) == ["messages", "model", "stream", "stream_options", "tools"]


def test_a_note_between_a_call_and_its_output_waits_for_the_output() -> None:
    with ModelServer([reply(call("read_file", {"path": "a"}, "c1")), reply("ok")]) as server:
        talk = Talk(server, "chat")
        talk.ask("Why?")
        talk.history.append(UserMessage("stop after this", "program"))
        talk.answer("A")
        talk.infer()
    assert [m["role"] for m in server.requests[1].items] == ["system", "user", "assistant", "tool", "user"]


def test_what_a_model_said_before_its_calls_stays_beside_them() -> None:
    script = [reply("Let me look.", call("read_file", {"path": "a"}, "c1")), reply("ok")]
    with ModelServer(script) as server:
        talk = Talk(server, "chat")
        first = talk.ask("Why?")
        assert [type(i) for i in first.items] == [AssistantMessage, ToolCall]
        talk.answer()
        talk.infer()
    assert server.requests[1].items[2]["content"] == "Let me look."


def test_thinking_that_a_server_left_in_the_content_is_no_part_of_the_answer() -> None:
    with ModelServer([reply("<think>\nhm <b>\n</think>\n\nBecause."), reply("ok")]) as server:
        talk = Talk(server, "chat")
        first = talk.ask("Why?")
        assert text_of(first.items) == "Because."
        assert "hm" in first.raw[0]["content"]
        talk.ask("And?")
    assert server.requests[1].items[2]["content"] == "Because."
