"""Whatever a model answers, fails at, or is interrupted in, the next request is one that its API accepts."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any, Literal

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codeagent.agent.limits import Bounds
from codeagent.conversation import ToolCall, ToolOutput
from codeagent.providers.open import open_provider
from codeagent.session.resumption import read_history
from codeagent.session.store import sessions_dir
from codeagent.settings import ProviderSettings
from tests.model_script import Scripted, call, cut, raw_sse, refusal, reply, status, text, thought
from tests.model_server import ModelServer
from tests.session.driver import resume, start

Api = Literal["responses", "chat", "messages"]

arguments = st.sampled_from([{"n": 1}, {"n": "one"}, {}, "[]", "null", '{"n": 1', '{"n":1}{"n":2}', ""])
names = st.sampled_from(["look", "act", "stop", "missing", "Look", ""])
ids = st.sampled_from([None, "a", "b", "call_0", "toolu:1/x", "x" * 90])
calls = st.builds(lambda name, given, call_id: call(name, given, call_id=call_id), names, arguments, ids)
parts = st.lists(
    st.one_of(
        calls, calls, st.just(thought("hm")), st.sampled_from(["so far", "", " ", "NEEDS INPUT: what?"]).map(text)
    ),
    max_size=4,
)
finishes = st.sampled_from([None, None, None, "length", "content_filter", "failed", "pause", "refusal", "context"])
replies = st.builds(lambda made, finish: reply(*made, finish=finish), parts, finishes)
entries = st.one_of(
    replies,
    replies,
    st.just(status(500)),
    st.just(status(400, body={"error": {"message": "no"}})),
    st.just(reply(refusal("no"))),
    st.builds(lambda made, after: cut(reply(*made), after=after), parts, st.integers(0, 6)),
)


@pytest.mark.slow
@pytest.mark.parametrize("api", ["responses", "chat", "messages"])
@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    script=st.lists(entries, min_size=1, max_size=5),
    goes_on=st.booleans(),
    window=st.sampled_from([None, None, 700]),
    compacts=st.sampled_from([True, False, status(500), raw_sse(abort=True)]),
    state=st.sampled_from(["client", "server"]),
)
def test_any_sequence_of_responses_failures_and_interruptions_can_be_gone_on_with(
    api: Api, script: list[Any], goes_on: bool, window: int | None, compacts: Any, state: Literal["client", "server"]
) -> None:
    """Also where rounds have to go after each of them, and the API makes something of them or fails to."""
    looks = [reply(thought("hm"), call("look", {"n": n})) for n in range(4 if window else 0)]
    left: list[Scripted] = [*looks, *script]
    with (
        tempfile.TemporaryDirectory() as folder,
        ModelServer(
            lambda _: left.pop(0) if left else reply(text("fine")),  # type: ignore[arg-type, return-value]
            prefix="compacted" if window else "append_only",
            compacts=compacts,
        ) as server,
    ):
        url = server.root if api == "messages" else server.url
        made = ProviderSettings(
            "scripted",
            api,
            model="m",
            base_url=url,
            api_key="key",
            retry_seconds=0.01,
            context_window=window,
            state=state,
        )
        with open_provider(made) as provider:
            start(Path(folder), provider, bounds=Bounds(rounds=4 + len(looks)))
            (session,) = sessions_dir(Path(folder)).iterdir()
            left.clear()
            ending = resume(session, provider, None if goes_on else "and now?")
        assert ending.text == "fine"
        history, damaged = read_history(session)
        assert (damaged, history.interrupted_calls, history.orphan_outputs) == (0, (), 0)
        made_calls = [item.call_id for item in history.items if isinstance(item, ToolCall)]
        assert made_calls == [item.call_id for item in history.items if isinstance(item, ToolOutput)]
        assert len(set(made_calls)) == len(made_calls)
