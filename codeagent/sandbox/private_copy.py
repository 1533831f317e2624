"""How the private copy comes to be: its volumes, what fills them, and the container that writes into them."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.sandbox.pending import ChannelLost
from codeagent.sandbox.seam import Flag, Steps
from codeagent.sandbox.session_containers import Parts, Slot, Starter, hanging_up, take_down
from codeagent.sandbox.view import Volumes
from codeagent.sandbox.volume import create_volumes, give_away_mounted

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine


SUBORDINATE_IDS = 65_536
COMMON_ID = 1_000
_CLOSED = "Permission denied"


@dataclass(frozen=True, slots=True)
class Copy:
    """A copy that is made. `writer` holds a running container; `note` is what the model is to be told of it."""

    volumes: Volumes
    writer: Slot
    note: str | None

    def take_down(self, engine: Engine) -> None:
        take_down(engine, self.writer.containers, self.volumes)


def make_copy(parts: Parts, starter: Starter, steps: Steps, leave: Sequence[Flag], *, from_host: bool) -> Copy:
    """A private copy of the repository as it is now, made by the engine, or uploaded `from_host`.

    Raises SandboxError, and ToolError when it would be too large or one of the flags is set; then nothing is left.
    """
    suffix = f"{parts.session_id}-{secrets.token_hex(4)}"
    volumes = Volumes(
        f"codeagent-copy-{suffix}",
        f"codeagent-baseline-{suffix}",
        f"codeagent-git-{suffix}" if from_host and parts.layout.git_is_beside else "",
    )
    starter.ids = uid, gid = starter.ids or _owner_of(parts.repo, parts.engine)
    create_volumes(parts.engine, parts.image.id, volumes.names, starter.labels("copy"), uid, gid)
    writer = Slot("writer", lambda: parts.layout.copied(volumes, True))
    try:
        note = _fill(parts, starter, steps, leave, volumes, from_host)
        writer.put(starter.start(writer.role, writer.view()))
    except BaseException:
        take_down(parts.engine, writer.containers, volumes)
        raise
    return Copy(volumes, writer, note)


def _fill(
    parts: Parts, starter: Starter, steps: Steps, leave: Sequence[Flag], volumes: Volumes, from_host: bool
) -> str | None:
    """Makes the copy in a container of its own, in which no command runs."""
    layout = parts.layout
    view = layout.copying(volumes, not from_host)
    fill = layout.upload if from_host else layout.fill
    container = starter.start("copier", view)
    try:
        with hanging_up(container, *leave):
            try:
                return fill(container.channel, steps)
            except ToolError as refused:
                if _CLOSED not in refused.sentence or starter.ids is None:
                    raise
                targets = [mount.target for mount in view.mounts if mount.kind == "volume"]
                give_away_mounted(parts.engine, container.name, targets, *starter.ids)
                return fill(container.channel, steps)
    except ChannelLost as lost:
        if any(flag.is_set() for flag in leave):
            raise ToolError(ErrorKind.CANCELLED, "copying the repository was cancelled; nothing was run") from None
        message = f"The sandbox was lost while the repository was copied: {lost.reason}."
        raise SandboxError(message, "`codeagent doctor` looks at the engine.") from lost
    finally:
        container.close()


def sent_as(uid: int, gid: int, *, in_user_namespace: bool) -> tuple[int, int]:
    """Whose a copy is that is sent, given its owner here. A user namespace has no more than 65,536 ids."""
    return (COMMON_ID, COMMON_ID) if in_user_namespace and max(uid, gid) >= SUBORDINATE_IDS else (uid, gid)


def _owner_of(repo: Path, engine: Engine) -> tuple[int, int]:
    try:
        found = repo.stat()
    except (FileNotFoundError, NotADirectoryError):
        raise SandboxError(f"the repository is no longer there: {repo}.", "Put it back, then run it again.") from None
    return sent_as(found.st_uid, found.st_gid, in_user_namespace=engine.in_user_namespace)
