"""The volumes that hold the private copy and what it is compared with."""

from __future__ import annotations

import io
import secrets
import tarfile
import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from codeagent.errors import SandboxError
from codeagent.sandbox.made import create_container, create_volume, remove_container, remove_volumes

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine


def create_volumes(
    engine: Engine, image_id: str, names: Sequence[str], labels: Mapping[str, str], uid: int, gid: int
) -> None:
    """Makes empty volumes whose tops belong to uid and gid. Raises SandboxError."""
    import docker.errors
    import requests

    try:
        for name in names:
            create_volume(engine, name, labels)
        if (uid, gid) != (0, 0):
            _give_away(engine, image_id, names, labels, uid, gid)
    except (docker.errors.DockerException, requests.RequestException) as error:
        remove_volumes(engine, names)
        raise SandboxError(
            f"The engine could not make a volume for the private copy: {' '.join(str(error).split())[:300]}",
            "Is there room on the engine's disk? `codeagent sandbox clean` removes what has no owner.",
        ) from error


def _give_away(
    engine: Engine, image_id: str, names: Sequence[str], labels: Mapping[str, str], uid: int, gid: int
) -> None:
    """A fresh volume belongs to root, and nobody in our containers may change that. The engine may: unpacking an
    archive into a container (which is never started) sets the owner of the folders that the archive names."""
    carrier = f"codeagent-carrier-{secrets.token_hex(6)}"
    create_container(engine, carrier, _carrier(image_id, names, labels))
    try:
        engine.client.api.put_archive(carrier, "/", _folders(names, uid, gid))
    finally:
        remove_container(engine, carrier)


def give_away_mounted(engine: Engine, container: str, targets: Sequence[str], uid: int, gid: int) -> None:
    """The same for volumes at these paths of a running container. Raises SandboxError.

    Podman gives a volume to root when it is first mounted, whoever it was for.
    """
    import docker.errors
    import requests

    try:
        for target in targets:
            # `/` is the folder itself.
            engine.client.api.put_archive(container, target, _folders(("/",), uid, gid))
    except (docker.errors.DockerException, requests.RequestException) as error:
        raise SandboxError(
            "The private copy cannot be written: the engine keeps volumes for root, who does not own the repository.",
            "Use another engine, or one of the repository's owner. Reading needs no private copy.",
        ) from error


def _carrier(image_id: str, names: Sequence[str], labels: Mapping[str, str]) -> dict[str, Any]:
    mounts = [
        {"Type": "volume", "Source": name, "Target": f"/{name}", "VolumeOptions": {"NoCopy": True}} for name in names
    ]
    return {
        "Image": image_id,
        "Entrypoint": ["/none"],
        "Cmd": [],
        "Labels": dict(labels),
        "HostConfig": {"NetworkMode": "none", "Mounts": mounts},
    }


def _folders(names: Sequence[str], uid: int, gid: int) -> bytes:
    archive = io.BytesIO()
    with tarfile.open(fileobj=archive, mode="w") as tar:
        for name in names:
            member = tarfile.TarInfo(name)
            member.type, member.mode, member.uid, member.gid = tarfile.DIRTYPE, 0o755, uid, gid
            member.mtime = int(time.time())
            tar.addfile(member)
    return archive.getvalue()
