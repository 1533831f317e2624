"""One container and the channel to the guest in it: created, attached, started, and gone when it is closed."""

from __future__ import annotations

import contextlib
import secrets
import threading
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.errors import SandboxError
from codeagent.sandbox.attached import Attached
from codeagent.sandbox.channel import Channel
from codeagent.sandbox.frames import VERSION
from codeagent.sandbox.hardening import Dispensable, Plan, options
from codeagent.sandbox.lent import Lent, lending
from codeagent.sandbox.made import create_container, remove_container
from codeagent.sandbox.owner import OWNER_LABEL, ROLE_LABEL, SESSION_LABEL, Owner, is_gone
from codeagent.sandbox.pending import ChannelLost
from codeagent.settings import SandboxSettings

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine

START_SECONDS = 60.0
DIAGNOSIS_SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class Guest:
    """What a guest says of itself when it is ready. `readable` tells whether it can list the repository."""

    uid: int
    gid: int
    readable: bool
    machine: str


class Container:
    """A running container whose main process is a guest. Use `start_container`; end it with `close`."""

    def __init__(self, engine: Engine, name: str, channel: Channel, guest: Guest) -> None:
        self._engine = engine
        self.name = name
        self.channel = channel
        self.guest = guest

    def close(self) -> None:
        """Ends and removes the container; nothing of it is left when this returns. Never raises."""
        self.channel.close()
        remove_container(self._engine, self.name)


def start_container(engine: Engine, plan: Plan, settings: SandboxSettings, folder: Path | None) -> Container:
    """Creates, attaches to and starts a container, and waits until its guest is ready (about half a second).

    `folder` is a place on this machine where the guest's way around the engine begins; None where the engine can
    have nothing of this machine's. Raises SandboxError with the engine's or the guest's own reason.
    """
    import docker.errors
    import requests

    settings = replace(settings, cpus=min(settings.cpus, float(engine.info.get("NCPU") or settings.cpus)))
    with lending(engine, folder) as lent:
        try:
            return _start(engine, plan, settings, lent)
        except docker.errors.APIError as error:
            reason = " ".join(str(error.explanation or error).split())
            if lent is not None and lent.is_named_in(reason):
                folder = None
            elif refused := {one for one in Dispensable if one in reason.lower()} - plan.without:
                plan = replace(plan, without=plan.without | refused)
            else:
                raise SandboxError(f"The container cannot be started: {reason[:500]}", _remedy(reason)) from error
        except requests.RequestException as error:
            raise _silent() from error
    return start_container(engine, plan, settings, folder)


def _start(engine: Engine, plan: Plan, settings: SandboxSettings, lent: Lent | None) -> Container:
    # The name is ours, so that whoever tidies up after us knows it even when the engine's answer never comes.
    name = f"codeagent-{plan.labels[ROLE_LABEL]}-{secrets.token_hex(6)}"
    if lent is not None:
        plan = lent.to(plan)
    with contextlib.ExitStack() as undo:
        create_container(engine, name, options(plan, settings))
        undo.callback(remove_container, engine, name)
        # Attached before the start: nothing that the guest says is missed, and nothing is buffered by HTTP code.
        attached = _attach(engine, name)
        undo.callback(attached.close)
        engine.client.api.start(name)
        connection = attached if lent is None else lent.door.first(attached, START_SECONDS)
        channel = Channel(connection, diagnose=lambda: diagnosis(engine, name))
        undo.callback(channel.close)
        channel.start()
        guest = _greeted(channel)
        undo.pop_all()
    return Container(engine, name, channel, guest)


def _attach(engine: Engine, name: str) -> Attached:
    params = {"stdin": 1, "stdout": 1, "stderr": 1, "stream": 1}
    return Attached(engine.client.api.attach_socket(name, params))


def _greeted(channel: Channel) -> Guest:
    try:
        fields = channel.greeting(START_SECONDS)
    except ChannelLost as lost:
        said = channel.diagnostics.strip().splitlines()
        raise SandboxError(
            f"The container ended before it was ready: {said[-1] if said else lost.reason}",
            "Does the image fit the engine's architecture? `codeagent doctor` shows both.",
        ) from lost
    types = {"version": int, "uid": int, "gid": int, "readable": bool, "machine": str}
    if any(type(fields.get(name)) is not kind for name, kind in types.items()) or fields["version"] != VERSION:
        raise SandboxError("The guest in the container does not fit this codeagent.", "Install codeagent again.")
    return Guest(fields["uid"], fields["gid"], fields["readable"], fields["machine"][:40])


def diagnosis(engine: Engine, identity: str) -> str:
    """In words, why a container does not answer; "" when nothing is wrong with it that the engine knows of."""
    found: list[str] = []
    # In a thread: an engine that hangs would keep us for the client's whole timeout.
    asking = threading.Thread(target=lambda: found.append(_state(engine, identity)), daemon=True)
    asking.start()
    asking.join(DIAGNOSIS_SECONDS)
    return found[0] if found else "the engine does not answer"


def _state(engine: Engine, identity: str) -> str:
    import docker.errors
    import requests

    try:
        state = engine.client.api.inspect_container(identity)["State"]
    except docker.errors.NotFound:
        return "the container was removed"
    except (docker.errors.DockerException, requests.RequestException):
        return "the engine does not answer"
    if state.get("Paused"):
        return "the container was paused"
    if state.get("Running"):
        return ""
    if state.get("OOMKilled"):
        return "the container ended for lack of memory"
    return f"the container was ended (exit code {state.get('ExitCode')})"


def _remedy(reason: str) -> str:
    if "exec format error" in reason:
        return "The image is for another architecture than the engine's."
    if "no space left" in reason:
        return "The engine's disk is full; `codeagent sandbox clean` removes what has no owner."
    if "rlimit" in reason:
        return (
            "The engine may not give that many files or processes; `default_ulimits` in containers.conf sets fewer."
        )
    return "`codeagent doctor` looks at the engine."


def image_volumes(engine: Engine, image_id: str) -> tuple[str, ...]:
    """The paths that the image declares as volumes. Raises SandboxError."""
    import docker.errors
    import requests

    try:
        config = engine.client.api.inspect_image(image_id).get("Config") or {}  # type: ignore[no-untyped-call]
    except docker.errors.DockerException as error:
        raise SandboxError(f"The image cannot be looked at: {error}", "Was it removed meanwhile?") from error
    except requests.RequestException as error:
        raise _silent() from error
    return tuple(config.get("Volumes") or ())


def _silent() -> SandboxError:
    return SandboxError("The engine stopped answering while a container was started.", "Is it running?")


def reap_orphans(engine: Engine, here: Owner | None = None) -> list[str]:
    """Removes containers and volumes of sessions whose owner has provably ended; their names."""
    import docker.errors
    import requests

    here = here or Owner.current()
    api = engine.client.api
    removed: list[str] = []
    with contextlib.suppress(docker.errors.DockerException, requests.RequestException):
        for container in api.containers(all=True, filters={"label": SESSION_LABEL}):
            if is_gone((container.get("Labels") or {}).get(OWNER_LABEL, ""), here):
                remove_container(engine, container["Id"])
                removed.append(str(container["Id"])[:12])
        for volume in api.volumes(filters={"label": SESSION_LABEL})["Volumes"] or []:
            if is_gone((volume.get("Labels") or {}).get(OWNER_LABEL, ""), here):
                # Another program may be removing it at the same moment.
                with contextlib.suppress(docker.errors.DockerException):
                    api.remove_volume(volume["Name"], force=True)
                    removed.append(str(volume["Name"]))
    return removed
