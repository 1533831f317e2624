"""A stored session goes on with another API, in all six directions, from whatever its log ends with."""

from __future__ import annotations

from itertools import permutations
from pathlib import Path

import pytest

from codeagent.conversation import AssistantMessage, Item, Reasoning, Source, ToolCall, ToolOutput, UserMessage
from codeagent.inference import Request
from codeagent.providers.adapter import Adapter
from codeagent.providers.open import open_provider
from codeagent.session.resumption import read_history
from codeagent.session.store import EVENTS, sessions_dir
from codeagent.settings import ProviderSettings
from tests.model_script import Scripted, call, reply, text, thought
from tests.model_server import ModelServer
from tests.session.driver import TOOLS, resume, start

APIS = ("responses", "chat", "messages")
SWITCHES = list(permutations(APIS, 2))
IDS = ("call_0", "functions.look:0", "toolu:1/ä", "x" * 90, "0", "a_b-c")

SCRIPT: list[Scripted] = [
    reply(thought("hm"), text("Let me look."), *[call("look", {"n": n}, call_id=i) for n, i in enumerate(IDS)]),
    reply(
        thought("again"), call("act", {"n": 9}, call_id="call_0"), call("Look me!", "[1", call_id="functions.look:0")
    ),
    reply(thought("so"), text("Because.")),
]


def opened(server: ModelServer, api: str) -> Adapter:
    return open_provider(ProviderSettings(api, api, model=f"m-{api}", base_url=server.url, api_key="key"))  # type: ignore[arg-type]


def cut(folder: Path, to: Path, lines: int) -> None:
    to.mkdir()
    kept = (folder / EVENTS).read_bytes().splitlines(keepends=True)[:lines]
    (to / EVENTS).write_bytes(b"".join(kept))


@pytest.mark.parametrize(("before", "after"), SWITCHES)
def test_a_session_goes_on_with_another_api_and_then_with_its_own_again(
    tmp_path: Path, before: str, after: str
) -> None:
    second = [reply(thought("other"), call("look", {"n": 1}, call_id="call_0")), reply(text("And so."))]
    with ModelServer([*SCRIPT, reply(text("Back."))], prefix="free") as first, opened(first, before) as provider:
        assert start(tmp_path / "state", provider).text == "Because."
        (folder,) = sessions_dir(tmp_path / "state").iterdir()
        with ModelServer(second) as server, opened(server, after) as other:
            assert resume(folder, other, "and why there?").text == "And so."
            sent = server.requests[0]
            assert len(sent.calls) == len(set(sent.calls)) == len(IDS) + 2
            assert list(sent.outputs) == sent.calls
        # What the first one sealed is still there for it, what the other one sealed is not.
        assert resume(folder, provider, "sure?").text == "Back."
    history, damaged = read_history(folder)
    assert (damaged, history.interrupted_calls, history.orphan_outputs) == (0, (), 0)
    assert (history.provider, history.model) == (before, f"m-{before}")
    assert {item.source.api for item in history.items if isinstance(item, Reasoning)} == {before, after}


@pytest.mark.parametrize("api", APIS)
def test_what_the_offline_investigator_did_is_taken_by_every_api(api: str) -> None:
    payloads = [{"type": "text", "text": "I look."}, *({"type": "call", "call_id": f"o{n}"} for n in (1, 2))]
    first, *_ = sources = [Source("offline", "offline", "offline", payload) for payload in payloads]
    items: list[Item] = [UserMessage("why?"), AssistantMessage("I look.", first)]
    items += [ToolCall(f"o{n}", "look", "{}", source) for n, source in enumerate(sources[1:], 1)]
    items += [ToolOutput("o1", "one"), ToolOutput("o2", "two")]
    tools = tuple(each.spec for each in TOOLS.values())
    with ModelServer([reply(text("fine"))]) as server, opened(server, api) as provider:
        provider.infer(Request("Find out.", items, tools, "s"), lambda _: None)
        assert server.requests[0].outputs == {"o1": "one", "o2": "two"}


@pytest.mark.slow
@pytest.mark.parametrize(("before", "after"), SWITCHES)
def test_wherever_the_log_ends_the_other_api_takes_it(tmp_path: Path, before: str, after: str) -> None:
    with ModelServer(SCRIPT) as first, opened(first, before) as provider:
        start(tmp_path / "state", provider)
    (folder,) = sessions_dir(tmp_path / "state").iterdir()
    lines = len((folder / EVENTS).read_bytes().splitlines())
    with ModelServer(lambda _: reply(text("fine")), prefix="free") as server, opened(server, after) as other:
        for kept in range(2, lines + 1, 3):
            cut(folder, tmp_path / f"cut-{kept}", kept)
            assert resume(tmp_path / f"cut-{kept}", other, "go on").text == "fine"
            history = read_history(tmp_path / f"cut-{kept}")[0]
            calls = [item.call_id for item in history.items if isinstance(item, ToolCall)]
            assert len(calls) == len(set(calls))
