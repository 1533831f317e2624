"""Which failures are tried again, how long, and what the user is told in the end. Nobody really waits here."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any

import pytest

from codeagent.conversation import text_of
from codeagent.errors import ContextFull, Interrupted, ModelError
from codeagent.providers.failures import Failure, Kind, context_full, of_status, retry_after
from codeagent.providers.open import open_provider
from codeagent.providers.retry import Patience
from codeagent.settings import ProviderSettings
from tests.clocks import at_once, wait_until
from tests.model_script import Scripted
from tests.model_server import ModelServer, cut, hang, raw_sse, reply, status
from tests.wire.talk import APIS, Talk

OVERLOADED = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
EVENTS = {
    "responses": {
        "type": "error",
        "sequence_number": 2,
        "error": {"type": "server_error", "message": "m"},
    },
    "chat": {"error": {"code": 502, "message": "Provider returned error", "metadata": {}}},
    "messages": OVERLOADED,
}


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    "failure",
    [
        status(408),
        status(409),
        status(429, body={"error": {"message": "Rate limit reached", "code": "rate_limit_exceeded"}}),
        status(500),
        status(503, body="<html><head><title>503 Service Unavailable</title></head></html>"),
        status(529, body=OVERLOADED),
        status(400, {"x-should-retry": "true"}),
        cut(reply("half"), after=2),
        cut(reply("half"), after=3, clean=True),
        raw_sse("data: {not json\n\n"),
    ],
    ids=lambda f: type(f).__name__ + str(getattr(f, "code", "")),
)
def test_what_may_pass_is_tried_again(api: str, failure: Scripted) -> None:
    with ModelServer([failure, failure, reply("Whole.")]) as server:
        talk = Talk(server, api)
        assert text_of(talk.ask("Why?").items) == "Whole."
    assert [n.attempt for n in talk.notices] == [1, 2]
    assert all(0.375 <= wait <= 0.5 for wait in talk.waits[:1])
    assert all(0.75 <= wait <= 1.0 for wait in talk.waits[1:])
    assert [n.delay_ms for n in talk.notices] == [round(wait * 1000) for wait in talk.waits]


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("silence", [hang(60.0), hang(60.0, reply("half"), after=2)], ids=["nothing", "half"])
def test_silence_is_tried_again(api: str, silence: Scripted) -> None:
    with ModelServer([silence, reply("Whole.")]) as server:
        talk = Talk(server, api, idle_timeout_seconds=0.7)
        assert text_of(talk.ask("Why?").items) == "Whole."
    assert [n.attempt for n in talk.notices] == [1]


@pytest.mark.parametrize("api", APIS)
def test_an_overload_told_in_the_stream_is_tried_again(api: str) -> None:
    with ModelServer([raw_sse(EVENTS[api]), reply("Whole.")]) as server:
        talk = Talk(server, api)
        assert text_of(talk.ask("Why?").items) == "Whole."
    assert len(talk.notices) == 1


def test_the_flat_form_of_an_error_event_is_understood() -> None:
    flat = {
        "type": "error",
        "code": "rate_limit_exceeded",
        "message": "slow down",
        "param": None,
        "sequence_number": 3,
    }
    with ModelServer([raw_sse(flat), reply("Whole.")]) as server:
        talk = Talk(server, "responses")
        assert text_of(talk.ask("Why?").items) == "Whole."
    assert talk.notices[0].reason == "slow down"


@pytest.mark.parametrize("api", APIS)
def test_a_server_that_stays_down_is_given_up(api: str) -> None:
    with ModelServer(lambda _: status(503)) as server:
        talk = Talk(server, api)
        with pytest.raises(ModelError, match="gave no response") as raised:
            talk.ask("Why?")
    assert raised.value.exit_code == 3
    assert len(server.requests) == 10
    assert 30 < sum(talk.waits) < 60


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(
    ("headers", "waited"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": "0.5"}, 0.5),
        ({"retry-after-ms": "1500", "retry-after": "9"}, 1.5),
    ],
)
def test_the_server_says_how_long_to_wait(api: str, headers: dict[str, str], waited: float) -> None:
    with ModelServer([status(429, headers), reply("ok")]) as server:
        talk = Talk(server, api)
        talk.ask("Why?")
    assert talk.waits == [waited]


def test_a_date_to_wait_for_is_understood() -> None:
    assert 8.0 < (retry_after({"retry-after": formatdate(time.time() + 10, usegmt=True)}) or 0) <= 10.0
    assert retry_after({"retry-after": formatdate(time.time() - 100, usegmt=True)}) == 0.0
    for nonsense in ("", "soon", "Wed, 99 Foo", "-"):
        assert retry_after({"retry-after": nonsense}) is None


def test_azure_asks_to_wait_for_nothing_and_gets_the_ordinary_wait() -> None:
    with ModelServer([status(429, {"retry-after-ms": "0"}), reply("ok")]) as server:
        talk = Talk(server, "chat")
        talk.ask("Why?")
    assert 0.375 <= talk.waits[0] <= 0.5


@pytest.mark.parametrize("api", APIS)
def test_a_wait_longer_than_the_budget_ends_the_request_at_once(api: str) -> None:
    with ModelServer(
        [status(429, {"retry-after": "3600"}, {"error": {"message": "Try again in an hour"}})]
    ) as server:
        talk = Talk(server, api, retry_seconds=60.0)
        with pytest.raises(ModelError, match="asks to wait 3600 s"):
            talk.ask("Why?")
    assert talk.waits == []


def test_all_attempts_and_waits_stay_within_the_budget() -> None:
    now = 0.0
    patience = Patience(20.0, True, lambda: now)
    waits = []
    while (wait := patience.wait_after(Failure(Kind.STATUS, "busy", 503))) is not None:
        waits.append(wait)
        now += wait + 1.0
    assert now <= 21.0
    assert len(waits) == 5


QUOTA = [
    status(429, body={"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}),
    status(429, body={"error": {"message": "You have reached your monthly usage limit."}}),
    status(402, body={"error": {"message": "Insufficient Balance"}}),
    status(400, body={"error": {"message": "Your credit balance is too low to access the API"}}),
    raw_sse({"type": "error", "error": {"code": "insufficient_quota", "message": "You exceeded your current quota"}}),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("failure", QUOTA)
def test_an_exhausted_quota_is_not_tried_again(api: str, failure: Scripted) -> None:
    with ModelServer([failure]) as server:
        talk = Talk(server, api)
        with pytest.raises(ModelError, match="no credit or quota left"):
            talk.ask("Why?")
    assert talk.notices == []


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize("code", [401, 403])
def test_a_refused_key_is_not_tried_again_and_never_shown(api: str, code: int) -> None:
    body = {"error": {"message": "Incorrect API key provided: key-123. Find yours at ...", "code": "invalid_api_key"}}
    with ModelServer([status(code, body=body)]) as server:
        talk = Talk(server, api, api_key_env="MY_KEY")
        with pytest.raises(ModelError) as raised:
            talk.ask("Why?")
    host = server.root.removeprefix("http://")
    assert raised.value.message == f"{host} refused the key in MY_KEY."
    assert raised.value.remedy == "Set MY_KEY to a valid key of that provider."


@pytest.mark.parametrize("api", APIS)
def test_a_key_without_the_right_to_a_model_names_the_model(api: str) -> None:
    forbidden = status(403, body={"error": {"message": "Project has no access to it", "type": "forbidden"}})
    with ModelServer([forbidden]) as server, pytest.raises(ModelError) as raised:
        Talk(server, api, api_key_env="MY_KEY").ask("Why?")
    assert "does not allow this key to use m-1: Project has no access to it" in raised.value.message


@pytest.mark.parametrize("api", APIS)
def test_a_server_that_wants_a_key_says_so(api: str) -> None:
    missing = status(401, body={"error": {"message": "Missing bearer"}})
    with ModelServer([missing]) as server, pytest.raises(ModelError, match="wants a key and none was sent"):
        Talk(server, api, api_key=None).ask("Why?")
    assert not {"authorization", "x-api-key"} & set(server.requests[0].headers)


@pytest.mark.parametrize("api", APIS)
def test_an_unknown_model_is_named(api: str) -> None:
    with ModelServer(models=["other"]) as server, pytest.raises(ModelError) as raised:
        Talk(server, api, model="gpt-9").ask("Why?")
    assert "has no model 'gpt-9'" in raised.value.message
    assert "--model" in raised.value.remedy


@pytest.mark.parametrize("api", APIS)
def test_a_wrong_path_is_not_called_a_wrong_model(api: str) -> None:
    page = status(404, body="<html><title>404 Not Found</title></html>")
    with ModelServer([page]) as server, pytest.raises(ModelError) as raised:
        Talk(server, api).ask("Why?")
    assert f"has no {api} API at /v1: a web page: 404 Not Found" in raised.value.message
    assert "base_url" in raised.value.remedy


def test_an_unreachable_server_is_named_after_a_few_seconds() -> None:
    talk = Talk("http://127.0.0.1:9/v1", "responses")
    with pytest.raises(ModelError) as raised:
        talk.ask("Why?")
    assert raised.value.message == "The model's server 127.0.0.1:9 cannot be reached: Connection refused"
    assert raised.value.remedy == "Check the network, a proxy, and `base_url` of [providers.tested]."
    assert len(talk.waits) == 3
    assert sum(talk.waits) < 4


@pytest.mark.parametrize(
    ("answer", "remedy"),
    [
        (None, "Check the network, a proxy, and OPENAI_BASE_URL."),
        (raw_sse("<html>", content_type="text/html"), "Check OPENAI_BASE_URL and `api` of [providers.tested]."),
        (
            status(404, body="<html>"),
            "Check OPENAI_BASE_URL and `api` of [providers.tested]; many servers offer only `chat`.",
        ),
        (status(301), "Set OPENAI_BASE_URL to the address that answers."),
    ],
    ids=["unreachable", "a web page", "not found", "moved"],
)
def test_an_address_that_a_variable_gave_is_blamed_on_the_variable(answer: Scripted | None, remedy: str) -> None:
    with ModelServer([answer] if answer else []) as server, pytest.raises(ModelError) as raised:
        url = server if answer else "http://127.0.0.1:9/v1"
        Talk(url, "responses", base_url_env="OPENAI_BASE_URL").ask("Why?")
    assert raised.value.remedy == remedy


@pytest.mark.parametrize("api", APIS)
def test_a_host_that_does_not_exist_is_named(api: str) -> None:
    with pytest.raises(ModelError, match=r"The model's server nowhere\.invalid cannot be reached"):
        Talk("http://nowhere.invalid/v1", api).ask("Why?")


@pytest.mark.parametrize("api", APIS)
def test_a_web_page_is_no_answer(api: str) -> None:
    page = raw_sse("<!DOCTYPE html><html><title>Sign in</title>", content_type="text/html")
    expected = f"something that is not the {api} API"
    with ModelServer([page]) as server, pytest.raises(ModelError, match=expected) as raised:
        Talk(server, api).ask("Why?")
    assert "base_url" in raised.value.remedy


@pytest.mark.parametrize("api", APIS)
def test_an_error_with_status_200_and_no_stream_is_understood(api: str) -> None:
    error = raw_sse('{"error": {"message": "Provider overloaded", "code": 503}}', content_type="application/json")
    with ModelServer([error, reply("ok")]) as server:
        talk = Talk(server, api)
        assert text_of(talk.ask("Why?").items) == "ok"
    assert talk.notices[0].reason == "Provider overloaded"


CONTEXT = [
    (
        400,
        {
            "error": {
                "message": "It exceeds the context window.",
                "code": "context_length_exceeded",
            }
        },
    ),
    (
        400,
        {"error": {"message": "This model's maximum context length is 65536 tokens."}},
    ),
    (400, {"error": {"message": "This endpoint's maximum context length is 32768 tokens.", "code": 400}}),
    (400, {"error": {"message": "prompt too long; exceeded max context length by 4 tokens"}}),
    (
        400,
        {"error": {"type": "exceed_context_size_error", "message": "the request exceeds the context"}},
    ),
    (400, {"error": {"type": "too_many_prompt_tokens", "message": "too many"}}),
    (
        400,
        {"type": "error", "error": {"type": "invalid_request_error", "message": "prompt is too long: 9 > 8"}},
    ),
    (413, {"type": "error", "error": {"type": "request_too_large", "message": "Request exceeds the maximum size"}}),
    (422, {"detail": "Prompt contains 40000 tokens, too large for model with 32768 maximum context length"}),
    (400, [{"error": {"message": "The input token count (9) exceeds the maximum number of tokens allowed (8)."}}]),
    (400, {"error": {"message": "input length and `max_tokens` exceed context limit: 190000 + 32000 > 200000"}}),
]


@pytest.mark.parametrize("api", APIS)
@pytest.mark.parametrize(("code", "body"), CONTEXT)
def test_a_full_context_is_recognised_in_each_server_s_words(api: str, code: int, body: Any) -> None:
    with ModelServer([status(code, body=body)]) as server:
        talk = Talk(server, api)
        with pytest.raises(ContextFull, match="too long for m-1"):
            talk.ask("Why?")
    assert talk.notices == []


@pytest.mark.parametrize(
    "words",
    [
        "The decoder prompt (length 88049) is longer than the maximum model length of 32768.",  # vLLM
        "The input (210000 tokens) is longer than the model's context length (200000 tokens).",  # SGLang
        "The number of tokens to keep from the initial prompt is greater than the context length",  # LM Studio
        "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",  # xAI
        "invalid params, context window exceeds limit (2013)",  # MiniMax
        "Invalid request: Your request exceeded model token limit: 262144 (requested: 291351)",  # Kimi
        "InternalError.Algo.InvalidParameter: Range of input length should be [1, 202745]",  # Qwen
        "prompt token count of 130000 exceeds the limit of 128000",  # Copilot
        "Prompt has 32769 tokens, but the configured context size is 32768 tokens",
    ],
)
def test_further_words_for_a_full_context(words: str) -> None:
    assert context_full(of_status(400, {}, json.dumps({"error": {"message": words}})))


@pytest.mark.parametrize(
    "words",
    [
        "Rate limit reached: too many tokens per minute, please wait.",
        "max_tokens must be at most 8192",
        "The context of tool calls is not supported.",
        "Invalid type for 'prompt': expected a string with maximum length 64.",
    ],
)
def test_other_refusals_are_not_taken_for_a_full_context(words: str) -> None:
    assert not context_full(of_status(400, {}, json.dumps({"error": {"message": words}})))


def test_a_context_that_is_found_full_in_the_stream_is_recognised() -> None:
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window."}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    for event in ({"type": "error", **error}, {"type": "error", "error": error}, failed):
        with ModelServer([raw_sse(event)]) as server, pytest.raises(ContextFull):
            Talk(server, "responses").ask("Why?")


@pytest.mark.parametrize("api", APIS)
def test_a_server_may_say_that_trying_again_is_of_no_use(api: str) -> None:
    with ModelServer([status(503, {"x-should-retry": "false"})]) as server, pytest.raises(ModelError):
        Talk(server, api).ask("Why?")


@pytest.mark.parametrize("api", APIS)
def test_a_key_that_a_server_quotes_is_not_shown(api: str) -> None:
    body = {"error": {"message": "no route for key-123"}}
    with ModelServer([status(500, body=body), status(400, body=body)]) as server:
        talk = Talk(server, api)
        with pytest.raises(ModelError, match=r"no route for \[key removed\]"):
            talk.ask("Why?")
    assert [n.reason for n in talk.notices] == ["no route for [key removed]"]


def test_what_a_server_says_is_left_as_it_is_where_the_key_is_no_more_than_a_letter() -> None:
    body = {"error": {"message": "That option does not exist."}}
    with (
        ModelServer([status(400, body=body)]) as server,
        pytest.raises(ModelError, match="That option does not exist"),
    ):
        Talk(server, "chat", api_key="x").ask("Why?")


@pytest.mark.parametrize("api", APIS)
def test_a_schema_that_is_refused_as_a_strict_one_is_sent_as_a_loose_one(api: str) -> None:
    words = "Invalid schema for function 'read_file': 'minimum' is not supported"
    refused = status(400, body={"error": {"message": words, "code": "invalid_function_parameters"}})
    with ModelServer([refused, reply("1"), reply("2")], prefix="free") as server:
        talk = Talk(server, api)
        talk.ask("a")
        talk.ask("b")
    assert [b'"strict":true' in r.raw for r in server.requests] == [True, False, False]


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_any_byte_shows_that_a_server_lives(api: str) -> None:
    slow = hang(2.0, reply("Slow but whole."), after=2, comment_every=0.05, resume=True)
    with ModelServer([slow]) as server:
        talk = Talk(server, api, idle_timeout_seconds=1.0)
        assert text_of(talk.ask("Why?").items) == "Slow but whole."
    assert talk.notices == []


@contextmanager
def interrupted_when(true: Callable[[], object]) -> Iterator[None]:
    def raise_interrupted(_signal: int, _frame: object) -> None:
        raise Interrupted

    earlier = signal.signal(signal.SIGINT, raise_interrupted)

    def send() -> None:
        wait_until(true)
        time.sleep(0.1)  # so that it is waited for the server again
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    sender.start()
    try:
        yield
    finally:
        sender.join()
        signal.signal(signal.SIGINT, earlier)


@pytest.mark.parametrize("api", APIS)
def test_an_inference_can_be_interrupted_while_the_server_is_silent(api: str) -> None:
    with ModelServer([hang(30.0, reply("half"), after=3), reply("ok")]) as server:
        talk = Talk(server, api)
        with at_once(), pytest.raises(Interrupted), interrupted_when(lambda: server.requests):
            talk.ask("Why?")
        assert text_of(talk.infer().items) == "ok"


def test_the_wait_between_attempts_can_be_interrupted() -> None:
    with ModelServer([status(429, {"retry-after": "30"})]) as server:
        settings = ProviderSettings("p", "responses", "m", server.url, api_key="k")
        with open_provider(settings) as provider:
            talk = Talk(server, "responses")
            talk.provider = provider
            with at_once(), pytest.raises(Interrupted), interrupted_when(lambda: server.requests):
                talk.ask("Why?")


@pytest.mark.slow
@pytest.mark.parametrize("api", APIS)
def test_a_terminal_event_is_acted_upon_though_the_server_keeps_the_connection_open(api: str) -> None:
    held = hang(30.0, reply("Done."), after=50)
    with ModelServer([held, reply("Again.")]) as server:
        talk = Talk(server, api)
        with at_once():
            assert text_of(talk.ask("Why?").items) == "Done."
            assert text_of(talk.ask("And?").items) == "Again."
    assert talk.notices == []


@pytest.mark.parametrize("api", APIS)
def test_one_connection_serves_all_rounds(api: str) -> None:
    with ModelServer([reply("1"), reply("2"), reply("3")]) as server:
        talk = Talk(server, api)
        for question in ("a", "b", "c"):
            talk.ask(question)
        assert server.connections == 1
