"""Files that decide what a check checks: a change to one of them is no fix.

If a diff touches one, the change is verified without that part, with the file as it is in the untouched tree.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from posixpath import basename, dirname

from codeagent.patches import SYMLINK, FilePatch
from codeagent.verification.names import in_sources, is_configuration, is_product, is_test
from codeagent.verification.reach import Read, reached
from codeagent.verification.shadowing import Installed, KindOf, shadowing
from codeagent.verification.tree import Tree


@dataclass(frozen=True, slots=True)
class Untouched:
    """What is asked of the untouched tree and of the image. The defaults know of nothing."""

    kind_of: KindOf = lambda _folder: "missing"
    read: Read = lambda _path: None
    installed: Installed = lambda _names: ()
    tree: Tree = field(default_factory=Tree)


def guarded(patches: Sequence[FilePatch], command: str, untouched: Untouched) -> list[str]:
    """The paths of a diff that may not decide, sorted. `command` is the verification command."""
    reach = reached(command, untouched.read, untouched.tree)
    created = _created(patches)
    checks = (path for path in untouched.tree.files if reach.names(path) or _named_as_guarded(path))
    shadows = shadowing(created, untouched.kind_of, untouched.installed, reach.roots, checks)
    tree = _without_links_to_the_program(untouched.tree)
    return sorted(
        {
            path
            for patch in patches
            for path in patch.paths
            if _is_executable(patch)
            or path in shadows
            or (path in created and reach.builds(path))
            or any(reach.names(name) or _named_as_guarded(name) for name in tree.names_of(path))
        }
    )


def _named_as_guarded(path: str) -> bool:
    return is_test(path) or is_configuration(path) or is_product(path)


def _without_links_to_the_program(tree: Tree) -> Tree:
    """A link in a test folder, or in `node_modules`, to a source folder makes no test of the program."""
    links = {
        link: target
        for link, target in tree.links.items()
        if not (in_sources(f"{target}/") and _named_as_guarded(f"{dirname(link)}/x") and not is_test(basename(link)))
    }
    return replace(tree, links=links)


def _created(patches: Sequence[FilePatch]) -> dict[str, bool]:
    """Each path that was not there before, and whether it is a link."""
    moved = (patch for patch in patches if patch.new_path not in (None, patch.old_path))
    return {patch.path: patch.new_mode == SYMLINK for patch in moved}


def _is_executable(patch: FilePatch) -> bool:
    return any(
        mode is not None and mode & 0o111 and mode & 0o170000 == 0o100000 for mode in (patch.old_mode, patch.new_mode)
    )
