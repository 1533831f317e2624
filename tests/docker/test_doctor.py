"""What `codeagent doctor` finds when it looks at a sandbox from inside."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from threading import Event as Flag

import pytest

from codeagent.cli.probe import SCRIPT, inside
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.owner import SESSION_LABEL
from codeagent.sandbox.seam import Command, CommandResult, Ending, Sandbox
from codeagent.sandbox.toolbox import Toolbox

PROGRAM = str(Path(sys.executable).with_name("codeagent"))


def checks(repo: Path, host: str, *flags: str) -> dict[str, tuple[str, str]]:
    env = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(repo.parent / "home"), "DOCKER_HOST": host}
    command = [PROGRAM, "doctor", "--json", "--repo", str(repo), *flags]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=180, env=env)
    assert ran.stderr == ""
    shown = json.loads(ran.stdout)
    assert (ran.returncode, shown["ok"]) in ((0, True), (1, False))
    return {one["name"]: (one["level"], one["text"]) for one in shown["checks"]}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "shop"
    repo.mkdir()
    (repo / "app.py").write_text("x = 1\n")
    return repo


def test_a_good_machine_is_ok_from_engine_to_network(
    repo: Path, engine: Engine, engine_host: str, toolbox: Toolbox
) -> None:
    found = checks(repo, engine_host)
    owner = repo.stat()
    assert found["engine"][0] == "ok"
    assert engine.version in found["engine"][1]
    assert found["mount"] == ("ok", f"{repo} at /workspace, read-only, entries at its top: 1")
    assert found["user"][0] == "ok"
    assert f"the repository's owner is {owner.st_uid}:{owner.st_gid}" in found["user"][1]
    assert found["network"] == ("ok", "closed: loopback only, no route")
    assert found["walls"] == ("ok", "no capability, no new privileges, seccomp, read-only but for /tmp")
    label = f"{SESSION_LABEL}=doctor"
    assert engine.client.containers.list(all=True, filters={"label": label}) == []


def test_an_image_that_holds_only_busybox_is_looked_at_too(
    repo: Path, engine_host: str, toolbox: Toolbox, busybox_image: str
) -> None:
    found = checks(repo, engine_host, "--image", busybox_image)
    assert found["image"][1].startswith(busybox_image)
    assert found["walls"][0] == "ok"


def test_an_image_that_is_not_there_is_a_warning_and_nothing_is_pulled(repo: Path, engine_host: str) -> None:
    found = checks(repo, engine_host, "--image", "codeagent-test-no-such:1")
    assert found["image"] == ("warning", "the engine has no codeagent-test-no-such:1 yet")
    assert "mount" not in found


class Answering:
    """A sandbox that answers the probe's command with this text."""

    def __init__(self, printed: str, exit_code: int = 0) -> None:
        self._printed = printed
        self._exit_code = exit_code

    def run(self, command: Command, cancel: Flag) -> CommandResult:
        assert command.script == SCRIPT
        assert not command.writable
        return CommandResult(Ending.EXITED, self._exit_code, 5, (("stdout", self._printed),))


GOOD = "Uid 0\nGid 0\nNoNewPrivs 1\nCapEff 0000000000000000\nSeccomp 2\ntemporary yes\nreadable yes\n"


@pytest.mark.parametrize(
    ("printed", "name", "text"),
    [
        (GOOD + "interface eth0\nroute eth0\n", "network", "the container has a network: interface eth0, route eth0"),
        (GOOD.replace("NoNewPrivs 1", "NoNewPrivs 0"), "walls", "no-new-privileges is off"),
        (GOOD.replace("CapEff 0000000000000000", "CapEff 00000000a80425fb"), "walls", "commands have capabilities"),
        (GOOD.replace("Seccomp 2", "Seccomp 0"), "walls", "no seccomp filter applies"),
        (GOOD + "writable repository\n", "walls", "the repository can be written"),
        ("sh: not found", "commands", "a command cannot run in the image: sh: not found"),
    ],
)
def test_a_wall_that_is_down_is_an_error(tmp_path: Path, printed: str, name: str, text: str) -> None:
    sandbox: Sandbox = Answering(printed)  # type: ignore[assignment]  # the probe only runs a command
    found = {one.name: (one.level, one.text) for one in inside(sandbox, tmp_path)}
    assert found[name] == ("error", text)
