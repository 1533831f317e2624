"""A verification on a repository of a test's own, without a model and a session around it."""

from __future__ import annotations

import shutil
import subprocess
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event as Flag
from uuid import uuid4

from codeagent.sandbox import image as images
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.sandbox import DockerSandbox, open_sandbox
from codeagent.sandbox.seam import Diff
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings
from codeagent.verification.record import Verification
from codeagent.verification.verify import Baseline, Check, run_baseline, verify
from tests.docker.codeagent_cli import runs

Change = Mapping[str, "str | None"]
"""Path to new text (None deletes), or to a link's target where the text begins with `-> `."""


class Verifying:
    """Runs checks on `repo`. What they leave behind is an error (`left`)."""

    def __init__(self, repo: Path, scratch: Path, engine: Engine, toolbox: Toolbox, **settings: int) -> None:
        found = images.find(engine)
        assert found is not None
        self.repo = repo
        self.image = found
        self.outputs = scratch / "outputs"
        self._engine = engine
        self._toolbox = toolbox
        self._scratch = scratch
        self._settings = SandboxSettings(**settings)  # type: ignore[arg-type]
        self._session = f"verifying-{uuid4().hex[:10]}"
        self._baselines: dict[str, Baseline] = {}
        self.opened = 0
        self.tmp_sizes = (64 << 20, 64 << 20)
        """Of every other container. Where they differ, a check can tell one run from the next."""

    @contextmanager
    def fresh(self) -> Iterator[DockerSandbox]:
        self.opened += 1
        settings = replace(self._settings, tmp_size=self.tmp_sizes[self.opened % 2])
        parts = (self._engine, self.image, self._toolbox, self.repo, settings, self._session, self.outputs)
        with open_sandbox(*parts, copy="engine") as sandbox:
            yield sandbox

    def check(self, command: str, repeat: int = 1, seconds: float = 60) -> Check:
        return Check(
            command, self.fresh, self._output, lambda *_: None, repeat, timeout_seconds=seconds, image=self.image.id
        )

    def baseline(self, command: str, seconds: float = 60) -> Baseline:
        """The run before the change, made once a command."""
        if command not in self._baselines:
            self._baselines[command] = run_baseline(self.check(command, seconds=seconds), Flag())
        return self._baselines[command]

    def record(
        self, command: str, diff: Diff, repeat: int = 1, seconds: float = 60, baseline: Baseline | None = None
    ) -> Verification:
        """`baseline` stands for a run before the change that would fail."""
        baseline = baseline or self.baseline(command, seconds)
        return verify(self.check(command, repeat, seconds), baseline, diff, Flag())

    def changed(self, command: str, change: Change, repeat: int = 1, seconds: float = 60) -> Verification:
        return self.record(command, self.diff(change), repeat, seconds)

    def diff(self, change: Change) -> Diff:
        """The diff of a change, as git writes it."""
        work = self._scratch / f"work-{uuid4().hex[:8]}"
        shutil.copytree(self.repo, work / "tree", symlinks=True)
        git = ["git", f"--git-dir={work}/git"]
        subprocess.run(["git", "init", "-q", "--bare", str(work / "git")], check=True)

        def tree() -> str:
            subprocess.run([*git, f"--work-tree={work}/tree", "add", "-A", "-f"], check=True)
            return subprocess.run([*git, "write-tree"], capture_output=True, text=True, check=True).stdout.strip()

        before = tree()
        for path, text in change.items():
            put(work / "tree" / path, text)
        patch = subprocess.run(
            [*git, "diff", "--binary", "--no-renames", before, tree()], capture_output=True, check=True
        ).stdout
        shutil.rmtree(work)
        return Diff(patch, tuple(change))

    def containers(self) -> list[str]:
        filters = {"label": f"codeagent.session={self._session}"}
        return [found["Id"] for found in self._engine.client.api.containers(all=True, filters=filters)]

    def left(self) -> list[str]:
        """Containers and volumes that are still there."""
        volumes = self._engine.client.api.volumes(filters={"label": f"codeagent.session={self._session}"})["Volumes"]
        return [*self.containers(), *(volume["Name"] for volume in volumes or [])]

    @contextmanager
    def killing(self, process: str) -> Iterator[None]:
        """Kills the container in which a process with this command line runs, as an engine that dies does."""
        over = threading.Event()

        def kill() -> None:
            while not over.wait(0.1):
                for container in self.containers():
                    if runs(container, process):
                        self._engine.client.api.kill(container)
                        return

        thread = threading.Thread(target=kill)
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()

    def _output(self, run_id: str) -> str | None:
        file = self.outputs / f"{run_id}.txt"
        return file.read_text("utf-8", "replace") if file.exists() else None


def put(target: Path, text: str | None) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.is_symlink() or target.is_file():
        mode = target.stat().st_mode if target.exists() else None
        target.unlink()
    elif target.is_dir():
        target.rmdir()
        mode = None
    else:
        mode = None
    if text is not None and text.startswith("-> "):
        target.symlink_to(text.removeprefix("-> "))
    elif text is not None:
        target.write_text(text)
        if mode is not None:
            target.chmod(mode)
