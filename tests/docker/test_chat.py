"""`codeagent chat` as a person uses it: a pseudo-terminal, a real container, a scripted model."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pexpect
import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.owner import SESSION_LABEL
from codeagent.sandbox.toolbox import Toolbox
from tests.clocks import wait_until
from tests.model_server import ModelServer, call, hang, reply, text
from tests.terminals import listening

PROGRAM = str(Path(sys.executable).with_name("codeagent"))
PROMPT = r">.*\x1b\[\?25h"


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "shop"
    repo.mkdir()
    (repo / "app.py").write_text("def find(key):\n    return None\n")
    return repo


@pytest.fixture(autouse=True)
def _made(toolbox: Toolbox) -> None:
    """Image and toolbox are there before a test's clock starts."""


class Chatting:
    """One chat in a terminal that is wide enough for every line."""

    def __init__(self, server: ModelServer, repo: Path, host: str, flags: Sequence[str]) -> None:
        self.home = repo.parent / "home"
        self.env = {
            **os.environ,
            "CODEAGENT_HOME": str(self.home),
            "OPENAI_API_KEY": "test",
            "OPENAI_BASE_URL": server.url,
            "DOCKER_HOST": host,
            "TERM": "xterm",
            "COLUMNS": "",  # of the terminal that the tests run in
            "PROMPT_TOOLKIT_NO_CPR": "1",
        }
        command = ["chat", "--repo", str(repo), "--model", "m1", *flags]
        self.child = pexpect.spawn(
            PROGRAM, command, env=self.env, encoding="utf-8", timeout=40, dimensions=(50, 240), cwd=str(repo)
        )
        self.said = ""
        self.prompted()

    def prompted(self) -> str:
        """Waits for the prompt; what stood before it, without control sequences."""
        self.child.expect(PROMPT)
        self.said = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(self.child.before) + str(self.child.after))
        return self.said

    def say(self, message: str) -> str:
        """Sends a line; what came until the next prompt."""
        self.child.send(message + "\r")
        self.child.expect(r"\x1b\[\?2004l")  # the editor has taken it
        return self.prompted()

    def leave(self) -> int | None:
        self.child.expect(pexpect.EOF)
        self.child.close()
        return self.child.exitstatus

    def events(self) -> list[dict[str, Any]]:
        [log] = self.home.glob("sessions/*/events.jsonl")
        return [json.loads(line) for line in log.read_text().splitlines()]


@contextmanager
def chatting(server: ModelServer, repo: Path, host: str, *flags: str) -> Iterator[Chatting]:
    chat = Chatting(server, repo, host, flags)
    try:
        yield chat
    finally:
        chat.child.close(force=True)


def test_turns_go_on_in_one_session_and_the_prompt_says_where_one_is(repo: Path, engine_host: str) -> None:
    script = [
        reply(call("read_file", {"path": "app.py", "start_line": None, "end_line": None}, "c1"), usage=(900, 0, 40)),
        reply(text("It returns None, see `app.py:2`."), usage=(1_000, 800, 60)),
        reply(text("No, nothing else."), usage=(2_000, 1_500, 100)),
    ]
    with ModelServer(script) as server, chatting(server, repo, engine_host) as chat:
        assert "shop · openai m1 · approve ask · 0 tokens" in chat.said
        first = chat.say("why does find return nothing?")
        assert "It returns None, see app.py:2 ✓." in first
        assert "1 of 1 citation: lines were seen by the tools." in first
        assert "Loop: answered after 2 rounds" in first
        assert "Fix: not verified (no verification was requested)" in first
        assert "shop · openai m1 · approve ask · 2.0k tokens" in first
        assert "Loop: answered after 1 round" in chat.say("anything else?")
        assert "turn 2: answered, 1 round, 2.0k tokens in (75% cached), 100 out" in chat.say("/usage")
        chat.child.send("/exit\r")
        assert chat.leave() == 0
        assert [one["message"] for one in chat.events() if one["type"] == "turn_started"] == [
            "why does find return nothing?",
            "anything else?",
        ]
        assert server.requests[-1].user_texts[-2:] == ["why does find return nothing?", "anything else?"]


def test_ctrl_c_stops_the_turn_and_not_the_program(repo: Path, engine_host: str) -> None:
    with ModelServer([hang(), reply(text("Here."))]) as server, chatting(server, repo, engine_host) as chat:
        chat.child.send("first\r")
        chat.child.expect("waiting for the model")
        wait_until(lambda: server.requests, 20)
        chat.child.send("\x03")
        assert "Loop: interrupted in round 1" in chat.prompted()
        assert "Loop: answered after 1 round" in chat.say("second")
        chat.child.send("\x03")
        chat.child.expect_exact("Ctrl-D or /exit ends the chat.")
        chat.prompted()
        chat.child.send("\x04")
        assert chat.leave() == 0


def test_what_a_person_allows_is_shown_can_be_taken_back_and_changes_the_copy_only(
    repo: Path, engine_host: str
) -> None:
    command = {"command": "echo two > new.txt", "workdir": None, "timeout_seconds": None, "writes": True}
    script = [reply(call("run_command", command, "c1")), reply(text("Done."))]
    with ModelServer(script) as server, chatting(server, repo, engine_host) as chat:
        chat.child.send("make a file\r")
        chat.child.expect_exact("echo two > new.txt")
        chat.child.expect_exact("/s]: ")
        listening(chat.child)
        chat.child.send("a\n")
        assert "Loop: answered after 2 rounds" in chat.prompted()
        assert "+two" in chat.say("/diff")
        assert "1  exact   echo two > new.txt" in chat.say("/approvals")
        assert "  none" in chat.say("/approvals revoke 1")
        assert "There is no approval number 7." in chat.say("/approvals revoke 7")
        assert not (repo / "new.txt").exists()
        # There is no code in the change, so the check may have been satisfied by what it looks at alone.
        doubt = "but perhaps by what is checked: look at new.txt: it is no code, and the change has none"
        passed = f"Fix: verified (it fails before the change and passes after it, {doubt})"
        assert passed in chat.say("/verify grep -rq two")
        assert "Fix: verification failed" in chat.say("/verify grep -rq three")
        chat.child.send("/verify sleep 60\r")
        chat.child.expect("verifying: before the change · ")
        chat.child.send("\x03")
        assert "The verification was stopped." in chat.prompted()
        report = repo.parent / "report.html"
        assert f"Written: {report}" in chat.say(f"/save {report}")
        assert "make a file" in report.read_text()
        assert "a chat overwrites nothing" in chat.say(f"/save {report}")


def test_the_model_can_be_changed_between_turns(repo: Path, engine_host: str) -> None:
    with ModelServer([reply(text("One.")), reply(text("Two."))], prefix="free") as server:
        with chatting(server, repo, engine_host) as chat:
            chat.say("first")
            assert "Model: openai m2" in chat.say("/model m2")
            assert "shop · openai m2" in chat.said
            chat.say("second")
            assert "ANTHROPIC_API_KEY is not set" in chat.say("/model anthropic")
            assert "Model: local, the only model that it serves" in chat.say("/model local")
            assert "Model: offline" in chat.say("/model offline")
            refused = chat.say("/model m3")
            assert "offline has no models, and m3 is no provider." in refused
            assert (
                "Name its provider first, for example `/model openai`, then `/model m3`. /model lists them."
                in refused
            )
        assert [request.body["model"] for request in server.requests] == ["m1", "m2"]


def test_commands_are_told_from_messages(repo: Path, engine_host: str) -> None:
    with ModelServer([reply(text("A path."))]) as server, chatting(server, repo, engine_host) as chat:
        assert "/verify" in chat.say("/help")
        assert "There is no command /nonsense." in chat.say("/nonsense")
        assert "Nothing was changed." in chat.say("/diff")
        assert "Loop: answered" in chat.say("/etc/passwd is what?")
        assert server.requests[0].user_texts[-1] == "/etc/passwd is what?"


@pytest.mark.parametrize(("number", "busy"), [(signal.SIGTERM, False), (signal.SIGHUP, True)])
def test_a_signal_ends_the_program_and_leaves_nothing_behind(
    repo: Path, engine: Engine, engine_host: str, number: signal.Signals, busy: bool
) -> None:
    with ModelServer([hang()] if busy else [reply(text("x"))]) as server, chatting(server, repo, engine_host) as chat:
        if busy:
            chat.child.send("first\r")
            chat.child.expect("waiting for the model")
        else:
            chat.say("first")
        chat.child.kill(number)
        assert chat.leave() == 130
        [session] = [folder.name for folder in chat.home.glob("sessions/*")]
    label = f"{SESSION_LABEL}={session}"
    assert engine.client.containers.list(all=True, filters={"label": label}) == []


def test_without_a_terminal_chat_says_what_to_use_instead(repo: Path, tmp_path: Path) -> None:
    env = {**os.environ, "CODEAGENT_HOME": str(tmp_path / "home")}
    ran = subprocess.run(
        [PROGRAM, "chat", "--repo", str(repo), "--model", "offline"],
        capture_output=True,
        text=True,
        env=env,
        stdin=subprocess.DEVNULL,
        timeout=60,
    )
    assert ran.returncode == 2
    assert ran.stderr == (
        "codeagent: error: chat needs a terminal to read from and to show its prompt on.\n"
        "In scripts, use `codeagent ask` and then `codeagent resume MESSAGE`.\n"
    )
