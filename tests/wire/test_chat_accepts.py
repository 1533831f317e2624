"""What servers of Chat Completions accept, and what is learned from their refusals."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from typing import Any

import pytest

from codeagent.conversation import UserMessage, text_of
from codeagent.errors import ModelError
from tests.model_script import Scripted
from tests.model_server import ModelServer, Rejection, call, reply, status
from tests.wire.talk import Talk

Json = dict[str, Any]


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
