"""What an engine's own account of its disk is taken for."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import docker.errors
import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox import toolbox
from codeagent.sandbox.endpoints import Endpoint
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.inventory import Holding, Kind, holdings
from codeagent.sandbox.reaper import Reaper


def engine(*answers: Any) -> Engine:
    """Gives these answers when it is asked for its disk usage, one after the other; an exception is raised."""
    left = list(answers)

    def df() -> Any:
        answer = left.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer

    def listed(kind: str) -> Any:
        """Without sizes, as engines list."""
        return [{**entry, "SharedSize": -1, "Containers": -1} for entry in last.get(kind, ())]

    last = answers[-1] if isinstance(answers[-1], dict) else {}
    api = SimpleNamespace(
        timeout=60,
        containers=lambda all: listed("Containers"),
        volumes=lambda: {"Volumes": listed("Volumes")},
        images=lambda: listed("Images"),
    )
    endpoint = Endpoint("unix:///x", "a test")
    client = cast(Any, SimpleNamespace(df=df, api=api))
    return Engine(client, endpoint, "20", "1.41", "amd64", Reaper(endpoint))


def image(created: float, tags: list[str]) -> dict[str, Any]:
    return {
        "Id": "sha256:0123456789abcdef",
        "RepoTags": tags,
        "Labels": {toolbox.LABEL: "unfinished"},
        "Size": 700,
        "SharedSize": 600,
        "Containers": 0,
        "Created": int(created),
    }


@pytest.mark.parametrize("tags", [[], ["<none>:<none>"]])
def test_a_part_of_a_toolbox_that_nobody_can_be_building_any_more_can_go(tags: list[str]) -> None:
    now = time.time()
    images = {"Images": [image(now - 7200, tags), image(now - 60, tags), image(now, ["my/own:1"])]}
    unfinished = ("0123456789ab", "0123456789ab", 100, "the toolbox unfinished")
    assert holdings(engine(images)) == [
        Holding(Kind.IMAGE, *unfinished, needless=True),
        Holding(Kind.IMAGE, *unfinished, needless=False),
    ]


def test_an_engine_that_is_counting_for_somebody_else_is_asked_again() -> None:
    busy = docker.errors.APIError("500", explanation="a disk usage operation is already running")
    assert holdings(engine(busy, busy, {})) == []


def test_an_engine_that_does_not_tell_is_an_error_with_its_reason() -> None:
    with pytest.raises(SandboxError) as raised:
        holdings(engine(docker.errors.APIError("500", explanation="layer\ndamaged")))
    assert raised.value.message == "The engine does not say what it holds: layer damaged"


def test_an_account_without_labels_and_names_is_joined_with_what_the_engine_lists() -> None:
    """As Podman's is; it also spells out where a name would come from."""
    told = image(time.time(), [f"docker.io/library/{toolbox.NAME}:0123456789ab"])
    asked = engine({"Images": [told]})
    account = {**told, "Id": "0123456789abcdef", "Labels": {}, "RepoTags": ["0123456789ab"]}
    asked.client.df = lambda: {"Images": [account]}  # type: ignore[method-assign]
    (held,) = holdings(asked)
    assert (held.name, held.size) == (f"docker.io/library/{toolbox.NAME}:0123456789ab", 100)
