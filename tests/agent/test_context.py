"""What is sent stays inside the window, whole in its pairs, and grows only at its end between compactions."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.agent.context import Context
from codeagent.conversation import (
    AssistantMessage,
    Item,
    Reasoning,
    Source,
    ToolCall,
    ToolOutput,
    UserMessage,
    unanswered,
)
from codeagent.errors import ContextFull, ErrorKind
from codeagent.events import Compacted
from codeagent.inference import Finish, Inference, Usage

WINDOW = 32_000
TASK = UserMessage("why does UserService return null? Do not touch src/legacy.")


def reasoning(number: int) -> Reasoning:
    return Reasoning(Source("responses", "openai", "m", {"type": "reasoning", "id": f"rs_{number}"}))


def one_round(number: int, size: int, name: str = "read_file") -> list[Item]:
    arguments = {"path": f"src/File{number % 50}.java", "start_line": 1, "end_line": number + 1}
    if name == "run_command":
        arguments = {"command": f"grep -rn term{number} ."}
    call = ToolCall(f"call_{number}", name, json.dumps(arguments))
    text = f"src/File{number}.java lines 1-{number}\n" + "some line of code\n" * (size // 18)
    return [reasoning(number), call, ToolOutput(call.call_id, text)]


def tokens(items: Sequence[Item]) -> int:
    """A server's count: not the context's own arithmetic."""
    return sum(len(json.dumps(repr(item))) for item in items) // 4


def counted(items: Sequence[Item]) -> Inference:
    return Inference((), Finish.COMPLETE, "completed", Usage(input_tokens=tokens(items), output_tokens=1))


def assert_sendable(view: Sequence[Item]) -> None:
    """What every API asks for: each call answered once, no output without its call, no reasoning alone."""
    assert unanswered(view) == []
    calls = [item.call_id for item in view if isinstance(item, ToolCall)]
    outputs = [item.call_id for item in view if isinstance(item, ToolOutput)]
    assert sorted(calls) == sorted(outputs)
    for item, following in pairwise(view):
        if isinstance(item, Reasoning) and item.source.payload["type"] == "reasoning":
            assert isinstance(following, (Reasoning, AssistantMessage, ToolCall))


@pytest.mark.slow
def test_three_hundred_rounds_stay_within_a_32k_window_at_a_flat_cost() -> None:
    context = Context(WINDOW, "instructions " * 100, ())
    conversation: list[Item] = [TASK]
    durations: list[float] = []
    compactions: list[Compacted] = []
    sent: Sequence[Item] = ()
    for number in range(300):
        began = time.perf_counter()
        view, compacted = context.fit(conversation)
        durations.append(time.perf_counter() - began)
        assert tokens(view) < WINDOW
        assert_sendable(view)
        assert view[0] == TASK
        if compacted is None:
            assert list(view[: len(sent)]) == list(sent)
        else:
            compactions.append(compacted)
        sent = view
        context.used(counted(view))
        conversation += one_round(number, 2_000 + 700 * (number % 9), ("read_file", "run_command")[number % 2])
    assert len(conversation) == 901
    assert 5 < len(compactions) < 60  # rare enough for the prompt cache to hold between them
    assert compactions[-1].summarised_rounds > 100
    early, late = sorted(durations[20:60])[20], sorted(durations[260:])[20]
    assert late < max(4 * early, 0.001)


def test_outputs_are_cleared_before_any_round_is_summarised_and_the_newest_stay() -> None:
    context = Context(WINDOW, "", ())
    conversation: list[Item] = [TASK]
    for number in range(12):
        conversation += one_round(number, 12_000)
    view, compacted = context.fit(conversation)
    assert compacted is not None
    assert compacted.summarised_rounds == 0
    assert compacted.summary is None
    assert compacted.cleared_calls == [f"call_{number}" for number in range(len(compacted.cleared_calls))]
    assert [item for item in view if isinstance(item, ToolCall)] == [
        item for item in conversation if isinstance(item, ToolCall)
    ]
    assert view[3] == ToolOutput(
        "call_0",
        "src/File0.java lines 1-0\n"
        "[The rest of this output was cleared to save room. Make the call again if you need it.]",
    )
    assert view[-1] == conversation[-1]
    assert view[-7:] == conversation[-7:]


def test_a_summary_keeps_the_task_the_constraints_files_changes_and_denials() -> None:
    context = Context(12_000, "", (), changed=lambda: ["src/generated.py", "a\nb"])
    conversation: list[Item] = [TASK, UserMessage("AGENTS: use make", "repository")]
    patch = "*** Begin Patch\n*** Update File: src/changed.py\n@@\n-a\n+b\n*** End Patch"
    denied = ToolCall("c_denied", "run_command", json.dumps({"command": "rm -rf build"}))
    proposed = ToolCall("c_open", "run_command", json.dumps({"command": "make install"}))
    unknown = ToolCall("c_unknown", "run_command", json.dumps({"command": "make deploy"}))
    conversation += [
        ToolCall("c_patch", "apply_patch", json.dumps({"patch": patch})),
        ToolOutput("c_patch", "changed 1 file"),
        AssistantMessage("The cause seems to be the cache."),
        denied,
        ToolOutput("c_denied", "error: denied: not in this repository", ErrorKind.DENIED),
        proposed,
        ToolOutput("c_open", "error: cancelled: interrupted before it was started", ErrorKind.CANCELLED),
        unknown,
        ToolOutput("c_unknown", "error: interrupted: may or may not have run", ErrorKind.INTERRUPTED),
        UserMessage("also look at the cache"),
    ]
    for number in range(200):
        conversation += one_round(number, 300)
    view, compacted = context.fit(conversation)
    assert compacted is not None
    assert compacted.summarised_rounds > 50
    assert list(view[:3]) == [
        TASK,
        UserMessage("AGENTS: use make", "repository"),
        UserMessage("also look at the cache"),
    ]
    summary = view[3]
    assert isinstance(summary, UserMessage)
    assert summary.origin == "program"
    assert summary.text == compacted.summary
    for fact in (
        "Files changed in the private copy:\n- src/changed.py\n- src/generated.py\n- a b\n",
        "Proposed and not run, open still:\n- make install: error: cancelled: interrupted before it was started",
        "rm -rf build: error: denied: not in this repository",
        "Interrupted, effect unknown:\n- make deploy",
        "The cause seems to be the cache.",
        f"src/File{(compacted.summarised_rounds - 4) % 50}.java: lines ",
    ):
        assert fact in summary.text
    assert_sendable(view)


def test_newest_outputs_too_large_for_the_window_are_cut_in_the_middle() -> None:
    context = Context(8_000, "", ())
    calls = [ToolCall(f"c{number}", "read_file", "{}") for number in range(5)]
    outputs = [ToolOutput(call.call_id, f"head {call.call_id}\n" + "x" * 48_000 + "\ntail") for call in calls]
    view, compacted = context.fit([TASK, *calls, *outputs])
    assert compacted is not None
    names = [f"c{number}" for number in range(5)]
    (share,) = set(compacted.cut_calls.values())
    rate = compacted.tokens_per_byte
    assert compacted == Compacted(names, 0, cut_calls=dict.fromkeys(names, share), tokens_per_byte=rate)
    assert tokens(view) < 8_000
    for call, output in zip(calls, view[-5:], strict=True):
        assert isinstance(output, ToolOutput)
        assert output.call_id == call.call_id
        assert output.text.startswith(f"head {call.call_id}\n")
        assert output.text.endswith("\ntail")
        assert "characters were left out here to fit the context window" in output.text


def test_what_can_never_fit_is_a_clear_stop_and_not_a_loop() -> None:
    context = Context(8_000, "", ())
    short = [UserMessage("hello")]
    context.fit(short)
    context.used(counted(short))
    with pytest.raises(ContextFull) as full:
        context.fit([*short, UserMessage("word " * 40_000)])
    assert full.value.message == "The conversation does not fit into the model's context window of 8000 tokens."
    assert full.value.remedy


def test_a_refusal_by_the_server_shortens_once_and_later_requests_stay_below_it() -> None:
    context = Context(1_000_000, "", ())  # the server's window is smaller than the settings say
    conversation: list[Item] = [TASK]
    for number in range(30):
        conversation += one_round(number, 9_000)
    view, _ = context.fit(conversation)
    refused = tokens(view)
    view, compacted = context.shorten(conversation)
    assert compacted is not None
    assert tokens(view) < refused * 0.6
    for number in range(30, 60):
        conversation += one_round(number, 9_000)
        view, _ = context.fit(conversation)
        assert tokens(view) < refused


def test_nothing_to_shorten_is_said() -> None:
    context = Context(1_000_000, "", ())
    view, compacted = context.shorten([TASK])
    assert (list(view), compacted) == ([TASK], None)


def test_a_resumed_session_sends_what_the_interrupted_one_would_have_sent() -> None:
    conversation: list[Item] = [TASK]
    before = Context(20_000, "", ())
    compactions: list[Compacted] = []
    for number in range(150):
        conversation += one_round(number, 1_500)
        view, compacted = before.fit(conversation)
        if compacted is not None:
            compactions.append(compacted)
    assert any(event.summary for event in compactions)
    after = Context(20_000, "", ())
    after.restore(conversation, compactions)
    resumed, compacted = after.fit(conversation)
    assert compacted is None
    assert list(resumed) == list(view)


def test_shortening_is_tried_once_until_a_response_was_whole() -> None:
    context = Context(100_000, "", ())
    conversation: list[Item] = [TASK]
    for number in range(20):
        conversation += one_round(number, 9_000)
    full = Inference((), Finish.CONTEXT_FULL, "model_context_window_exceeded", Usage())
    assert context.shorten(conversation)[1] is not None
    context.used(full)
    conversation += one_round(20, 60_000)
    assert context.shorten(conversation)[1] is None
    context.used(counted(conversation))
    assert context.shorten(conversation)[1] is not None


call_sizes = st.lists(st.integers(min_value=0, max_value=30_000), min_size=0, max_size=4)
rounds = st.lists(
    st.tuples(st.sampled_from(["calls", "text", "user", "note"]), call_sizes, st.booleans()), min_size=1, max_size=40
)


@pytest.mark.slow
@settings(max_examples=120, deadline=None)
@given(rounds, st.integers(min_value=4_000, max_value=60_000), st.booleans())
def test_no_shortening_ever_breaks_a_pair(
    script: list[tuple[str, list[int], bool]], window: int, compacts: bool
) -> None:
    def compact(items: Sequence[Item]) -> Inference | None:
        assert_sendable(items)
        return sealed() if compacts else None

    context = Context(window, "instructions", ())
    conversation: list[Item] = [TASK]
    sent: Sequence[Item] = ()
    for number, (kind, sizes, refused) in enumerate(script):
        if kind == "calls" and sizes:
            calls = [ToolCall(f"c{number}_{index}", "read_file", "{}") for index in range(len(sizes))]
            conversation += [reasoning(number), *calls]
            conversation += [
                ToolOutput(call.call_id, "a b\n" * (n // 4)) for call, n in zip(calls, sizes, strict=True)
            ]
        elif kind == "text":
            conversation += [reasoning(number), AssistantMessage("found it"), UserMessage("go on")]
        else:
            conversation.append(UserMessage("more", "program" if kind == "note" else "user"))
        try:
            view, compacted = context.shorten(conversation) if refused else context.fit(conversation, compact)
        except ContextFull:
            return
        assert_sendable(view)
        assert TASK in view
        if compacted is None and not refused:
            assert list(view[: len(sent)]) == list(sent)
        sent = view
        context.used(counted(view))


# What an API makes of rounds itself -------------------------------------------------------------------------


def sealed(number: int = 1, size: int = 400) -> Inference:
    payload = {"type": "compaction", "id": f"cmp_{number}", "encrypted_content": "x" * size}
    item = Reasoning(Source("responses", "openai", "m", payload))
    return Inference((item,), Finish.COMPLETE, "compaction", Usage(9, 0, 9), (payload,))


def long_conversation(rounds: int = 200) -> list[Item]:
    conversation: list[Item] = [TASK]
    for number in range(rounds):
        conversation += one_round(number, 300)
    return conversation


def test_what_the_api_made_comes_first_and_the_programs_own_words_stay() -> None:
    asked: list[Sequence[Item]] = []
    context = Context(12_000, "", ())
    conversation = long_conversation()

    def compact(items: Sequence[Item]) -> Inference:
        asked.append(items)
        return sealed()

    view, compacted = context.fit(conversation, compact)
    assert compacted is not None
    assert compacted.compaction == {
        "api": "responses",
        "provider": "openai",
        "model": "m",
        "items": [{"type": "compaction", "id": "cmp_1", "encrypted_content": "x" * 400}],
        "usage": {"input_tokens": 9, "cached_input_tokens": 0, "output_tokens": 9},
    }
    assert list(view[:3]) == [*sealed().items, TASK, UserMessage(compacted.summary or "", "program")]
    assert asked == [conversation[: 1 + 3 * compacted.summarised_rounds]]


def test_a_compaction_that_leaves_too_little_room_is_not_used() -> None:
    context = Context(12_000, "", ())
    _, compacted = context.fit(long_conversation(), lambda _: sealed(size=40_000))
    assert compacted is not None
    assert compacted.summary
    assert compacted.compaction is None


@pytest.mark.parametrize(("window", "size"), [(12_000, 40_000), (1_500, 600)])
def test_what_makes_too_little_room_is_not_asked_for_again(window: int, size: int) -> None:
    """The compaction is too long, or the window too small for what has to stay."""
    asked: list[int] = []

    def compact(items: Sequence[Item]) -> Inference:
        asked.append(len(items))
        return sealed(size=size)

    context, conversation = (
        Context(window, "instructions " * 100, ()),
        long_conversation(20 if window < 9_000 else 200),
    )
    for number in range(200, 260):
        view, _ = context.fit(conversation, compact)
        assert_sendable(view)
        conversation += one_round(number, 300)
    assert len(asked) == 1


def test_an_interrupted_compaction_has_changed_nothing() -> None:
    def compact(_: Sequence[Item]) -> Inference:
        raise KeyboardInterrupt

    context, conversation = Context(12_000, "", ()), long_conversation()
    with pytest.raises(KeyboardInterrupt):
        context.fit(conversation, compact)
    fresh = Context(12_000, "", ())
    assert context.fit(conversation) == fresh.fit(conversation)


def test_one_large_output_is_cut_before_what_the_api_made_is_given_up() -> None:
    context, conversation = Context(12_000, "", ()), long_conversation()
    context.fit(conversation, lambda _: sealed())
    conversation += one_round(200, 40_000)
    view, compacted = context.fit(conversation, lambda _: sealed(2))
    assert compacted is not None
    assert (list(view[:1]), list(compacted.cut_calls)) == ([*sealed(2).items], ["call_200"])
    # There is no older round left that could go.
    context.used(counted(view))
    output = ToolOutput("call_201", "x" * 60_000)
    conversation += [ToolCall("call_201", "read_file", "{}"), ToolCall("call_202", "read_file", "{}")]
    conversation += [output, replace(output, call_id="call_202")]
    view, compacted = context.fit(conversation, lambda _: sealed(3))
    assert compacted is not None
    assert list(view[:1]) == [*sealed(3).items]
    assert tokens(view) < 12_000


def test_a_request_that_the_server_calls_too_long_is_shortened_without_asking_it() -> None:
    context, conversation = Context(12_000, "", ()), long_conversation()
    context.fit(conversation, lambda _: sealed())
    view, compacted = context.shorten(conversation)
    assert compacted is not None
    assert compacted.compaction is None
    if compacted.summary is not None:
        assert view[0] == TASK
