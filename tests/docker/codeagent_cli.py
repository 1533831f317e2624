"""The program as its users start it: a process of its own, its own home, a scripted model behind a real socket."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codeagent.sandbox.engine import Engine
from tests.model_server import ModelServer

FIXTURES = Path(__file__).parents[2] / "fixtures"


@dataclass(frozen=True)
class Ran:
    """A finished run. `events` are what `--json` printed."""

    code: int
    out: str
    err: str
    events: list[dict[str, Any]] = field(default_factory=list)

    def of(self, kind: str) -> list[dict[str, Any]]:
        return [event for event in self.events if event["type"] == kind]

    @property
    def end(self) -> dict[str, Any]:
        (event,) = self.of("turn_ended")
        return event

    @property
    def outputs(self) -> dict[str, str]:
        return {event["call_id"]: event["output"] for event in self.of("tool_output")}


class Program:
    """Starts codeagent with an environment in which nothing of this machine's is left but the engine."""

    def __init__(self, home: Path, engine: Engine, **environ: str) -> None:
        self.home = home
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(home),
            "CODEAGENT_HOME": str(home / "codeagent"),
            "DOCKER_HOST": engine.host,
            "LANG": "C.UTF-8",
            "TMPDIR": tempfile.gettempdir(),
            "SSL_CERT_DIR": os.environ["SSL_CERT_DIR"],
            "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
            **environ,
        }

    def argv(self, *argv: str) -> list[str]:
        return [sys.executable, "-m", "codeagent", *argv]

    def run(self, *argv: str, server: ModelServer | None = None, timeout: float = 90, cwd: Path | None = None) -> Ran:
        done = subprocess.run(
            self.argv(*argv),
            env=self.with_model(server),
            cwd=cwd or self.home,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
        lines = done.stdout.splitlines() if "--json" in argv else []
        return Ran(done.returncode, done.stdout, done.stderr, [json.loads(line) for line in lines])

    def start(self, *argv: str, server: ModelServer | None = None) -> subprocess.Popen[str]:
        return subprocess.Popen(
            self.argv(*argv),
            env=self.with_model(server),
            cwd=self.home,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def with_model(self, server: ModelServer | None) -> Mapping[str, str]:
        if server is None:
            return self.environ
        return {**self.environ, "OPENAI_API_KEY": "sk-test-0123456789abcdef", "OPENAI_BASE_URL": server.url}

    @property
    def sessions(self) -> list[Path]:
        return sorted((self.home / "codeagent" / "sessions").iterdir())


def containers(engine: Engine, session_id: str) -> list[str]:
    found = engine.client.api.containers(all=True, filters={"label": f"codeagent.session={session_id}"})
    return [container["Id"] for container in found]


def runs(container: str, process: str) -> bool:
    """Whether a process with exactly this command line runs in a container."""
    wanted = process.replace(" ", "\0").encode() + b"\0"
    for folder in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if (folder / "cmdline").read_bytes() == wanted and container in (folder / "cgroup").read_text():
                return True
    return False


def interrupt(process: subprocess.Popen[str], number: signal.Signals) -> Ran:
    process.send_signal(number)
    out, err = process.communicate(timeout=30)
    return Ran(process.returncode, out, err)
