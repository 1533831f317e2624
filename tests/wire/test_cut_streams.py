"""A stream that ends anywhere, however it is framed: the whole response or another try, never a part."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from codeagent.errors import ModelError
from tests.wire.recorded import AGAIN, EXPECTED, SECOND, WHOLE, asked, stream, told
from tests.wire.talk import APIS


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
