"""How servers of Chat Completions stream: calls in pieces, counts, lists of parts, an end in the middle."""

from __future__ import annotations

import json
from typing import Any

import pytest

from codeagent.conversation import AssistantMessage, ToolCall, UserMessage, text_of
from codeagent.errors import ModelError
from codeagent.inference import Finish, Usage
from tests.model_script import RawSse
from tests.model_server import ModelServer, call, raw_sse, reply, status
from tests.wire.chat_chunks import chunk, stream, tool
from tests.wire.talk import Talk

Json = dict[str, Any]


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
