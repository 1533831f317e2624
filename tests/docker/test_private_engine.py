"""codeagent's own engine, really started: found again, stopped and started by the lines that it prints."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.cli.install import connect_or_install
from codeagent.errors import SandboxError
from codeagent.sandbox import debian
from codeagent.sandbox import image as images
from codeagent.sandbox import toolbox as toolboxes
from codeagent.sandbox.endpoints import endpoints, socket_failure
from codeagent.sandbox.engine import Engine, connect, first
from codeagent.sandbox.owner import OWNER_LABEL, ROLE_LABEL, SESSION_LABEL, Owner
from codeagent.sandbox.private_engine import PrivateEngine, install_and_start
from tests.conftest import import_busybox, silent
from tests.sandbox.test_build import listed


@pytest.fixture(scope="module")
def environ() -> Iterator[dict[str, str]]:
    # A short path: a Unix socket's has at most 107 bytes.
    with tempfile.TemporaryDirectory(prefix="ca") as home:
        yield {"CODEAGENT_HOME": home, "HOME": home, "XDG_RUNTIME_DIR": home, "PATH": os.environ["PATH"]}


@pytest.fixture(scope="module")
def own(environ: dict[str, str]) -> Iterator[PrivateEngine]:
    assert os.geteuid() == 0, "starting an engine needs root"
    said: list[str] = []
    url = install_and_start(said.append, environ)
    engine = PrivateEngine.at_home(environ)
    assert url == engine.url
    assert said == [
        f"Starting a Docker Engine in {engine.folder}.",
        f"Docker Engine started. To stop it:\n    {engine.stop_line}\n"
        f"To start it again (after a reboot too):\n    {engine.start_line}",
    ]
    yield engine
    if engine.pidfile.exists():
        stop(engine)
    # Where the machine's mounts are private, dockerd mounts its data folder onto itself and leaves that behind.
    for mount in Path("/proc/mounts").read_text().splitlines():
        if (target := mount.split()[1]).startswith(environ["CODEAGENT_HOME"]):
            subprocess.run(["umount", target], check=True)


def stop(engine: PrivateEngine) -> None:
    pid = engine.pidfile.read_text()
    subprocess.run(["sh", "-c", engine.stop_line], check=True)
    until(lambda: not running(pid))


def running(pid: str) -> bool:
    state = subprocess.run(["ps", "-o", "stat=", "-p", pid], capture_output=True, text=True).stdout.strip()
    return bool(state) and not state.startswith("Z")


def until(condition: Callable[[], bool], seconds: float = 30) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_it_is_found_by_the_next_run(own: PrivateEngine, environ: dict[str, str]) -> None:
    tried = [endpoint for endpoint in endpoints(None, environ) if "/var/run" not in endpoint.host]
    engine = first(tried, environ)
    engine.close()
    assert (engine.host, engine.found_by) == (own.url, "codeagent's own engine")


def test_starting_it_twice_starts_it_once(own: PrivateEngine, environ: dict[str, str]) -> None:
    pid = own.pidfile.read_text()
    said: list[str] = []
    assert install_and_start(said.append, environ) == own.url
    assert (said, own.pidfile.read_text()) == ([], pid)


def test_everything_of_it_lies_below_the_cache(own: PrivateEngine, environ: dict[str, str]) -> None:
    home = Path(environ["CODEAGENT_HOME"])
    assert own.folder == home / "cache/engine"
    assert {path.name for path in own.folder.iterdir()} >= {
        "data",
        "exec",
        "docker.sock",
        "dockerd.log",
        "dockerd.pid",
    }
    assert own.folder.stat().st_mode & 0o777 == 0o700


APT_GET = """#!/bin/sh
echo $DEBIAN_FRONTEND "$@" >>/asked
mkdir -p /usr/share/doc/git /usr/share/locale/de
"""


def import_base(engine: Engine, apt_get: str) -> None:
    """Puts a few of this machine's programs in the place of Debian's image, and a script in that of apt-get."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder)
        for program in ("sh", "find", "grep", "xargs", "mkdir", "rm"):
            found = shutil.which(program, path="/usr/bin")
            assert found
            libraries = subprocess.run(["ldd", found], capture_output=True, text=True, check=True).stdout
            for file in (found, *re.findall(r"(/\S+) \(0x", libraries)):
                copy = root / file.lstrip("/")
                copy.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(file, copy)
        (root / "bin").symlink_to("usr/bin")
        (root / "usr/bin/apt-get").write_text(apt_get)
        (root / "usr/bin/apt-get").chmod(0o755)
        archive = subprocess.run(["tar", "-C", folder, "-c", "."], capture_output=True, check=True).stdout
    repository, _, tag = images.BASE.partition(":")
    engine.client.api.import_image_from_data(archive, repository=repository, tag=tag)


def test_the_image_is_built_from_the_dockerfile_where_its_base_is_there(own: PrivateEngine) -> None:
    engine = connect(own.url)
    import_base(engine, APT_GET)
    steps: list[str] = []
    # Not `ensure`, which would go on to build in the other way if this one failed.
    assert images._from_dockerfile(engine, lambda what, _done, _total: steps.append(what)) is None
    built = images.find(engine)
    assert built is not None
    assert any(step.startswith("building the image: Step ") for step in steps)
    asked = engine.client.containers.run(built.id, ["grep", "", "/asked"], remove=True).decode().splitlines()
    packages = " ".join(listed(images.sandbox_folder()))
    assert asked == ["update", f"noninteractive install --yes --no-install-recommends {packages}"]
    shared = engine.client.containers.run(built.id, ["find", "/usr/share"], remove=True).decode().splitlines()
    assert sorted(shared) == ["/usr/share", "/usr/share/locale", "/usr/share/man"]
    engine.close()


def test_its_lines_stop_and_start_it_and_its_image_is_found_again(
    own: PrivateEngine, environ: dict[str, str]
) -> None:
    stop(own)
    tried = [endpoint for endpoint in endpoints(None, environ) if "/var/run" not in endpoint.host]
    with pytest.raises(SandboxError) as raised:
        first(tried, environ)
    assert raised.value.remedy == f"Start codeagent's own engine again with:\n    {own.start_line}"
    # As a user would: typed into a shell that is then closed.
    subprocess.run(["sh", "-c", own.start_line], check=True)
    until(lambda: socket_failure(own.socket) is None)
    engine = first(tried, environ)
    found = images.find(engine)
    engine.close()
    assert found is not None


def test_clean_shows_what_has_no_living_owner_and_removes_it(own: PrivateEngine, environ: dict[str, str]) -> None:
    engine = connect(own.url)
    gone = replace(Owner.current(), pid=999_999_999, started="1")
    owned = {SESSION_LABEL: "k3f9x", ROLE_LABEL: "copy"}
    for name, labels in {
        "left-over": {**owned, OWNER_LABEL: gone.label()},
        "in-use": {**owned, OWNER_LABEL: Owner.current().label()},
        "codeagent-toolbox-old": {toolboxes.LABEL: "old"},
        "a-users-own": {},
    }.items():
        engine.client.volumes.create(name, labels=labels)
    import_busybox(engine, "codeagent-toolbox:old", f"LABEL {toolboxes.LABEL}=old")
    # One line is about what was made by other versions.
    first = ["volume left-over", "volume codeagent-toolbox-old", "image codeagent-toolbox:old", "2 of"]
    for expected in (first, []):
        done = subprocess.run(
            [sys.executable, "-m", "codeagent", "sandbox", "clean", "--yes", "--docker-host", own.url],
            env={**os.environ, **environ},
            capture_output=True,
            text=True,
        )
        *shown, last = done.stdout.splitlines()
        assert (done.returncode, done.stderr) == (0, "")
        assert sorted(" ".join(line.split()[:2]) for line in shown) == sorted(expected)
        assert last.startswith("Removed 3 of 3, " if expected else "Nothing to remove: ")
    assert sorted(volume.name for volume in engine.client.volumes.list()) == ["a-users-own", "in-use"]
    engine.close()


def test_an_engine_that_was_named_is_never_replaced_by_an_installed_one(environ: dict[str, str]) -> None:
    said: list[str] = []
    with pytest.raises(SandboxError):
        connect_or_install("unix:///nowhere.sock", True, said.append, environ)
    assert said == []


def test_an_image_that_can_be_built_in_neither_way_says_why_not(
    own: PrivateEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = connect(own.url)
    import_base(engine, "#!/bin/sh\necho 'E: no such mirror' >&2\nexit 100\n")
    monkeypatch.setenv("PATH", "/nowhere")  # no debootstrap
    with pytest.raises(SandboxError) as raised:
        images._build(engine, silent, -1)
    engine.close()
    assert raised.value.message.startswith(
        "The default image cannot be built: from a registry, the build failed: The command "
    )
    assert raised.value.message.endswith(
        " returned a non-zero code: 100 (before that: E: no such mirror); without one, debootstrap is not installed."
    )
    assert raised.value.remedy.startswith("As root, run `codeagent sandbox build --install`")
    assert raised.value.exit_code == 4


def test_without_root_building_from_debian_packages_is_refused_with_what_to_do() -> None:
    """In a child that gives its rights up."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            os.setuid(65534)
            if refused := debian.missing("amd64"):
                os.write(writing, f"{refused.message}\n{refused.remedy}".encode())
        finally:
            os._exit(0)
    os.close(writing)
    os.waitpid(child, 0)
    with os.fdopen(reading) as answer:
        message, remedy = answer.read().splitlines()
    assert message == "building from Debian packages needs root."
    assert remedy.startswith("As root, run `codeagent sandbox build --install`")


def test_a_path_that_is_too_long_for_a_socket_is_said_before_anything_starts(tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(SandboxError) as raised:
        install_and_start(said.append, {"CODEAGENT_HOME": str(tmp_path / ("long" * 25))})
    assert raised.value.message.startswith("The path of the engine's socket is too long: ")
    assert said == []


def test_an_engine_that_does_not_start_says_why(tmp_path: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="ca") as home:
        environ = {"CODEAGENT_HOME": home}
        folder = PrivateEngine.at_home(environ).folder
        folder.mkdir(parents=True)
        (folder / "data").write_text("in the way")
        with pytest.raises(SandboxError) as raised:
            install_and_start(lambda line: None, environ)
        assert raised.value.message.startswith("The Docker Engine did not start: ")
        assert str(folder / "dockerd.log") in raised.value.remedy


def test_the_printed_lines_survive_odd_paths() -> None:
    odd = PrivateEngine(Path("/tmp/a b'c$d"))
    words = shlex.split(odd.start_line)
    assert f"--data-root={odd.folder}/data" in words
    assert f">>{odd.folder}/dockerd.log" in words
