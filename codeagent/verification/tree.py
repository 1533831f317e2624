"""The names in the untouched tree, and by which other names its links make a path reachable."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from posixpath import dirname, join, normpath

from codeagent.sandbox.seam import EntryKind, Files

_DEEPEST = 64
_MOST_ENTRIES = 20_000
_MOST_NAMES = 50
"""Links that lead in circles give a path names without end."""


@dataclass(frozen=True, slots=True)
class Tree:
    """What git does not ignore. `links` give for each link where it leads in one step, if that is in the tree."""

    files: frozenset[str] = frozenset()
    links: Mapping[str, str] = field(default_factory=dict)
    folders: frozenset[str] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        above = {dirname(path) for path in self.files}
        for path in list(above):
            while (path := dirname(path)) and path not in above:
                above.add(path)
        object.__setattr__(self, "folders", frozenset(above - {""}))

    def names_of(self, path: str) -> set[str]:
        """A path, and the names of what it is the target of, a part of, or a link on the way to."""
        found, waiting = {path}, [path]
        while waiting and len(found) < _MOST_NAMES:
            name = waiting.pop()
            for link, target in self.links.items():
                if name == target or name.startswith(f"{target}/"):
                    other = link + name.removeprefix(target)
                elif target.startswith(f"{name}/"):
                    other = link
                else:
                    continue
                if other not in found:
                    found.add(other)
                    waiting.append(other)
        return found


def tree_of(files: Files) -> Tree:
    """Lists a tree; of a very large one, the first part. Raises ToolError."""
    names: set[str] = set()
    links: dict[str, str] = {}
    offset = 0
    while offset < _MOST_ENTRIES:
        page = files.list_dir(".", _DEEPEST, offset)
        for entry in page.entries:
            if entry.kind is EntryKind.FILE:
                names.add(entry.path)
            elif entry.kind is EntryKind.SYMLINK and (target := _inside(entry.path, entry.target or "")):
                links[entry.path] = target
        offset += len(page.entries)
        if not page.entries or offset >= page.total:
            break
    return Tree(frozenset(names), links)


def _inside(link: str, target: str) -> str:
    """Where a link leads, as a path below the root; empty for the root itself and for what lies elsewhere."""
    path = normpath(join("/workspace", dirname(link), target))
    return path.removeprefix("/workspace/") if path.startswith("/workspace/") else ""
