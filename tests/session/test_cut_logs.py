"""A log that ends anywhere, or has lost any line, gives a conversation that each API's server accepts."""

from __future__ import annotations

import random
import shutil
from itertools import count
from pathlib import Path
from typing import Any, Literal

import pytest

from codeagent.conversation import Item, UserMessage
from codeagent.errors import StorageError
from codeagent.inference import Request
from codeagent.providers.adapter import Adapter
from codeagent.providers.open import open_provider
from codeagent.session.resumption import read_history, take_up
from codeagent.session.store import EVENTS, Session, sessions_dir
from codeagent.settings import ProviderSettings
from tests.model_script import Entry, Received, Scripted, call, reply, text, thought
from tests.model_server import ModelServer
from tests.session.driver import SETUP, TOOLS, resume, start

Api = Literal["responses", "chat", "messages"]
APIS: list[Api] = ["responses", "chat", "messages"]

FIRST_TURN: list[Scripted] = [
    reply(thought("hm"), call("look", {"n": 1}, call_id="a"), call("act", {"n": 2}, call_id="b")),
    reply(text("so far so good"), call("missing", {"n": 1}, call_id="c"), call("look", "[1,", call_id="d")),
    reply(thought("again"), call("look", {"n": 3}, call_id="h")),
    reply(thought("cut"), call("act", {"n": 4}, call_id="e"), finish="length"),
]
SECOND_TURN: list[Scripted] = [
    reply(call("look", {"n": 5}, call_id="f"), call("look", {"n": 6}, call_id="g")),
    reply(thought("done"), text("because")),
]


def opened(server: ModelServer, api: Api, **more: Any) -> Adapter:
    url = server.root if api == "messages" else server.url
    given = {"model": "model", "base_url": url, "api_key": "key", "retry_seconds": 1, **more}
    settings = ProviderSettings("scripted", api, **given)
    return open_provider(settings)


def recorded(state: Path, api: Api) -> tuple[Path, ModelServer]:
    """A session of two turns, the first of them cut by the output limit, and the server that it spoke to."""
    server = ModelServer([*FIRST_TURN, *SECOND_TURN], prefix="compacted")
    with server, opened(server, api) as provider:
        start(state, provider)
        (folder,) = sessions_dir(state).iterdir()
        resume(folder, provider, "and now?")
        assert server.left == 0
    return folder, server


def assert_accepted(folder: Path, api: Api, memory: ModelServer, message: str | None) -> None:
    """Goes on with the session, and the strict server takes what it is sent."""
    with ModelServer(lambda _: reply(text("fine")), prefix="free") as server:
        server.memory = memory.memory  # the same server still knows what it sealed
        with Session.open(folder) as session:
            history, damaged = read_history(folder)
            items: list[Item] = take_up(session, history, damaged, SETUP, message)
            if message is not None:
                items.append(UserMessage(message))
        if not any(isinstance(item, UserMessage) for item in items):
            return  # the question itself is lost; the command asks for a message then
        tools = tuple(each.spec for each in TOOLS.values())
        with opened(server, api) as provider:
            provider.infer(Request("Find out.", items, tools, session.id), lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_log_cut_at_any_event_can_be_gone_on_with(tmp_path: Path, api: Api) -> None:
    folder, memory = recorded(tmp_path / "whole", api)
    lines = (folder / EVENTS).read_bytes().splitlines(keepends=True)
    assert len(lines) > 25
    for kept in range(2, len(lines) + 1):
        cut = tmp_path / f"cut-{kept}"
        cut.mkdir()
        (cut / EVENTS).write_bytes(b"".join(lines[:kept]))
        assert_accepted(cut, api, memory, None if kept % 2 else "go on")


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_log_that_lost_any_line_can_be_gone_on_with(tmp_path: Path, api: Api) -> None:
    folder, memory = recorded(tmp_path / "whole", api)
    lines = (folder / EVENTS).read_bytes().splitlines(keepends=True)
    for lost in range(1, len(lines)):
        damaged = tmp_path / f"lost-{lost}"
        damaged.mkdir()
        zeroed = b"\0" * (len(lines[lost]) - 1) + b"\n"
        (damaged / EVENTS).write_bytes(b"".join([*lines[:lost], zeroed, *lines[lost + 1 :]]))
        assert_accepted(damaged, api, memory, "go on")


@pytest.mark.slow
def test_a_log_cut_at_any_byte_can_be_gone_on_with(tmp_path: Path) -> None:
    folder, memory = recorded(tmp_path / "whole", "responses")
    content = (folder / EVENTS).read_bytes()
    chosen = random.Random(7).sample(range(1, len(content)), 40)
    for size in chosen:
        cut = tmp_path / f"cut-{size}"
        cut.mkdir()
        (cut / EVENTS).write_bytes(content[:size])
        try:
            Session.open(cut).close()
        except StorageError as error:
            assert "holds no readable event" in error.message
            continue
        assert_accepted(cut, "responses", memory, "go on")


@pytest.mark.parametrize(("before", "after"), [(a, b) for a in APIS for b in APIS if a != b])
def test_another_api_goes_on_with_the_conversation(tmp_path: Path, before: Api, after: Api) -> None:
    folder, _ = recorded(tmp_path / "whole", before)
    with ModelServer(lambda _: reply(text("fine"))) as server, opened(server, after) as provider:
        ending = resume(folder, provider, "and with another model?")
    assert ending.text == "fine"
    (request,) = server.requests
    assert request.api == after
    assert len(request.calls) == len(request.outputs) == 8
    assert request.user_texts[-1] == "and with another model?"


@pytest.mark.parametrize("api", APIS)
def test_two_processes_see_the_same_conversation(tmp_path: Path, api: Api) -> None:
    folder, _ = recorded(tmp_path / "whole", api)
    copy = tmp_path / "copy"
    shutil.copytree(folder, copy)
    assert read_history(folder) == read_history(copy)
    assert read_history(folder)[0].interrupted_calls == ()


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_log_cut_beside_a_compaction_is_gone_on_with_inside_the_window(tmp_path: Path, api: Api) -> None:
    numbers = count()

    def answer(received: Received) -> Entry:
        number, usage = next(numbers), (len(received.raw) // 4, 0, 20)
        if number >= 20:
            return reply(text("Because."), usage=usage)
        return reply(thought("hm"), call("look_long", {"n": number}, call_id=f"c{number}"), usage=usage)

    with ModelServer(answer, prefix="compacted") as server, opened(server, api, context_window=6_000) as provider:
        start(tmp_path / "whole", provider)
    (folder,) = sessions_dir(tmp_path / "whole").iterdir()
    lines = (folder / EVENTS).read_bytes().splitlines(keepends=True)
    places = [number for number, line in enumerate(lines) if line.startswith(b'{"type":"compacted"')]
    assert len(places) > 4
    with ModelServer(lambda _: reply(text("fine")), prefix="free") as after:
        after.memory = server.memory
        with opened(after, api, context_window=6_000) as provider:
            for kept in [place + beside for place in places[-4:] for beside in (0, 1, 2)]:
                cut = tmp_path / f"cut-{kept}"
                cut.mkdir()
                (cut / EVENTS).write_bytes(b"".join(lines[:kept]))
                assert resume(cut, provider, None if kept % 2 else "go on").text == "fine"
                assert len(after.requests[-1].raw) < 4 * 6_000
