"""`--install`: an engine for a machine that has none. Not a command of its own."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine
    from codeagent.sandbox.private_engine import Say


_UNNAMED = {
    "--docker-host": "leave out --docker-host, CODEAGENT_DOCKER_HOST and `docker_host` of [sandbox]",
    "DOCKER_HOST": "unset DOCKER_HOST",
}
"""How to name no engine, by what names one."""


def connect_or_install(
    docker_host: str | None, install: bool, say: Say, environ: Mapping[str, str] = os.environ
) -> Engine:
    """The engine that answers; with `install`, one is installed and started where none was named and none answers.

    `say` gets a line for whatever is done to the machine. SandboxError as `connect` and `install_and_start`.
    """
    from codeagent.errors import SandboxError
    from codeagent.sandbox import image, private_engine
    from codeagent.sandbox.endpoints import endpoints
    from codeagent.sandbox.engine import connect

    try:
        engine = connect(docker_host, environ)
    except SandboxError as error:
        tried = endpoints(docker_host, environ)
        if not install:
            raise
        if len(tried) == 1:
            how = _UNNAMED.get(tried[0].found_by, "choose another with `docker context use default`")
            remedy = f"{error.remedy} --install starts an engine only where none is named: {how}."
            raise SandboxError(error.message, remedy) from error
        private_engine.install_and_start(say, environ)
        return connect(docker_host, environ)
    if install and not image.find(engine):
        private_engine.install_build_packages(say)
    return engine
