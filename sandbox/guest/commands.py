"""What a request to run a command must look like, checked before a process is made for it."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from typing import Any

from guest.operations import Refusal

MAX_TIMEOUT = 24 * 3600.0
MAX_SCRIPT = 128 * 1024 - 1
"""What Linux takes as one argument of a program, without its end."""
MAX_MESSAGE = 256 * 1024
"""Of what the guest's processes send each other; a script fits into one."""


@dataclass(frozen=True, slots=True)
class Job:
    """A command to run: `directory` absolute, `timeout` in seconds, `quota` in bytes that the copy may grow.

    It may write if it has a quota.
    """

    request_id: int
    script: bytes
    directory: str
    timeout: float
    quota: int | None = None

    @property
    def writes(self) -> bool:
        return self.quota is not None

    def message(self) -> bytes:
        """As it goes to the process that runs it; at most MAX_MESSAGE bytes."""
        order = [self.request_id, self.directory, self.timeout, self.quota]
        return json.dumps(order).encode("ascii") + b"\n" + self.script

    @classmethod
    def of(cls, message: bytes) -> Job:
        order, _, script = message.partition(b"\n")
        request_id, directory, timeout, quota = json.loads(order)
        return cls(request_id, script, directory, timeout, quota)


def plan(request_id: int, script: bytes, args: dict[str, Any], workspace: str) -> Job:
    """What was asked for, checked. Raises Refusal."""
    timeout, workdir, quota = args.get("timeout"), args.get("workdir", ""), args.get("quota")
    if not isinstance(timeout, int | float) or not 0 < timeout <= MAX_TIMEOUT or not isinstance(workdir, str):
        raise Refusal("invalid_arguments", "the command has no valid timeout or directory")
    if quota is not None and not isinstance(quota, int):
        raise Refusal("invalid_arguments", "the command has no valid quota")
    if b"\0" in script or not script:
        raise Refusal("invalid_arguments", "the command is empty or holds a NUL byte")
    if len(script) > MAX_SCRIPT:
        raise Refusal(
            "too_large", f"the command has {len(script)} bytes; Linux takes {MAX_SCRIPT} as one argument of a program"
        )
    return Job(request_id, script, _directory(workdir, workspace), float(timeout), quota)


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
