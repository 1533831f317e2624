"""Containers and volumes as they are made on an engine and removed from it; the engine's reaper is told of each."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine

REMOVE_SECONDS = 5.0
CONTAINER_PAUSE_SECONDS = 0.02
VOLUME_PAUSE_SECONDS = 0.1


def create_container(engine: Engine, name: str, options: Mapping[str, Any]) -> None:
    """Makes a container, which is not started. Raises docker's and requests' errors."""
    with engine.reaper.making("container", name):
        engine.client.api.create_container_from_config(dict(options), name)  # type: ignore[no-untyped-call]


def create_volume(engine: Engine, name: str, labels: Mapping[str, str]) -> None:
    """Makes an empty volume. Raises docker's and requests' errors."""
    with engine.reaper.making("volume", name):
        engine.client.api.create_volume(name, labels=dict(labels))


def remove_container(engine: Engine, name: str) -> None:
    """Removes a container, whatever its state, and waits until it is gone. Never raises."""
    until = time.monotonic() + REMOVE_SECONDS
    request = partial(engine.client.api.remove_container, name, force=True, v=True)
    if _removed(request, until, CONTAINER_PAUSE_SECONDS):
        engine.reaper.gone("container", name)


def remove_volumes(engine: Engine, names: Sequence[str]) -> None:
    """Removes volumes, waiting a little for containers that are on their way out. Never raises."""
    until = time.monotonic() + REMOVE_SECONDS
    for name in names:
        if _removed(partial(engine.client.api.remove_volume, name, force=True), until, VOLUME_PAUSE_SECONDS):
            engine.reaper.gone("volume", name)


def _removed(request: Callable[[], object], until: float, pause: float) -> bool:
    """Whether it is gone now. Refusals mostly mean that it is in use, or that the engine is removing it already."""
    import docker.errors
    import requests

    with contextlib.suppress(requests.RequestException):
        while True:
            try:
                request()
                return True
            except docker.errors.NotFound:
                return True
            except docker.errors.DockerException:
                if time.monotonic() > until:
                    return False
                time.sleep(pause)
    return False
