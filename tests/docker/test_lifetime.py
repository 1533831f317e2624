"""How containers come and go: any image, losses, the death of the program, and what is left behind."""

from __future__ import annotations

import os
import platform
import shutil
import signal
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any
from uuid import uuid4

import docker.errors
import pytest
from guest import seccomp

from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.sandbox import container
from codeagent.sandbox.container import reap_orphans
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.hardening import Plan, options
from codeagent.sandbox.owner import OWNER_LABEL, ROLE_LABEL, SESSION_LABEL, Owner
from codeagent.sandbox.seam import Ending
from codeagent.sandbox.toolbox import Toolbox
from codeagent.settings import SandboxSettings
from tests.clocks import GONE_SECONDS, at_once, once, wait_until
from tests.conftest import build_image, own_image
from tests.docker.codeagent_cli import runs
from tests.docker.conftest import Open, Opened, opening, text

# Any image


def serves(opened: Opened) -> None:
    assert opened.sandbox.fetch("hello.txt") == b"hello\n"
    assert [entry.path for entry in opened.sandbox.list_dir(".", 1, 0).entries][:1] == ["src"]
    assert opened.output("echo a; echo b >&2; cat hello.txt") == "a\nb\nhello\n"
    assert opened.run("sleep 300 &", timeout=5).ending is Ending.EXITED
    assert opened.output("echo changed > hello.txt; cat hello.txt", writable=True) == "changed\n"
    assert opened.output("cat hello.txt") == "changed\n"
    assert b"+changed" in opened.sandbox.diff().patch


def test_an_image_that_holds_nothing_but_busybox(open_one: Open, busybox_image: str) -> None:
    opened = open_one(image=busybox_image)
    serves(opened)
    assert "python" not in opened.output("ls /bin /usr/bin 2>/dev/null; which python3 git")


def test_an_image_whose_own_python_is_broken(open_one: Open, broken_python_image: str) -> None:
    opened = open_one(image=broken_python_image)
    serves(opened)
    assert opened.run("python3 -c pass").exit_code == 42
    assert opened.output("echo $PYTHONHOME $LD_LIBRARY_PATH") == "/nowhere /nowhere\n"


def test_the_images_own_volumes_and_health_checks_are_no_way_around_the_limits(
    engine: Engine, toolbox: Toolbox, image: str, small_repo: Path, tmp_path: Path
) -> None:
    recipe = f"FROM {image}\nVOLUME /data\nHEALTHCHECK --interval=1s CMD touch /tmp/checked\n"
    with own_image(engine, "volume") as name:
        build_image(engine, name, recipe)
        with opening(engine, toolbox, small_repo, tmp_path, name, SandboxSettings()) as opened:
            assert int(opened.output("df --output=size /data | tail -1")) == 16 * 1024
            (identity,) = opened.containers()
            assert "Health" not in engine.client.api.inspect_container(identity)["State"]


# The running container is what the options say


def test_a_running_container_is_as_hard_as_its_options(open_one: Open, engine: Engine) -> None:
    opened = open_one()
    opened.run("true")
    (identity,) = opened.containers()
    found = engine.client.api.inspect_container(identity)
    asked = options(Plan("", (), {}, ()), SandboxSettings(cpus=min(2.0, float(os.cpu_count() or 1))))
    host = found["HostConfig"]
    same = (
        *("AutoRemove", "Init", "Privileged", "ReadonlyRootfs", "CapDrop", "CapAdd"),
        *("NetworkMode", "IpcMode", "CgroupnsMode"),
        *("Memory", "MemorySwap", "NanoCpus", "PidsLimit", "ShmSize", "Sysctls", "Tmpfs"),
    )
    assert {name: host[name] for name in same} == {name: asked["HostConfig"][name] for name in same}
    assert host["SecurityOpt"] == ["no-new-privileges"]
    assert host["LogConfig"]["Type"] == "none"
    assert (host["Binds"], host["Devices"], host["PortBindings"]) == (None, None, None)
    assert [mount["Destination"] for mount in found["Mounts"] if mount["RW"]] == []
    config = found["Config"]
    assert (config["User"], config["Tty"], config["StdinOnce"]) == ("0:0", False, True)
    assert (config["NetworkDisabled"], list(found["NetworkSettings"]["Networks"])) == (True, [])
    labels = config["Labels"]
    assert (labels[SESSION_LABEL], labels[ROLE_LABEL]) == (opened.session, "reader")


OUT = """
import ctypes, os, subprocess, sys, threading
libc = ctypes.CDLL(None, use_errno=True)
for call in sys.argv[1:]:
    number, argument = map(int, call.split(":"))
    result = libc.syscall(ctypes.c_long(number), ctypes.c_long(argument), 0, 0, 0, 0)
    print(os.strerror(ctypes.get_errno()) if result < 0 else "allowed")
thread = threading.Thread(target=print, args=["thread"], kwargs={"flush": True})
thread.start()
thread.join()
subprocess.run(["echo", "process"])
"""


def test_the_guests_own_filter_holds_where_the_engine_has_none(
    open_one: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    def unconfined(plan: Plan, settings: SandboxSettings) -> dict[str, Any]:
        body = options(plan, settings)
        body["HostConfig"]["SecurityOpt"].append("seccomp=unconfined")
        return body

    monkeypatch.setattr(container, "options", unconfined)
    table = seccomp.MACHINES[platform.machine()][0]
    new_user = 0x10000000
    calls = {number: new_user if number == table.forbidden[0] else 0 for number in table.forbidden}
    words = " ".join(f"{number}:{argument}" for number, argument in {**calls, table.clone: new_user | 17}.items())
    said = open_one().output(f"python3 - {words} {seccomp.CLONE3}:0 <<'EOF'\n{OUT}\nEOF").splitlines()
    assert said == ["Operation not permitted"] * 6 + ["Function not implemented", "thread", "process"]


def test_a_session_has_at_most_two_containers(open_one: Open) -> None:
    opened = open_one()
    opened.run("true")
    assert len(opened.containers()) == 1
    opened.run("touch new", writable=True)
    opened.run("true")
    assert len(opened.containers()) == 2
    assert len(opened.volumes()) == 2


# The private copy


def test_the_copy_takes_the_mounts_place_and_the_repository_stays_as_it_was(open_one: Open, small_repo: Path) -> None:
    opened = open_one()
    before = {path: path.stat().st_mtime_ns for path in small_repo.rglob("*")}
    assert opened.run("touch planted").exit_code == 1
    assert not opened.sandbox.has_copy
    assert opened.run("echo more >> hello.txt; rm src/main.py; touch new", writable=True).exit_code == 0
    assert opened.sandbox.has_copy
    assert opened.sandbox.fetch("hello.txt") == b"hello\nmore\n"
    assert opened.output("cat hello.txt; ls") == "hello\nmore\nhello.txt\nnew\nsrc\n"
    assert opened.run("touch planted").exit_code == 1
    assert {path: path.stat().st_mtime_ns for path in small_repo.rglob("*")} == before


def test_a_command_cannot_fill_the_disk_by_the_copy(open_one: Open) -> None:
    opened = open_one(settings=SandboxSettings(copy_limit=64 << 20))
    result = opened.run("dd if=/dev/zero of=big bs=1M count=20000", writable=True)
    assert (result.ending, result.exit_code) == (Ending.FULL, None)
    assert opened.run("rm big; echo on", writable=True).exit_code == 0


def test_a_copy_over_the_limit_is_refused_and_reading_goes_on(
    open_one: Open, small_repo: Path, tmp_path: Path
) -> None:
    repo = tmp_path / "large"
    shutil.copytree(small_repo, repo)
    (repo / "big").write_bytes(b"x" * (2 << 20))
    opened = open_one(repo=repo, settings=SandboxSettings(copy_limit=1 << 20))
    with pytest.raises(ToolError) as refused:
        opened.run("touch new", writable=True)
    assert refused.value.kind is ErrorKind.TOO_LARGE
    assert opened.sandbox.fetch("hello.txt") == b"hello\n"
    assert len(opened.containers()) == 1
    assert opened.volumes() == []


def test_making_the_copy_can_be_cancelled(open_one: Open, small_repo: Path, tmp_path: Path) -> None:
    repo = tmp_path / "many"
    shutil.copytree(small_repo, repo)
    for folder in range(10):
        (repo / f"d{folder}").mkdir()
        for number in range(500):
            (repo / f"d{folder}" / f"f{number}").write_text("x")
    opened = open_one(repo=repo)
    cancel = threading.Event()
    opened.run("true")
    with once(opened.volumes, cancel.set), pytest.raises(ToolError) as cancelled:
        opened.run("true", writable=True, cancel=cancel)
    assert cancelled.value.kind is ErrorKind.CANCELLED
    assert opened.sandbox.fetch("hello.txt") == b"hello\n"
    wait_until(lambda: opened.volumes() == [])


# Losses


Harm = Callable[[Engine, str], None]
HARMS: dict[str, Harm] = {
    "removed": lambda engine, identity: engine.client.api.remove_container(identity, force=True),
    "killed": lambda engine, identity: engine.client.api.kill(identity),
    "paused": lambda engine, identity: engine.client.api.pause(identity),
    "restarted": lambda engine, identity: restart(engine, identity),
}


def restart(engine: Engine, identity: str) -> None:
    # What is mounted into a container is there for its start alone, so that it does not start again.
    with suppress(docker.errors.APIError):
        engine.client.api.restart(identity, timeout=0)


@pytest.mark.parametrize("harm", ["removed", "killed", "paused"])
def test_a_container_that_goes_during_a_call_ends_it_with_the_reason(
    open_one: Open, engine: Engine, harm: str
) -> None:
    opened = open_one()
    opened.run("true")
    (identity,) = opened.containers()
    with (
        at_once(),
        once(lambda: runs(identity, "sleep 60"), lambda: HARMS[harm](engine, identity)),
        pytest.raises(ToolError) as lost,
    ):
        opened.run("sleep 60", timeout=60)
    assert lost.value.kind is ErrorKind.SANDBOX_FAILED
    assert lost.value.sentence.startswith("the sandbox was lost (the container was ")
    assert "a new one has taken its place: what was in /tmp is gone" in lost.value.sentence
    assert opened.output("echo again") == "again\n"
    assert identity not in opened.containers()


@pytest.mark.parametrize("harm", HARMS)
def test_a_container_that_goes_between_calls_is_replaced_once_and_the_model_is_told(
    open_one: Open, engine: Engine, harm: str
) -> None:
    opened = open_one()
    opened.run("echo kept > /tmp/file")
    (identity,) = opened.containers()
    HARMS[harm](engine, identity)
    page = opened.sandbox.read_file("hello.txt", None, None)
    (note,) = page.notes
    assert note.startswith("the sandbox was lost (") and "what was in /tmp is gone" in note
    assert opened.sandbox.read_file("hello.txt", None, None).notes == ()
    assert opened.run("cat /tmp/file").exit_code == 1
    HARMS["removed"](engine, opened.containers()[0])
    with pytest.raises(SandboxError, match=r"^The sandbox was lost: "):
        opened.run("true")


def test_the_private_copy_survives_the_loss_of_its_containers(open_one: Open, engine: Engine) -> None:
    opened = open_one()
    opened.run("echo kept > new", writable=True)
    writer = opened.sandbox._writer
    assert writer is not None
    for identity in opened.containers():
        HARMS["removed"](engine, identity)
    wait_until(writer.running.channel.loss)  # a call that is sent before may have taken effect, and fails
    result = opened.run("cat new", writable=True)
    assert text(result) == "kept\n"
    assert "the private copy of the repository is kept" in result.notes[0]
    assert opened.sandbox.fetch("new") == b"kept\n"


def test_masks_that_are_gone_do_not_keep_a_lost_container_from_coming_back(
    open_one: Open, engine: Engine, small_repo: Path, tmp_path: Path
) -> None:
    repo = tmp_path / "changing"
    shutil.copytree(small_repo, repo)
    opened = open_one(repo=repo)
    assert opened.output("cat .env") == ""
    (identity,) = opened.containers()
    (repo / ".env").unlink()
    HARMS["removed"](engine, identity)
    assert opened.sandbox.fetch("hello.txt") == b"hello\n"


def test_a_closed_sandbox_says_so(open_one: Open) -> None:
    opened = open_one()
    opened.run("true")
    opened.sandbox.close()
    opened.sandbox.close()
    with pytest.raises(SandboxError, match="closed"):
        opened.run("true")


def test_closing_right_after_opening_leaves_nothing(open_one: Open) -> None:
    opened = open_one()
    opened.sandbox.close()
    wait_until(lambda: (opened.containers(), opened.volumes()) == ([], []))


def test_a_container_that_cannot_start_is_an_error_of_the_first_call(open_one: Open, tmp_path: Path) -> None:
    opened = open_one(settings=SandboxSettings(memory=1 << 20))
    with pytest.raises(SandboxError, match=r"The container cannot be started: .*memory"):
        opened.run("true")


# The death of the program


SESSION = """
import sys, threading
from pathlib import Path
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import connect
from codeagent.sandbox.sandbox import open_sandbox
from codeagent.sandbox.seam import Command
from codeagent.settings import SandboxSettings

engine = connect()
silent = lambda what, done, total: None
sandbox = open_sandbox(
    engine, image.find(engine), toolbox.ensure(engine, silent), Path(sys.argv[1]), SandboxSettings(), sys.argv[2],
    Path(sys.argv[3]),
)
sandbox.run(Command("a", "touch new", writable=True), threading.Event())
print("ready", flush=True)
sandbox.run(Command("b", "trap '' TERM HUP; setsid sleep 600 & sleep 600", timeout_seconds=600), threading.Event())
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_when_the_program_dies_its_containers_and_volumes_go(
    engine: Engine, small_repo: Path, tmp_path: Path, number: signal.Signals
) -> None:
    session = f"test-dying-{uuid4().hex[:12]}"
    dying = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(SESSION), str(small_repo), session, str(tmp_path)],
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert dying.stdout is not None
    with dying.stdout:
        assert dying.stdout.readline() == "ready\n"
    dying.send_signal(number)
    dying.wait(60)
    filters = {"label": f"{SESSION_LABEL}={session}"}
    wait_until(lambda: not engine.client.api.volumes(filters=filters)["Volumes"], GONE_SECONDS)
    assert engine.client.api.containers(all=True, filters=filters) == []


def test_only_what_has_no_living_owner_is_removed(engine: Engine) -> None:
    """On a machine of the test's own, so that no other program that starts meanwhile removes anything of it."""
    api = engine.client.api
    here = replace(Owner.current(), machine=uuid4().hex[:16])
    gone = replace(here, pid=999_999_999, started="1")
    labels = {"living": here.label(), "gone": gone.label(), "elsewhere": replace(gone, machine="another").label()}
    names = {name: f"codeagent-test-orphan-{here.machine}-{name}" for name in labels}
    for name, label in labels.items():
        api.create_volume(names[name], labels={SESSION_LABEL: "test-orphans", OWNER_LABEL: label})
    try:
        assert reap_orphans(engine, here) == [names["gone"]]
    finally:
        for name in ("living", "elsewhere"):
            api.remove_volume(names[name])
