"""Where codeagent keeps its own files. `CODEAGENT_HOME` moves all three folders below one.

Nothing here is taken from a repository, and nothing is created by asking.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path


def _folder(kind: str, below_home: str, environ: Mapping[str, str]) -> Path:
    if home := environ.get("CODEAGENT_HOME"):
        return Path(home).expanduser().absolute() / below_home
    import platformdirs

    return Path(getattr(platformdirs, f"user_{kind}_dir")("codeagent"))


def config_file(environ: Mapping[str, str] = os.environ) -> Path:
    """The user's `config.toml`."""
    return _folder("config", "", environ) / "config.toml"


def state_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Holds `sessions/<session_id>/`."""
    return _folder("state", "", environ)


def cache_dir(environ: Mapping[str, str] = os.environ) -> Path:
    """Holds what can be made again: the private engine, packages for image builds."""
    return _folder("cache", "cache", environ)
