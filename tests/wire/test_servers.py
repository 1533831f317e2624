"""What servers, and proxies before them, do below the API: redirections, compression, strange counts, deep JSON."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable
from email.utils import formatdate
from time import time
from typing import Any

import pytest

from codeagent.conversation import ToolCall, text_of
from codeagent.errors import ModelError
from codeagent.inference import Finish, Usage
from codeagent.providers.counts import count
from codeagent.providers.failures import retry_after
from tests.model_script import Scripted
from tests.model_server import ModelServer, call, raw_sse, reply, status, text
from tests.wire.chat_chunks import chunk
from tests.wire.recorded import AGAIN, EXPECTED, SECOND, WHOLE, asked, stream, told
from tests.wire.talk import APIS, Talk


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("code", "target"),
    [
        *[(code, "https://elsewhere.example/v1") for code in (301, 302, 303, 307, 308)],
        (307, "/v2"),
        (308, "htp:///\x7f"),
    ],
)
def test_no_redirection_takes_the_key_and_the_code_elsewhere(api: str, code: int, target: str) -> None:
    with ModelServer([status(code, headers={"location": target}, body="moved"), reply("never asked")]) as server:
        with pytest.raises(ModelError) as refused:
            Talk(server, api).ask("Why?")
        assert len(server.requests) == 1
    assert refused.value.message.endswith(f"does not answer below /v1: it redirects to {target}")
    assert refused.value.remedy == "Set `base_url` of [providers.tested] to the address that answers."


PACKED: dict[str, Callable[[bytes], bytes]] = {"gzip": gzip.compress, "deflate": zlib.compress}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("encoding", PACKED)
def test_a_compressed_answer_is_read_and_a_broken_one_asked_for_again(api: str, encoding: str) -> None:
    content, second = stream(api, WHOLE), stream(api, SECOND)
    packed = PACKED[encoding](content)
    assert told(asked(api, packed, headers={"content-encoding": encoding})[0]) == EXPECTED
    half, notices = asked(api, packed[: len(packed) // 2], second, headers={"content-encoding": encoding})
    assert (told(half), len(notices)) == (AGAIN, 1)
    damaged, notices = asked(api, b"plain" + content, second, headers={"content-encoding": encoding})
    assert (told(damaged), len(notices)) == (AGAIN, 1)
    assert notices[0].startswith("the connection was cut: ")


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({}, None),
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.25"}, 0.25),
        ({"retry-after": "-5"}, 0.0),
        ({"retry-after": "1e400"}, None),
        ({"retry-after": "nan"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": ""}, None),
        ({"retry-after": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0.0),
        ({"retry-after": "Wed, 99 Oct 2015 07:28:00 GMT"}, None),
        ({"retry-after": "60", "retry-after-ms": "30"}, 0.03),
        ({"retry-after": "60", "retry-after-ms": "later"}, 60.0),
        ({"retry-after": "99999999999"}, 99_999_999_999.0),
    ],
)
def test_every_form_of_a_wait_is_understood_or_passed_over(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers) == seconds


def test_a_date_in_the_future_is_a_wait() -> None:
    waited = retry_after({"retry-after": formatdate(time() + 30, usegmt=True)})
    assert waited is not None
    assert 28 < waited <= 30


@pytest.mark.parametrize(
    ("value", "counted"),
    [
        (7, 7),
        ("7", 7),
        (7.9, 7),
        (-3, 0),
        (None, 0),
        ("x", 0),
        ("9" * 5_000, 0),
        (True, 0),
        ([7], 0),
        ({"a": 7}, 0),
        (1e999, 0),
        (float("nan"), 0),
        (10**40, 10**15),
    ],
)
def test_a_count_is_a_number_or_nothing(value: Any, counted: int) -> None:
    assert count({"details": {"n": value}}, "details", "n") == counted
    assert count(value, "details", "n") == count({"details": value}, "details", "n") == 0


USAGES: list[Any] = [None, [], 5, "many", {"input_tokens": {"a": 1}, "prompt_tokens": {"a": 1}}]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("usage", USAGES, ids=str)
def test_a_strange_count_does_not_cost_the_response(api: str, usage: Any) -> None:
    output = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "So."}]}]
    events: dict[str, list[Any]] = {
        "responses": [
            {"type": "response.completed", "response": {"status": "completed", "output": output, "usage": usage}}
        ],
        "chat": [chunk({"content": "So."}), chunk({}, "stop", usage=usage)],
        "messages": [
            {"type": "message_start", "message": {"usage": usage}},
            {"type": "content_block_start", "index": 0, "content_block": {"type": "text", "text": "So."}},
            {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": usage},
            {"type": "message_stop"},
        ],
    }
    with ModelServer([raw_sse(*events[api])]) as server:
        inference = Talk(server, api).ask("Why?")
    assert (text_of(inference.items), inference.usage, inference.finish) == ("So.", Usage(), Finish.COMPLETE)


DEEP = "[" * 100_000 + "]" * 100_000


@pytest.mark.parametrize("api", APIS)
def test_json_that_is_nested_too_deeply_is_no_accident(api: str) -> None:
    """In an event, an error, a whole answer, a text, and the arguments of a call."""
    content = stream(api, WHOLE)
    inference, notices = asked(api, f'data: {{"a":{DEEP}}}\n\n'.encode() + content, stream(api, SECOND))
    assert (told(inference), len(notices)) == (AGAIN, 1)
    with pytest.raises(ModelError, match="is not the"):
        asked(api, DEEP.encode(), content_type="application/json")
    script: list[Scripted] = [
        status(400, body=DEEP),
        reply(text(DEEP)),
        reply(call("read_file", f'{{"path":{DEEP}}}', "c1")),
        reply("Fine."),
    ]
    with ModelServer(script) as server:
        talk = Talk(server, api)
        with pytest.raises(ModelError, match="refused the request"):
            talk.ask("Why?")
        assert text_of(talk.ask("Why?").items) == DEEP
        assert [item.arguments[-3:] for item in talk.ask("And?").items if isinstance(item, ToolCall)] == ["]]}"]
        talk.answer()
        assert text_of(talk.infer().items) == "Fine."


@pytest.mark.parametrize("api", APIS)
def test_an_object_that_is_no_response_is_not_an_empty_one(api: str) -> None:
    with pytest.raises(ModelError, match="is not the"):
        asked(api, b"{}", content_type="application/json")


@pytest.mark.parametrize("api", APIS)
def test_an_error_with_status_200_is_explained_as_what_it_says(api: str) -> None:
    error = {"error": {"message": "no such model: m", "code": 400, "type": "invalid_request_error"}}
    with pytest.raises(ModelError, match="refused the request: no such model: m"):
        asked(api, json.dumps(error).encode(), content_type="application/json")
