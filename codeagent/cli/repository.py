"""Which folder is mounted: `--repo`, else the top of the git work tree here, else the current directory."""

from __future__ import annotations

from pathlib import Path

from codeagent.errors import UsageError


def repository(given: Path | None, cwd: Path | None = None, home: Path | None = None) -> Path:
    """The absolute, resolved path. Raises UsageError: missing, not a directory, the home directory or `/`.

    git is not asked: it would read the repository's configuration. A `.git` entry marks a work tree's top.
    """
    path = _resolved(given) if given is not None else _work_tree((cwd or Path.cwd()).resolve())
    if path in (Path("/"), (home or Path.home()).resolve()):
        raise UsageError(
            f"Refusing to mount {path}, which is not a repository.", "Name the repository with --repo PATH."
        )
    return path


def _work_tree(here: Path) -> Path:
    return next((folder for folder in (here, *here.parents) if (folder / ".git").exists()), here)


def _resolved(given: Path) -> Path:
    try:
        path = given.expanduser().resolve(strict=True)
        is_folder = path.is_dir()
        next(path.iterdir(), None) if is_folder else None
    except FileNotFoundError:
        raise UsageError(f"There is no directory {given}.", "Check the path given with --repo.") from None
    except (OSError, RuntimeError) as error:
        reason = getattr(error, "strerror", None) or "it cannot be resolved"
        raise UsageError(f"{given} cannot be read: {reason}.", "Check its permissions.") from None
    if not is_folder:
        raise UsageError(f"{given} is not a directory.", "Give the repository's top folder with --repo.")
    return path
