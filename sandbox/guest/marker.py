"""Describes the top of the repository, so that the host can tell whether it is the folder that it meant."""

from __future__ import annotations

import hashlib
import os
from typing import Any

from guest.operations import Reply, Root

MAX_NAMES = 2_000


def marker(root: Root, _args: dict[str, Any], _body: bytes) -> Reply:
    """The same as `codeagent/sandbox/marker.py` computes on the host."""
    names = sorted(map(os.fsencode, os.listdir(root.fd)))[:MAX_NAMES]
    changed = int(os.fstat(root.fd).st_mtime)
    return {"marker": hashlib.sha256(b"\0".join([str(changed).encode(), *names])).hexdigest()}, b""
