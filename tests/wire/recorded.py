"""Answers that were recorded before, read by the real adapters: no socket, so that every byte can be tried."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import partial
from typing import Any

import httpx2

from codeagent.conversation import Json, ToolCall, UserMessage, text_of
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
