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


class Version:
    """A copy of the program whose guest differs, so that its toolbox is yet to be made; `digest` is that one's."""

    def __init__(self, root: Path) -> None:
        self.root = root
        source = images.sandbox_folder().parent
        for name in ("codeagent", "sandbox"):
            shutil.copytree(source / name, root / name, ignore=shutil.ignore_patterns("__pycache__"))
        (root / "sandbox/guest/another.py").write_text(f"VERSION = {str(root)!r}\n")
        with self.started("from codeagent.sandbox.toolbox import content_hash as h; print(h())") as asked:
            self.digest = asked.communicate()[0].strip()

    def started(self, script: str, *arguments: str, home: str = "home") -> subprocess.Popen[str]:
        environment = {
            **os.environ,
            "PYTHONPATH": f"{self.root}:{sysconfig.get_path('purelib')}",
            "CODEAGENT_HOME": str(self.root / home),
        }
        command = [sys.executable, "-c", script, *arguments]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True, cwd=self.root)


@pytest.fixture
def another_version(engine: Engine, image: str, tmp_path: Path) -> Iterator[Version]:
    version = Version(tmp_path)
    yield version
    api = engine.client.api
    api.remove_volume(f"{toolboxes.NAME}-{version.digest}", force=True)
    for found in api.images(filters={"label": f"{toolboxes.LABEL}={version.digest}"}):
        api.remove_image(found["Id"], force=True)


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
    engine: Engine, image: str, another_version: Version
) -> None:
    """Other users, or other machines: no lock is shared, nobody sees half a toolbox, and one remains."""
    digest, root = another_version.digest, another_version.root
    programs = [another_version.started(ENSURE, engine.host, image, home=f"home{number}") for number in range(3)]
    said = [program.communicate(timeout=120)[0].splitlines() for program in programs]
    assert said == [[f"codeagent-toolbox-{digest}", str(root)]] * 3
    api = engine.client.api
    assert api.containers(all=True, filters={"name": f"codeagent-toolbox-{digest}-filling"}) == []
    made = api.images(filters={"label": f"{toolboxes.LABEL}={digest}"})
    assert [one["RepoTags"] for one in made] == [[f"codeagent-toolbox:{digest}"]]


def test_an_empty_volume_of_the_same_name_is_not_taken_for_the_toolbox(
    engine: Engine, image: str, another_version: Version
) -> None:
    """An engine creates a volume that a container asks for and that somebody has just removed."""
    name = f"codeagent-toolbox-{another_version.digest}"
    engine.client.api.create_volume(name)
    with another_version.started(ENSURE, engine.host, image) as program:
        assert program.communicate(timeout=120)[0].splitlines() == [name, str(another_version.root)]
