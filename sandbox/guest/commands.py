"""What a request to run a command must look like, checked before a process is made for it."""

from __future__ import annotations

import os
from typing import Any

from guest.environment import WORKSPACE
from guest.operations import Refusal
from guest.spawner import MAX_SCRIPT

MAX_TIMEOUT = 24 * 3600.0


def plan(script: bytes, args: dict[str, Any], workspace: str = WORKSPACE) -> tuple[str, float]:
    """The absolute directory and the timeout in seconds. Raises Refusal."""
    timeout, workdir = args.get("timeout"), args.get("workdir", "")
    if not isinstance(timeout, int | float) or not 0 < timeout <= MAX_TIMEOUT or not isinstance(workdir, str):
        raise Refusal("invalid_arguments", "the command has no valid timeout or directory")
    if b"\0" in script or not script:
        raise Refusal("invalid_arguments", "the command is empty or holds a NUL byte")
    if len(script) > MAX_SCRIPT:
        raise Refusal(
            "too_large", f"the command has {len(script)} bytes; Linux takes {MAX_SCRIPT} as one argument of a program"
        )
    return _directory(workdir, workspace), float(timeout)


def _directory(workdir: str, workspace: str) -> str:
    if "\0" in workdir:
        raise Refusal("invalid_arguments", "the working directory holds a NUL byte")
    top = os.path.realpath(workspace)
    try:
        real = os.path.realpath(os.path.join(workspace, workdir), strict=True)
    except (FileNotFoundError, NotADirectoryError):
        raise Refusal("file_not_found", f"the working directory {workdir!r} does not exist") from None
    except OSError as error:
        raise Refusal("permission_denied", f"the working directory {workdir!r}: {error.strerror}") from None
    if real != top and not real.startswith(top.rstrip("/") + "/"):
        raise Refusal("outside_repository", f"the working directory {workdir!r} is outside the repository")
    if not os.path.isdir(real):
        raise Refusal("not_a_directory", f"the working directory {workdir!r} is not a directory")
    return real
