"""The options of every container, as the Engine API takes them. One pure function: what it returns is the wall.

docs/security.md says what each option stops and which test shows it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from codeagent.settings import SandboxSettings

WORKSPACE = "/workspace"
HOSTNAME = "codeagent"
TMP = "/tmp"  # noqa: S108 - the container's own tmpfs
SHM_SIZE = 64 << 20
TMP_INODES = 400_000
VOLUME_SIZE = 16 << 20
"""What a path that the image declares as a volume gets instead of an anonymous, unlimited one."""


@dataclass(frozen=True, slots=True)
class Mount:
    """One mount. `source` is a path on the engine's machine, a volume's name, or "" for an empty tmpfs.

    `size` in bytes and `mode` are a tmpfs's. Mounts below others come later in a sequence.
    """

    kind: Literal["bind", "volume", "tmpfs"]
    target: str
    source: str = ""
    read_only: bool = True
    size: int = 4096
    mode: int = 0o555


class Dispensable(StrEnum):
    """What a container is started without where an engine refuses it; the word that its refusal then holds.

    IPV6 is `::1`, which needs a kernel with IPv6. RESOLVER stands in for the host's, which is out of the container's
    reach. INODES bounds the number of files on `/tmp`, which the limit of memory bounds as well.
    """

    IPV6 = "disable_ipv6"
    RESOLVER = "dns"
    INODES = "nr_inodes"


@dataclass(frozen=True, slots=True)
class Plan:
    """What distinguishes one container from another. `image` is exact (an id), `argv` starts the guest.

    `image_volumes` are the paths that the image declares as volumes, `without` what the engine has refused. The
    container has a network of its own, with nothing but loopback, in any case; with `engine_network` it is the engine
    that sets it up and gives its addresses names, otherwise the kernel and a mount.
    """

    image: str
    argv: Sequence[str]
    labels: Mapping[str, str]
    mounts: Sequence[Mount]
    image_volumes: Sequence[str] = ()
    without: frozenset[Dispensable] = frozenset()
    engine_network: bool = True


def options(plan: Plan, settings: SandboxSettings) -> dict[str, Any]:
    """The body of `POST /containers/create`."""
    taken = {"", TMP, *(mount.target for mount in plan.mounts)}
    unlimited = [
        Mount("tmpfs", path, read_only=False, size=VOLUME_SIZE, mode=0o1777)
        for path in plan.image_volumes
        if path.rstrip("/") not in taken
    ]
    mounts = [*unlimited, *plan.mounts]
    resolver = Dispensable.RESOLVER not in plan.without
    inodes = "" if Dispensable.INODES in plan.without else f",nr_inodes={TMP_INODES}"
    return {
        "Image": plan.image,
        "Entrypoint": list(plan.argv),
        "Cmd": [],
        "WorkingDir": "/",
        # The guest starts as root to take the owner's ids; see sandbox/guest/ids.py.
        "User": "0:0",
        "Hostname": HOSTNAME,
        "NetworkDisabled": not plan.engine_network,
        "Labels": dict(plan.labels),
        "OpenStdin": True,
        # Where the guest speaks on the attached stream, the engine closes its stdin with it, and so ends it.
        "StdinOnce": True,
        "AttachStdin": True,
        "AttachStdout": True,
        "AttachStderr": True,
        "Tty": False,
        # A health check of the image's would run as root beside the guest.
        "Healthcheck": {"Test": ["NONE"]},
        "HostConfig": {
            "AutoRemove": True,
            "Init": False,
            "Privileged": False,
            "ReadonlyRootfs": True,
            "CapDrop": ["ALL"],
            "CapAdd": ["SETUID", "SETGID"],
            "SecurityOpt": ["no-new-privileges"],
            "NetworkMode": "none",
            "ExtraHosts": [f"{HOSTNAME}:127.0.0.1"],
            # Without a network the host's resolver is of no use, and its names are nobody's business.
            "Dns": ["127.0.0.1"] if resolver else [],
            "DnsSearch": ["."] if resolver else [],
            # The guest reads its own counters also where the engine would show it the host's.
            "CgroupnsMode": "private",
            "IpcMode": "private",
            "Memory": settings.memory,
            "MemorySwap": settings.memory,
            "NanoCpus": round(settings.cpus * 1_000_000_000),
            "PidsLimit": settings.pids,
            "ShmSize": SHM_SIZE,
            # The engine writes neither files' contents nor secrets to its disk, and replies are seven times faster.
            "LogConfig": {"Type": "none"},
            "Sysctls": {} if Dispensable.IPV6 in plan.without else _LOOPBACK_IPV6,
            "Tmpfs": {TMP: f"rw,exec,nosuid,nodev,size={settings.tmp_size}{inodes},mode=1777"},
            "Mounts": [_mount(mount) for mount in mounts],
        },
    }


_LOOPBACK_IPV6 = {"net.ipv6.conf.all.disable_ipv6": "0", "net.ipv6.conf.lo.disable_ipv6": "0"}


def _mount(mount: Mount) -> dict[str, Any]:
    spec: dict[str, Any] = {"Type": mount.kind, "Target": mount.target, "ReadOnly": mount.read_only}
    match mount.kind:
        case "bind":
            # A mount below the repository would come along writable: read-only holds for the top alone.
            spec |= {"Source": mount.source, "BindOptions": {"NonRecursive": True, "Propagation": "private"}}
        case "volume":
            spec |= {"Source": mount.source, "VolumeOptions": {"NoCopy": True}}
        case "tmpfs":
            spec["TmpfsOptions"] = {"SizeBytes": mount.size, "Mode": mount.mode}
    return spec
