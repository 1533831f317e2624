"""Whatever a server sends and however it fails, the conversation can be sent again, to it and to any other."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.conversation import Reasoning, ToolCall, UserMessage, unanswered
from codeagent.errors import ErrorKind, ModelError
from codeagent.inference import Finish
from tests.model_script import Scripted
from tests.model_server import ModelServer, call, cut, hang, raw_sse, refusal, reply, status, text, thought
from tests.wire.talk import APIS, Talk

TEXTS = st.sampled_from(["", " \n", "Because.", "é 😀 \ud83d", "x" * 300, '{"name": "read_file", "arguments": {}}'])
IDS = st.sampled_from([None, "c1", "c1", "functions.read_file:0", "0", "a" * 90, "tool u:1", "call_1_2"])
NAMES = st.sampled_from(["read_file", "run_command", "bash", "", "functions.read_file"])
THOUGHTS = st.sampled_from(["", "Hm.", "é 😀"])
ARGUMENTS = st.sampled_from(
    ['{"path": "a"}', "", "{}", "null", "[]", '{"pa', '{"a":1}{"a":1}', '{"x": 1e999}', '"\\ud83d"']
)
CALLS = st.builds(call, NAMES, ARGUMENTS, IDS)
PARTS = st.lists(
    st.one_of(st.builds(text, TEXTS), CALLS, CALLS, st.builds(thought, THOUGHTS), st.builds(refusal, TEXTS)),
    max_size=4,
)
FINISHES = st.sampled_from([None, None, None, "length", "content_filter", "failed", "pause", "context", "brand_new"])
REPLIES = st.builds(lambda parts, finish: reply(*parts, finish=finish), PARTS, FINISHES)
FAILURES = st.one_of(
    st.builds(cut, REPLIES, st.integers(0, 6), st.booleans()),
    st.sampled_from([status(429), status(500), status(529), raw_sse(), raw_sse(abort=True), hang(0.3)]),
    st.sampled_from([status(400, body={"error": {"message": "no"}}), status(402)]),
)
ENTRIES: st.SearchStrategy[Any] = st.one_of(REPLIES, REPLIES, REPLIES, FAILURES)
STEPS = st.lists(st.tuples(st.sampled_from(APIS), ENTRIES, st.booleans()), min_size=1, max_size=8)


@pytest.mark.slow
@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(STEPS)
def test_any_sequence_leaves_a_conversation_that_every_api_accepts(steps: list[tuple[str, Scripted, bool]]) -> None:
    # One server an API, all of them strict; each step asks one of them, which answers with the step's entry first.
    queue: list[Scripted] = []

    def next_entry(received: Any) -> Any:
        entry = queue.pop(0) if queue else reply("fine")
        return entry(received) if callable(entry) else entry

    with contextlib.ExitStack() as stack:
        # What is said to another API in between changes nothing of what this one was told.
        servers = {api: stack.enter_context(ModelServer(next_entry)) for api in APIS}
        talk = Talk(servers["responses"], "responses", idle_timeout_seconds=0.15)
        providers = {api: talk.opened(servers[api], api, name=api, idle_timeout_seconds=0.15) for api in APIS}
        talk.history.append(UserMessage("Why?"))
        for api, entry, user_speaks in steps:
            queue[:] = [entry]
            talk.provider = providers[api]
            _one_round(talk)
            if user_speaks:
                talk.history.append(UserMessage("Go on.", "program"))
        queue.clear()
        for api in APIS:
            talk.provider = providers[api]
            talk.history.append(UserMessage(f"And now {api}."))
            assert talk.infer().finish is Finish.COMPLETE
        for provider in providers.values():
            provider.close()
    ids = [item.call_id for item in talk.history if isinstance(item, ToolCall)]
    assert len(ids) == len(set(ids))


def _one_round(talk: Talk) -> None:
    before = len(talk.history)
    try:
        inference = talk.infer()
    except ModelError:
        assert len(talk.history) == before
        return
    if inference.finish is Finish.PAUSED and not unanswered(inference.items):
        return
    talk.answer("output", error=None if inference.finish is Finish.COMPLETE else ErrorKind.CANCELLED)
    if not isinstance(talk.history[-1], UserMessage):
        talk.history.append(UserMessage("Next."))


@pytest.mark.slow
@settings(max_examples=12, deadline=None)
@given(st.lists(st.tuples(st.sampled_from(APIS), PARTS), min_size=1, max_size=5))
def test_only_the_writer_of_reasoning_sees_it_again(turns: list[tuple[str, Any]]) -> None:
    with contextlib.ExitStack() as stack:
        servers = {
            api: stack.enter_context(
                ModelServer([reply(*p) for a, p in turns if a == api] + [reply("end")], prefix="free")
            )
            for api in APIS
        }
        talk = Talk(servers["responses"], "responses")
        for number, (api, _) in enumerate(turns):
            talk.switch(servers[api], api, name=api)
            talk.ask(f"question {number}")
            talk.answer()
        for api in APIS:
            talk.switch(servers[api], api, name=api)
            talk.history.append(UserMessage("end"))
            request = len(servers[api].requests)
            inference = talk.infer()
            sent = servers[api].requests[request].raw.decode()
            foreign = [i for i in talk.history if isinstance(i, Reasoning) and i.source.api != api]
            for item in foreign:
                seal = item.source.payload.get("encrypted_content") or item.source.payload.get("signature")
                assert seal is None or f'"{seal}"' not in sent
            assert inference.finish is Finish.COMPLETE
