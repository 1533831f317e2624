"""The toolbox: what codeagent needs inside a container, whatever its image holds.

A volume with a Python and a git that bring their own loader and libraries, and the guest, mounted read-only at
`/codeagent`. It is filled from an image that the engine builds from the default image: the engine itself copies the
files when a container first has the empty volume, so that it works on remote engines too.
"""

from __future__ import annotations

import contextlib
import hashlib
import time
from dataclasses import dataclass

from codeagent.errors import SandboxError
from codeagent.sandbox import image
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.made import remove_container
from codeagent.sandbox.seam import Steps

NAME = "codeagent-toolbox"
TARGET = "/codeagent"
PROGRAM = f"{TARGET}/bin/python3"
LABEL = "codeagent.toolbox"
FILL_SECONDS = 120
_NAME_TAKEN = "already in use"
"""In the reasons of Docker (409) and of Podman (500)."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A filled volume, to be mounted read-only at `target`. `argv` starts the guest, `git` and `python` the programs.

    They need nothing of the image and no environment variable.
    """

    volume: str
    target: str = TARGET
    argv: tuple[str, ...] = (PROGRAM, "-I", "-S", "-m", "guest")
    python: str = PROGRAM
    git: str = f"{TARGET}/bin/git"


def ensure(engine: Engine, steps: Steps) -> Toolbox:
    """The toolbox for this engine (a few milliseconds when it is there; a second after the guest has changed).

    Builds the default image first where the engine lacks it. SandboxError when it cannot be made.
    """
    digest = content_hash()
    if not _ready(engine, digest):
        base = image.ensure(engine, image.DEFAULT, steps)
        with image.build_lock("toolbox", steps):
            if not _ready(engine, digest):
                steps("preparing the toolbox", 0, 0)
                _make(engine, base, digest)
    return Toolbox(f"{NAME}-{digest}")


def content_hash() -> str:
    """Changes with anything that the volume is made from: the default image, the recipe, the guest."""
    digest = hashlib.sha256(image.content_hash(image.sandbox_folder()).encode())
    for name, content in sorted(_inputs().items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def _inputs() -> dict[str, bytes]:
    """The build context: names as the Dockerfile has them, and contents."""
    folder = image.sandbox_folder()
    recipe = {f"toolbox/{file.name}": file.read_bytes() for file in (folder / "toolbox").iterdir() if file.is_file()}
    guest = {file.relative_to(folder).as_posix(): file.read_bytes() for file in (folder / "guest").rglob("*.py")}
    return {**recipe, **guest, "Dockerfile": recipe["toolbox/Dockerfile"]}


def _ready(engine: Engine, digest: str) -> bool:
    """Whether the volume is there and whole: the image gets its name only when the volume has been filled from it."""
    import docker.errors

    try:
        engine.client.api.inspect_image(f"{NAME}:{digest}")  # type: ignore[no-untyped-call]
        volume = engine.client.api.inspect_volume(f"{NAME}-{digest}")
    except docker.errors.NotFound:
        return False
    # An engine creates a missing volume, empty and without labels, when it is used.
    return LABEL in (volume.get("Labels") or {})


def _make(engine: Engine, base: image.Image, digest: str) -> None:
    """May run at the same time for the same engine: our lock is known on this machine and to this user only."""
    import docker.errors

    try:
        with image.unfinished(engine, NAME) as name:
            _build(engine, base, digest, name)
            # It is ready when another was faster; then it may be in use by now.
            while not _ready(engine, digest) and not _fill(engine, name, digest):
                pass
    except docker.errors.APIError as error:
        raise _failed(error.explanation or str(error)) from error


def _build(engine: Engine, base: image.Image, digest: str, name: str) -> None:
    said = ""
    with engine.patience(image.BUILD_SECONDS):
        for line in engine.client.api.build(
            fileobj=image.context(_inputs()),
            custom_context=True,
            tag=name,
            buildargs={"SANDBOX_IMAGE": base.reference},
            labels={LABEL: digest},
            network_mode="none",
            rm=True,
            forcerm=True,
            decode=True,
        ):
            if "error" in line:
                raise _failed(f"{line['error']} {said}")
            said = line.get("stream", "").strip() or said


def _fill(engine: Engine, name: str, digest: str) -> bool:
    """Makes the volume and has the engine copy into it what the image has at that path: Docker does when a container
    is created with an empty volume, Podman when it is first started. False when somebody has removed it meanwhile.

    The container's name is taken once on an engine, for as long as the copying lasts. Whoever comes second waits for
    the first, and tidies up after it in case it was killed.
    """
    import docker.errors
    from docker.types import Mount

    api = engine.client.api
    volume = f"{NAME}-{digest}"
    filling = f"{volume}-filling"
    _remove_left_over(engine, digest)
    try:
        # A mount could make and label it as well, but Podman's does not label.
        api.create_volume(volume, labels={LABEL: digest})
        with engine.reaper.making("container", filling):
            api.create_container(
                name,
                command=[PROGRAM, "-I", "-S", "-c", ""],
                name=filling,
                labels={LABEL: digest},
                host_config=api.create_host_config(mounts=[Mount(TARGET, volume)], network_mode="none"),
            )
    except docker.errors.APIError as error:
        if _NAME_TAKEN not in str(error.explanation):
            raise
        _await_other(engine, digest)
    try:
        if not api.has_path(filling, PROGRAM):
            api.start(filling)
    except docker.errors.APIError as error:
        # Whoever was first has finished, or was killed: its container goes while we look at it.
        if isinstance(error, docker.errors.NotFound) or _ready(engine, digest):
            return False
        raise
    # Before the container goes: it is what keeps others from taking the volume for a left-over.
    if not _ready(engine, digest):
        api.tag(name, NAME, digest, force=True)
    remove_container(engine, filling)
    return True


def _remove_left_over(engine: Engine, digest: str) -> None:
    """What is empty or half filled. What is in use stays, so it was whole."""
    import docker.errors

    api = engine.client.api
    # The image first: its name says that the volume is whole.
    with contextlib.suppress(docker.errors.APIError):
        api.remove_image(f"{NAME}:{digest}")
    with contextlib.suppress(docker.errors.APIError):
        api.remove_volume(f"{NAME}-{digest}")


def _await_other(engine: Engine, digest: str) -> None:
    """A container can be inspected when its creation, and with it the copying, is over."""
    import docker.errors

    deadline = time.monotonic() + FILL_SECONDS
    while not _ready(engine, digest):
        with contextlib.suppress(docker.errors.NotFound):
            engine.client.api.inspect_container(f"{NAME}-{digest}-filling")
            return
        if time.monotonic() > deadline:
            raise _failed("another codeagent has been filling its volume for too long")
        time.sleep(0.05)


def _failed(reason: str) -> SandboxError:
    return SandboxError(
        f"The toolbox that is mounted into every container cannot be made: {' '.join(reason.split())[:300]}",
        "Is there room on the engine's disk? `codeagent sandbox clean` removes what is no longer used.",
    )
