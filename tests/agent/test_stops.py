"""Every way in which a turn stops, over the wire of each API: its outcome, its exit code, the text that is kept."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from codeagent.agent.limits import Bounds
from codeagent.agent.loop import Ending
from codeagent.providers.open import open_provider
from codeagent.session.log import Log
from codeagent.session.store import EVENTS, sessions_dir
from codeagent.settings import ProviderSettings
from tests.model_forms import Reply
from tests.model_script import (
    Entry,
    Received,
    Scripted,
    call,
    cut,
    hang,
    refusal,
    reply,
    status,
    text,
    thought,
)
from tests.model_server import ModelServer
from tests.session.driver import start

APIS = ("responses", "chat", "messages")
LOOK = call("look", {"n": 1})
NO_CREDIT = {"error": {"message": "You exceeded your current quota.", "code": "insufficient_quota"}}
TOO_LONG = {"error": {"message": "prompt is too long: 9 tokens > 8 maximum", "code": "context_length_exceeded"}}


NUMBERS = count()


def look() -> Reply:
    """A call that no other one is like."""
    return reply(call("look", {"n": next(NUMBERS)}))


def rounds(made: Callable[[], Entry]) -> Callable[[Received], Entry]:
    """The same kind of response for ever, until the closing inference asks what is known."""

    def answer(received: Received) -> Entry:
        closing = received.body.get("tool_choice") in ("none", {"type": "none"})
        return reply(text("Known so far.")) if closing else made()

    return answer


class Stopped:
    """A turn that has ended, and what was recorded and asked."""

    def __init__(self, api: str, state: Path, script: Any, bounds: Bounds, **settings: Any) -> None:
        with ModelServer(script, prefix="compacted") as server:
            made = {"base_url": server.url, "api_key": "key", "retry_seconds": 0.01, **settings}
            with open_provider(ProviderSettings("scripted", api, model="m", **made)) as provider:  # type: ignore[arg-type]
                self.ending: Ending = start(state, provider, bounds=bounds)
            self.requests = server.requests
        (folder,) = sessions_dir(state).iterdir()
        self.records = list(Log(folder / EVENTS))

    def of(self, kind: str) -> list[Any]:
        return [record for record in self.records if record["type"] == kind]


STOPS: dict[str, tuple[Any, str, int, str | None]] = {
    "a text without calls": ([look(), reply(text("Because."))], "answered", 0, "Because."),
    "a question on the last line": (
        [reply(text("I see.\n\n  NEEDS INPUT: which one?\n"))],
        "needs_input",
        6,
        "I see.\n\n  NEEDS INPUT: which one?\n",
    ),
    "such a line that is not the last": ([reply(text("NEEDS INPUT: no.\nDone."))], "answered", 0, None),
    "a refusal": ([reply(refusal("I will not."))], "refused", 7, "I will not."),
    "the output limit": ([reply(text("Half an"), finish="length")], "truncated", 7, "Half an"),
    "nothing at all": ([reply()], "empty", 7, ""),
    "blank text": ([reply(text(" \n"))], "empty", 7, ""),
    "reasoning alone": ([reply(thought("hm"))], "empty", 7, ""),
    "rounds": (rounds(look), "round_limit", 7, "Known so far."),
    "the same call": (rounds(lambda: reply(LOOK)), "repeated_calls", 7, "Known so far."),
    "the same call, thrice at once": (rounds(lambda: reply(LOOK, LOOK, LOOK)), "repeated_calls", 7, "Known so far."),
    "errors": (rounds(lambda: reply(call("nothing", {}))), "repeated_calls", 7, "Known so far."),
    "a refused key": ([status(401, body={"error": {"message": "no"}})], "model_failed", 3, ""),
    "no credit": ([status(429, body=NO_CREDIT)], "model_failed", 3, ""),
    "an unknown model": ([status(404, body={"error": {"message": "no model m"}})], "model_failed", 3, ""),
    "a request that is too long": ([status(400, body=TOO_LONG)], "model_failed", 3, ""),
    "a server that keeps failing": (lambda _: status(500), "model_failed", 3, ""),
    "a stream that is always cut": (lambda _: cut(reply(text("Half an answer")), after=4), "model_failed", 3, None),
    "a signal": ([reply(call("stop", {"n": 1}))], "interrupted", 130, ""),
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("stop", STOPS)
def test_each_stop_has_its_outcome_and_exit_code(api: str, stop: str, tmp_path: Path) -> None:
    script, outcome, exit_code, kept = STOPS[stop]
    ending = Stopped(api, tmp_path, script, Bounds(rounds=5)).ending
    assert (ending.outcome, ending.outcome.exit_code) == (outcome, exit_code)
    assert kept is None or ending.text.strip() == kept.strip()
    assert (ending.error is not None) == (outcome == "model_failed")


@pytest.mark.parametrize("api", APIS)
def test_eight_rounds_of_nothing_but_errors_end_the_turn(api: str, tmp_path: Path) -> None:
    numbers = count()
    stopped = Stopped(api, tmp_path, rounds(lambda: reply(call(f"tool_{next(numbers)}", {}))), Bounds())
    assert (stopped.ending.outcome, stopped.ending.text) == ("too_many_errors", "Known so far.")
    assert len(stopped.requests) == 9


@pytest.mark.parametrize("api", APIS)
def test_the_token_limit_ends_the_turn_without_another_request(api: str, tmp_path: Path) -> None:
    script: list[Scripted] = [reply(text("So far."), call("look", {"n": 1}), usage=(900, 0, 100))]
    stopped = Stopped(api, tmp_path, script, Bounds(tokens=1_000))
    assert (stopped.ending.outcome, stopped.ending.text) == ("token_limit", "So far.")


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_the_time_limit_ends_a_response_under_way_and_keeps_its_text(api: str, tmp_path: Path) -> None:
    after = {"responses": 5, "chat": 2, "messages": 4}[api]
    script: list[Scripted] = [look(), hang(reply=reply(text("I have seen that")), after=after)]
    stopped = Stopped(api, tmp_path, script, Bounds(seconds=0.6))
    assert stopped.ending.outcome == "time_limit"
    assert stopped.ending.text and "I have seen that".startswith(stopped.ending.text)


@pytest.mark.parametrize("api", APIS)
def test_what_the_closing_inference_says_is_partial_whatever_becomes_of_it(api: str, tmp_path: Path) -> None:
    """It may itself be cut, call a tool all the same, or fail."""
    first = reply(text("I looked."), call("look", {"n": 1}))
    for number, (closing, kept) in enumerate(
        [
            (reply(text("Half"), finish="length"), "Half"),
            (reply(text("One more:"), call("look", {"n": 2})), "One more:"),
            (reply(call("look", {"n": 2})), "I looked."),
            (status(401, body={"error": {"message": "no"}}), "I looked."),
        ]
    ):
        stopped = Stopped(api, tmp_path / str(number), [first, closing], Bounds(rounds=1))
        assert (stopped.ending.outcome, stopped.ending.text, stopped.ending.error) == ("round_limit", kept, None)
        answered = [(record["call_id"], record["status"]) for record in stopped.of("tool_output")]
        assert len(answered) == len(set(answered)) and answered[0][1] == "ok"
        assert all(state == "error" for _, state in answered[1:])


def test_a_content_filter_is_a_truncation_or_a_refusal_in_the_words_of_its_api(tmp_path: Path) -> None:
    found = {
        api: Stopped(api, tmp_path / api, [reply(text("Half"), finish="content_filter")], Bounds()).ending
        for api in APIS
    }
    assert {api: (ending.outcome.value, ending.text) for api, ending in found.items()} == {
        "responses": ("truncated", "Half"),
        "chat": ("truncated", "Half"),
        "messages": ("refused", "Half"),
    }


def test_a_response_that_the_server_calls_failed_is_the_models_failure(tmp_path: Path) -> None:
    ending = Stopped("responses", tmp_path, lambda _: reply(text("x"), finish="failed"), Bounds()).ending
    assert (ending.outcome, ending.error is not None) == ("model_failed", True)


def test_a_reason_that_nobody_knows_is_said(tmp_path: Path) -> None:
    ending = Stopped("chat", tmp_path, [reply(text("Half"), finish="brand_new")], Bounds()).ending
    assert (ending.outcome, ending.text) == ("truncated", "Half")
    assert ending.error is not None
    assert ending.error.message == (
        "The response cannot be used: the server gave a reason that is not known: brand_new."
    )


def test_a_window_that_is_full_makes_room_once_and_the_turn_goes_on(tmp_path: Path) -> None:
    script: list[Scripted] = [
        *[reply(call("look_long", {"n": number})) for number in range(6)],
        reply(thought("hm"), text("I was about to"), call("look", {"n": 9}), finish="context"),
        reply(text("Because.")),
    ]
    stopped = Stopped("messages", tmp_path, script, Bounds())
    assert (stopped.ending.outcome, stopped.ending.text) == ("answered", "Because.")
    (compacted,) = stopped.of("compacted")
    assert compacted["cleared_calls"]
    assert len(stopped.requests[-1].raw) < len(stopped.requests[-2].raw)
    assert "context window was full" in stopped.requests[-1].user_texts[-1]
    assert [record["error_kind"] for record in stopped.of("tool_output")][-1] == "cancelled"


def test_a_window_that_stays_full_is_a_clear_stop(tmp_path: Path) -> None:
    looks = [reply(call("look_long", {"n": number})) for number in range(6)]
    full = reply(text("I was about to"), finish="context")
    for number, script in enumerate([[*looks, full, full], [full]]):
        stopped = Stopped("messages", tmp_path / str(number), script, Bounds())
        assert (stopped.ending.outcome, stopped.ending.text) == ("truncated", "I was about to")
        assert stopped.ending.error is not None
        assert stopped.ending.error.message.startswith("The model's context window was full before its response")
        assert stopped.ending.error.remedy


def test_a_pause_is_no_stop_and_has_no_end_of_its_own(tmp_path: Path) -> None:
    script: list[Scripted] = [reply(text("Searching."), finish="pause"), reply(text("Found."))]
    assert Stopped("messages", tmp_path / "once", script, Bounds()).ending.outcome == "answered"
    endless = Stopped(
        "messages", tmp_path / "endless", rounds(lambda: reply(text("Hm."), finish="pause")), Bounds(rounds=3)
    )
    assert (endless.ending.outcome, endless.ending.text) == ("round_limit", "Known so far.")


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_ids_that_start_over_in_each_response_stay_apart_after_their_rounds_were_summarised(
    api: str, tmp_path: Path
) -> None:
    numbers = count()

    def answer(received: Received) -> Entry:
        number = next(numbers)
        usage = (len(received.raw) // 4, 0, 20)
        if number >= 60:
            return reply(text("Because."), usage=usage)
        return reply(call("look_long", {"n": number}, call_id="call_0"), usage=usage)

    stopped = Stopped(api, tmp_path, answer, Bounds(rounds=80), context_window=6_000)
    assert stopped.ending.outcome == "answered"
    assert stopped.of("compacted")[-1]["summarised_rounds"] > 0
    ids = [record["call_id"] for record in stopped.of("tool_call")]
    assert ids == ["call_0", *[f"call_0_{number}" for number in range(2, 61)]]
    assert [record["call_id"] for record in stopped.of("tool_output")] == ids
