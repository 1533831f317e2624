"""How the toolbox's volume is filled, by engines that copy at different moments; tests/docker has a real one."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

import docker.errors
import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox import image, toolbox
from codeagent.sandbox.endpoints import Endpoint
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.reaper import Reaper
from tests.conftest import silent

DIGEST = toolbox.content_hash()
VOLUME = f"{toolbox.NAME}-{DIGEST}"
NAME = f"{toolbox.NAME}:{DIGEST}"


class Api:
    """What an engine does with one volume, images, and the container that fills. `copies_at` is when it copies.

    `removals` is how often somebody else removes the container before it can be started.
    """

    timeout = 60

    def __init__(self, copies_at: str, removals: int = 0) -> None:
        self.copies_at = copies_at
        self.removals = removals
        self.images = {image.default_reference()}
        self.labels: dict[str, str] | None = None
        self.full = self.mounted = False
        self.starts = 0

    def inspect_image(self, name: str) -> dict[str, str]:
        if name not in self.images:
            raise docker.errors.ImageNotFound("404")
        return {"Id": f"id of {name}"}

    def inspect_volume(self, name: str) -> dict[str, Any]:
        assert name == VOLUME
        if self.labels is None:
            raise docker.errors.NotFound("404")
        # Nobody may take a volume for the toolbox before it is full.
        assert self.full or NAME not in self.images
        return {"Labels": self.labels}

    def build(self, tag: str, **_options: object) -> Iterator[dict[str, str]]:
        self.images.add(tag)
        yield {"stream": "built"}

    def create_volume(self, name: str, labels: dict[str, str]) -> None:
        assert name == VOLUME
        self.labels = self.labels or labels

    def create_host_config(self, **options: Any) -> dict[str, Any]:
        return options

    def create_container(self, _image: str, *, host_config: dict[str, Any], **_options: object) -> None:
        (mount,) = host_config["mounts"]
        assert (mount["Source"], mount["Target"]) == (VOLUME, toolbox.TARGET)
        self.mounted = True
        self.full |= self.copies_at == "create"

    def has_path(self, _container: str, path: str) -> bool:
        assert path.startswith(f"{toolbox.TARGET}/")
        return self.full

    def start(self, _container: str) -> None:
        self.starts += 1
        if self.starts <= self.removals:
            self.mounted = False
            raise docker.errors.NotFound("404")
        if self.copies_at != "start":
            raise docker.errors.APIError("400", explanation=f"stat {toolbox.PROGRAM}: no such file")
        self.full = True

    def tag(self, _image: str, repository: str, tag: str, **_options: object) -> None:
        self.images.add(f"{repository}:{tag}")

    def remove_image(self, name: str) -> None:
        if name not in self.images:
            raise docker.errors.ImageNotFound("404")
        self.images.remove(name)

    def remove_volume(self, _name: str) -> None:
        if self.labels is None:
            raise docker.errors.NotFound("404")
        if self.mounted:
            raise docker.errors.APIError("409", explanation="in use")
        self.labels, self.full = None, False

    def remove_container(self, _name: str, **_options: object) -> None:
        self.mounted = False


def ensure(api: Api) -> toolbox.Toolbox:
    endpoint = Endpoint("unix:///x", "a test")
    client = cast(Any, type("Client", (), {"api": api}))
    engine = Engine(client, endpoint, "4", "1.41", "amd64", Reaper(endpoint))
    try:
        return toolbox.ensure(engine, silent)
    finally:
        engine.reaper.close()


@pytest.mark.parametrize(("copies_at", "starts"), [("create", 0), ("start", 1)])
def test_the_volume_is_filled_whenever_the_engine_copies_and_found_again(copies_at: str, starts: int) -> None:
    api = Api(copies_at)
    assert ensure(api).volume == VOLUME
    assert (api.full, api.labels, api.mounted, api.starts) == (True, {toolbox.LABEL: DIGEST}, False, starts)
    assert NAME in api.images
    ensure(api)
    assert api.starts == starts


def test_an_engine_that_never_copies_is_an_error_with_its_reason() -> None:
    api = Api("never")
    with pytest.raises(SandboxError, match=r"toolbox .* cannot be made: stat /codeagent/bin/python3: no such file"):
        ensure(api)
    assert NAME not in api.images


def test_a_container_that_somebody_removes_before_it_has_filled_is_made_again() -> None:
    api = Api("start", removals=1)
    ensure(api)
    assert (api.full, api.starts) == (True, 2)


def test_an_image_that_outlived_its_volume_does_not_make_an_empty_one_the_toolbox() -> None:
    """Killed between making the volume and filling it, the next program would take it for whole."""
    api = Api("start")
    api.images.add(NAME)
    ensure(api)
    assert api.full
