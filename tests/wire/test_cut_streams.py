"""A stream that ends anywhere, however it is framed: the whole response or another try, never a part."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import httpx2
import pytest

from codeagent.conversation import Json, ToolCall, UserMessage, text_of
from codeagent.errors import ModelError
from codeagent.inference import Inference, Request, RetryNotice
from codeagent.providers.adapter import Adapter, Speak
from codeagent.providers.chat import Chat
from codeagent.providers.messages import Messages
from codeagent.providers.options import Options
from codeagent.providers.responses import Responses
from codeagent.providers.transport import Body
from codeagent.settings import ProviderSettings
from tests.model_forms import Reply, frames
from tests.model_memory import Memory
from tests.model_server import call, reply, text
from tests.wire.talk import APIS

BODY = {"model": "m", "input": [], "messages": [], "stream_options": {"include_usage": True}}
WHOLE = reply(text("So é😀."), call("read_file", {"path": "a"}, "c1"))
SECOND = reply(text("Second."))
AGAIN: tuple[str, list[Any]] = ("Second.", [])


SPEAK: dict[str, Speak] = {
    "responses": partial(Responses, options=Options()),
    "chat": partial(Chat, options=Options()),
    "messages": partial(Messages, options=Options()),
}


class Recorded:
    """A Transport of answers that were recorded before."""

    def __init__(self, *answers: bytes, headers: Mapping[str, str]) -> None:
        """The headers are those of the first answer."""
        self._left = list(answers)
        self._headers = headers

    def post(self, path: str, body: bytes) -> Body:
        headers, self._headers = self._headers, {"content-type": "text/event-stream"}
        stream = httpx2.ByteStream(self._left.pop(0))
        return Body(httpx2.Response(200, headers=headers, stream=stream), 1.0)

    def get(self, path: str) -> Json:
        raise AssertionError("nothing is listed")

    def warm_up(self) -> None: ...

    def close(self) -> None: ...


def stream(api: str, made: Reply) -> bytes:
    return b"".join(frames(api, BODY, made, Memory()))


def asked(
    api: str, *answers: bytes, content_type: str = "text/event-stream", headers: Mapping[str, str] | None = None
) -> tuple[Inference, list[str]]:
    """The inference, and why it took more than one request."""
    settings = ProviderSettings("p", api, "m")  # type: ignore[arg-type]
    transport = Recorded(*answers, headers={"content-type": content_type, **(headers or {})})
    adapter = Adapter(settings, 1_000, SPEAK[api], transport, lambda _: None)
    notices: list[str] = []

    def progress(told: object) -> None:
        if isinstance(told, RetryNotice):
            notices.append(told.reason)

    inference = adapter.infer(Request("Be brief.", [UserMessage("Why?")], (), "session"), progress)
    return inference, notices


def told(inference: Inference) -> tuple[str, list[tuple[str, str, Any]]]:
    calls = [item for item in inference.items if isinstance(item, ToolCall)]
    return text_of(inference.items), [(each.call_id, each.name, json.loads(each.arguments)) for each in calls]


EXPECTED = ("So é😀.", [("c1", "read_file", {"path": "a"})])


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_stream_cut_after_any_byte_is_whole_or_asked_for_again(api: str) -> None:
    content, again = stream(api, WHOLE), stream(api, SECOND)
    found = [told(asked(api, content[:cut], again)[0]) for cut in range(len(content) + 1)]
    assert {len(calls) for _, calls in found} == {0, 1}
    first = found.index(EXPECTED)
    assert found == [AGAIN] * first + [EXPECTED] * (len(found) - first)
    # What follows the end of a chat response is its usage.
    assert len(content) - first < (3 if api != "chat" else 300)


def lines(content: bytes) -> list[bytes]:
    return content.split(b"\n")


def spread(content: bytes) -> bytes:
    """Each event over many `data` lines."""
    made = []
    for line in lines(content):
        pieces = json.dumps(json.loads(line[6:]), indent=1).encode() if line.startswith(b"data: {") else b""
        made += [b"data: " + piece for piece in pieces.split(b"\n")] if pieces else [line]
    return b"\n".join(made)


FRAMINGS: dict[str, Callable[[bytes], bytes]] = {
    "CRLF": lambda content: content.replace(b"\n", b"\r\n"),
    "CR": lambda content: content.replace(b"\n", b"\r"),
    "a byte order mark": lambda content: b"\xef\xbb\xbf" + content,
    "a byte order mark before data": lambda content: (
        b"\xef\xbb\xbf" + b"\n".join(line for line in lines(content) if not line.startswith(b"event"))
    ),
    "no space": lambda content: content.replace(b"data: ", b"data:"),
    "no event lines": lambda content: b"\n".join(line for line in lines(content) if not line.startswith(b"event")),
    "comments": lambda content: content.replace(b"\n\n", b"\n\n: PROCESSING\n\n"),
    "ids and retries": lambda content: content.replace(b"data: ", b"id: 1\nretry: 5\ndata: "),
    "many data lines": spread,
    "no last blank line": lambda content: content.rstrip(b"\n"),
    "empty data": lambda content: content.replace(b"\n\n", b"\n\ndata:\n\n"),
    "a ping without data": lambda content: b"event: ping\n\n" + content,
    "unknown events": lambda content: b'data: {"type":"new.kind","n":1}\n\n' + content,
    "events without a type": lambda content: b'data: {"n":1}\n\n' + content,
    "done twice": lambda content: content + b"data: [DONE]\n\ndata: [DONE]\n\n",
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("framing", FRAMINGS)
def test_every_way_of_framing_events_is_understood(api: str, framing: str) -> None:
    inference, notices = asked(api, FRAMINGS[framing](stream(api, WHOLE)))
    assert (told(inference), notices) == (EXPECTED, [])


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("event", ["hello", "[1]", '{"a":', "NaN", "5", "null"])
def test_an_event_that_is_no_object_is_a_broken_stream(api: str, event: str) -> None:
    content = stream(api, WHOLE)
    middle = content.index(b"\n\n") + 2
    broken = content[:middle] + f"data: {event}\n\n".encode() + content[middle:]
    inference, notices = asked(api, broken, stream(api, SECOND))
    assert told(inference) == AGAIN
    assert len(notices) == 1 and notices[0].startswith("the stream holds an event that is no")


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("content_type", ["text/html", "text/event-stream", "application/json"])
def test_a_page_of_a_proxy_is_named_and_not_asked_for_again(api: str, content_type: str) -> None:
    page = b"<!DOCTYPE html>\n<html><head><title>Sign in</title></head>\n<body>data: none</body></html>\n"
    with pytest.raises(ModelError, match=f"something that is not the {api} API") as refused:
        asked(api, page, content_type=content_type)
    assert refused.value.remedy
