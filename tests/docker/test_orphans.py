"""What is left of a program that was killed at the worst moment, and who takes it away."""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from uuid import uuid4

import pytest

from codeagent.sandbox.container import reap_orphans
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.owner import OWNER_LABEL, SESSION_LABEL
from tests.clocks import GONE_SECONDS, wait_until
from tests.docker.codeagent_cli import Program
from tests.docker.conftest import USER
from tests.docker.held_engine import HeldEngine, Moment
from tests.model_script import hang
from tests.model_server import ModelServer

# Reads, and then makes the private copy.
DYING = """
import sys, threading
from pathlib import Path
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import connect
from codeagent.sandbox.sandbox import open_sandbox
from codeagent.sandbox.seam import Command
from codeagent.settings import SandboxSettings

engine = connect(sys.argv[4])
silent = lambda what, done, total: None
found, box = image.find(engine), toolbox.ensure(engine, silent)
sandbox = open_sandbox(engine, found, box, Path(sys.argv[1]), SandboxSettings(), sys.argv[2], Path(sys.argv[3]))
sandbox.run(Command("a", "true", writable=True), threading.Event())
"""


def left(engine: Engine, label: str) -> list[str]:
    """Containers and volumes with this label."""
    api, filters = engine.client.api, {"label": label}
    volumes = api.volumes(filters=filters)["Volumes"] or []
    return [one["Id"] for one in api.containers(all=True, filters=filters)] + [one["Name"] for one in volumes]


def owners(engine: Engine) -> set[str]:
    """The processes to which containers belong."""
    everything = engine.client.api.containers(all=True, filters={"label": OWNER_LABEL})
    return {one["Labels"][OWNER_LABEL].split("/")[3] for one in everything}


def processes(words: str) -> list[int]:
    """The processes that have these words among their arguments or in their environment."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if any(words.encode() in (folder / name).read_bytes() for name in ("cmdline", "environ")):
                found.append(int(folder.name))
    return [pid for pid in found if pid != os.getpid()]


@pytest.mark.parametrize(
    ("request_", "moment", "seconds"),
    [
        ("/containers/create", "asked", 1.0),  # the engine carries out a dead client's request, and late
        ("/containers/create", "answered", 0.0),
        ("/start", "asked", 0.0),
        ("/start", "answered", 0.0),
        ("/volumes/create", "answered", 0.0),
        ("/archive", "asked", 0.0),
    ],
)
def test_a_program_killed_while_it_makes_something_leaves_nothing(
    engine: Engine, small_repo: Path, tmp_path: Path, request_: str, moment: Moment, seconds: float
) -> None:
    session = f"test-orphan-{uuid4().hex[:12]}"
    # Of another user's than root, who has to be made the owner of the private copy.
    repo = shutil.copytree(small_repo, tmp_path / "project")
    if os.geteuid() == 0:
        os.chown(repo, USER, USER)

    def kill() -> None:
        dying.kill()
        dying.wait()
        time.sleep(seconds)

    with contextlib.closing(HeldEngine(engine, tmp_path, request_, moment, kill)) as held:
        words = [sys.executable, "-c", textwrap.dedent(DYING), str(repo), session, str(tmp_path), held.url]
        dying = subprocess.Popen(words)
        assert dying.wait(60) == -signal.SIGKILL
        assert held.answered.wait(GONE_SECONDS)
        # Both at once: a process that takes another's place while the list is read is not in it.
        label = f"{SESSION_LABEL}={session}"
        wait_until(lambda: not processes(held.url) and not left(engine, label), GONE_SECONDS)


def test_a_program_killed_at_any_moment_of_its_start_leaves_nothing(
    engine: Engine, small_repo: Path, tmp_path: Path
) -> None:
    delays = [random.uniform(0, 0.5) for _ in range(4)]

    def killed(number: int, delay: float) -> None:
        program = Program(tmp_path / str(number), engine)
        program.home.mkdir()
        asked = threading.Event()
        with contextlib.closing(HeldEngine(engine, program.home, "/containers/create", "asked", asked.set)) as held:
            argv = ("ask", "why", "--repo", str(small_repo), "--docker-host", held.url)
            process = program.start(*argv, server=server)
            pids.add(str(process.pid))
            assert asked.wait(30)
            time.sleep(delay)
            process.kill()
            process.communicate()
            wait_until(lambda: not processes(held.url), GONE_SECONDS)

    pids: set[str] = set()
    with ModelServer([hang() for _ in delays]) as server, ThreadPoolExecutor() as pool:
        for future in [pool.submit(killed, *point) for point in enumerate(delays)]:
            future.result()
    wait_until(lambda: not pids & owners(engine), GONE_SECONDS)


def test_what_is_left_because_the_watcher_died_as_well_goes_at_the_next_start(
    engine: Engine, small_repo: Path, tmp_path: Path
) -> None:
    session = f"test-orphan-{uuid4().hex[:12]}"

    def kill() -> None:
        for pid in processes(held.url):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        dying.wait()

    with contextlib.closing(HeldEngine(engine, tmp_path, "/start", "asked", kill)) as held:
        words = [sys.executable, "-c", textwrap.dedent(DYING), str(small_repo), session, str(tmp_path), held.url]
        dying = subprocess.Popen(words)
        assert dying.wait(60) == -signal.SIGKILL
    reap_orphans(engine)  # as the next start does; another one may have come first
    assert left(engine, f"{SESSION_LABEL}={session}") == []
