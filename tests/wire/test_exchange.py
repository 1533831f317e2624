"""What holds for all three APIs alike, over the wire."""

from __future__ import annotations

import json
from importlib import import_module

import pytest

from codeagent.conversation import AssistantMessage, Reasoning, ToolCall, ToolOutput, UserMessage, text_of
from codeagent.errors import ErrorKind, ModelError
from codeagent.inference import Finish, Usage
from tests.model_script import Scripted
from tests.model_server import ModelServer, call, cut, raw_sse, refusal, reply, status, text, thought
from tests.wire.talk import APIS, Talk

pytestmark = pytest.mark.parametrize("api", APIS)

ROUND = reply(
    thought("hm"),
    "Let me look.",
    call("read_file", {"path": "a.py"}, "c1"),
    call("run_command", {"command": "ls"}, "c2"),
    usage=(1000, 200, 30),
)


def test_a_round_with_two_calls_and_the_answer(api: str) -> None:
    with ModelServer([ROUND, lambda r: reply(f"{r.outputs['c1']} and {r.outputs['c2']}")]) as server:
        talk = Talk(server, api)
        first = talk.ask("Why?")
        assert first.finish is Finish.COMPLETE
        assert first.usage == Usage(1000, 200, 30)
        assert [type(item) for item in first.items] == [Reasoning, AssistantMessage, ToolCall, ToolCall]
        assert [(i.call_id, i.name, json.loads(i.arguments)) for i in first.items if isinstance(i, ToolCall)] == [
            ("c1", "read_file", {"path": "a.py"}),
            ("c2", "run_command", {"command": "ls"}),
        ]
        assert "".join(talk.shown) == "Let me look."
        # Finished in the other order: pairing is by id.
        talk.history += [ToolOutput("c2", "LS", ErrorKind.DENIED), ToolOutput("c1", "CODE")]
        assert text_of(talk.infer().items) == "CODE and LS"
    assert [sorted(r.outputs) for r in server.requests] == [[], ["c1", "c2"]]
    assert server.requests[0].tool_names == ["read_file", "run_command"]
    assert server.requests[0].user_texts == ["Why?"]


def test_many_turns_grow_only_at_their_end(api: str) -> None:
    script = [ROUND, reply("One."), reply(call("read_file", {"path": "b"}, "c3")), reply(thought("t"), "Two.")]
    with ModelServer(script) as server:
        talk = Talk(server, api)
        assert talk.turn("first") == "One."
        talk.history.append(UserMessage("a.py changed", "program"))
        assert talk.turn("second") == "Two."
    assert server.prefix_changes == 0
    assert server.left == 0


def test_the_whole_of_a_response_that_was_not_streamed(api: str) -> None:
    with ModelServer([ROUND, reply("Done.")]) as server:
        talk = Talk(server, api, options={"stream": False})
        first = talk.ask("Why?")
        assert [type(item) for item in first.items] == [Reasoning, AssistantMessage, ToolCall, ToolCall]
        assert first.usage == Usage(1000, 200, 30)
        talk.answer()
        assert text_of(talk.infer().items) == "Done."
        assert talk.shown[-1] == "Done."


def test_no_tools_may_be_called_when_the_request_says_so(api: str) -> None:
    with ModelServer([ROUND, reply("So far: nothing.")]) as server:
        talk = Talk(server, api)
        talk.ask("Why?")
        talk.answer()
        talk.infer(tool_choice="none")
    assert [r.body.get("tool_choice") for r in server.requests] == [
        None,
        {"type": "none"} if api == "messages" else "none",
    ]
    assert server.requests[1].tool_names == ["read_file", "run_command"]


@pytest.mark.parametrize(
    ("finish", "expected", "words"),
    [
        ("length", Finish.TRUNCATED, ("max_output_tokens", "length", "max_tokens")),
        ("content_filter", None, ("content_filter", "content_filter", "refusal")),
        ("something_new", Finish.TRUNCATED, ("something_new",) * 3),
    ],
)
def test_a_response_that_was_cut_is_never_complete(
    api: str, finish: str, expected: Finish | None, words: tuple[str, ...]
) -> None:
    # The arguments happen to be JSON; the response was cut all the same.
    with ModelServer(
        [reply("Cleaning", call("run_command", {"command": "rm -rf build"}, "c1"), finish=finish)]
    ) as server:
        inference = Talk(server, api).ask("Clean up.")
    if expected is None:
        expected = Finish.REFUSED if api == "messages" else Finish.TRUNCATED
    assert (inference.finish, inference.finish_word) == (expected, words[APIS.index(api)])
    assert [i.call_id for i in inference.items if isinstance(i, ToolCall)] == ["c1"]


def test_a_call_cut_in_the_middle_of_its_arguments_can_be_sent_back(api: str) -> None:
    script = [reply(call("run_command", '{"command": "rm -rf bu', "c1"), finish="length"), reply("Sorry.")]
    with ModelServer(script) as server:
        talk = Talk(server, api)
        first = talk.ask("Clean up.")
        assert first.finish is Finish.TRUNCATED
        assert [i.arguments for i in first.items if isinstance(i, ToolCall)] == ['{"command": "rm -rf bu']
        talk.answer("error: cancelled: cut off", error=ErrorKind.CANCELLED)
        talk.infer()
    assert b"rm -rf" not in server.requests[1].raw


@pytest.mark.parametrize("arguments", ["null", "[]", '"a.py"', "5", "true", '{"a":1}{"a":1}', "{", '{"path": 1e999}'])
def test_arguments_that_are_no_object_are_kept_for_the_tool_and_do_not_spoil_the_history(
    api: str, arguments: str
) -> None:
    with ModelServer([reply(call("read_file", arguments, "c1")), reply("ok")]) as server:
        talk = Talk(server, api)
        first = talk.ask("Why?")
        assert [i.arguments for i in first.items if isinstance(i, ToolCall)] == [arguments]
        talk.answer("error: invalid_arguments: no object", error=ErrorKind.INVALID_ARGUMENTS)
        talk.infer()


def test_a_refusal_is_no_answer(api: str) -> None:
    with ModelServer([reply(refusal("I can not help with that."))]) as server:
        inference = Talk(server, api).ask("How?")
    assert inference.finish is Finish.REFUSED
    assert inference.detail
    if api != "messages":  # there, the reason to stop says it, and the text is text
        assert text_of(inference.items) == ""
        assert inference.detail == "I can not help with that."


def test_a_response_without_text_and_calls_is_complete_and_empty(api: str) -> None:
    with ModelServer([reply(), reply(text(" \n")), reply(thought("hm")), reply("Here.")]) as server:
        talk = Talk(server, api)
        for question in ("one", "two", "three"):
            inference = talk.ask(question)
            assert (inference.finish, text_of(inference.items)) == (Finish.COMPLETE, "")
        assert text_of(talk.ask("four").items) == "Here."


@pytest.mark.parametrize("name", ["bash", "Read_File", "", "functions.read_file", "read file", "x" * 200])
def test_a_tool_that_nobody_offered_can_be_answered(api: str, name: str) -> None:
    with ModelServer([reply(call(name, {"path": "a"}, "c1")), reply("ok")]) as server:
        talk = Talk(server, api)
        first = talk.ask("Why?")
        assert [i.name for i in first.items if isinstance(i, ToolCall)] == [name]
        talk.answer("error: unknown_tool: there is no such tool", error=ErrorKind.UNKNOWN_TOOL)
        talk.infer()


def test_ids_that_start_again_in_every_turn_are_kept_apart(api: str) -> None:
    script: list[Scripted] = [
        reply(call("read_file", {"path": "a"}, "call_0"), call("read_file", {"path": "b"}, "call_1")),
        reply(call("read_file", {"path": "c"}, "call_0")),
        lambda r: reply(" ".join(r.outputs.values())),
    ]
    with ModelServer(script) as server:
        talk = Talk(server, api)
        talk.ask("Why?")
        talk.answer("A", "B")
        second = talk.infer()
        assert [(i.call_id, i.defect) for i in second.items if isinstance(i, ToolCall)] == [("call_0_2", "")]
        talk.answer("C")
        assert text_of(talk.infer().items) == "A B C"
    assert server.requests[2].calls == ["call_0", "call_1", "call_0_2"]


def test_an_id_that_repeats_within_a_response_makes_the_later_call_defective(api: str) -> None:
    first = reply(call("read_file", {"path": "a"}, "same"), call("read_file", {"path": "b"}, "same"))
    with ModelServer([first, reply("ok")]) as server:
        talk = Talk(server, api)
        calls = [i for i in talk.ask("Why?").items if isinstance(i, ToolCall)]
        assert [c.call_id for c in calls] == ["same", "same_2"]
        assert [bool(c.defect) for c in calls] == [False, True]
        talk.answer("A", "error: invalid_arguments: ...")
        talk.infer()


@pytest.mark.parametrize("bad", ["call_" + "x" * 80, "toolu:1/a", "functions.read_file:0", "é", " "])
def test_ids_that_another_api_made_are_mapped_the_same_for_call_and_output(api: str, bad: str) -> None:
    with ModelServer([lambda r: reply(str(sorted(r.outputs.values())))]) as server:
        talk = Talk(server, api)
        talk.history += [
            UserMessage("q"),
            ToolCall(bad, "read_file", '{"path": "a"}'),
            ToolCall("c2", "read_file", '{"path": "b"}'),
            ToolOutput(bad, "A"),
            ToolOutput("c2", "B"),
        ]
        assert text_of(talk.infer().items) == "['A', 'B']"


def test_text_that_is_not_unicode_never_spoils_a_request(api: str) -> None:
    lone = '{"path": "caf\\udce9"}'
    with ModelServer(
        [reply("emoji: \ud83d\ude00 half: \ud83d", call("read_file", lone, "c1")), reply("ok")]
    ) as server:
        talk = Talk(server, api)
        first = talk.ask("stdin had \udc9d")
        assert text_of(first.items) == "emoji: 😀 half: \ufffd"
        for item in first.items:
            str(item).encode()
        "".join(talk.shown).encode()
        talk.answer("caf\udce9.txt")
        talk.infer()
    assert server.requests[0].user_texts == ["stdin had \ufffd"]


def test_a_call_written_as_text_is_told_from_an_answer(api: str) -> None:
    written = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a.py"}}\n</tool_call>'
    with ModelServer([reply("I will read it.\n" + written), reply("The file has a `name` key.")]) as server:
        talk = Talk(server, api)
        first = talk.ask("Why?")
        assert (first.text_call, [type(i) for i in first.items]) == (True, [AssistantMessage])
        assert not talk.ask("Go on.").text_call


def test_the_half_of_a_response_that_was_cut_is_dropped_and_asked_for_again(api: str) -> None:
    whole = reply("Half of this is lost.", call("read_file", {"path": "a"}, "c1"))
    with ModelServer([cut(whole, after=4), cut(whole, after=4, clean=True), whole, reply("ok")]) as server:
        talk = Talk(server, api)
        first = talk.ask("Why?")
        assert "".join(talk.shown) == "Half of this is lost."
        assert [i.call_id for i in first.items if isinstance(i, ToolCall)] == ["c1"]
        assert [n.attempt for n in talk.notices] == [1, 2]
        talk.answer()
        talk.infer()
    assert server.requests[0].raw == server.requests[1].raw == server.requests[2].raw


def test_an_answer_that_ends_before_it_begins_is_asked_for_again(api: str) -> None:
    with ModelServer(
        [raw_sse(), raw_sse(": only a comment\n\n"), raw_sse(abort=True), status(502), reply("ok")]
    ) as server:
        talk = Talk(server, api)
        assert text_of(talk.ask("Why?").items) == "ok"
    assert len(talk.notices) == 4


def test_an_error_in_the_middle_of_a_stream_is_asked_for_again(api: str) -> None:
    with ModelServer([reply("Half", finish="failed"), reply("Whole.")]) as server:
        talk = Talk(server, api)
        assert text_of(talk.ask("Why?").items) == "Whole."
    assert "".join(talk.shown) == "Whole."
    assert len(talk.notices) == 1


def test_stored_output_gives_the_same_items_again(api: str) -> None:
    script = [ROUND, reply(call("read_file", '{"pa', "c9"), finish="length"), reply(refusal("No."))]
    with ModelServer(script) as server:
        talk = Talk(server, api)
        for question in ("one", "two", "three"):
            inference = talk.ask(question)
            stored = json.loads(json.dumps(inference.raw))
            module = import_module(f"codeagent.providers.{api}_items")
            assert module.items_of("tested", "m-1", stored) == inference.items
            talk.answer()


def test_where_no_model_is_named_the_server_s_only_one_is_used(api: str) -> None:
    with ModelServer([ROUND, reply("ok")], models=["only"]) as server:
        talk = Talk(server, api, model="")
        first = talk.ask("Why?")
        assert talk.provider.model == "only"
        assert {item.source.model for item in first.items if item.source} == {"only"}  # type: ignore[union-attr]
        talk.answer()
        talk.infer()


def test_a_server_that_lists_no_models_is_asked_without_knowing(api: str) -> None:
    with ModelServer([reply("ok")]) as server:
        assert text_of(Talk(server, api, model="").ask("Why?").items) == "ok"


def test_of_several_models_the_user_must_choose(api: str) -> None:
    with (
        ModelServer(models=["a", "b"]) as server,
        pytest.raises(ModelError, match="has several models: a, b") as raised,
    ):
        Talk(server, api, model="").ask("Why?")
    assert "--model" in raised.value.remedy
