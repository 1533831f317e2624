"""Whatever JSON a server answers with, there is an inference or an error for the user, never anything else."""

from __future__ import annotations

import contextlib
import json
import re
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.conversation import UserMessage
from codeagent.errors import ModelError
from tests.model_forms import frames
from tests.model_memory import Memory
from tests.model_script import Received
from tests.model_server import ModelServer, call, raw_sse, refusal, reply, text, thought
from tests.wire.talk import APIS, Talk

WHOLE = reply(thought("hm"), text("So."), refusal("No."), call("read_file", {"path": "a"}, "c1"))
BODY = {"model": "m", "input": [], "messages": [], "stream_options": {"include_usage": True}}
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False) | st.sampled_from(["", "x", "error"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["type", "id", "text"]), inner, max_size=3)
    ),
    max_leaves=5,
)


def events_of(api: str, memory: Memory) -> list[Any]:
    lines = b"".join(frames(api, BODY, WHOLE, memory)).decode().split("\n")
    return [json.loads(line[6:]) for line in lines if line.startswith("data: {")]


def places(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in a JSON value at which something else could stand."""
    inner = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [path, *(place for key, each in inner for place in places(each, (*path, key)))]


def replaced(value: Any, path: tuple[Any, ...], other: Any) -> Any:
    if not path:
        return other
    copy = dict(value) if isinstance(value, dict) else list(value)
    copy[path[0]] = replaced(copy[path[0]], path[1:], other)
    return copy


PLACES = {api: places(events_of(api, Memory()))[1:] for api in APIS}
CHANGES = st.sampled_from(APIS).flatmap(lambda api: st.tuples(st.just(api), st.sampled_from(PLACES[api]), ANY_JSON))


@pytest.fixture(scope="module")
def answers() -> Any:
    """One server and one provider an API for all examples: the next answer is put into the list."""
    queue: list[Any] = []

    def answer(_request: Received) -> Any:
        return queue.pop(0) if queue else reply("fine")

    # What goes back verbatim is as damaged as it came, and may be refused; a pair may never be.
    with ModelServer(answer, prefix="free", rejections="allow") as server:
        yield queue, {api: Talk(server, api, retry_seconds=0.0) for api in APIS}, server.memory
    pairs = "No tool|tool_call_id|tool_use_id|tool_result|[Dd]uplicate|unique"
    assert [words for words in server.rejected if re.search(pairs, words)] == []


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(CHANGES)
def test_any_field_may_be_of_any_kind(answers: Any, change: tuple[str, tuple[Any, ...], Any]) -> None:
    api, place, other = change
    queue, talks, memory = answers
    events = events_of(api, memory)
    queue[:] = [raw_sse(*replaced(events, place, other), *(["data: [DONE]\n\n"] if api == "chat" else []))]
    talk = talks[api]
    talk.history = [UserMessage("Why?")]
    try:
        talk.infer()
    except ModelError:
        return
    talk.answer()
    talk.history.append(UserMessage("And?"))
    queue.clear()
    with contextlib.suppress(ModelError):  # thinking whose seal is damaged cannot be mended
        talk.infer()
