"""`codeagent ask` as a user starts it, against a model server of the bench's."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from bench.model import Model
from codeagent.sandbox.engine import Engine
from tests.model_forms import Reply
from tests.model_script import call, reply

PROGRAM = str(Path(sys.executable).with_name("codeagent"))
ANSWER = "Nothing calls it."


@dataclass(frozen=True, slots=True)
class Run:
    """One finished run. `started` in seconds of `time.monotonic`, `peak` in bytes of resident memory."""

    started: float
    exit_code: int
    peak: int
    stderr: str


def ask(engine: Engine, repo: Path, url: str) -> Run:
    with tempfile.TemporaryDirectory(prefix="bench") as home:
        environment = {
            **os.environ,
            "OPENAI_API_KEY": "sk-bench",
            "OPENAI_BASE_URL": url,
            "CODEAGENT_HOME": home,
        }
        command = [PROGRAM, "ask", "who calls it?", "--repo", str(repo), "--model", "bench", "--approve", "all"]
        command += ["--docker-host", engine.host, "--max-rounds", "1000", "--quiet"]
        started = time.monotonic()
        process = subprocess.Popen(
            command, env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        )
        assert process.stderr
        said = process.stderr.read().decode(errors="replace")
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        process.stderr.close()
        return Run(started, process.returncode, usage.ru_maxrss * 1024, said)


def conversation(engine: Engine, repo: Path, calls: Sequence[Reply]) -> tuple[Model, Run]:
    """A turn that makes these calls and then answers. Raises RuntimeError when it does not end well."""
    with Model([*calls, reply(ANSWER)]) as model:
        run = ask(engine, repo, model.url)
    if run.exit_code != 0 or len(model.answered) != len(calls) + 1:
        raise RuntimeError(f"ask exited {run.exit_code} after {len(model.answered)} requests: {run.stderr[-300:]}")
    return model, run


def reading(path: str, line: int) -> Reply:
    return reply(call("read_file", {"path": path, "start_line": line, "end_line": line + 40}))


def running(command: str) -> Reply:
    return reply(call("run_command", {"command": command, "workdir": None, "timeout_seconds": 120, "writes": False}))


@contextmanager
def small_repository() -> Iterator[Path]:
    """One source file of 2,000 lines and one of 2 KB."""
    with tempfile.TemporaryDirectory(prefix="bench") as name:
        repo = Path(name)
        (repo / "long.py").write_text("".join(f"value_{number} = {number}  # line\n" for number in range(2000)))
        (repo / "small.py").write_bytes((b"x = 1  # a line of source text\n" * 70)[:2048])
        yield repo
