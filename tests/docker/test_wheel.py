"""The wheel carries what goes into containers, whole: an installed codeagent finds and builds the same."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import venv
import zipfile
from pathlib import Path

import pytest

from codeagent.sandbox import image as images
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.sandbox.test_build import built, listed

CHECKOUT = Path(__file__).parents[2]
ENVIRONMENT = {**os.environ, "PYTHONPATH": sysconfig.get_path("purelib")}

PROBE = """
import json, sys
import codeagent
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import connect
engine = connect(sys.argv[1])
built = []
step = lambda what, done, total: built.append(what)
print(json.dumps({
    "package": codeagent.__file__,
    "image": image.ensure(engine, image.DEFAULT, step).reference,
    "toolbox": toolbox.ensure(engine, step).volume,
    "built": built,
}))
engine.close()
"""


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [
        sys.executable,
        "-m",
        "pip",
        "wheel",
        "--quiet",
        "--no-deps",
        "--no-build-isolation",
        "--wheel-dir",
        str(folder),
        str(CHECKOUT),
    ]
    subprocess.run(command, check=True)
    (found,) = folder.glob("codeagent-*.whl")
    return found


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment that holds the wheel alone."""
    folder = tmp_path_factory.mktemp("installed")
    venv.create(folder, with_pip=False)
    python = folder / "bin/python"
    target = sysconfig.get_path("purelib", vars={"base": str(folder), "platbase": str(folder)})
    command = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-compile",
        "--no-deps",
        "--target",
        target,
        str(wheel),
    ]
    subprocess.run(command, check=True)
    return python


def test_the_wheel_holds_every_file_of_the_sandbox_folder_and_nothing_else(wheel: Path) -> None:
    prefix = "codeagent/_sandbox/"
    with zipfile.ZipFile(wheel) as archive:
        carried = {
            name.removeprefix(prefix): archive.read(name) for name in archive.namelist() if name.startswith(prefix)
        }
    top = CHECKOUT / "sandbox"
    tracked = subprocess.run(
        ["git", "-C", str(top), "ls-files", "-z", "--cached", "--others", "--exclude-standard", "."],
        check=True,
        capture_output=True,
        text=True,
    ).stdout
    assert carried == {name: (top / name).read_bytes() for name in tracked.split("\0") if name}


def test_an_installed_codeagent_finds_what_the_checkout_built(
    engine: Engine, image: str, toolbox: Toolbox, installed: Path, tmp_path: Path
) -> None:
    """Same inputs, same hash: nothing is built again. The dependencies are this environment's."""
    done = subprocess.run(
        [installed, "-c", PROBE, engine.host],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    found = json.loads(done.stdout)
    assert Path(found.pop("package")).is_relative_to(installed.parents[1])
    assert found == {"image": image, "toolbox": toolbox.volume, "built": []}


def test_an_installed_codeagent_builds_the_default_image_from_what_it_carries(
    installed: Path, tmp_path: Path
) -> None:
    """The recipe lies where it was installed, has the checkout's hash, and its build runs from there."""
    script = (
        "from codeagent.sandbox import image\n"
        "folder = image.sandbox_folder()\n"
        "print(folder, image.content_hash(folder), sep='\\n')\n"
    )
    done = subprocess.run(
        [installed, "-c", script], check=True, capture_output=True, text=True, cwd=tmp_path, env=ENVIRONMENT
    )
    folder, digest = done.stdout.splitlines()
    assert Path(folder).is_relative_to(installed.parents[1])
    assert digest == images.content_hash(CHECKOUT / "sandbox")
    found = built(Path(folder), tmp_path)
    assert found["packages"].strip().split(",") == listed(CHECKOUT / "sandbox")


def test_an_installed_codeagent_builds_the_toolbox_from_what_it_carries(
    engine: Engine, image: str, installed: Path, tmp_path: Path
) -> None:
    """From the installed files alone; the dependencies are this environment's."""
    script = (
        "import sys\n"
        "from codeagent.sandbox import image, toolbox\n"
        "from codeagent.sandbox.engine import connect\n"
        "engine = connect(sys.argv[1])\n"
        "with image.unfinished(engine, toolbox.NAME) as name:\n"
        "    toolbox._build(engine, image.find(engine), 'from-wheel', name)\n"
        "    print(engine.client.containers.run(name,\n"
        "        [f'{toolbox.TARGET}/bin/python3', '-IS', '-c', 'import guest.main; print(6 * 7)'],\n"
        "        remove=True, network_mode='none').decode(), end='')\n"
        "engine.close()\n"
    )
    done = subprocess.run(
        [installed, "-c", script, engine.host],
        check=True,
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env=ENVIRONMENT,
    )
    assert done.stdout == "42\n"


def test_the_folder_of_the_checkout_is_used_in_a_checkout() -> None:
    assert images.sandbox_folder() == CHECKOUT / "sandbox"
