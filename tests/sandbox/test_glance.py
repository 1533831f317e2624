"""An answer and the look at the masks in one request; what the guest says about them is checked."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

import pytest

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.channel import Channel
from codeagent.sandbox.glance import Glance

Asked = tuple[str, dict[str, Any], bytes]


class Recorder:
    """Answers every call with the same reply, and notes what it was asked."""

    def __init__(self, fields: dict[str, Any], body: bytes = b"") -> None:
        self.asked: list[Asked] = []
        self._reply = fields, body

    def call(self, op: str, args: Mapping[str, Any], body: bytes = b"") -> tuple[dict[str, Any], bytes]:
        self.asked.append((op, dict(args), body))
        return self._reply


def glance(recorder: Recorder) -> Glance:
    return Glance(cast(Channel, recorder))


def test_one_request_gives_the_answer_and_then_what_was_seen() -> None:
    recorder = Recorder({"scan": {"lost": []}, "size": 3, "reply": {"ok": {"lines": 1}}}, b"[]\nhello")
    both = glance(recorder)
    assert both.call("read_file", {"path": "x"}) == ({"lines": 1}, b"hello")
    assert both.call("scan", {}) == ({"lost": []}, b"[]\n")
    assert recorder.asked == [("glance", {"op": "read_file", "args": {"path": "x"}}, b"")]


def test_what_was_seen_is_there_after_a_refusal_too() -> None:
    error = {"kind": "file_not_found", "sentence": "there is no x"}
    both = glance(Recorder({"scan": {"lost": ["y"]}, "size": 0, "reply": {"error": error}}))
    with pytest.raises(ToolError) as refused:
        both.call("read_file", {"path": "x"})
    assert refused.value.kind is ErrorKind.FILE_NOT_FOUND
    assert both.call("scan", {}) == ({"lost": ["y"]}, b"")


def test_later_requests_and_a_look_of_its_own_go_straight_through() -> None:
    recorder = Recorder({"scan": {}, "size": 0, "reply": {"ok": {}}})
    both = glance(recorder)
    both.call("scan", {})
    both.call("fetch", {"path": "x"})
    both.call("fetch", {"path": "y"})
    assert [op for op, _, _ in recorder.asked] == ["scan", "glance", "fetch"]


@pytest.mark.parametrize(
    "fields",
    [
        {},
        {"scan": [], "size": 0, "reply": {"ok": {}}},
        {"scan": {}, "size": 9, "reply": {"ok": {}}},
        {"scan": {}, "size": -1, "reply": {"ok": {}}},
        {"scan": {}, "size": True, "reply": {"ok": {}}},
        {"scan": {}, "size": 0, "reply": 5},
        {"scan": {}, "size": 0, "reply": {"fine": {}}},
    ],
)
def test_an_answer_that_makes_no_sense_is_not_believed(fields: dict[str, Any]) -> None:
    with pytest.raises(ToolError) as refused:
        glance(Recorder(fields, b"body")).call("read_file", {"path": "x"})
    assert refused.value.kind is ErrorKind.SANDBOX_FAILED
