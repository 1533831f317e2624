"""Small files of ours that are mounted into containers; they lie in the user's cache, where the engine sees them."""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
import tempfile
from collections.abc import Mapping
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
        temporary = folder / f".{path.name}.{secrets.token_hex(4)}"
        temporary.write_text(text)
        temporary.chmod(0o444)
        temporary.replace(path)
    return path


def written_folder(folder: Path, texts: Mapping[str, str], links: Mapping[str, str]) -> Path:
    """A folder with these texts, which can be run, and links in it, named by all of them."""
    digest = hashlib.sha256(json.dumps([texts, links], sort_keys=True).encode()).hexdigest()[:32]
    path = folder / digest
    if not path.exists():
        folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        temporary = Path(tempfile.mkdtemp(prefix=".", dir=folder))
        for name in (*texts, *links):
            (temporary / name).parent.mkdir(exist_ok=True)
            (temporary / name).parent.chmod(0o755)  # whatever the umask says, the repository's owner enters
        for name, text in texts.items():
            (temporary / name).write_text(text)
            (temporary / name).chmod(0o555)
        for name, target in links.items():
            (temporary / name).symlink_to(target)
        try:
            temporary.rename(path)
        except OSError:  # another codeagent has made the same meanwhile
            shutil.rmtree(temporary)
    return path


def empty_folder(folder: Path) -> Path:
    """A folder in it with nothing inside, to be mounted over others."""
    empty = folder / "empty"
    empty.mkdir(mode=0o555, parents=True, exist_ok=True)
    return empty
