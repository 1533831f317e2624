"""Single calls through the whole stack, beside `docker exec` in the same minute.

The stack is a turn's own: parsing, gate, dispatcher, sandbox, guest, rendering, removal of keys, the session's log on
disk, and the evidence. Only the model and the display are missing.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

from bench.measure import Row, median, ms, p95, side_by_side, timed
from bench.program import small_repository
from codeagent.agent.dispatch import Dispatcher
from codeagent.agent.interrupts import Interrupts
from codeagent.agent.limits import Bounds, Clock, Limits
from codeagent.agent.toolset import Toolset
from codeagent.approval.gate import Gate
from codeagent.conversation import ToolCall
from codeagent.evidence.evidence import Evidence
from codeagent.keys import redactor
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.sandbox import open_sandbox
from codeagent.session.store import Session
from codeagent.settings import SandboxSettings

ROUNDS = 10
BLOCK = 20
FILES = ROUNDS * BLOCK + 1
"""Each is read once: a session that reads the same file again and again is none."""


@dataclass(frozen=True)
class Stack:
    """A session's dispatcher over a sandbox of its own, and a plain container beside it for `docker exec`."""

    dispatcher: Dispatcher
    engine: Engine
    container: str
    numbers: Iterator[int] = field(default_factory=count)

    def read_one(self) -> None:
        self.call("read_file", path=f"small_{next(self.numbers) % FILES}.py", start_line=None, end_line=None)

    def call(self, name: str, **arguments: object) -> None:
        self.calls((name, arguments))

    def calls(self, *calls: tuple[str, dict[str, object]]) -> None:
        """Raises when one fails."""
        made = [ToolCall(f"c{next(self.numbers)}", name, json.dumps(given)) for name, given in calls]
        for output in self.dispatcher.dispatch(made).outputs:
            if output.error_kind is not None:
                raise RuntimeError(output.text)

    def exec(self, *argv: str) -> None:
        api = self.engine.client.api
        created = api.exec_create(self.container, list(argv))
        api.exec_start(created["Id"])
        if code := api.exec_inspect(created["Id"])[
            "ExitCode"
        ]:  # as `exec_run` does: the only way to know how it ended
            raise RuntimeError(f"{argv} exited {code}")


@contextmanager
def stack(engine: Engine) -> Iterator[Stack]:
    default = image.find(engine)
    assert default
    with (
        small_repository() as repo,
        tempfile.TemporaryDirectory(prefix="bench") as state,
        Session.create(Path(state)) as session,
        Interrupts() as interrupts,
    ):
        for number in range(FILES):
            (repo / f"small_{number}.py").write_bytes((repo / "small.py").read_bytes())
        beside = engine.client.containers.run(
            default.id,
            ["sleep", "3600"],
            detach=True,
            network_mode="none",
            volumes={str(repo): {"bind": "/workspace", "mode": "ro"}},
        )
        sandbox = open_sandbox(
            engine,
            default,
            toolbox.ensure(engine, _silent),
            repo,
            SandboxSettings(),
            "bench",
            session.outputs,
            _silent,
        )
        gate = Gate("all", emit=session.emit, ask=None, digest=_no_digest)
        evidence = Evidence(sandbox, repo)
        dispatcher = Dispatcher(
            Toolset(sandbox, session.outputs, gate.classify, lambda: None).tools(patching=False),
            review=gate,
            redact=redactor(["sk-bench-0123456789"]),
            observe=evidence.observe,
            emit=session.emit,
            limits=Limits(Bounds(), Clock()),
            interrupts=interrupts,
        )
        try:
            yield Stack(dispatcher, engine, str(beside.id))
        finally:
            dispatcher.close()
            evidence.close()
            sandbox.close()
            beside.remove(force=True)


def read_file(engine: Engine) -> Row:
    with stack(engine) as each:
        ours, theirs = side_by_side(
            ROUNDS,
            each.read_one,
            lambda: each.exec("cat", "/workspace/small.py"),
            block=BLOCK,
        )
    ratio = median(theirs) / median(ours)
    return Row(
        1,
        "read_file of 2 KB through the whole stack",
        ">= 100 x faster than docker exec cat by the SDK; p95 <= 2 ms",
        f"{ratio:.0f} x ({ms(median(ours))} against {ms(median(theirs))}); p95 {ms(p95(ours))}",
        ratio >= 100 and p95(ours) <= 0.002,
    )


def run_true(engine: Engine) -> Row:
    with stack(engine) as each:
        ours, theirs = side_by_side(ROUNDS, lambda: _run(each, "true"), lambda: each.exec("true"), block=BLOCK)
    ratio = median(theirs) / median(ours)
    return Row(
        2,
        "run_command true, approved, whole stack",
        ">= 15 x faster than a docker exec",
        f"{ratio:.0f} x ({ms(median(ours))} against {ms(median(theirs))})",
        ratio >= 15,
    )


def parallel_reads(engine: Engine) -> Row:
    calls = [_command(f"sleep 1.00{number}") for number in range(8)]
    with stack(engine) as each:
        _run(each, "true")
        took = timed(lambda: each.calls(*calls))
    return Row(
        4, "8 independent read-only calls of 1 s each in one response", "<= 1.3 s", f"{took:.2f} s", took <= 1.3
    )


def _run(each: Stack, command: str) -> None:
    each.calls(_command(command))


def _command(command: str) -> tuple[str, dict[str, object]]:
    return "run_command", {"command": command, "workdir": None, "timeout_seconds": None, "writes": False}


def _silent(what: str, done: int, total: int) -> None:
    pass


def _no_digest(path: str) -> str:
    return path
