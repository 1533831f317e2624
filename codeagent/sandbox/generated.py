"""Small files of ours that are mounted into containers; they lie in the user's cache, where the engine sees them."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from codeagent.paths import cache_dir


def generated() -> Path:
    """The folder of all of them."""
    return cache_dir() / "masks"


def written(folder: Path, text: str) -> Path:
    """A read-only file that holds `text`, named by its content: it never changes while a container has it mounted."""
    path = folder / hashlib.sha256(text.encode()).hexdigest()[:32]
    if not path.exists():
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        temporary = folder / f".{path.name}.{os.getpid()}"
        temporary.write_text(text)
        temporary.chmod(0o444)
        temporary.replace(path)
    return path


def empty_folder(folder: Path) -> Path:
    """A folder in it with nothing inside, to be mounted over others."""
    empty = folder / "empty"
    empty.mkdir(mode=0o555, parents=True, exist_ok=True)
    return empty
