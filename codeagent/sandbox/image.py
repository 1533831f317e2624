"""The image of the sandbox: found by the hash of what it is made from, built once, pulled when another is named.

The default image is built from the package's `sandbox` folder: by the engine from the Dockerfile where a registry
answers, otherwise by debootstrap on this machine, from the same package list.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import io
import json
import os
import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codeagent.errors import SandboxError
from codeagent.paths import cache_dir
from codeagent.sandbox import debian
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.owner import Owner
from codeagent.sandbox.seam import Steps

DEFAULT = "codeagent-sandbox"
"""What the user calls the default image."""
BASE = "debian:bookworm-slim"
HASH_LABEL = "codeagent.inputs"
INPUTS = ("Dockerfile", "build", "packages.txt", "trim")
"""The files in the `sandbox` folder that decide what is in the image."""
BUILD_SECONDS = 1800
PULL_SILENCE_SECONDS = 30

_COLOUR = re.compile(r"\x1b\[[\d;]*m")  # the engine's, around what a build writes to stderr
# What the engine says of its own doings between the steps.
_BUILDER_ONLY = ("--->", "Removing intermediate container")
_NAME = re.compile(r"[A-Za-z0-9][\w.:/@-]*", re.ASCII)
_NAME_REMEDY = "Give --image a name such as python:3.12, or the id of an image that the engine has."


@dataclass(frozen=True, slots=True)
class Image:
    """An image that the engine has. `id` is exact; `reference` is what to show; `architecture` in Docker's words."""

    id: str
    reference: str
    architecture: str


def sandbox_folder() -> Path:
    """What goes into containers: beside the package in a checkout, inside it when installed."""
    package = Path(__file__).resolve().parent.parent
    inside = package / "_sandbox"
    return inside if inside.is_dir() else package.parent / "sandbox"


def content_hash(folder: Path, names: tuple[str, ...] = INPUTS) -> str:
    """Twelve hex digits that change with the name or content of any of the files."""
    digest = hashlib.sha256()
    for name in sorted(names):
        content = (folder / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    return digest.hexdigest()[:12]


def default_reference() -> str:
    """The default image's full name: it is found again by the hash of its inputs."""
    return f"{DEFAULT}:{content_hash(sandbox_folder())}"


def find(engine: Engine, image: str = DEFAULT) -> Image | None:
    """The image, if the engine has it (a few milliseconds)."""
    import docker.errors

    if not _NAME.fullmatch(image):
        raise SandboxError(f"'{image}' is not the name of an image.", _NAME_REMEDY)
    reference = default_reference() if image == DEFAULT else image
    try:
        found = engine.client.api.inspect_image(reference)  # type: ignore[no-untyped-call]
    except docker.errors.ImageNotFound:
        return None
    except docker.errors.APIError as error:
        raise SandboxError(
            f"The engine does not accept '{image}' as an image: {error.explanation}",
            _NAME_REMEDY,
        ) from error
    return Image(str(found["Id"]), reference, str(found.get("Architecture", "")))


def ensure(engine: Engine, image: str, steps: Steps) -> Image:
    """The image, built (the default) or pulled (any other) when the engine lacks it. SandboxError when neither works.

    Building takes minutes; two processes never build at the same time.
    """
    if found := find(engine, image):
        return found
    if image == DEFAULT:
        with build_lock("image", steps) as lock:
            if not find(engine, image):
                _build(engine, steps, lock)
    elif image.partition(":")[0] == DEFAULT:
        # Never asked from a registry: there, the name would belong to a stranger.
        raise SandboxError(
            f"The engine has no image '{image}'.",
            f"Use --image {DEFAULT}, or build it with `codeagent sandbox build`.",
        )
    elif reason := pull(engine, image, steps):
        raise SandboxError(
            f"The engine has no image '{image}' and could not pull it: {reason}",
            "Check the name, or load the image into the engine (`docker pull` or `docker load`).",
        )
    if found := find(engine, image):
        return found
    raise SandboxError(
        f"The image '{image}' was made but the engine does not find it.", "Is another program removing images?"
    )


def pull(engine: Engine, image: str, steps: Steps) -> str | None:
    """Asks the engine to pull; None when it did, otherwise its reason."""
    import docker.errors
    import requests
    from docker.utils import parse_repository_tag

    repository, tag = parse_repository_tag(image)
    layers: dict[str, tuple[int, int]] = {}
    try:
        with engine.patience(PULL_SILENCE_SECONDS):
            for line in engine.client.api.pull(repository, tag=tag or "latest", stream=True, decode=True):
                if "error" in line:
                    return _one_line(line["error"])
                if total := (line.get("progressDetail") or {}).get("total"):
                    layers[str(line.get("id"))] = (int(line["progressDetail"].get("current", 0)), int(total))
                    done, whole = (sum(column) for column in zip(*layers.values(), strict=True))
                    steps(f"pulling {image}", done, whole)
    except docker.errors.APIError as error:
        return _one_line(error.explanation or str(error))
    except requests.RequestException:
        return f"no registry answered within {PULL_SILENCE_SECONDS} s"
    return None


def _build(engine: Engine, steps: Steps, lock: int) -> None:
    """By the first of the two ways that works; SandboxError with the reasons of both."""
    steps(f"looking for {BASE} in a registry", 0, 0)
    no_registry = None if find(engine, BASE) else pull(engine, BASE, steps)
    if not no_registry and not (no_registry := _from_dockerfile(engine, steps)):
        return
    steps(f"no registry ({no_registry}); building from Debian packages", 0, 0)
    if missing := debian.missing(engine.architecture):
        raise SandboxError(
            f"The default image cannot be built: from a registry, {no_registry}; without one, {missing.message}",
            missing.remedy,
        )
    script = sandbox_folder() / "build"
    with engine.patience(BUILD_SECONDS), unfinished(engine, DEFAULT) as name:
        with debian.root_archive(script, cache_dir() / "image", steps, lock) as archive:
            _import(engine, archive, name)
        # Only now is it known that the archive was whole.
        engine.client.api.tag(name, DEFAULT, content_hash(sandbox_folder()), force=True)
    _tag_latest(engine)


def _from_dockerfile(engine: Engine, steps: Steps) -> str | None:
    """Has the engine build; None when it did, otherwise the last that it said."""
    import docker.errors
    import requests

    folder = sandbox_folder()
    said = ""
    try:
        with engine.patience(BUILD_SECONDS):
            for line in engine.client.api.build(
                fileobj=context({name: (folder / name).read_bytes() for name in INPUTS}),
                custom_context=True,
                tag=default_reference(),
                labels={HASH_LABEL: content_hash(folder)},
                network_mode=_build_network(engine),
                rm=True,
                forcerm=True,
                decode=True,
            ):
                if "error" in line:
                    return f"the build failed: {_one_line(line['error'])} (before that: {said})"
                if (text := _one_line(line.get("stream", ""))) and not text.startswith(_BUILDER_ONLY):
                    said = text
                    steps(f"building the image: {text[:80]}", 0, 0)
    except (docker.errors.APIError, requests.RequestException) as error:
        return f"the build failed: {_one_line(str(error))}"
    _tag_latest(engine)
    return None


def _build_network(engine: Engine) -> str | None:
    """An engine without a bridge (codeagent's own) lets a build reach the packages only by the host's network."""
    has_bridge = any(network["Driver"] == "bridge" for network in engine.client.api.networks())
    return None if has_bridge else "host"


@contextlib.contextmanager
def unfinished(engine: Engine, repository: str) -> Iterator[str]:
    """A name for an image that is being made, taken away at the end, with the image unless it got another name.

    It says who makes the image, so that what a killed process leaves can be told from what is being made.
    """
    import docker.errors
    import requests

    name = f"{repository}:{Owner.current().tag()}"
    engine.reaper.expect("image", name)
    try:
        yield name
    finally:
        with contextlib.suppress(docker.errors.APIError, requests.RequestException):
            engine.client.api.remove_image(name)
        engine.reaper.gone("image", name)


def _import(engine: Engine, archive: Any, name: str) -> None:
    """Has the engine make an image of that name from a file system's tar archive."""
    import docker.errors

    changes = [
        f"LABEL {HASH_LABEL}={content_hash(sandbox_folder())}",
        "ENV PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin",
        'CMD ["/bin/sh"]',
    ]
    try:
        # The tag within the name: Podman passes over the parameter for it.
        answer = engine.client.api.import_image_from_stream(archive, repository=name, changes=changes)
    except docker.errors.APIError as error:
        raise _refused(error.explanation or error) from error
    for line in answer.splitlines():
        said = json.loads(line)
        if "error" in said:
            raise _refused(said["error"])
        if str(said.get("status", "")).startswith("sha256:"):
            return
    raise _refused("it named no image")


def _refused(reason: object) -> SandboxError:
    return SandboxError(
        f"The engine refused the image: {_one_line(reason)}",
        "Is there room on the engine's disk? `docker system df` shows what it holds.",
    )


def _tag_latest(engine: Engine) -> None:
    engine.client.api.tag(default_reference(), DEFAULT, "latest", force=True)


def context(files: dict[str, bytes]) -> io.BytesIO:
    """A build context: a tar archive of these files, the same bytes for the same content."""
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name, content in sorted(files.items()):
            member = tarfile.TarInfo(name)
            member.size = len(content)
            member.mode = 0o755
            tar.addfile(member, io.BytesIO(content))
    archive.seek(0)
    return archive


@contextlib.contextmanager
def build_lock(name: str, steps: Steps) -> Iterator[int]:
    """One build at a time on this machine; the kernel takes the lock back however the holder ends."""
    folder = cache_dir()
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    descriptor = os.open(folder / f"{name}.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            steps(f"waiting for another codeagent that is building the {name}", 0, 0)
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield descriptor
    finally:
        os.close(descriptor)


def _one_line(text: object) -> str:
    return " ".join(_COLOUR.sub("", str(text)).split())[:300]
