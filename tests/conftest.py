"""What tests against a real engine share. Whatever asks for `engine` or lies in tests/docker is marked `docker`.

The engine is the one that codeagent itself would find (DOCKER_HOST first). Nothing is skipped when there is none: the
tests fail, and `tests/run` starts one.

Several processes, and several people, may test on one engine at the same time: what a test makes there has a name
that is used once, what it counts is its own, and nothing of it is left.
"""

from __future__ import annotations

import io
import shutil
import signal
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
from hypothesis import HealthCheck, settings

from codeagent.sandbox import image as images
from codeagent.sandbox import toolbox as toolboxes
from codeagent.sandbox.engine import Engine, connect
from codeagent.sandbox.toolbox import Toolbox

# The same examples in every run, and no limit on the time that one takes: a run says something about the code and
# nothing about the machine. `--hypothesis-profile default` looks further.
settings.register_profile(
    "repeatable", derandomize=True, deadline=None, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

TEST_LABEL = "codeagent.test"
DOCKER_TESTS = Path(__file__).parent / "docker"


def pytest_configure() -> None:
    # Where the tests were started in the background, or by nohup, the programs under test would ignore these, too.
    if signal.getsignal(signal.SIGINT) == signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if signal.getsignal(signal.SIGHUP) == signal.SIG_IGN:
        signal.signal(signal.SIGHUP, signal.SIG_DFL)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if "engine" in getattr(item, "fixturenames", ()) or item.path.is_relative_to(DOCKER_TESTS):
            item.add_marker("docker")
    # What takes longest begins first, so that the processes which share the work end at about the same time.
    slow = {item.path for item in items if item.get_closest_marker("slow")}
    items.sort(key=lambda item: (not item.path.is_relative_to(DOCKER_TESTS), item.path not in slow))


def silent(what: str, done: int, total: int) -> None:
    """Steps that nobody watches."""


@pytest.fixture(scope="session", autouse=True)
def temporary_folder(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What tests, and the programs that they kill, leave in the temporary folder goes away with this process."""
    tmp_path_factory.getbasetemp()  # stays where pytest keeps what a failed test has left to look at
    # A short name: sockets lie below it.
    with (
        tempfile.TemporaryDirectory(prefix="t-", ignore_cleanup_errors=True) as folder,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("TMPDIR", folder)
        patch.setattr(tempfile, "tempdir", folder)
        yield


@pytest.fixture(scope="session", autouse=True)
def no_certificates(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Nothing here speaks TLS; reading the certificates of a machine takes longer than most tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_DIR", str(tmp_path_factory.mktemp("certificates")))
        patch.delenv("SSL_CERT_FILE", raising=False)
        yield


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    found = connect()
    yield found
    found.close()


@pytest.fixture(scope="session")
def engine_host(engine: Engine) -> str:
    """The engine's URL, for `--docker-host`."""
    return engine.host


@pytest.fixture(scope="session")
def image(engine: Engine) -> str:
    """The default image's reference; built when the engine lacks it."""
    return images.ensure(engine, images.DEFAULT, silent).reference


@pytest.fixture(scope="session")
def toolbox(engine: Engine, image: str) -> Toolbox:
    return toolboxes.ensure(engine, silent)


@contextmanager
def own_image(engine: Engine, what: str) -> Iterator[str]:
    """A name for an image of this process's; the image goes away with it."""
    name = f"codeagent-test-{what}:{uuid4().hex[:12]}"
    try:
        yield name
    finally:
        if engine.client.images.list(name):
            engine.client.api.remove_image(name, force=True)


def build_image(engine: Engine, name: str, recipe: str) -> None:
    """Builds without network from a Dockerfile that needs no other file."""
    for line in engine.client.api.build(
        fileobj=images.context({"Dockerfile": recipe.encode()}),
        custom_context=True,
        tag=name,
        labels={TEST_LABEL: "1"},
        network_mode="none",
        rm=True,
        forcerm=True,
        decode=True,
    ):
        assert "error" not in line, line


def import_busybox(engine: Engine, name: str, *changes: str) -> None:
    """An image that holds nothing but busybox and links to it."""
    program = shutil.which("busybox")
    assert program, "the tests need the package busybox-static"
    applets = subprocess.run([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        tar.add(Path(program).resolve(), "bin/busybox")
        for applet in applets:
            if applet != "busybox":
                link = tarfile.TarInfo(f"bin/{applet}")
                link.type, link.linkname = tarfile.SYMTYPE, "busybox"
                tar.addfile(link)
    repository, _, tag = name.rpartition(":")
    engine.client.api.import_image_from_data(
        archive.getvalue(), repository=repository, tag=tag, changes=["ENV PATH=/bin", *changes]
    )


@pytest.fixture(scope="session")
def busybox_image(engine: Engine) -> Iterator[str]:
    with own_image(engine, "busybox") as name:
        import_busybox(engine, name, f"LABEL {TEST_LABEL}=1")
        yield name


@pytest.fixture(scope="session")
def broken_python_image(engine: Engine, image: str) -> Iterator[str]:
    """The default image, but with a `python3` that does nothing but fail, and settings that would break ours."""
    with own_image(engine, "broken-python") as name:
        build_image(
            engine,
            name,
            f"FROM {image}\n"
            "RUN cd /usr/bin && rm python3* && printf '#!/bin/sh\\nexit 42\\n' > python3 && chmod +x python3\n"
            "ENV PYTHONHOME=/nowhere PYTHONPATH=/nowhere LD_LIBRARY_PATH=/nowhere\n",
        )
        yield name
