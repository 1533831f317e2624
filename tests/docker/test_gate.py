"""The gate against real containers: what it lets through changes nothing, and what was shown is what ran."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest
from hypothesis import HealthCheck, assume, given, settings

from codeagent.approval.classify import classify
from codeagent.approval.seam import CommandClass
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.seam import Ending
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings
from tests.approval.dangerous import SCRIPTS, plant
from tests.approval.test_table import CASES, harmless
from tests.docker.codeagent_cli import Program
from tests.docker.conftest import Opened, opening, text
from tests.model_server import ModelServer, call, reply
from tests.model_server import text as said

# docker-py leaves the file object of an attached socket to the garbage collector, which hypothesis wakes often.
pytestmark = pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")

# Names, modes, sizes, times and contents of everything; in the words of GNU and busybox alike.
SNAPSHOT = (
    "find . ! -path ./.git -exec stat -c '%n %f %s %Y' {} + | sort; "
    "find . -type f -exec sha256sum {} + | sort; hostname; find /tmp | sort"
)


@pytest.fixture(scope="module", params=["default", "busybox"])
def tree(
    request: pytest.FixtureRequest, engine: Engine, toolbox: Toolbox, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Opened]:
    """A repository of canaries, in its writable copy."""
    repo = tmp_path_factory.mktemp("canaries") / "repo"
    plant(repo, seen_as="/workspace")
    image = request.getfixturevalue("image" if request.param == "default" else "busybox_image")
    outputs = tmp_path_factory.mktemp("outputs")
    with opening(engine, toolbox, repo, outputs, image, SandboxSettings()) as opened:
        assert opened.run("./x", writable=True).exit_code == 0
        assert "ran-x" in opened.output("ls", writable=True)
        yield opened


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=SCRIPTS)
def test_what_is_read_only_changes_nothing_in_a_writable_container(script: str, tree: Opened) -> None:
    assume(classify(script).class_ is CommandClass.READ_ONLY)
    before = tree.output(SNAPSHOT, writable=True)
    result = tree.run(script, writable=True)
    assert result.ending is Ending.EXITED, text(result)
    assert tree.output(SNAPSHOT, writable=True) == before


def test_no_harmless_flag_writes_or_runs_what_it_is_given(tree: Opened) -> None:
    """In a writable container, where the programs that it might run by name are canaries too."""
    before = tree.output(SNAPSHOT, writable=True)
    for case in CASES:
        lines = (f"{command} </dev/null >/dev/null 2>&1\n" for command in harmless(case))
        script = "PATH=$PWD/bin:$PATH\n" + "".join(lines)
        assert tree.run(script, writable=True, timeout=60).ending is Ending.EXITED, case
    assert tree.output(SNAPSHOT, writable=True).splitlines() == before.splitlines()


SHOWN = [
    "tr '\\0' '\\n' < /proc/$$/cmdline; : 'tab\tquotes\" \\\\ trailing   '  ",
    "tr '\\0' '\\n' < /proc/$$/cmdline\n\n# comment\n: 数据 é 😀 \u202eabc\u202c \u200b \u00a0\n",
    "tr '\\0' '\\n' < /proc/$$/cmdline; : " + "x" * 3000,
]


@pytest.mark.parametrize("script", SHOWN)
def test_what_ran_is_byte_for_byte_what_was_shown(
    script: str, engine: Engine, toolbox: Toolbox, tmp_path: Path
) -> None:
    program = Program(tmp_path, engine)
    repo = tmp_path / "repo"
    plant(repo)
    arguments = {"command": script, "workdir": None, "timeout_seconds": None, "writes": False}
    with ModelServer([reply(call("run_command", arguments, call_id="c1")), reply(said("Done."))]) as server:
        argv = program.argv("ask", "what is shown", "--repo", str(repo))
        person: pexpect.spawn[str] = pexpect.spawn(
            argv[0],
            argv[1:],
            env=dict(program.with_model(server)),
            encoding="utf-8",
            timeout=60,
            dimensions=(50, 200),
        )
        while person.expect([r"stops: ", r"/r/s\]: "]) == 0:
            time.sleep(0.5)
            person.send("\n")
        time.sleep(0.5)
        person.send("y\n")
        person.expect_exact("Loop: answered after 2 rounds")
        person.expect(pexpect.EOF)
        person.close()
    (session,) = program.sessions
    events = [json.loads(line) for line in (session / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    (shown,) = [event["command"] for event in events if event["type"] == "approval_requested"]
    (output,) = [event for event in events if event["type"] == "tool_output"]
    (received,) = ["".join(piece for stream, piece in output["streams"] if stream == "stdout")]
    assert shown == script
    assert received.split("\n", 2)[2] == f"{script}\n"
