"""Sessions of the real command, stopped in every way and gone on with, on a real engine and a strict model server."""

from __future__ import annotations

import json
import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pexpect
import pytest

from codeagent.sandbox.engine import Engine
from codeagent.session.log import Log
from codeagent.session.store import EVENTS, holder, sessions_dir
from tests.clocks import GONE_SECONDS, at_once, wait_until
from tests.docker.codeagent_cli import containers
from tests.model_script import Entry, Received, Scripted, call, hang, reply, text, thought
from tests.model_server import ModelServer

CODEAGENT = str(Path(sys.executable).with_name("codeagent"))
SECONDS = 60


def command(script: str, **more: Any) -> dict[str, Any]:
    return {"command": script, "workdir": None, "timeout_seconds": 60, "writes": None, **more}


def read(path: str) -> dict[str, Any]:
    return {"path": path, "start_line": None, "end_line": None}


class Setup:
    """A repository, a home of codeagent's own, and how to run the command in them."""

    def __init__(self, folder: Path, engine_host: str) -> None:
        self.repo = folder / "repo"
        self.home = folder / "home"
        (self.repo / "src").mkdir(parents=True)
        (self.repo / "src" / "app.py").write_text("def find(key):\n    return None\n")
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("CODEAGENT", "OPENAI"))},
            "CODEAGENT_HOME": str(self.home),
            "DOCKER_HOST": engine_host,
            "OPENAI_API_KEY": "sk-test-0123456789",
        }

    def environ(self, server: ModelServer, **more: str) -> dict[str, str]:
        return {**self._environ, "OPENAI_BASE_URL": server.url, **more}

    def started(self, server: ModelServer, *argv: str, **more: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [CODEAGENT, *argv],
            cwd=self.repo,
            env=self.environ(server, **more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, server: ModelServer, *argv: str) -> tuple[int, str, str]:
        process = self.started(server, *argv)
        out, err = process.communicate(timeout=2 * SECONDS)
        return process.returncode, out, err

    @property
    def folder(self) -> Path:
        (folder,) = sessions_dir(self.home).iterdir()
        return folder

    def events(self, type_: str | None = None) -> list[Any]:
        return [record for record in Log(self.folder / EVENTS) if type_ in (None, record["type"])]

    def wait_for(self, mark: str) -> None:
        """Until the log holds a text."""
        deadline = time.monotonic() + SECONDS
        while not any(mark in file.read_text() for file in self.home.glob("sessions/*/events.jsonl")):
            assert time.monotonic() < deadline, f"{mark!r} did not appear"
            time.sleep(0.02)


@pytest.fixture
def setup(tmp_path: Path, engine_host: str, image: str) -> Iterator[Setup]:
    yield Setup(tmp_path, engine_host)


def ended(process: subprocess.Popen[str]) -> int:
    process.communicate(timeout=SECONDS)
    return process.returncode


def test_a_question_to_the_user_is_answered_by_resuming(setup: Setup) -> None:
    script: list[Scripted] = [
        reply(text("I cannot find it.\n\nNEEDS INPUT: which file is it?")),
        reply(call("read_file", read("src/app.py"), call_id="c1")),
        lambda request: reply(text(f"It returns None: src/app.py:2. {len(request.outputs)} file read.")),
    ]
    with ModelServer(script) as server:
        code, out, _ = setup.run(server, "ask", "why does find return None")
        assert (code, out) == (6, "I cannot find it.\n\nNEEDS INPUT: which file is it?\n")
        code, out, err = setup.run(server, "resume")
        assert (code, out) == (2, "")
        assert "has asked you a question; there is nothing to go on with." in err
        code, out, _ = setup.run(server, "resume", "the path is src/app.py")
        assert code == 0
        assert out.startswith("It returns None: src/app.py:2.")
        assert server.requests[-1].user_texts == ["why does find return None", "the path is src/app.py"]
    assert [record["message"] for record in setup.events("turn_started")] == [
        "why does find return None",
        "the path is src/app.py",
    ]
    assert setup.events("turn_ended")[-1]["citations"][0]["state"] == "read"


@pytest.fixture
def silent_engine(tmp_path: Path) -> Iterator[str]:
    """An engine that takes connections and never answers: whoever asks it waits."""
    with socket.socket(socket.AF_UNIX) as listening:
        listening.bind(str(tmp_path / "engine.sock"))
        listening.listen(16)
        yield f"unix://{tmp_path}/engine.sock"


@pytest.mark.parametrize("message", [None, "look at find first"], ids=["alone", "with more to say"])
def test_killed_before_the_engine_answered_the_question_is_not_lost(
    setup: Setup, silent_engine: str, message: str | None
) -> None:
    with ModelServer([reply(text("because"))]) as server:
        process = setup.started(server, "ask", "why is it None?", DOCKER_HOST=silent_engine)
        setup.wait_for('"turn_started"')
        process.kill()
        ended(process)
        code, out, err = setup.run(server, "resume", *([message] if message else []))
        assert (code, out) == (0, "because\n"), err
        assert server.requests[0].user_texts == ["why is it None?", *([message] if message else [])]


PATCH = """\
*** Begin Patch
*** Update File: src/app.py
@@
-    return None
+    return key
*** End Patch
"""


@pytest.mark.parametrize("moment", ["before the first run", "before the first patch"])
def test_a_killed_fix_goes_on_with_its_task_its_tool_and_its_verification(
    setup: Setup, silent_engine: str, moment: str
) -> None:
    (setup.repo / "check.sh").write_text("grep -q 'return key' src/app.py\n")
    early = moment == "before the first run"
    patched = [reply(call("apply_patch", {"patch": PATCH}, call_id="c1")), reply(text("fixed"))]
    with ModelServer(patched if early else [hang(), *patched]) as server:
        engine = {"DOCKER_HOST": silent_engine} if early else {}
        process = setup.started(server, "fix", "find forgets its key", "--verify", "sh check.sh", **engine)
        setup.wait_for('"session_started"' if early else '"turn_started"')
        wait_until(lambda: early or server.requests)
        process.kill()
        ended(process)
        assert len(setup.events("turn_started")) == (0 if early else 1)
        code, out, err = setup.run(server, "resume", "--model", "offline")
        assert (code, out) == (2, "") and "cannot fix anything" in err
        code, out, err = setup.run(server, "resume", "--approve", "contained")
        assert (code, out) == (0, "fixed\n"), err
        assert "apply_patch" in server.requests[-1].tool_names
        assert server.requests[-1].user_texts[0] == "find forgets its key"
    (end,) = setup.events("turn_ended")
    assert (end["outcome"], end["verification"]["status"]) == ("answered", "passed")


def test_killed_during_a_command_the_session_goes_on_and_the_model_is_told(setup: Setup) -> None:
    script: list[Scripted] = [
        reply(
            thought("hm"),
            call("read_file", read("src/app.py"), call_id="c1"),
            call("run_command", command("sleep 50; touch done"), call_id="c2"),
        ),
        lambda request: reply(text(request.outputs["c2"].partition("\n")[0])),
    ]
    with ModelServer(script) as server:
        process = setup.started(server, "ask", "why?", "--approve", "contained")
        setup.wait_for('"approval_decided"')
        time.sleep(0.3)
        process.kill()
        assert ended(process) == -signal.SIGKILL
        assert holder(setup.folder) is None
        code, out, err = setup.run(server, "resume")
        assert code == 0
        assert out.startswith("error: interrupted: codeagent ended before the result of this call was recorded")
        assert err.count("1 call without an output may or may not have run; the model is told so") == 1
        assert server.requests[-1].outputs["c1"].startswith("src/app.py")
    resumed = setup.events("session_resumed")
    assert [record["interrupted_calls"] for record in resumed] == [["c2"]]
    assert [record["call_id"] for record in setup.events("tool_call")] == ["c1", "c2"]  # never run again by itself


@pytest.mark.parametrize(
    ("moment", "signals"),
    [
        ("inference", [signal.SIGTERM, signal.SIGINT]),
        ("tool", [signal.SIGINT]),
    ],
    ids=lambda value: value if isinstance(value, str) else "+".join(number.name for number in value),
)
def test_an_interrupted_turn_exits_130_and_goes_on(setup: Setup, moment: str, signals: list[signal.Signals]) -> None:
    first: Scripted = (
        hang(reply=reply(text("half an answer"), call("run_command", command("true"), call_id="lost")), after=4)
        if moment == "inference"
        else reply(thought("hm"), call("run_command", command("sleep 50"), call_id="c1"))
    )
    with ModelServer([first, reply(text("done"))]) as server:
        process = setup.started(server, "ask", "why?", "--approve", "contained")
        setup.wait_for('"turn_started"' if moment == "inference" else '"approval_decided"')
        wait_until(lambda: server.requests)
        time.sleep(0.3)
        with at_once():
            for number in signals:
                process.send_signal(number)
            assert ended(process) == 130
        (end,) = setup.events("turn_ended")
        assert end["outcome"] == "interrupted"
        assert [(o["call_id"], o["error_kind"]) for o in setup.events("tool_output")] == (
            [] if moment == "inference" else [("c1", setup.events("tool_output")[0]["error_kind"])]
        )
        code, out, _ = setup.run(server, "resume")
        assert (code, out) == (0, "done\n")


def test_interrupted_at_an_approval_the_call_is_answered_and_the_session_goes_on(setup: Setup) -> None:
    script: list[Scripted] = [
        reply(thought("hm"), call("run_command", command("make release"), call_id="c1")),
        lambda request: reply(text(request.outputs["c1"].partition("\n")[0])),
    ]
    with ModelServer(script) as server:
        child = pexpect.spawn(
            CODEAGENT,
            ["ask", "why?", "--no-color"],
            cwd=str(setup.repo),
            env=setup.environ(server),
            timeout=SECONDS,
            dimensions=(40, 120),
        )
        child.expect("make release")
        child.expect_exact("/s]: ")
        child.sendintr()
        child.expect(pexpect.EOF)
        child.close()
        assert child.exitstatus == 130
        code, out, _ = setup.run(server, "resume", "--approve", "read-only")
        assert code == 0
        assert out.startswith("error: cancelled: the turn was interrupted")


def test_changes_in_the_private_copy_are_there_again_after_resuming(setup: Setup) -> None:
    change = "sed -i 's/None/key/' src/app.py && mkdir docs && echo hello > docs/new.txt && ln -s app.py src/link"
    script: list[Scripted] = [
        reply(call("run_command", command(change), call_id="c1")),
        hang(),
        reply(
            call("read_file", read("src/link"), call_id="c2"), call("read_file", read("docs/new.txt"), call_id="c3")
        ),
        lambda request: reply(text("\n".join(request.outputs[name] for name in ("c2", "c3")))),
    ]
    with ModelServer(script) as server:
        process = setup.started(server, "ask", "change it", "--approve", "contained")
        setup.wait_for('"workspace_changed"')
        wait_until(lambda: len(server.requests) == 2)
        process.kill()
        ended(process)
        code, out, _ = setup.run(server, "resume")
        assert code == 0
        assert "return key" in out
        assert "hello" in out
    assert (setup.repo / "src" / "app.py").read_text() == "def find(key):\n    return None\n"
    assert not (setup.repo / "docs").exists()


def test_a_session_in_use_is_refused_by_a_second_process(setup: Setup) -> None:
    with ModelServer([hang(), reply(text("done"))]) as server:
        process = setup.started(server, "ask", "why?")
        setup.wait_for('"turn_started"')
        code, _, err = setup.run(server, "resume", "more", "--session", setup.folder.name)
        assert code == 2
        assert f"is in use by another codeagent (process {process.pid})" in err
        code, _, err = setup.run(server, "resume", "more")  # the latest means the latest that nobody uses
        assert (code, "There is no finished session" in err) == (2, True)
        process.send_signal(signal.SIGINT)
        assert ended(process) == 130


def test_resume_json_prints_what_the_log_holds(setup: Setup) -> None:
    with ModelServer([reply(text("one")), reply(text("two"))]) as server:
        setup.run(server, "ask", "first")
        code, out, _ = setup.run(server, "resume", "second", "--json")
        assert code == 0
        printed = [json.loads(line) for line in out.splitlines()]
        assert printed == setup.events()[-len(printed) :]
        assert [record["type"] for record in printed] == [
            "session_resumed",
            "turn_started",
            "model_response",
            "turn_ended",
        ]
        assert {record["turn"] for record in printed[1:]} == {2}


def gone(engine: Engine, session_id: str) -> bool:
    return not containers(engine, session_id)


@pytest.mark.slow
def test_the_real_command_killed_at_random_moments_goes_on_to_its_answer(setup: Setup, engine: Engine) -> None:
    """The hundred kills of tests/session/test_kills.py, once more in few, with nothing but the model scripted."""

    def answer(request: Received) -> Entry:
        seen = len(request.outputs)
        if seen >= 6:
            return reply(text("because"))
        return reply(
            thought("hm"),
            call("read_file", read("src/app.py"), call_id=f"read_{seen}"),
            call("run_command", command(f"sleep 0.1; echo {seen} >> seen.txt"), call_id=f"run_{seen}"),
        )

    chance = random.Random(11)
    gone_on = 0
    for trial in range(3):
        with ModelServer(answer) as server:
            process = setup.started(server, "ask", "why?", "--approve", "contained")
            if trial:  # the first may be hit before the turn has begun
                setup.wait_for('"turn_started"')
            time.sleep(chance.uniform(0, 1.5))
            process.kill()
            ended(process)
            found = sorted(sessions_dir(setup.home).glob("*")) if sessions_dir(setup.home).exists() else []
            if found and (setup.folder / EVENTS).exists() and setup.events("turn_started"):
                code, out, err = setup.run(server, "resume", "go on", "--approve", "contained")
                assert (code, out) == (0, "because\n"), err
                gone_on += 1
        for folder in found:
            wait_until(partial(gone, engine, folder.name), GONE_SECONDS)
            shutil.rmtree(folder)
    assert gone_on >= 2
