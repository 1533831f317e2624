"""What is left of a session that was killed at the worst moment, and who takes it away."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from uuid import uuid4

import pytest

from codeagent.sandbox.container import reap_orphans
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.owner import SESSION_LABEL

# Kills itself where it would ask the engine for `step`: between a container's making and its start, or its filling.
DYING = """
import os, signal, sys, threading
from pathlib import Path
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import connect
from codeagent.sandbox.sandbox import open_sandbox
from codeagent.sandbox.seam import Command
from codeagent.settings import SandboxSettings

engine = connect()
silent = lambda what, done, total: None
found, box = image.find(engine), toolbox.ensure(engine, silent)
setattr(engine.client.api, sys.argv[4], lambda *_: os.kill(os.getpid(), signal.SIGKILL))
sandbox = open_sandbox(engine, found, box, Path(sys.argv[1]), SandboxSettings(), sys.argv[2], Path(sys.argv[3]))
sandbox.run(Command("a", "true", writable=True), threading.Event())
"""


@pytest.mark.parametrize("step", ["attach_socket", "start", "put_archive"])
def test_a_session_killed_before_its_container_started_leaves_nothing_after_the_next_start(
    engine: Engine, small_repo: Path, tmp_path: Path, step: str
) -> None:
    session = f"test-orphan-{uuid4().hex[:12]}"
    api, filters = engine.client.api, {"label": f"{SESSION_LABEL}={session}"}
    dying = [sys.executable, "-c", textwrap.dedent(DYING), str(small_repo), session, str(tmp_path), step]
    assert subprocess.run(dying, timeout=60).returncode == -signal.SIGKILL
    until = time.monotonic() + 5
    while any(one["State"] == "running" for one in api.containers(filters=filters)) and time.monotonic() < until:
        time.sleep(0.05)
    assert api.containers(filters=filters) == []
    reap_orphans(engine)  # as the next start does; another one may have come first
    assert api.containers(all=True, filters=filters) == []
    assert not api.volumes(filters=filters)["Volumes"]
