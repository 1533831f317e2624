"""Does the engine see the folder that we see? A path can exist on both sides and be two different things.

Both sides describe the folder's top: its names and its modification time in seconds (shared folders of virtual
machines keep no more). `sandbox/guest/marker.py` is the other side.
"""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

MAX_NAMES = 2_000


def host_marker(folder: Path) -> str:
    """The description of `folder` as hex digits; "" when it cannot be listed."""
    try:
        names = sorted(os.fsencode(entry.name) for entry in folder.iterdir())[:MAX_NAMES]
        changed = int(folder.stat().st_mtime)
    except OSError:
        return ""
    return hashlib.sha256(b"\0".join([str(changed).encode(), *names])).hexdigest()
