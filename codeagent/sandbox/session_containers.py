"""The containers of one session: how one is started for a view, which are in use, and which are on their way out."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.errors import SandboxError
from codeagent.sandbox.container import Container, image_volumes, start_container
from codeagent.sandbox.errands import WATCH_SECONDS
from codeagent.sandbox.hardening import WORKSPACE, Mount, Plan
from codeagent.sandbox.made import remove_volumes
from codeagent.sandbox.owner import OWNER_LABEL, ROLE_LABEL, SESSION_LABEL, Owner
from codeagent.sandbox.pending import ChannelLost
from codeagent.sandbox.seam import Flag
from codeagent.sandbox.view import Layout, View, Volumes
from codeagent.settings import SandboxSettings

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine
    from codeagent.sandbox.image import Image
    from codeagent.sandbox.toolbox import Toolbox


@dataclass(frozen=True, slots=True)
class Parts:
    """What a sandbox is made of. `outputs` is the session's folder for whole outputs, `repo` the host's path."""

    engine: Engine
    image: Image
    toolbox: Toolbox
    repo: Path
    layout: Layout
    settings: SandboxSettings
    session_id: str
    outputs: Path


@dataclass(slots=True)
class Slot:
    """The place of one container. `view` is asked for anew whenever one is started.

    `state` is the one in which the container's masks were last seen to be right; None when that is not known, or not
    needed, because what it sees is a copy.
    """

    role: str
    view: Callable[[], View]
    container: Container | None = None
    state: int | None = None
    losses: int = 0

    @property
    def running(self) -> Container:
        if self.container is None:
            raise SandboxError("The sandbox is closed.")
        return self.container

    @property
    def containers(self) -> list[Container]:
        return [] if self.container is None else [self.container]

    def put(self, container: Container | None) -> Container | None:
        """Puts another container here; returns the one before."""
        old, self.container, self.state = self.container, container, None
        return old


@dataclass(frozen=True, slots=True)
class Guarded:
    """Calls to one container, carried out only while its masks are in `state`, and left when `leave` is set.

    See `Channel.call`.
    """

    container: Container
    state: int | None
    leave: Flag | None = None

    def call(
        self,
        op: str,
        args: Mapping[str, Any],
        body: bytes = b"",
        on_body: Callable[[bytes], None] | None = None,
        cancel: Flag | None = None,
        timeout: float | None = None,
    ) -> tuple[dict[str, Any], bytes]:
        """Raises as `Channel.call` does."""
        return self.container.channel.call(op, args, body, on_body, cancel, timeout, self.state, self.leave)


class Lease:
    """Containers in use: one that was replaced is closed when the last call in it has ended."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._users: dict[str, int] = {}
        self._retired: dict[str, Container] = {}

    @contextlib.contextmanager
    def holding(self, container: Container) -> Iterator[None]:
        with self._lock:
            self._users[container.name] = self._users.get(container.name, 0) + 1
        try:
            yield
        finally:
            with self._lock:
                self._users[container.name] -= 1
                done = self._retired.pop(container.name, None) if not self._users[container.name] else None
            if done:
                done.close()

    def retire(self, container: Container) -> None:
        with self._lock:
            if self._users.get(container.name):
                self._retired[container.name] = container
                return
        container.close()


class Unreadable(SandboxError):
    """The engine sees the repository, but the guest may not list it."""


class Starter:
    """Starts the session's containers. `ids` are the repository owner's, known once the first one has told."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self.owner = Owner.current()
        self.ids: tuple[int, int] | None = None

    def start(self, role: str, view: View, *, prepared: bool = True) -> Container:
        """A container whose guest is ready and, if `prepared`, knows what is protected. Raises SandboxError."""
        parts = self._parts
        container = start_container(parts.engine, self._plan(role, view), parts.settings, parts.outputs)
        try:
            self._check(container)
            if prepared:
                parts.layout.prepare(container.channel)
        except ChannelLost as lost:
            container.close()
            raise SandboxError(f"The sandbox was lost while it started: {lost.reason}.") from lost
        except BaseException:
            container.close()
            raise
        return container

    def labels(self, role: str) -> dict[str, str]:
        return {SESSION_LABEL: self._parts.session_id, ROLE_LABEL: role, OWNER_LABEL: self.owner.label()}

    def _plan(self, role: str, view: View) -> Plan:
        parts, toolbox = self._parts, self._parts.toolbox
        uid, gid = self.ids or (None, None)
        config = {
            "root": WORKSPACE,
            "uid": uid,
            "gid": gid,
            "folders": dict(view.folders),
            "environment": dict(view.environment),
            "reading": dict(view.reading),
        }
        return Plan(
            image=parts.image.id,
            argv=(*toolbox.argv, json.dumps(config)),
            labels=self.labels(role),
            mounts=(Mount("volume", toolbox.target, toolbox.volume), *view.mounts),
            image_volumes=self._image_volumes,
        )

    @cached_property
    def _image_volumes(self) -> tuple[str, ...]:
        return image_volumes(self._parts.engine, self._parts.image.id)

    def _check(self, container: Container) -> None:
        guest = container.guest
        if not guest.readable:
            raise Unreadable(
                f"The repository cannot be read inside the container, as uid {guest.uid} and gid {guest.gid}.",
                "With SELinux, label the folder for containers (`chcon -Rt container_file_t`); with a rootless "
                "or user-namespaced engine, the folder must belong to the engine's user or be readable by all.",
            )
        self.ids = self.ids or (guest.uid, guest.gid)


@contextlib.contextmanager
def hanging_up(container: Container, *flags: Flag) -> Iterator[None]:
    """Hangs up as soon as one of the flags is set: what is being asked of the container then raises ChannelLost."""
    over = threading.Event()

    def watch() -> None:
        while not over.wait(WATCH_SECONDS):
            if any(flag.is_set() for flag in flags):
                container.channel.close()
                return

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield
    finally:
        over.set()
        watching.join()


def take_down(engine: Engine, containers: Sequence[Container], volumes: Volumes | None) -> None:
    """Ends the containers, all at the same time, and then removes the volumes. Never raises."""
    closing = [threading.Thread(target=container.close, daemon=True) for container in containers]
    for thread in closing:
        thread.start()
    for thread in closing:
        thread.join()
    if volumes is not None:
        remove_volumes(engine, volumes.names)
