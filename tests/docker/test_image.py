"""The default image on a real engine: found again, and never guessed at a registry."""

from __future__ import annotations

import time

import pytest

from codeagent.errors import SandboxError
from codeagent.sandbox import image as images
from codeagent.sandbox.engine import Engine
from tests.conftest import silent


def test_the_default_image_is_found_again_by_the_hash_of_its_inputs(engine: Engine, image: str) -> None:
    found = images.find(engine)
    assert found is not None
    assert found.reference == image == f"codeagent-sandbox:{images.content_hash(images.sandbox_folder())}"
    assert found.architecture == engine.architecture
    assert engine.client.images.get(found.id).labels[images.HASH_LABEL] == images.content_hash(
        images.sandbox_folder()
    )


def test_finding_the_image_takes_milliseconds(engine: Engine, image: str) -> None:
    times = []
    for _ in range(20):
        start = time.perf_counter()
        images.ensure(engine, images.DEFAULT, silent)
        times.append(time.perf_counter() - start)
    assert min(times) < 0.05


def test_the_default_image_holds_what_its_list_promises(engine: Engine, image: str) -> None:
    programs = "git rg file jq patch tree unzip xxd python3 pytest-3 make gcc java javac node ps"
    script = f"for program in {programs}; do command -v $program >/dev/null || echo $program; done"
    printed = engine.client.containers.run(image, ["sh", "-c", script], remove=True, network_mode="none")
    assert printed == b""


@pytest.mark.parametrize(
    "script",
    [
        "printf 'int main(void){return 0;}' > a.c && gcc a.c && ./a.out",
        "printf 'class A{public static void main(String[] a){}}' > A.java && javac A.java && java A",
        "printf 'def test_a(): pass' > test_a.py && python3 -m pytest -q",
        "node -e 'process.exit(0)'",
        "git init -q r && cd r && printf a > a && git add a",
    ],
)
def test_the_default_image_runs_what_repositories_are_written_in(engine: Engine, image: str, script: str) -> None:
    """As the sandbox runs it: read-only, with no capability, as a user that the image does not know."""
    engine.client.containers.run(
        image,
        ["sh", "-ec", script],
        remove=True,
        network_mode="none",
        read_only=True,
        cap_drop=["ALL"],
        security_opt=["no-new-privileges"],
        user="12345:12345",
        tmpfs={"/tmp": "exec,size=256m"},
        working_dir="/tmp",
        environment={"HOME": "/tmp"},
    )


@pytest.mark.parametrize("name", ["codeagent-test/there-is-none", "codeagent-test/there-is-none:1.0"])
def test_an_image_that_is_missing_and_cannot_be_pulled_is_an_error_with_a_remedy(engine: Engine, name: str) -> None:
    with pytest.raises(SandboxError) as raised:
        images.ensure(engine, name, silent)
    assert raised.value.message.startswith(f"The engine has no image '{name}' and could not pull it: ")
    assert (
        raised.value.remedy == "Check the name, or load the image into the engine (`docker pull` or `docker load`)."
    )
    assert raised.value.exit_code == 4


def test_a_missing_version_of_the_default_image_is_never_asked_from_a_registry(engine: Engine) -> None:
    with pytest.raises(SandboxError) as raised:
        images.ensure(engine, "codeagent-sandbox:0000", silent)
    assert raised.value.message == "The engine has no image 'codeagent-sandbox:0000'."


@pytest.mark.parametrize("name", ["", "Upper Case", "a:b:c", "../x", "--privileged"])
def test_what_is_no_image_name_is_refused_without_a_trace(engine: Engine, name: str) -> None:
    with pytest.raises(SandboxError) as raised:
        images.ensure(engine, name, silent)
    assert raised.value.remedy
