"""What this machine lends to a container, where the engine sees its files: a door to talk through, and names."""

from __future__ import annotations

import contextlib
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.sandbox.door import Door
from codeagent.sandbox.generated import generated, written
from codeagent.sandbox.hardening import HOSTNAME, Mount, Plan

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine

_HOSTS = "/etc/hosts"
NAMES = f"127.0.0.1\tlocalhost {HOSTNAME}\n::1\tlocalhost ip6-localhost ip6-loopback\n"


@dataclass(frozen=True, slots=True)
class Lent:
    """`names` is a file of the container's own names, which the engine then need not make (decisions/0020)."""

    door: Door
    names: Mount

    def to(self, plan: Plan) -> Plan:
        return replace(plan, mounts=(*self._mounts, *plan.mounts), engine_network=False)

    def is_named_in(self, reason: str) -> bool:
        """Whether an engine's refusal speaks of something that was lent to it."""
        return any(part in reason for mount in self._mounts for part in (mount.source, mount.target))

    @property
    def _mounts(self) -> tuple[Mount, Mount]:
        return self.door.mount, self.names


@contextlib.contextmanager
def lending(engine: Engine, folder: Path | None) -> Iterator[Lent | None]:
    """For the time of a container's start. None where there is no `folder` for it, or the engine is elsewhere."""
    if folder is None or not engine.host.startswith("unix://"):
        yield None
        return
    path = folder / f".guest-{secrets.token_hex(4)}"
    with engine.reaper.passing(path), contextlib.ExitStack() as stack:
        lent = None
        with contextlib.suppress(OSError):
            names = Mount("bind", _HOSTS, str(written(generated(), NAMES)))
            lent = Lent(stack.enter_context(contextlib.closing(Door(path))), names)
        yield lent
