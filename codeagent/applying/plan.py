"""What applying a diff would do to the real repository, worked out without writing anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from codeagent.beneath import opened_parent, read_beneath, stat_beneath
from codeagent.patches import SYMLINK, FilePatch, PatchError, apply, is_blob

MAX_FILE = 64 << 20

EXECUTED_BY_OTHERS = (
    *(".envrc", ".env", ".env.*", ".gitattributes", ".gitmodules", "makefile", "gnumakefile", "*.mk", "dockerfile*"),
    *("package.json", "setup.py", "conftest.py", "build.gradle*", "pom.xml", "build.rs", "justfile", "rakefile"),
    *("gradlew*", "mvnw*", ".pre-commit-config.y*ml", "*.pth", "sitecustomize.py", ".npmrc", ".yarnrc*", "tox.ini"),
)
FOLDERS_OF_OTHERS = frozenset(
    (".vscode", ".idea", ".github", ".gitlab", ".circleci", ".husky", "hooks", ".devcontainer")
)


@dataclass(frozen=True, slots=True)
class Write:
    """One path's new state. `content` is None when it goes; `mode` is git's; a link's content is its target."""

    path: str
    content: bytes | None
    mode: int | None


@dataclass(frozen=True, slots=True)
class Plan:
    """`conflicts` maps a path to why it cannot be written; with any, nothing is."""

    writes: tuple[Write, ...]
    conflicts: dict[str, str]

    @property
    def executed_by_others(self) -> list[str]:
        """Paths that other programs run or obey, often without being asked."""
        return sorted(
            {write.path for write in self.writes if write.content is not None and runs_elsewhere(write.path)}
        )


def runs_elsewhere(path: str) -> bool:
    """Whether an editor, a shell, a build or a host service executes or obeys a file of this name."""
    *folders, name = path.lower().split("/")
    return any(folder in FOLDERS_OF_OTHERS for folder in folders) or any(
        fnmatchcase(name, pattern) for pattern in EXECUTED_BY_OTHERS
    )


def plan(root: int, patches: Sequence[FilePatch], *, merge: bool = False) -> Plan:
    """Applies the patches to the files below `root` in memory.

    A file that is not what it was when the copy was made is a conflict; `merge` lets each hunk move to the
    one place where its lines stand now.
    """
    writes: list[Write] = []
    conflicts: dict[str, str] = {}
    for patch in patches:
        try:
            writes += _writes(root, patch, merge)
        except PatchError as error:
            conflicts[patch.path] = str(error).removeprefix(f"{patch.path}: ")
        except OSError as error:
            conflicts[patch.path] = error.strerror or str(error)
    return Plan(tuple(writes), conflicts)


def _writes(root: int, patch: FilePatch, merge: bool) -> list[Write]:
    for path in patch.paths:
        if any(part.lower() in (".git", "git~1") for part in path.split("/")):
            raise PatchError(f"{path}: git's own folder is never written")
    current = _current(root, patch.old_path)
    if patch.new_path not in (None, patch.old_path) and stat_beneath(root, str(patch.new_path)) is not None:
        raise PatchError(f"{patch.new_path}: there is a file of this name now")
    if current is not None and patch.old_blob and not is_blob(current, patch.old_blob) and not merge:
        raise PatchError(f"{patch.path}: it was changed since the copy was made")
    new = apply(patch, current, anywhere=merge)
    gone = (
        [] if patch.copied or patch.old_path in (None, patch.new_path) else [Write(str(patch.old_path), None, None)]
    )
    return [*gone, Write(patch.path, new, patch.new_mode)] if patch.new_path else [Write(patch.path, None, None)]


def _current(root: int, path: str | None) -> bytes | None:
    """The content that stands there; the target of a link."""
    if path is None:
        return None
    status = stat_beneath(root, path)
    if status is None:
        raise PatchError(f"{path}: it was deleted since the copy was made")
    if stat.S_ISLNK(status.st_mode):
        with opened_parent(root, path) as (folder, name):
            return os.fsencode(os.readlink(name, dir_fd=folder))
    return read_beneath(root, path, MAX_FILE)


def is_link(write: Write) -> bool:
    return write.mode is not None and stat.S_IFMT(write.mode) == stat.S_IFMT(SYMLINK)
