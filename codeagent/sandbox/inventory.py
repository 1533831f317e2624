"""What codeagent has on an engine: images, containers and volumes, with size and owner, and what nobody needs."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Any

from codeagent.errors import SandboxError
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.owner import OWNER_LABEL, ROLE_LABEL, SESSION_LABEL, Owner, is_gone, label_of

DISK_USAGE_SECONDS = 300
_SIZES = ("Size", "SizeRw", "SharedSize", "Containers", "UsageData")
_SPELLED_OUT = ("", "docker.io/library/", "localhost/")
"""What Podman puts before a name that has no registry."""


_OTHER = " of another version"


class Kind(StrEnum):
    IMAGE = "image"
    CONTAINER = "container"
    VOLUME = "volume"


@dataclass(frozen=True, slots=True)
class Holding:
    """One thing on the engine. `size` in bytes, None where the engine does not tell; `owner` in words.

    `needless` is set when nothing uses it now: its owner has provably ended, or it was made by another version. Then
    `other_version` is set, too: a second installation on the same engine may still need it, and would make it anew.
    """

    kind: Kind
    id: str
    name: str
    size: int | None
    owner: str
    needless: bool
    other_version: bool = False


def holdings(engine: Engine, here: Owner | None = None) -> list[Holding]:
    """Everything with a label of codeagent's, in the order in which it can be removed. `here` is who asks."""
    import docker.errors

    usage, api = _usage(engine), engine.client.api
    here = here or Owner.current()
    try:
        listed = api.containers(all=True), api.volumes()["Volumes"], api.images()
    except docker.errors.APIError as error:
        raise _silent(error) from error
    containers = [_container(entry, here) for entry in _ours(listed[0], usage.get("Containers"))]
    volumes = [_volume(entry, here) for entry in _ours(listed[1], usage.get("Volumes"))]
    images = [
        _image(entry, name, here) for entry in _ours(listed[2], usage.get("Images")) if (name := _image_name(entry))
    ]
    return [*containers, *volumes, *images]


def _usage(engine: Engine) -> dict[str, Any]:
    """What the engine says about its disk. It counts for one asker at a time and refuses others meanwhile."""
    import docker.errors

    deadline = time.monotonic() + DISK_USAGE_SECONDS
    with engine.patience(DISK_USAGE_SECONDS):
        while True:
            try:
                usage: dict[str, Any] = engine.client.df()
                return usage
            except docker.errors.APIError as error:
                if "already running" not in str(error.explanation) or time.monotonic() > deadline:
                    raise _silent(error) from error
            time.sleep(0.2)


def remove(engine: Engine, holding: Holding) -> str | None:
    """Removes it; the engine's reason when it does not."""
    import docker.errors

    api = engine.client.api
    try:
        match holding.kind:
            case Kind.CONTAINER:
                api.remove_container(holding.id, v=True, force=True)
            case Kind.VOLUME:
                api.remove_volume(holding.id)
            case Kind.IMAGE:
                api.remove_image(holding.id)
    except docker.errors.NotFound:
        return None
    except docker.errors.APIError as error:
        return " ".join(str(error.explanation or error).split())
    return None


def _silent(error: Any) -> SandboxError:
    return SandboxError(
        f"The engine does not say what it holds: {' '.join(str(error.explanation or error).split())}",
        "Try again; `docker system df` asks the engine the same.",
    )


def _ours(listed: Iterable[Any] | None, usage: Iterable[Any] | None) -> list[dict[str, Any]]:
    """What has a label of ours, with its sizes: Podman's account of its disk has no labels, and half of the names."""
    labels = {SESSION_LABEL, OWNER_LABEL, toolbox.LABEL, image.HASH_LABEL}
    sizes = {_identity(entry): {key: entry[key] for key in _SIZES if key in entry} for entry in usage or ()}
    ours = [entry for entry in listed or () if labels & set(entry.get("Labels") or ())]
    return [{**entry, **sizes.get(_identity(entry), {})} for entry in ours]


def _identity(entry: dict[str, Any]) -> str:
    return str(entry.get("Id") or entry["Name"]).removeprefix("sha256:")


def _container(entry: dict[str, Any], here: Owner) -> Holding:
    labels = entry["Labels"]
    name = (entry.get("Names") or [entry["Id"][:12]])[0].lstrip("/")
    # What fills a toolbox's volume lives for a moment.
    left_over = toolbox.LABEL in labels or is_gone(labels.get(OWNER_LABEL, ""), here)
    return Holding(Kind.CONTAINER, entry["Id"], name, entry.get("SizeRw") or 0, _owner(labels, here), left_over)


def _volume(entry: dict[str, Any], here: Owner) -> Holding:
    labels = entry["Labels"]
    usage = entry.get("UsageData") or {}
    size = usage.get("Size", -1)
    other = toolbox.LABEL in labels and not _current(labels)
    if toolbox.LABEL in labels:
        owner = f"the toolbox{_OTHER if other else ''}"
        needless = other and usage.get("RefCount") == 0
    else:
        owner = _owner(labels, here)
        needless = is_gone(labels.get(OWNER_LABEL, ""), here)
    return Holding(Kind.VOLUME, entry["Name"], entry["Name"], size if size >= 0 else None, owner, needless, other)


def _image_name(entry: dict[str, Any]) -> str | None:
    """The name that codeagent gave it, its id for a part of a toolbox that was never finished.

    An image that a user made from ours has our labels, but a name of its own.
    """
    ours = tuple(f"{host}{name}:" for host in _SPELLED_OUT for name in (image.DEFAULT, toolbox.NAME))
    tags = [tag for tag in entry.get("RepoTags") or () if tag != "<none>:<none>"]
    if not tags and toolbox.LABEL in entry["Labels"]:
        return str(entry["Id"]).removeprefix("sha256:")[:12]
    return min((tag for tag in tags if tag.startswith(ours)), key=lambda tag: tag.endswith(":latest"), default=None)


def _image(entry: dict[str, Any], name: str, here: Owner) -> Holding:
    labels = entry["Labels"]
    size = int(entry.get("Size") or 0)
    what = "the default image"
    if toolbox.LABEL in labels:
        what = "the toolbox"
        # It stands on the default image and shares that. -1 is for unknown.
        size -= max(int(entry.get("SharedSize") or 0), 0)
    other = False
    if ":" not in name:
        state, needless = " unfinished", time.time() - int(entry["Created"]) > image.BUILD_SECONDS
    elif maker := label_of(name.partition(":")[2]):
        state, needless = " unfinished", is_gone(maker, here)
    else:
        needless = other = not _current(labels)
        state = _OTHER if other else ""
    unused = int(entry.get("Containers") or 0) <= 0
    return Holding(Kind.IMAGE, name, name, size, what + state, needless and unused, other)


def _current(labels: dict[str, str]) -> bool:
    if toolbox.LABEL in labels:
        return labels[toolbox.LABEL] == toolbox.content_hash()
    return labels.get(image.HASH_LABEL) == image.content_hash(image.sandbox_folder())


def _owner(labels: dict[str, str], here: Owner) -> str:
    session = labels.get(SESSION_LABEL, "unknown session")
    role = labels.get(ROLE_LABEL, "")
    state = " (ended)" if is_gone(labels.get(OWNER_LABEL, ""), here) else ""
    return f"session {session}{f', {role}' if role else ''}{state}"
