"""The toolbox: what codeagent needs inside a container, whatever its image holds.

A volume with a Python and a git that bring their own loader and libraries, and the guest, mounted read-only at
`/codeagent`. It is filled from an image that the engine builds from the default image: the engine itself copies the
files when a container first mounts the empty volume, so that it works on remote engines too.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.util
from dataclasses import dataclass
from pathlib import Path

from codeagent.errors import SandboxError
from codeagent.sandbox import image
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.seam import Steps

NAME = "codeagent-toolbox"
TARGET = "/codeagent"
LABEL = "codeagent.toolbox"
PACKAGES = ("guest", "pathspec")


@dataclass(frozen=True, slots=True)
class Toolbox:
    """A filled volume, to be mounted read-only at `target`. `argv` starts the guest, `git` and `python` the programs.

    They need nothing of the image and no environment variable.
    """

    volume: str
    target: str = TARGET
    argv: tuple[str, ...] = (f"{TARGET}/bin/python3", "-I", "-S", "-m", "guest")
    python: str = f"{TARGET}/bin/python3"
    git: str = f"{TARGET}/bin/git"


def ensure(engine: Engine, steps: Steps) -> Toolbox:
    """The toolbox for this engine (a few milliseconds when it is there; a second after the guest has changed).

    Builds the default image first where the engine lacks it. SandboxError when it cannot be made.
    """
    digest = content_hash()
    name = f"{NAME}-{digest}"
    if not _filled(engine, name):
        base = image.ensure(engine, image.DEFAULT, steps)
        with image.build_lock("toolbox", steps):
            if not _filled(engine, name):
                steps("preparing the toolbox", 0, 0)
                _build(engine, base, digest)
                _fill(engine, name, digest)
    return Toolbox(name)


def content_hash() -> str:
    """Changes with anything that the volume is made from: the default image, the recipe, the packages."""
    digest = hashlib.sha256(image.content_hash(image.sandbox_folder()).encode())
    for name, content in sorted(_inputs().items()):
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def outdated(engine: Engine) -> list[str]:
    """Volumes of other versions that no container uses."""
    current = f"{NAME}-{content_hash()}"
    unused = engine.client.api.volumes(filters={"label": LABEL, "dangling": True})["Volumes"] or []
    return sorted(volume["Name"] for volume in unused if volume["Name"] != current)


def _inputs() -> dict[str, bytes]:
    """The build context: names as the Dockerfile has them, and contents."""
    folder = image.sandbox_folder()
    recipe = {f"toolbox/{file.name}": file.read_bytes() for file in (folder / "toolbox").iterdir() if file.is_file()}
    files = {**recipe, "Dockerfile": recipe["toolbox/Dockerfile"]}
    for package in PACKAGES:
        top = folder / package if package == "guest" else _installed(package)
        for file in sorted(top.rglob("*.py")):
            files[f"packages/{package}/{file.relative_to(top).as_posix()}"] = file.read_bytes()
    return files


def _installed(package: str) -> Path:
    """The folder of a pure Python package, found without importing it."""
    found = importlib.util.find_spec(package)
    if found is None or not found.origin:
        raise SandboxError(f"The Python package {package} is not installed.", "Install codeagent again.")
    return Path(found.origin).parent


def _filled(engine: Engine, name: str) -> bool:
    """Whether we filled the volume: an engine creates a missing one, empty and without labels, when it is used."""
    import docker.errors

    try:
        volume = engine.client.api.inspect_volume(name)
    except docker.errors.NotFound:
        return False
    return LABEL in (volume.get("Labels") or {})


def _build(engine: Engine, base: image.Image, digest: str) -> None:
    import docker.errors

    said = ""
    try:
        with engine.patience(image.BUILD_SECONDS):
            for line in engine.client.api.build(
                fileobj=image.context(_inputs()),
                custom_context=True,
                buildargs={"SANDBOX_IMAGE": base.reference},
                tag=f"{NAME}:{digest}",
                labels={LABEL: digest},
                network_mode="none",
                rm=True,
                forcerm=True,
                decode=True,
            ):
                if "error" in line:
                    raise _failed(f"{line['error']} {said}")
                said = line.get("stream", "").strip() or said
    except docker.errors.APIError as error:
        raise _failed(error.explanation or str(error)) from error


def _fill(engine: Engine, name: str, digest: str) -> None:
    """Creating a container with an empty volume makes the engine copy what the image has at that path."""
    import docker.errors

    api = engine.client.api
    created = None
    with contextlib.suppress(docker.errors.NotFound):
        api.remove_volume(name)
    try:
        api.create_volume(name, labels={LABEL: digest})
        created = api.create_container(
            f"{NAME}:{digest}",
            command=["true"],
            labels={LABEL: digest},
            volumes=[TARGET],
            host_config=api.create_host_config(binds=[f"{name}:{TARGET}"], network_mode="none"),
        )
    except BaseException as error:
        # Half a toolbox would be taken for a whole one.
        with contextlib.suppress(docker.errors.APIError):
            api.remove_volume(name, force=True)
        if isinstance(error, docker.errors.APIError):
            raise _failed(error.explanation or str(error)) from error
        raise
    finally:
        if created:
            api.remove_container(created["Id"], force=True)


def _failed(reason: str) -> SandboxError:
    return SandboxError(
        f"The toolbox that is mounted into every container cannot be made: {' '.join(reason.split())[:300]}",
        "Is there room on the engine's disk? `codeagent sandbox clean` removes what is no longer used.",
    )
