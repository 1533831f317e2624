"""A sandbox on a small repository, and words to use it with."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from threading import Event as Flag
from uuid import uuid4

import pytest

from codeagent.sandbox import image as images
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.sandbox import CopyBy, DockerSandbox, open_sandbox
from codeagent.sandbox.seam import Command, CommandResult
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings

# What a repository may belong to: root's is the harder case for keeping commands off the guest.
OWNERS = ("root", "user") if os.geteuid() == 0 else ("self",)
USER = 12_345


class Opened:
    """A sandbox and its surroundings."""

    def __init__(self, sandbox: DockerSandbox, engine: Engine, session: str, repo: Path, outputs: Path) -> None:
        self.sandbox = sandbox
        self.engine = engine
        self.session = session
        self.repo = repo
        self.outputs = outputs
        self._numbers = count(1)

    def run(
        self,
        script: str,
        *,
        writable: bool = False,
        timeout: float = 30.0,
        cancel: Flag | None = None,
        workdir: str = "",
    ) -> CommandResult:
        command = Command(f"call_{next(self._numbers)}", script, workdir, timeout, writable)
        return self.sandbox.run(command, cancel or Flag())

    def output(self, script: str, *, writable: bool = False, timeout: float = 30.0) -> str:
        """What a script prints, on both streams."""
        return text(self.run(script, writable=writable, timeout=timeout))

    def containers(self) -> list[str]:
        """The ids of the session's containers that the engine knows of."""
        filters = {"label": f"codeagent.session={self.session}"}
        return [container["Id"] for container in self.engine.client.api.containers(all=True, filters=filters)]

    def volumes(self) -> list[str]:
        filters = {"label": f"codeagent.session={self.session}"}
        return [volume["Name"] for volume in self.engine.client.api.volumes(filters=filters)["Volumes"] or []]


def text(result: CommandResult) -> str:
    return "".join(piece for _, piece in result.segments)


Open = Callable[..., Opened]


@pytest.fixture(scope="module")
def small_repo(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one commit, a file, a folder and a secret."""
    repo = tmp_path_factory.mktemp("repo") / "project"
    repo.mkdir()
    (repo / "hello.txt").write_text("hello\n")
    (repo / "src").mkdir()
    (repo / "src" / "main.py").write_text("print('main')\n")
    (repo / ".env").write_text("KEY=secret\n")
    for arguments in (["init", "-q"], ["add", "hello.txt", "src"], ["commit", "-q", "-m", "first"]):
        subprocess.run(
            ["git", "-c", "user.name=t", "-c", "user.email=t@t", *arguments],
            cwd=repo,
            check=True,
            capture_output=True,
        )
    return repo


@contextmanager
def opening(
    engine: Engine,
    toolbox: Toolbox,
    repo: Path,
    outputs: Path,
    image: str,
    settings: SandboxSettings,
    copy: CopyBy | None = None,
) -> Iterator[Opened]:
    """A sandbox that is closed again; what it leaves behind is an error of the test that left it."""
    found = images.find(engine, image)
    assert found is not None
    session = f"test-{uuid4().hex[:12]}"
    outputs.mkdir(exist_ok=True)
    with open_sandbox(engine, found, toolbox, repo, settings, session, outputs, copy=copy) as sandbox:
        opened = Opened(sandbox, engine, session, repo, outputs)
        yield opened
    assert (opened.containers(), opened.volumes()) == ([], [])


@pytest.fixture(scope="module", params=OWNERS)
def opened(
    request: pytest.FixtureRequest,
    engine: Engine,
    toolbox: Toolbox,
    image: str,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Opened]:
    """A sandbox with small limits on a repository of root's and on one of a user's, shared by a module's tests."""
    repo = tmp_path_factory.mktemp("owned") / "project"
    shutil.copytree(request.getfixturevalue("small_repo"), repo)
    if request.param == "user":
        subprocess.run(["chown", "-R", f"{USER}:{USER}", str(repo)], check=True)
    repo.chmod(0o700)
    settings = SandboxSettings(memory=256 << 20, pids=100, tmp_size=32 << 20, copy_limit=256 << 20)
    with opening(engine, toolbox, repo, tmp_path_factory.mktemp("outputs"), image, settings) as found:
        yield found


@pytest.fixture
def open_one(engine: Engine, toolbox: Toolbox, image: str, small_repo: Path, tmp_path: Path) -> Iterator[Open]:
    """Opens a sandbox of the test's own: `open_one(image=…, repo=…, settings=…)`."""
    from contextlib import ExitStack

    with ExitStack() as stack:

        def open_it(**chosen: object) -> Opened:
            given: dict[str, object] = {"repo": small_repo, "image": image, "settings": SandboxSettings(), **chosen}
            return stack.enter_context(opening(engine, toolbox, outputs=tmp_path / "outputs", **given))  # type: ignore[arg-type]

        yield open_it
