"""`--install` where an engine is named that does not answer: what the user chose is kept to, and said."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeagent.cli.install import connect_or_install
from codeagent.errors import SandboxError

NOBODY = "unix:///nonexistent/docker.sock"


@pytest.mark.parametrize(
    ("flag", "environ", "how"),
    [
        (NOBODY, {}, "leave out --docker-host, CODEAGENT_DOCKER_HOST and `docker_host` of [sandbox]"),
        (None, {"DOCKER_HOST": NOBODY}, "unset DOCKER_HOST"),
    ],
)
def test_it_says_how_to_name_no_engine(flag: str | None, environ: dict[str, str], how: str, tmp_path: Path) -> None:
    said: list[str] = []
    with pytest.raises(SandboxError) as without:
        connect_or_install(flag, False, said.append, {"HOME": str(tmp_path), **environ})
    with pytest.raises(SandboxError) as raised:
        connect_or_install(flag, True, said.append, {"HOME": str(tmp_path), **environ})
    assert raised.value.message == without.value.message
    assert raised.value.remedy == (
        f"{without.value.remedy} --install starts an engine only where none is named: {how}."
    )
    assert said == []
