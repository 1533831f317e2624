"""Items of a log that somebody has edited: what nobody could have written never keeps a session from going on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.conversation import Item
from codeagent.providers.chat_items import Form, Messages
from codeagent.providers.messages_items import MessageList
from codeagent.providers.open import open_provider
from codeagent.providers.responses_items import Input
from codeagent.session.history import rebuild
from codeagent.session.log import Log
from codeagent.session.retype import Retyping
from codeagent.session.store import EVENTS, sessions_dir
from codeagent.settings import ProviderSettings
from tests.model_forms import Reply
from tests.model_script import Received, call, reply, text, thought
from tests.model_server import ModelServer
from tests.session.driver import resume, start
from tests.wire.test_any_answer import ANY_JSON, places, replaced

APIS = ("responses", "chat", "messages")
FUNCTION = {"name": "look", "arguments": "{}"}
WRITTEN: dict[str, list[Any]] = {
    "responses": [
        {"type": "reasoning", "id": "r", "summary": [], "encrypted_content": "sealed"},
        {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]},
        {"type": "function_call", "call_id": "c1", **FUNCTION},
        {"type": "custom_tool_call", "call_id": "c2", "name": "look", "input": "{}"},
    ],
    "chat": [
        {
            "role": "assistant",
            "content": [{"type": "text", "text": "So."}],
            "reasoning_content": "hm",
            "tool_calls": [{"id": "c1", "type": "function", "function": FUNCTION}],
        }
    ],
    "messages": [
        {"type": "thinking", "thinking": "hm", "signature": "s"},
        {"type": "text", "text": "So."},
        {"type": "tool_use", "id": "c1", "name": "look", "input": {"n": 1}},
    ],
    "offline": [{"type": "message", "text": "So."}, {"type": "function_call", "call_id": "c1", **FUNCTION}],
    "of the future": [{"text": "So."}],
}
EDITS = st.sampled_from(sorted(WRITTEN)).flatmap(
    lambda api: st.tuples(st.just(api), st.sampled_from(places(WRITTEN[api])[1:]), ANY_JSON)
)


def encoded_everywhere(items: tuple[Item, ...]) -> None:
    """Every API can be sent the conversation."""
    Input("p", "m").encode(items, 0)
    Messages("p", "m", Form()).encode(items, 0)
    MessageList("p", "m").encode(items, 0)


@given(EDITS)
def test_whatever_stands_in_an_item_the_conversation_can_be_read_and_sent(
    edit: tuple[str, tuple[Any, ...], Any],
) -> None:
    api, place, other = edit
    raw = replaced(WRITTEN[api], place, other)
    response = {"type": "model_response", "turn": 1, "round": 1, "provider": "p", "model": "m", "items": raw}
    asked = {"type": "turn_started", "turn": 1, "round": 0, "message": "why?"}
    for known in ({"api": api}, {}):
        encoded_everywhere(rebuild([asked, {**response, **known}], Retyping()).items)


def test_what_stands_beside_an_unreadable_item_is_kept() -> None:
    retyping = Retyping()
    items = retyping(
        "responses", "p", "m", [None, 7, {"type": []}, *WRITTEN["responses"], {"type": "message", "content": [1]}]
    )
    assert [type(item).__name__ for item in items] == ["Reasoning", "AssistantMessage", "ToolCall", "ToolCall"]
    assert retyping.left_out == 4


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_session_goes_on_with_items_of_types_that_nobody_knows(api: str, tmp_path: Path) -> None:
    foreign = [
        None,
        7,
        {"type": "weird", "x": 1},
        {"type": ["list"]},
        {"type": "brand_new"},
        {"type": "message", "role": "x"},
    ]
    script = [reply(thought("hm"), call("look", {"n": 1}, "c1")), reply(text("So."))]

    def answer(_: Received) -> Reply:
        return script.pop(0) if script else reply(text("More."))

    with (
        ModelServer(answer, rejections="allow", prefix="free") as server,
        open_provider(settings(api, server)) as provider,
    ):
        start(tmp_path, provider)
        (folder,) = sessions_dir(tmp_path).iterdir()
        lines = [json.loads(line) for line in (folder / EVENTS).read_text().splitlines()]
        for line in lines:
            if line["type"] == "model_response":
                line["items"] = [*line["items"], *foreign] if api == "chat" else [*foreign, *line["items"]]
        (folder / EVENTS).write_text("".join(json.dumps(line) + "\n" for line in lines))
        ending = resume(folder, provider, "And?")
        again = resume(folder, provider, "And then?")
        requests = server.requests[2:]
    assert [(each.outcome, each.text) for each in (ending, again)] == [("answered", "More.")] * 2
    # Each type is learned once; what is sent of a response of Chat Completions has none.
    kinds = {"responses": ["weird", "brand_new"], "messages": ["weird", "brand_new", "message"], "chat": []}[api]
    assert len(requests) == 2 + len(kinds)
    events = list(Log(folder / EVENTS))
    assert [event["reason"].split(";")[0] for event in events if event["type"] == "retry"] == [
        f"the server does not take items of the type {kind}" for kind in kinds
    ]
    resumed = [event["unreadable_items"] for event in events if event["type"] == "session_resumed"]
    assert resumed == [6 if api == "responses" else 4] * 2


def settings(api: str, server: ModelServer) -> ProviderSettings:
    return ProviderSettings("scripted", api, model="m", base_url=server.url, api_key="key", retry_seconds=0.0)  # type: ignore[arg-type]
