"""Whatever a log holds, the conversation rebuilt from it can be sent: every call has exactly one output."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.context import Context
from codeagent.conversation import AssistantMessage, Item, Source, ToolCall, ToolOutput, UserMessage, unanswered
from codeagent.errors import ErrorKind
from codeagent.events import Compacted
from codeagent.session.history import History, Retype, interrupted_output, rebuild


def retype(api: str, provider: str, model: str, raw: Sequence[Any]) -> list[Item]:
    """Output items of the Responses API, as far as these tests write them."""
    items: list[Item] = []
    for position, part in enumerate(raw):
        source = Source(api, provider, model, part, position=position)
        if part.get("type") == "function_call":
            items.append(ToolCall(part.get("call_id", ""), part["name"], part["arguments"], source))
        else:
            items.append(AssistantMessage(part["text"], source))
    return items


def call(call_id: str, name: str = "read_file") -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": "{}"}


def response(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    names = {"api": "responses", "provider": "openai", "model": "m"}
    return {"type": "model_response", "status": "completed", "items": list(parts), **names, **fields}


def named(call_id: str) -> dict[str, Any]:
    return {"type": "tool_call", "call_id": call_id, "name": "read_file", "arguments": "{}"}


def output(call_id: str, text: str = "fine", kind: str | None = None) -> dict[str, Any]:
    status = "error" if kind else "ok"
    return {"type": "tool_output", "call_id": call_id, "status": status, "error_kind": kind, "output": text}


STARTED = {"type": "session_started", "repo": "/r", "provider": "openai", "model": "m", "image": "i", "format": 1}
ASKED = {"type": "turn_started", "message": "why?", "turn": 1, "round": 0}


def source(part: dict[str, Any], position: int = 0) -> Source:
    return Source("responses", "openai", "m", part, position=position)


def test_a_whole_turn_comes_back_as_it_was() -> None:
    message = {"type": "message", "text": "because"}
    history = rebuild(
        [
            STARTED,
            {"type": "note", "origin": "repository", "text": "AGENTS"},
            ASKED,
            response(call("c1"), call("c2"), turn=1, round=1),
            named("c1"),
            named("c2"),
            output("c2", "error: file_not_found: no x", "file_not_found"),
            output("c1"),
            {"type": "note", "origin": "program", "text": "a.py has changed"},
            response(message, turn=1, round=2),
            {"type": "turn_ended", "outcome": "answered", "turn": 1, "round": 2},
        ],
        retype,
    )
    assert history == History(
        items=(
            UserMessage("AGENTS", "repository"),
            UserMessage("why?"),
            ToolCall("c1", "read_file", "{}", source(call("c1"))),
            ToolCall("c2", "read_file", "{}", source(call("c2"), 1)),
            ToolOutput("c1", "fine"),
            ToolOutput("c2", "error: file_not_found: no x", ErrorKind.FILE_NOT_FOUND),
            UserMessage("a.py has changed", "program"),
            AssistantMessage("because", source(message)),
        ),
        repo="/r",
        provider="openai",
        model="m",
        image="i",
        turn=1,
        round=2,
        message="why?",
        outcome="answered",
    )


def test_a_call_without_output_is_answered_as_interrupted_and_named() -> None:
    history = rebuild([STARTED, ASKED, response(call("c1"), call("c2")), named("c1"), output("c1")], retype)
    assert history.items[-2:] == (ToolOutput("c1", "fine"), interrupted_output("c2"))
    assert history.interrupted_calls == ("c2",)
    assert history.outcome is None
    assert interrupted_output("c2").text == (
        "error: interrupted: codeagent ended before the result of this call was recorded; it may or may not have "
        "run. Check what it would have changed before you repeat it"
    )


def test_an_output_without_its_call_is_left_out_and_counted() -> None:
    history = rebuild([STARTED, ASKED, output("ghost"), response(call("c1")), output("c1"), output("other")], retype)
    assert [item for item in history.items if isinstance(item, ToolOutput)] == [ToolOutput("c1", "fine")]
    assert history.orphan_outputs == 2


def test_of_two_outputs_the_first_counts() -> None:
    history = rebuild([STARTED, ASKED, response(call("c1")), output("c1", "first"), output("c1", "second")], retype)
    assert history.items[-1] == ToolOutput("c1", "first")
    assert history.orphan_outputs == 0


def test_a_log_that_stands_twice_in_its_file_is_one_conversation() -> None:
    events = [STARTED, ASKED, response(call("c1"), time="t"), named("c1"), output("c1"), response({"text": "so"})]
    assert rebuild(events * 2, retype).items == rebuild(events, retype).items
    doubled = [event for event in events for _ in range(2)]
    assert rebuild(doubled, retype).items == rebuild(events, retype).items


def test_an_output_recorded_at_a_later_resumption_stands_beside_its_call() -> None:
    history = rebuild(
        [
            STARTED,
            ASKED,
            response(call("c1")),
            {**STARTED, "type": "session_resumed", "model": "n"},
            output("c1", "x"),
        ],
        retype,
    )
    assert history.items[-1] == ToolOutput("c1", "x")
    assert history.interrupted_calls == ()
    assert history.model == "n"


def test_ids_that_a_server_repeats_are_told_apart_as_they_were_when_the_calls_ran() -> None:
    history = rebuild(
        [
            STARTED,
            ASKED,
            response(call("call_0")),
            named("call_0"),
            output("call_0", "one"),
            response(call("call_0"), time="later"),
            named("call_0_2"),
            output("call_0_2", "two"),
        ],
        retype,
    )
    outputs = [item for item in history.items if isinstance(item, ToolOutput)]
    assert outputs == [ToolOutput("call_0", "one"), ToolOutput("call_0_2", "two")]


def test_an_id_used_again_after_its_first_round_was_summarised_belongs_to_the_newest_call() -> None:
    first, again = ([response(call("call_0"), time=time), named("call_0")] for time in ("t1", "t2"))
    history = rebuild([STARTED, ASKED, *first, output("call_0", "one"), *again, output("call_0", "two")], retype)
    assert [item.text for item in history.items if isinstance(item, ToolOutput)] == ["one", "two"]
    assert history.interrupted_calls == ()


def test_a_turn_whose_message_was_lost_begins_with_a_word_about_it() -> None:
    history = rebuild([STARTED, response(call("c1"), turn=1, round=1), output("c1")], retype)
    assert history.items[0] == UserMessage(
        "(The user's message that began this turn could not be read from the session's log.)", "program"
    )


def test_the_last_compaction_and_all_cleared_calls_are_kept() -> None:
    history = rebuild(
        [
            STARTED,
            {"type": "compacted", "cleared_calls": ["a"], "summarised_rounds": 0, "summary": None},
            {"type": "compacted", "cleared_calls": ["b"], "summarised_rounds": 4, "summary": "so far"},
        ],
        retype,
    )
    assert history.compactions == (Compacted(["a"], 0), Compacted(["b"], 4, "so far"))


COMPACTED: dict[str, Any] = {
    "type": "compacted",
    "cleared_calls": ["c1"],
    "cut_calls": {"c1": 9},
    "summarised_rounds": 1,
    "summary": "so far",
    "message_bytes": 100,
    "compaction": {
        "api": "responses",
        "provider": "openai",
        "model": "m",
        "items": [{"type": "message", "text": "t"}],
    },
    "tokens_per_byte": 0.3,
}


def test_what_an_api_made_of_rounds_is_there_until_the_next_summary() -> None:
    made = rebuild([STARTED, COMPACTED, {**COMPACTED, "summary": None, "compaction": None}], retype)
    assert [item.text for item in made.compaction if isinstance(item, AssistantMessage)] == ["t"]
    own = rebuild([STARTED, COMPACTED, {**COMPACTED, "compaction": None}], retype)
    assert own.compaction == ()
    expected = Compacted(["c1"], 1, "so far", 100, {"c1": 9}, tokens_per_byte=0.3)
    assert own.compactions == (expected, expected)


ids = st.sampled_from(["c1", "c2", "c3", "", "call_0", "call_0_2"])
raw_items = st.lists(st.one_of(ids.map(call), st.just({"type": "message", "text": "t"})), min_size=0, max_size=4)
anything = st.one_of(st.none(), st.integers(), st.text(max_size=3), st.lists(st.integers(), max_size=2))
records = st.lists(
    st.one_of(
        st.just(STARTED),
        st.just(ASKED),
        raw_items.map(lambda parts: response(*parts)),
        ids.map(named),
        ids.map(output),
        st.just({"type": "note", "origin": "program", "text": "n"}),
        st.just({"type": "turn_ended", "outcome": "interrupted"}),
        st.builds(
            lambda value: {"type": "tool_output", "call_id": value, "output": value, "status": value}, anything
        ),
        st.builds(lambda value: {"type": "model_response", "items": value}, st.one_of(st.none(), st.text())),
        st.builds(lambda value: {"type": "turn_started", "message": value, "turn": value}, anything),
        st.builds(lambda value, name: {**COMPACTED, name: value}, anything, st.sampled_from(sorted(COMPACTED))),
        st.builds(lambda value: {"type": "something_newer", "text": value}, anything),
    ),
    max_size=30,
)


def assert_paired(items: Sequence[Item]) -> None:
    """The rule of every API, in its strictest form: outputs directly follow the response with their calls."""
    calls = [item.call_id for item in items if isinstance(item, ToolCall)]
    outputs = [item.call_id for item in items if isinstance(item, ToolOutput)]
    assert len(set(calls)) == len(calls)
    assert calls == outputs
    assert unanswered(items) == []
    assert not items or isinstance(items[0], UserMessage)
    open_calls: list[str] = []
    for item in items:
        if isinstance(item, ToolCall):
            open_calls.append(item.call_id)
        elif isinstance(item, ToolOutput):
            assert open_calls.pop(0) == item.call_id
        elif isinstance(item, UserMessage):
            assert open_calls == []


@settings(max_examples=100)
@given(records)
def test_any_sequence_of_events_gives_a_paired_conversation(events: list[dict[str, Any]]) -> None:
    kept: Retype = retype
    history = rebuild(events, kept)
    assert_paired(history.items)
    context = Context(2_000, "", ())
    context.restore(history.items, history.compactions, history.compaction)
    assert unanswered(context.fit(history.items)[0]) == []


@settings(max_examples=100)
@given(records, st.data())
def test_a_log_cut_anywhere_gives_a_paired_conversation(events: list[dict[str, Any]], data: st.DataObject) -> None:
    cut = data.draw(st.integers(min_value=0, max_value=len(events)))
    gone = data.draw(st.integers(min_value=0, max_value=len(events)))
    assert_paired(rebuild(events[:cut], retype).items)
    assert_paired(rebuild([*events[:gone], *events[gone + 1 :]], retype).items)
