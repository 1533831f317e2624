"""The gate against real containers: what it lets through changes nothing, and what was shown is what ran."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

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
from tests.model_forms import Call
from tests.model_script import Entry, Received, Scripted
from tests.model_server import ModelServer, call, reply
from tests.model_server import text as said
from tests.terminals import listening

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


@settings(max_examples=30, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=SCRIPTS)
def test_what_is_read_only_changes_nothing_in_a_writable_container(script: str, tree: Opened) -> None:
    assume(classify(script).class_ is CommandClass.READ_ONLY)
    before = tree.output(SNAPSHOT, writable=True)
    result = tree.run(script, writable=True)
    assert result.ending is Ending.EXITED, text(result)
    assert tree.output(SNAPSHOT, writable=True) == before


def test_no_harmless_flag_writes_or_runs_what_it_is_given(tree: Opened) -> None:
    """In a writable container, where the programs that it might run by name are canaries too.

    Of a flag's many spellings and operands every sixth is tried.
    """
    before = tree.output(SNAPSHOT, writable=True)
    for case in CASES:
        lines = (f"{one} </dev/null >/dev/null 2>&1\n" for found in harmless(case) for one in found[::6])
        script = "PATH=$PWD/bin:$PATH\n" + "".join(lines)
        assert tree.run(script, writable=True, timeout=60).ending is Ending.EXITED, case
    assert tree.output(SNAPSHOT, writable=True).splitlines() == before.splitlines()


class Terminal:
    """A person in front of `codeagent ask` on a repository of canaries; `events` are read when it has ended."""

    def __init__(self, engine: Engine, home: Path, server: ModelServer) -> None:
        self.program = Program(home, engine)
        self.repo = home / "repo"
        plant(self.repo)
        argv = self.program.argv("ask", "what is shown", "--repo", str(self.repo))
        self.process: pexpect.spawn[str] = pexpect.spawn(
            argv[0],
            argv[1:],
            env=dict(self.program.with_model(server)),
            encoding="utf-8",
            timeout=60,
            dimensions=(50, 200),
        )

    def answers(self, *lines: str) -> None:
        for line in lines:
            while self.process.expect([r"stops: ", r"/r/s\]: "]) == 0:
                listening(self.process)
                self.process.send("\n")
            listening(self.process)
            self.process.send(f"{line}\n")

    def ends(self, outcome: str) -> int | None:
        self.process.expect_exact(f"Loop: {outcome}")
        self.process.expect(pexpect.EOF)
        self.process.close()
        return self.process.exitstatus

    @property
    def events(self) -> list[dict[str, Any]]:
        (session,) = self.program.sessions
        return [json.loads(line) for line in (session / "events.jsonl").read_text(encoding="utf-8").splitlines()]

    def decisions(self) -> list[tuple[str, str, str]]:
        found = [event for event in self.events if event["type"] == "approval_decided"]
        return [(event["call_id"], event["decision"], event["by"]) for event in found]


def proposed(script: str, call_id: str, *, writes: bool = False) -> Call:
    arguments = {"command": script, "workdir": None, "timeout_seconds": None, "writes": writes}
    return call("run_command", arguments, call_id=call_id)


SHOWN = [
    "tr '\\0' '\\n' < /proc/$$/cmdline; : 'tab\tquotes\" \\\\ trailing   '  ",
    "tr '\\0' '\\n' < /proc/$$/cmdline\n\n# comment\n: 数据 é 😀 \u202eabc\u202c \u200b \u00a0\n",
    "tr '\\0' '\\n' < /proc/$$/cmdline; : " + "x" * 3000,
]


def test_what_ran_is_byte_for_byte_what_was_shown(engine: Engine, toolbox: Toolbox, tmp_path: Path) -> None:
    rounds = [reply(proposed(script, f"c{number}")) for number, script in enumerate(SHOWN)]
    with ModelServer([*rounds, reply(said("Done."))]) as server:
        person = Terminal(engine, tmp_path, server)
        person.answers(*["y"] * len(SHOWN))
        person.ends("answered after 4 rounds")
    events = person.events
    assert [event["command"] for event in events if event["type"] == "approval_requested"] == SHOWN
    outputs = [event["streams"] for event in events if event["type"] == "tool_output"]
    received = ["".join(piece for stream, piece in streams if stream == "stdout") for streams in outputs]
    assert [said.split("\n", 2)[2] for said in received] == [f"{script}\n" for script in SHOWN]


def test_a_third_denial_in_a_row_stops_the_turn_and_every_call_is_answered(
    engine: Engine, toolbox: Toolbox, tmp_path: Path
) -> None:
    rounds = [reply(proposed("rm a.txt", f"c{n}")) for n in (1, 2)]
    with ModelServer([*rounds, reply(proposed("rm a.txt", "c3"), proposed("ls", "c4"))]) as server:
        person = Terminal(engine, tmp_path, server)
        person.answers("n", "", "n")
        assert person.ends("stopped by you") == 7
    assert person.decisions() == [("c1", "deny", "user"), ("c2", "deny", "user"), ("c3", "stop", "user")]
    outputs = [event for event in person.events if event["type"] == "tool_output"]
    assert [(event["call_id"], event["error_kind"]) for event in outputs] == [
        ("c1", "denied"),
        ("c2", "denied"),
        ("c3", "denied"),
        ("c4", "cancelled"),
    ]
    assert (person.repo / "a.txt").exists()


def test_an_exact_grant_holds_until_a_file_that_it_names_changes_behind_a_link(
    engine: Engine, toolbox: Toolbox, tmp_path: Path
) -> None:
    script = "sh run.sh b.txt; : asked"

    def edited(_request: Received) -> Entry:
        (person.repo / "src/real.sh").write_text("echo two\n")
        return reply(proposed(script, "c3"))

    rounds: list[Scripted] = [reply(proposed(script, f"c{n}")) for n in (1, 2)]
    with ModelServer([*rounds, edited, reply(said("Done."))]) as server:
        person = Terminal(engine, tmp_path, server)
        (person.repo / "src/real.sh").write_text("echo one\n")
        (person.repo / "run.sh").symlink_to("src/real.sh")
        person.answers("a", "n")
        person.ends("answered after 4 rounds")
    assert person.decisions() == [("c1", "allow", "user"), ("c2", "allow", "grant"), ("c3", "deny", "user")]
    (given,) = [event for event in person.events if event["type"] == "grant"]
    assert (given["action"], given["kind"], given["command"]) == ("given", "exact", script)
