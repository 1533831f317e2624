"""The toolbox on a real engine: it works in images that hold nothing, or the wrong thing."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.sandbox import image as images
from codeagent.sandbox import toolbox as toolboxes
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.conftest import TEST_LABEL, silent

IMAGES = ["image", "busybox_image", "broken_python_image"]

PROBE = """
import ctypes, decimal, hashlib, json, lzma, os, subprocess, sys, threading, zlib
import guest
print(json.dumps({
    "version": sys.version_info[:2] >= (3, 11),
    "path": [p for p in sys.path if not p.startswith("/codeagent/")],
    "utf8": sys.getfilesystemencoding(),
    "legacy": b"\\xd6\\xd0".decode("gbk"),
    "ctypes": ctypes.CDLL(None).getpid() == os.getpid(),
    "itself": subprocess.run([sys.executable, "-IS", "-c", "print(6 * 7)"], capture_output=True, text=True).stdout,
    "compiled": os.path.exists(json.__cached__) and os.path.exists(guest.__cached__),
}))
"""


def run_in(engine: Engine, toolbox: Toolbox, image: str, *command: str) -> str:
    output: bytes = engine.client.containers.run(
        image,
        list(command),
        remove=True,
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        user="12345:12345",
        labels={TEST_LABEL: "1"},
        volumes={toolbox.volume: {"bind": toolbox.target, "mode": "ro"}},
    )
    return output.decode()


@pytest.mark.parametrize("name", IMAGES)
def test_python_of_the_toolbox_runs_in_any_image(
    engine: Engine, toolbox: Toolbox, name: str, request: pytest.FixtureRequest
) -> None:
    printed = run_in(engine, toolbox, request.getfixturevalue(name), toolbox.python, "-I", "-S", "-c", PROBE)
    assert json.loads(printed) == {
        "version": True,
        "path": [],
        "utf8": "utf-8",
        "legacy": "中",
        "ctypes": True,
        "itself": "42\n",
        "compiled": True,
    }


@pytest.mark.parametrize("name", IMAGES)
def test_git_of_the_toolbox_runs_in_any_image_and_finds_itself(
    engine: Engine, toolbox: Toolbox, name: str, request: pytest.FixtureRequest
) -> None:
    script = (
        f"cd /dev/shm; echo a > a; echo b > b;{toolbox.git} diff --no-index --numstat a b; {toolbox.git} --exec-path"
    )
    printed = run_in(engine, toolbox, request.getfixturevalue(name), "sh", "-c", script)
    assert printed == "1\t1\ta => b\n/codeagent/bin\n"


def test_the_image_cannot_change_how_the_toolbox_starts(engine: Engine, toolbox: Toolbox, busybox_image: str) -> None:
    hostile = {"LD_PRELOAD": "/bin/busybox", "LD_LIBRARY_PATH": "/bin", "PYTHONHOME": "/bin", "PYTHONSTARTUP": "/x"}
    printed = engine.client.containers.run(
        busybox_image,
        [toolbox.python, "-I", "-S", "-c", "print('up')"],
        remove=True,
        environment=hostile,
        network_mode="none",
        volumes={toolbox.volume: {"bind": toolbox.target, "mode": "ro"}},
        stderr=True,
    )
    assert printed == b"up\n"


def test_the_toolbox_is_found_again(engine: Engine, toolbox: Toolbox) -> None:
    assert toolboxes.ensure(engine, silent) == toolbox
    assert toolbox.volume not in toolboxes.outdated(engine)


def test_a_toolbox_of_another_version_is_outdated_unless_in_use(engine: Engine, toolbox: Toolbox, image: str) -> None:
    name = "codeagent-toolbox-000000000000"
    engine.client.api.create_volume(name, labels={toolboxes.LABEL: "000000000000"})
    try:
        assert name in toolboxes.outdated(engine)
        user = engine.client.containers.create(image, ["true"], volumes={name: {"bind": "/x", "mode": "ro"}})
        try:
            assert name not in toolboxes.outdated(engine)
        finally:
            user.remove()
    finally:
        engine.client.api.remove_volume(name)


@pytest.fixture
def another_version(engine: Engine, image: str, tmp_path: Path) -> Iterator[Path]:
    """A copy of the program whose guest differs, so that its toolbox is yet to be made."""
    root = images.sandbox_folder().parent
    for name in ("codeagent", "sandbox"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "sandbox/guest/another.py").write_text(f"VERSION = {str(tmp_path)!r}\n")
    yield tmp_path
    api = engine.client.api
    for volume in api.volumes(filters={"label": toolboxes.LABEL})["Volumes"]:
        if volume["Name"] in (tmp_path / "made").read_text():
            api.remove_volume(volume["Name"])
            api.remove_image(volume["Name"].replace("toolbox-", "toolbox:"))


ENSURE = """
import sys
from codeagent.sandbox import toolbox
from codeagent.sandbox.engine import connect
engine = connect(sys.argv[1])
box = toolbox.ensure(engine, lambda *step: None)
command = [box.python, "-IS", "-c", "import guest.another as a, json, decimal; print(a.VERSION)"]
mounts = {box.volume: {"bind": box.target, "mode": "ro"}}
print(box.volume)
print(engine.client.containers.run(sys.argv[2], command, remove=True, volumes=mounts).decode(), end="")
engine.close()
"""


def test_programs_that_know_nothing_of_each_other_make_one_whole_toolbox(
    engine: Engine, image: str, another_version: Path
) -> None:
    """Other users, or other machines on the same engine: no lock is shared, and nobody sees half a toolbox."""
    programs = []
    for number in range(3):
        environment = {
            **os.environ,
            "PYTHONPATH": f"{another_version}:{sysconfig.get_path('purelib')}",
            "CODEAGENT_HOME": str(another_version / f"home{number}"),
        }
        command = [sys.executable, "-c", ENSURE, engine.host, image]
        programs.append(
            subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=another_version)
        )
    said = [program.communicate(timeout=120)[0].splitlines() for program in programs]
    (another_version / "made").write_text(said[0][0])
    assert said == [[said[0][0], str(another_version)]] * 3
    assert engine.client.api.containers(all=True, filters={"name": f"{said[0][0]}-filling"}) == []


def test_an_empty_volume_of_the_same_name_is_not_taken_for_the_toolbox(
    engine: Engine, image: str, another_version: Path
) -> None:
    """An engine creates a volume that a container asks for and that somebody has just removed."""
    environment = {**os.environ, "PYTHONPATH": f"{another_version}:{sysconfig.get_path('purelib')}"}
    name = subprocess.run(
        [sys.executable, "-c", "from codeagent.sandbox import toolbox as t; print(t.NAME + '-' + t.content_hash())"],
        env=environment,
        cwd=another_version,
        check=True,
        capture_output=True,
        text=True,
    ).stdout.strip()
    (another_version / "made").write_text(name)
    engine.client.api.create_volume(name)
    done = subprocess.run(
        [sys.executable, "-c", ENSURE, engine.host, image],
        env=environment,
        cwd=another_version,
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.splitlines() == [name, str(another_version)]
