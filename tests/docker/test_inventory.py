"""What `codeagent sandbox` says and removes, on a real engine.

Programs that start meanwhile remove what has no living owner. So the owners here are of a machine that is this test's
alone, and the command, which knows its own machine only, is tried on what no start removes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import replace
from uuid import uuid4

import docker.errors
import pexpect
import pytest

from codeagent.sandbox import image as images
from codeagent.sandbox import toolbox as toolboxes
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.inventory import Holding, Kind, holdings, remove
from codeagent.sandbox.owner import OWNER_LABEL, ROLE_LABEL, SESSION_LABEL, Owner
from codeagent.sandbox.toolbox import Toolbox
from tests.conftest import TEST_LABEL, import_busybox
from tests.terminals import listening

START = "from codeagent.cli.main import main; main()"


def codeagent(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", START, *arguments], capture_output=True, text=True, timeout=60)


MACHINE = uuid4().hex[:16]
LIVING = replace(Owner.current(), machine=MACHINE)


def dead() -> Owner:
    process = subprocess.Popen(["true"])
    process.wait()
    return replace(LIVING, pid=process.pid, started="1")


@pytest.fixture
def left_over(engine: Engine) -> Iterator[str]:
    yield from volume(engine, "left-over", dead())


@pytest.fixture
def in_use(engine: Engine) -> Iterator[str]:
    yield from volume(engine, "in-use", LIVING)


@pytest.fixture
def elsewhere(engine: Engine) -> Iterator[str]:
    yield from volume(engine, "elsewhere", replace(dead(), machine="another machine"))


def volume(engine: Engine, what: str, owner: Owner) -> Iterator[str]:
    name = f"codeagent-test-{what}-{MACHINE}"
    labels = {SESSION_LABEL: name, OWNER_LABEL: owner.label(), ROLE_LABEL: "copy", TEST_LABEL: "1"}
    engine.client.volumes.create(name, labels=labels)
    yield name
    with suppress(docker.errors.NotFound):
        engine.client.api.remove_volume(name, force=True)


@pytest.fixture
def old_volume(engine: Engine) -> Iterator[str]:
    """A toolbox of another version."""
    name = f"codeagent-toolbox-test-{MACHINE}"
    engine.client.volumes.create(name, labels={toolboxes.LABEL: "000000000000"})
    yield name
    engine.client.api.remove_volume(name, force=True)


@pytest.fixture
def imported(engine: Engine) -> Iterator[Callable[[str, str], str]]:
    """Makes small images with a label: `imported(name, label)`."""
    names = []

    def make(name: str, label: str) -> str:
        import_busybox(engine, name, f"LABEL {label}")
        names.append(name)
        return name

    yield make
    for name in names:
        if engine.client.images.list(name):
            engine.client.api.remove_image(name, force=True)


def named(held: list[Holding], *names: str) -> list[Holding]:
    return [one for name in names for one in held if one.name == name]


def test_only_what_has_provably_no_owner_is_needless(
    engine: Engine, left_over: str, in_use: str, elsewhere: str
) -> None:
    assert named(holdings(engine, LIVING), left_over, in_use, elsewhere) == [
        Holding(Kind.VOLUME, left_over, left_over, 0, f"session {left_over}, copy (ended)", needless=True),
        Holding(Kind.VOLUME, in_use, in_use, 0, f"session {in_use}, copy", needless=False),
        Holding(Kind.VOLUME, elsewhere, elsewhere, 0, f"session {elsewhere}, copy", needless=False),
    ]


def test_removing_is_final_and_may_be_repeated(engine: Engine, left_over: str) -> None:
    (holding,) = named(holdings(engine, LIVING), left_over)
    assert remove(engine, holding) is None
    assert named(holdings(engine, LIVING), left_over) == []
    assert remove(engine, holding) is None


def test_what_is_used_after_all_stays_and_the_engine_says_why(engine: Engine, image: str, left_over: str) -> None:
    user = engine.client.containers.create(image, ["true"], volumes={left_over: {"bind": "/x", "mode": "ro"}})
    try:
        (holding,) = named(holdings(engine, LIVING), left_over)
        assert "in use" in str(remove(engine, holding))
    finally:
        user.remove()


def test_a_left_over_container_is_found_with_its_session(engine: Engine, image: str) -> None:
    name = f"codeagent-test-left-over-{MACHINE}"
    labels = {SESSION_LABEL: "k3f9x", OWNER_LABEL: dead().label(), ROLE_LABEL: "reader"}
    container = engine.client.containers.create(image, ["true"], labels=labels, name=name)
    try:
        (holding,) = named(holdings(engine, LIVING), name)
        assert (holding.kind, holding.owner) == (Kind.CONTAINER, "session k3f9x, reader (ended)")
        assert holding.needless
        assert remove(engine, holding) is None
    finally:
        if engine.client.api.containers(all=True, filters={"id": container.id}):
            container.remove(force=True)


def test_the_images_and_the_toolbox_in_use_are_kept(engine: Engine, image: str, toolbox: Toolbox) -> None:
    held = named(holdings(engine, LIVING), image, toolbox.volume)
    assert [(one.kind, one.owner, one.needless) for one in held] == [
        (Kind.IMAGE, "the default image", False),
        (Kind.VOLUME, "the toolbox", False),
    ]


def test_an_image_that_a_user_made_from_ours_is_not_ours(engine: Engine, broken_python_image: str) -> None:
    assert named(holdings(engine, LIVING), broken_python_image) == []


def test_images_of_other_versions_and_of_builds_that_were_broken_off_can_go(
    engine: Engine, imported: Callable[[str, str], str]
) -> None:
    old_image = imported(f"codeagent-sandbox:{MACHINE[:12]}", f"{images.HASH_LABEL}={MACHINE[:12]}")
    old_toolbox = imported(f"codeagent-toolbox:{MACHINE[:12]}", f"{toolboxes.LABEL}={MACHINE[:12]}")
    broken_off = imported(f"codeagent-sandbox:{dead().tag()}", f"{images.HASH_LABEL}={MACHINE[:12]}")
    going_on = imported(f"codeagent-toolbox:{LIVING.tag()}", f"{toolboxes.LABEL}={MACHINE[:12]}")
    held = named(holdings(engine, LIVING), old_image, old_toolbox, broken_off, going_on)
    assert [(one.kind, one.owner, one.needless) for one in held] == [
        (Kind.IMAGE, "the default image of another version", True),
        (Kind.IMAGE, "the toolbox of another version", True),
        (Kind.IMAGE, "the default image unfinished", True),
        (Kind.IMAGE, "the toolbox unfinished", False),
    ]
    assert [remove(engine, one) for one in held[:3]] == [None] * 3
    left = named(holdings(engine, LIVING), old_image, old_toolbox, broken_off, going_on)
    assert [one.name for one in left] == [going_on]  # its size may differ: nobody shares its layers any more


def test_status_as_json_holds_the_engine_and_everything_on_it(
    engine: Engine, image: str, toolbox: Toolbox, in_use: str, old_volume: str
) -> None:
    done = codeagent("sandbox", "status", "--json", "--docker-host", engine.host)
    assert (done.returncode, done.stderr) == (0, "")
    facts = json.loads(done.stdout)
    assert facts["engine"] == {
        "host": engine.host,
        "found_by": "--docker-host",
        "version": engine.version,
        "api": engine.api,
        "architecture": engine.architecture,
        "cgroup_version": engine.cgroup_version,
        "rootless": engine.rootless,
    }
    assert facts["image"] == {"name": "codeagent-sandbox", "reference": image, "present": True}
    assert {one["name"]: one["needless"] for one in facts["holdings"]}.items() >= {
        (image, False),
        (toolbox.volume, False),
        (in_use, False),
        (old_volume, True),
    }


def test_clean_shows_what_it_would_remove(engine: Engine, old_volume: str, in_use: str) -> None:
    done = codeagent("sandbox", "clean", "--dry-run", "--docker-host", engine.host)
    assert (done.returncode, done.stderr) == (0, "")
    assert f" {old_volume} " in done.stdout
    assert in_use not in done.stdout
    assert named(holdings(engine), old_volume) != []


def test_without_a_terminal_clean_shows_and_removes_nothing(engine: Engine, old_volume: str) -> None:
    done = codeagent("sandbox", "clean", "--docker-host", engine.host)
    assert done.returncode == 2
    (line,) = [line for line in done.stdout.splitlines() if old_volume in line]
    assert line.endswith("the toolbox of another version")
    assert done.stderr == (
        "codeagent: error: There is no terminal to ask at, so nothing was removed.\n"
        "Look at what is listed, then use `codeagent sandbox clean --yes`.\n"
    )
    assert named(holdings(engine), old_volume) != []


def test_at_a_terminal_clean_asks_and_no_removes_nothing(engine: Engine, old_volume: str) -> None:
    arguments = ["-c", START, "sandbox", "clean", "--docker-host", engine.host]
    child = pexpect.spawn(sys.executable, arguments, encoding="utf-8", timeout=60, dimensions=(50, 200))
    child.expect_exact(old_volume)
    child.expect(r"\d+ of another version, perhaps of another installation: up to [\d.]+ \w+\r\n")
    child.expect(r"Remove these \d+\? \[y/N\]:")
    listening(child)
    child.sendline("n")
    child.expect_exact("Nothing was removed.")
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 1
    assert named(holdings(engine), old_volume) != []


def test_building_what_is_there_says_what_it_is(engine: Engine, image: str, toolbox: Toolbox) -> None:
    done = codeagent("sandbox", "build", "--docker-host", engine.host)
    assert (done.returncode, done.stdout) == (
        0,
        f"image    {image}\ntoolbox  {toolbox.volume}\nengine   {engine.host}\n",
    )


def test_no_engine_is_two_sentences_and_an_exit_code() -> None:
    done = codeagent("sandbox", "status", "--docker-host", "unix:///nowhere.sock")
    assert (done.returncode, done.stdout) == (4, "")
    assert done.stderr == (
        "codeagent: error: No Docker Engine answers. "
        "Tried: unix:///nowhere.sock (from --docker-host): no such socket.\n"
        "Start that engine, or name another with --docker-host.\n"
    )
