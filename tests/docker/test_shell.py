"""`codeagent sandbox shell`, typed into as a person does."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pexpect
import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.owner import OWNER_LABEL
from codeagent.sandbox.toolbox import Toolbox

START = "from codeagent.cli.main import main; main()"


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    (tmp_path / "a.txt").write_text("hello\n")
    (tmp_path / ".env").write_text("SECRET=hunter2\n")
    return tmp_path


@pytest.fixture(params=["codeagent-sandbox", "busybox_image"])
def shell(
    engine: Engine,
    toolbox: Toolbox,
    repository: Path,
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[pexpect.spawn[str]]:
    name = request.param if "-" in request.param else request.getfixturevalue(request.param)
    arguments = ["-c", START, "sandbox", "shell", "--repo", str(repository), "--image", name]
    arguments += ["--docker-host", engine.host]
    temporary = tmp_path_factory.mktemp("temporary")
    child: pexpect.spawn[str] = pexpect.spawn(
        sys.executable,
        arguments,
        encoding="utf-8",
        timeout=30,
        dimensions=(33, 77),
        echo=False,
        env={**os.environ, "TMPDIR": str(temporary)},
    )
    child.expect_exact("codeagent:/workspace$ ")
    yield child
    if child.isalive():
        child.kill(signal.SIGHUP)
        child.expect(pexpect.EOF)
        child.wait()
    assert list(temporary.iterdir()) == []


def typed(shell: pexpect.spawn[str], line: str) -> list[str]:
    """The lines that the shell printed for one typed line, without the terminal's echo of it."""
    shell.sendline(line)
    shell.expect_exact("codeagent:/workspace$ ")
    assert shell.before is not None
    return shell.before.replace("\r", "").splitlines()[1:]


def left(engine: Engine, shell: pexpect.spawn[str]) -> list[str]:
    """Containers that the shell's process owns."""
    owned = engine.client.api.containers(all=True, filters={"label": OWNER_LABEL})
    return [one["Id"] for one in owned if one["Labels"][OWNER_LABEL].split("/")[3] == str(shell.pid)]


def test_a_person_gets_what_commands_get(shell: pexpect.spawn[str], repository: Path, engine: Engine) -> None:
    owner = repository.stat()
    assert typed(shell, "cat a.txt") == ["hello"]
    assert typed(shell, "id -u; id -g; id -G") == [str(owner.st_uid), str(owner.st_gid), str(owner.st_gid)]
    assert typed(shell, "cat .env; grep -r hunter .") == []
    (failure,) = typed(shell, "touch made")
    assert "Read-only file system" in failure
    assert typed(shell, "grep CapEff /proc/self/status") == ["CapEff:\t0000000000000000"]
    assert typed(shell, "echo $HOME $TERM") == [f"/tmp/home {os.environ.get('TERM', 'dumb')}"]
    assert typed(shell, "ls /sys/class/net") == ["lo"]
    assert typed(shell, "grep SigIgn /proc/self/status") == ["SigIgn:\t0000000000000000"]
    shell.sendline("exit 7")
    shell.expect(pexpect.EOF)
    shell.wait()
    assert shell.exitstatus == 7
    assert left(engine, shell) == []


def test_the_shell_knows_the_terminal_s_size_and_its_keys(shell: pexpect.spawn[str]) -> None:
    assert typed(shell, "stty size") == ["33 77"]
    shell.setwinsize(20, 60)
    # A shell may print its prompt again when the size changes, so the answer itself is waited for.
    shell.sendline("until stty size | grep '20 60'; do sleep 0.1; done")
    shell.expect_exact("20 60\r\n")
    shell.sendline("echo going; sleep 60")
    shell.expect_exact("going\r\n")
    time.sleep(0.3)
    shell.sendintr()
    shell.sendline("echo still $((40 + 2))")
    shell.expect_exact("still 42\r\n")


def test_a_closed_terminal_ends_it_and_nothing_is_left(shell: pexpect.spawn[str], engine: Engine) -> None:
    assert len(left(engine, shell)) == 1
    shell.ptyproc.fileobj.close()  # type: ignore[attr-defined]  # close() would send signals of its own
    shell.wait()
    assert shell.exitstatus == 128 + signal.SIGHUP
    assert left(engine, shell) == []
