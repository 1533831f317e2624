"""Three hundred rounds over a real socket, to a server with a window of 32,000 tokens."""

from __future__ import annotations

import statistics
import time
from functools import partial
from itertools import count, pairwise
from pathlib import Path
from typing import Any, Literal

import pytest

from codeagent.agent.limits import Bounds
from codeagent.conversation import ToolCall
from codeagent.providers.open import open_provider
from codeagent.session.history import rebuild
from codeagent.session.log import Log
from codeagent.session.resumption import read_history
from codeagent.session.retype import retype
from codeagent.session.store import EVENTS, sessions_dir
from codeagent.settings import ProviderSettings
from tests.model_memory import Rejection
from tests.model_script import Entry, Received, call, reply, text, thought
from tests.model_server import ModelServer
from tests.session.driver import resume, start

Api = Literal["responses", "chat", "messages"]


def tokens(body: dict[str, Any]) -> int:
    return len(str(body)) // 4


def too_long(_api: str, body: dict[str, Any], window: int) -> Rejection | None:
    if tokens(body) <= window:
        return None
    return Rejection("Your input exceeds the context window of this model.", "context_length_exceeded")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("api", "state", "compacts", "rounds", "window"),
    [
        ("responses", "client", True, 300, 32_000),
        ("responses", "client", False, 150, 16_000),
        ("responses", "server", True, 150, 16_000),
        ("chat", "client", False, 150, 16_000),
        ("messages", "client", False, 150, 16_000),
    ],
)
def test_many_rounds_stay_within_the_window_and_cost_the_same(
    tmp_path: Path, api: Api, state: Literal["client", "server"], compacts: bool, rounds: int, window: int
) -> None:
    """`compacts`: whether the API makes something of rounds that have to go."""
    numbers = count(1)

    spent: list[float] = []  # processor time, which other programs on the machine do not lengthen

    def answer(received: Received) -> Entry:
        number = next(numbers)
        spent.append(time.process_time())
        usage = (tokens(received.body), 0, 50)
        if number > rounds:
            return reply(text("because"), usage=usage)
        name = "look_long" if number % 3 else "look"
        return reply(thought("hm"), call(name, {"n": number}, call_id=f"call_{number}"), usage=usage)

    with ModelServer(
        answer, prefix="compacted", rules=[partial(too_long, window=window)], compacts=compacts
    ) as server:
        url = server.root if api == "messages" else server.url
        settings = ProviderSettings(
            "scripted",
            api,
            model="model",
            base_url=url,
            api_key="key",
            context_window=window,
            max_output_tokens=1_000,
            state=state,
        )
        with open_provider(settings) as provider:
            ending = start(tmp_path, provider, bounds=Bounds(rounds=rounds + 1))
            assert ending.text == "because"
            (folder,) = sessions_dir(tmp_path).iterdir()
            records = list(Log(folder / EVENTS))
            compactions = [record for record in records if record["type"] == "compacted"]
            # The prompt cache holds everywhere else. A server that keeps the conversation is sent whole ones alone
            # at the start, as the prefix of the next, and after each compaction.
            chained = state == "server"
            assert server.prefix_changes == len(compactions) - chained
            whole = [each for each in server.requests if "previous_response_id" not in each.body]
            assert len(whole) == (len(compactions) + 1 if chained else len(server.requests))
            made = [record["compaction"] for record in compactions if record["summary"] is not None]
            assert all((each is not None) == compacts for each in made) and len(made) >= 2
            assert 3 <= len(compactions) <= 60
            assert compactions[-1]["summarised_rounds"] > rounds // 3
            # The log keeps what is no longer sent.
            history = rebuild(records, retype)
            assert sum(isinstance(item, ToolCall) for item in history.items) == rounds

            overhead = [later - earlier for earlier, later in pairwise(spent)]
            assert statistics.median(overhead[-50:]) < 2 * statistics.median(overhead[5:55]) + 0.002

            # A later process goes on with the shortened view, the same to the byte, and not with the whole.
            last = whole[-1].items
            resume(folder, provider, "and now?")
            resumed = server.requests[-1].items
            assert resumed[: len(last)] == last
            assert chained or len(resumed) <= len(last) + 2
            assert read_history(folder)[0].outcome == "answered"
