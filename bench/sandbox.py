"""Single calls through the whole stack, beside `docker exec` in the same minute."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.measure import Row, median, ms, p95, side_by_side, timed
from bench.program import small_repository
from codeagent.agent.dispatch import Dispatcher
from codeagent.agent.interrupts import Interrupts
from codeagent.agent.limits import Bounds, Clock, Limits
from codeagent.agent.toolset import Toolset
from codeagent.approval.gate import Gate
from codeagent.conversation import ToolCall
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.sandbox import open_sandbox
from codeagent.settings import SandboxSettings

ROUNDS = 10
BLOCK = 20


@dataclass(frozen=True)
class Stack:
    """A session's dispatcher over a sandbox of its own, and a plain container beside it for `docker exec`."""

    dispatcher: Dispatcher
    engine: Engine
    container: str

    def call(self, name: str, **arguments: object) -> None:
        self.calls((name, arguments))

    def calls(self, *calls: tuple[str, dict[str, object]]) -> None:
        """Through parsing, gate, sandbox, rendering and the event log's callback; raises when one fails."""
        made = [ToolCall(f"c{number}", name, json.dumps(given)) for number, (name, given) in enumerate(calls)]
        for output in self.dispatcher.dispatch(made).outputs:
            if output.error_kind is not None:
                raise RuntimeError(output.text)

    def exec(self, *argv: str) -> None:
        api = self.engine.client.api
        created = api.exec_create(self.container, list(argv))
        api.exec_start(created["Id"])


@contextmanager
def stack(engine: Engine) -> Iterator[Stack]:
    default = image.find(engine)
    assert default
    with (
        small_repository() as repo,
        tempfile.TemporaryDirectory(prefix="bench") as outputs,
        Interrupts() as interrupts,
    ):
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
            Path(outputs),
            _silent,
        )
        gate = Gate("all", emit=_deaf, ask=None, digest=_no_digest)
        dispatcher = Dispatcher(
            Toolset(sandbox, Path(outputs), gate.classify, lambda: None).tools(patching=False),
            review=gate,
            redact=lambda text: text,
            observe=_blind,
            emit=_deaf,
            limits=Limits(Bounds(), Clock()),
            interrupts=interrupts,
        )
        try:
            yield Stack(dispatcher, engine, str(beside.id))
        finally:
            dispatcher.close()
            sandbox.close()
            beside.remove(force=True)


def read_file(engine: Engine) -> Row:
    with stack(engine) as each:
        ours, theirs = side_by_side(
            ROUNDS,
            lambda: each.call("read_file", path="small.py", start_line=None, end_line=None),
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


def _deaf(event: object) -> None:
    pass


def _blind(call: object, result: object) -> None:
    pass


def _no_digest(path: str) -> str:
    return path
