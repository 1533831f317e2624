"""The main job, end to end: the real program, a real container, the real SDK, a scripted model."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.clocks import GONE_SECONDS, at_once, wait_until
from tests.docker.codeagent_cli import FIXTURES, Program, containers, interrupt, runs
from tests.model_forms import Call
from tests.model_script import Entry, Received, Scripted
from tests.model_server import ModelServer, call, hang, reply, status, text, thought
from tests.terminals import listening

QUESTION = "why does UserService return null"
REPO = str(FIXTURES / "user-service")


@pytest.fixture
def program(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> Iterator[Program]:
    yield Program(tmp_path, engine)


def read(path: str, call_id: str, start: int | None = None, end: int | None = None) -> Call:
    return call("read_file", {"path": path, "start_line": start, "end_line": end}, call_id=call_id)


def command(script: str, call_id: str, writes: bool | None = None, seconds: int | None = None) -> Call:
    arguments = {"command": script, "workdir": None, "timeout_seconds": seconds, "writes": writes}
    return call("run_command", arguments, call_id=call_id)


def test_two_parallel_calls_that_end_in_the_opposite_order_both_come_back(program: Program) -> None:
    script: list[Scripted] = [
        reply(thought(), command("sleep 1", "slow"), read("src/nowhere/UserService.java", "fast")),
        lambda request: reply(text(" | ".join(f"{key}: {value}" for key, value in request.outputs.items()))),
    ]
    with ModelServer(script) as server:
        ran = program.run("ask", QUESTION, "--repo", REPO, "--json", server=server)
    assert (ran.code, ran.end["outcome"], ran.end["rounds"]) == (0, "answered", 2)
    second = server.requests[1]
    assert (second.calls, list(second.outputs)) == (["slow", "fast"], ["slow", "fast"])
    assert second.outputs["fast"].startswith("error: file_not_found: ")
    assert "UserService.java" in second.outputs["fast"]
    assert [(event["call_id"], event["status"], event["error_kind"]) for event in ran.of("tool_output")] == [
        ("slow", "ok", None),
        ("fast", "error", "file_not_found"),
    ]


def test_a_question_in_chinese_reaches_the_model_and_the_answer_alone_goes_to_stdout(program: Program) -> None:
    with ModelServer([reply(text("因为缓存。"))]) as server:
        ran = program.run("ask", "为什么 UserService 返回 null", "--repo", REPO, server=server)
    assert server.requests[0].user_texts[0] == "为什么 UserService 返回 null"
    assert (ran.code, ran.out) == (0, "因为缓存。\n")
    assert "Loop: answered after 1 round" in ran.err
    assert "Fix: not verified (no verification was requested)" in ran.err


def test_the_log_holds_what_json_prints_and_the_server_keeps_nothing(program: Program) -> None:
    with ModelServer([reply(thought("hm"), read("README.md", "c1")), reply(text("Done."))]) as server:
        ran = program.run("ask", QUESTION, "--repo", REPO, "--json", server=server)
    (session,) = program.sessions
    stored = [json.loads(line) for line in (session / "events.jsonl").read_text().splitlines()]
    assert stored == ran.events
    assert {(event["session_id"], event["turn"]) for event in stored if event["round"]} == {(session.name, 1)}
    assert [event["type"] for event in stored if event["round"]] == [
        "model_response",
        "tool_call",
        "tool_output",
        "model_response",
    ]
    assert ((session / "events.jsonl").stat().st_mode & 0o777, session.stat().st_mode & 0o777) == (0o600, 0o700)

    first, second = (request.body for request in server.requests)
    assert (first["store"], first["stream"], first["include"]) == (False, True, ["reasoning.encrypted_content"])
    assert [tool["name"] for tool in first["tools"]] == ["read_file", "list_dir", "run_command"]
    assert all(tool["strict"] is True for tool in first["tools"])
    assert len(json.dumps([first["instructions"], first["tools"]])) <= 6 * 1024
    assert [item["type"] for item in second["input"] if "encrypted_content" in item] == ["reasoning"]


def test_a_truncated_response_is_no_answer_and_its_calls_never_run(program: Program) -> None:
    with ModelServer([reply(text("I will"), command("touch ran", "c1"), finish="length")]) as server:
        ran = program.run("ask", QUESTION, "--repo", REPO, "--approve", "all", "--json", server=server)
    assert (ran.code, ran.end["outcome"], ran.end["answer"], ran.end["partial"]) == (7, "truncated", None, "I will")
    assert ran.of("approval_decided") == []
    assert [event["error_kind"] for event in ran.of("tool_output")] == ["cancelled"]


def test_what_would_be_asked_is_denied_without_a_terminal(program: Program) -> None:
    with ModelServer([reply(command("touch x", "c1")), reply(text("Denied."))]) as server:
        ran = program.run("ask", QUESTION, "--repo", REPO, "--json", server=server)
    (decided,) = ran.of("approval_decided")
    assert (decided["decision"], decided["by"]) == ("deny", "no_terminal")
    assert ran.outputs["c1"].startswith("error: denied: ") and "--approve contained" in ran.outputs["c1"]


def test_round_limit_asks_once_more_without_tools_and_its_text_is_partial(program: Program) -> None:
    script: list[Scripted] = [
        reply(read("README.md", "c1")),
        reply(read("README.md", "c2", 1, 1)),
        reply(text("So far: nothing.")),
    ]
    with ModelServer(script) as server:
        ran = program.run("ask", QUESTION, "--repo", REPO, "--max-rounds", "2", "--json", server=server)
    assert (ran.code, ran.end["outcome"], ran.end["rounds"]) == (7, "round_limit", 2)
    assert (ran.end["answer"], ran.end["partial"]) == (None, "So far: nothing.")
    assert server.requests[2].body["tool_choice"] == "none"


def test_the_same_call_with_the_same_result_is_warned_about_and_ends_the_turn(program: Program) -> None:
    def again(request: Received) -> Entry:
        if request.body.get("tool_choice") == "none":
            return reply(text("Nothing new."))
        return reply(call("list_dir", {"path": ".", "depth": None, "offset": None}))

    with ModelServer(again) as server:
        ran = program.run("ask", QUESTION, "--repo", REPO, "--json", server=server)
    assert (ran.code, ran.end["outcome"], ran.end["rounds"], ran.end["partial"]) == (
        7,
        "repeated_calls",
        4,
        "Nothing new.",
    )
    warned = ["warning: this is the third time" in event["output"] for event in ran.of("tool_output")]
    assert warned == [False, False, True, False]


def test_needs_input_has_its_own_exit_code(program: Program) -> None:
    with ModelServer([reply(text("I cannot see it.\nNEEDS INPUT: which of the two services?"))]) as server:
        ran = program.run("ask", QUESTION, "--repo", REPO, "--json", server=server)
    assert (ran.code, ran.end["outcome"]) == (6, "needs_input")


@pytest.mark.parametrize(
    ("answer", "sentence"),
    [
        (status(401, body={"error": {"message": "bad key", "code": "invalid_api_key"}}), "OPENAI_API_KEY"),
        (status(404, body={"error": {"message": "no such model", "code": "model_not_found"}}), "gpt-5.6"),
    ],
)
def test_a_refused_request_names_what_to_change(program: Program, answer: Entry, sentence: str) -> None:
    with ModelServer([answer], rejections="allow") as server:
        ran = program.run("ask", QUESTION, "--repo", REPO, "--json", server=server)
    assert (ran.code, ran.end["outcome"]) == (3, "model_failed")
    assert sentence in ran.err and "Traceback" not in ran.err and "sk-test" not in ran.err


@pytest.mark.parametrize(
    ("argv", "code", "sentence"),
    [
        (("ask", "  ", "--repo", REPO), 2, "The question is empty."),
        (("ask", "q", "--repo", "/nowhere/at/all"), 2, "There is no directory /nowhere/at/all."),
        (("ask", "q", "--repo", __file__), 2, "is not a directory."),
        (("ask", "q", "--repo", "/"), 2, "Refusing to mount /"),
        (("ask", "q", "--repo", REPO, "--docker-host", "unix:///nowhere.sock"), 4, "/nowhere.sock"),
        (("ask", "q", "--repo", REPO, "--image", "no-such-image:1"), 4, "no-such-image:1"),
    ],
)
def test_bad_input_is_one_sentence_and_no_request(
    program: Program, argv: tuple[str, ...], code: int, sentence: str
) -> None:
    with ModelServer([]) as server:
        ran = program.run(*argv, server=server)
    assert (ran.code, server.requests) == (code, [])
    assert sentence in ran.err and "Traceback" not in ran.err
    assert ran.out == ""


def test_without_a_key_the_variable_and_the_way_out_are_named(program: Program) -> None:
    ran = program.run("ask", QUESTION, "--repo", REPO)
    assert (ran.code, ran.out) == (2, "")
    assert "OPENAI_API_KEY" in ran.err and "--model offline" in ran.err
    assert not (program.home / "codeagent").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_nothing_is_left_behind(program: Program, engine: Engine, number: signal.Signals) -> None:
    with ModelServer([reply(command("sleep 60", "c1")), hang()]) as server:
        process = program.start("ask", QUESTION, "--repo", REPO, "--approve", "all", "--json", server=server)
        assert process.stdout is not None
        for line in process.stdout:
            if json.loads(line)["type"] == "approval_decided":
                break
        session_id = json.loads(line)["session_id"]
        wait_until(lambda: any(runs(one, "sleep 60") for one in containers(engine, session_id)))
        with at_once(GONE_SECONDS):
            ran = interrupt(process, number)
            wait_until(lambda: not containers(engine, session_id))
    if number != signal.SIGKILL:
        ended = json.loads(ran.out.splitlines()[-1])
        assert (ran.code, ended["outcome"], ended["exit_code"]) == (130, "interrupted", 130)
        outputs = [json.loads(line) for line in ran.out.splitlines() if '"tool_output"' in line]
        assert [(output["call_id"], output["status"]) for output in outputs] == [("c1", "error")]


def story(program: Program, server: ModelServer) -> pexpect.spawn[str]:
    argv = program.argv("ask", QUESTION, "--repo", REPO)
    return pexpect.spawn(
        argv[0], argv[1:], env=dict(program.with_model(server)), encoding="utf-8", timeout=30, dimensions=(40, 120)
    )


def test_a_person_approves_what_is_shown_and_gets_the_answer(program: Program) -> None:
    script: list[Scripted] = [
        reply(command("ls && touch made", "c1", writes=False)),
        lambda request: reply(text(request.outputs["c1"])),
    ]
    with ModelServer(script) as server:
        person = story(program, server)
        person.expect_exact("ls && touch made")
        person.expect_exact("/s]: ")
        listening(person)
        person.sendline("y")
        person.expect_exact("Read-only file system")
        person.expect_exact("Loop: answered after 2 rounds")
        person.expect(pexpect.EOF)
        person.close()
    assert person.exitstatus == 0


def test_a_persons_reason_for_a_denial_reaches_the_model(program: Program) -> None:
    script: list[Scripted] = [reply(command("rm -r src", "c1")), lambda request: reply(text(request.outputs["c1"]))]
    with ModelServer(script) as server:
        person = story(program, server)
        person.expect_exact("rm -r src")
        person.expect_exact("/s]: ")
        listening(person)
        person.sendline("r")
        person.expect_exact("Reason: ")
        listening(person)
        person.sendline("leave the sources alone")
        person.expect_exact("Loop: answered after 2 rounds")
        person.expect(pexpect.EOF)
        person.close()
    assert server.requests[1].outputs["c1"] == "error: denied: the user denied this call: leave the sources alone"
    assert person.exitstatus == 0
