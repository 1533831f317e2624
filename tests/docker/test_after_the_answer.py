"""What goes wrong once the model has answered takes nothing from the answer."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.docker.codeagent_cli import Program
from tests.model_forms import Call, Reply
from tests.model_server import ModelServer, Received, call, reply

pytestmark = pytest.mark.docker


@pytest.fixture
def program(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> Iterator[Program]:
    (tmp_path / "repo").mkdir()
    (tmp_path / "repo/app.py").write_text("def find(key):\n    return None\n")
    yield Program(tmp_path, engine)


def command(script: str, call_id: str) -> Call:
    arguments = {"command": script, "workdir": None, "timeout_seconds": None, "writes": True}
    return call("run_command", arguments, call_id=call_id)


def read(path: str, call_id: str) -> Call:
    return call("read_file", {"path": path, "start_line": None, "end_line": None}, call_id=call_id)


def test_an_answer_outlives_a_sandbox_that_is_lost_for_good(program: Program, engine: Engine) -> None:
    answer = "See app.py:2, other.py:7 and new.txt:1."

    def losing(part: Call | str) -> Callable[[Received], Reply]:
        def respond(_request: Received) -> Reply:
            (session,) = program.sessions
            labels = [f"codeagent.session={session.name}", "codeagent.role=writer"]
            for container in engine.client.api.containers(filters={"label": labels}):
                engine.client.api.kill(container["Id"])
            return reply(part)

        return respond

    script: list[Reply | Callable[[Received], Reply]] = [
        reply(read("app.py", "r1"), command("echo one > new.txt", "w1")),
        losing(command("echo two >> new.txt", "w2")),
        losing(answer),
    ]
    verify = ("--verify", "grep -q three new.txt")
    with ModelServer(script) as server:
        flags = ("--repo", str(program.home / "repo"), "--approve", "contained", "--json", *verify)
        ran = program.run("ask", "why?", *flags, server=server)
    assert (ran.code, ran.end["outcome"], ran.end["answer"], ran.end["rounds"]) == (5, "answered", answer, 3)
    assert {one["path"]: one["state"] for one in ran.end["citations"]} == {
        "app.py": "read",
        "other.py": "unread",
        "new.txt": "own_change",
    }
    assert ran.end["unchecked"].startswith("The sandbox was lost: ")
    assert (ran.end["verification"]["status"], ran.end["verification"]["reason"]) == ("not_run", ran.end["unchecked"])
    assert "Not checked against the files as they are now: The sandbox was lost" in ran.err
    assert "other.py:7: no tool returned these lines" in ran.err
    assert "Loop: answered after 3 rounds\nFix: not verified (The sandbox was lost" in ran.err
    (session,) = program.sessions
    assert json.loads((session / "events.jsonl").read_text().splitlines()[-1]) == ran.end
    assert b"+two\n" in (session / "diff.patch").read_bytes()
    recheck = program.run("recheck", session.name, "--json")
    assert [one["now"] for one in json.loads(recheck.out)["citations"]] == ["same", "missing", "missing"]


def test_an_answer_that_cannot_be_stored_is_printed(program: Program) -> None:
    answer = "It is app.py:2. " + "And so on. " * 2000
    with ModelServer([reply(read("app.py", "r1")), reply(answer)]) as server:
        argv = program.argv("ask", "why?", "--repo", str(program.home / "repo"))
        ran = subprocess.run(
            ["sh", "-c", 'ulimit -f 20; exec "$@"', "sh", *argv],
            env=program.with_model(server),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
    assert (ran.returncode, ran.stdout) == (2, answer + "\n")
    told = ran.stderr.splitlines()
    (error,) = [line for line in told if line.startswith("codeagent: error: ")]
    assert error.startswith("codeagent: error: The disk is full: ")
    assert "1 of 1 citation: lines were seen by the tools. " in ran.stderr
    assert told.index(error) < told.index("Loop: answered after 2 rounds")
    assert "Fix: not verified (no verification was requested)" in told
