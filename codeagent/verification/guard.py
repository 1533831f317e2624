"""Files that decide what a check checks: a change to one of them is no fix.

If a diff touches one, the change is verified without that part, with the file as it is in the untouched tree. Of what
may be the program's as well as the check's it is only told that the check may rest on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from posixpath import basename, dirname

from codeagent.patches import SYMLINK, FilePatch
from codeagent.verification.insource import runs_doctests
from codeagent.verification.names import in_sources, is_code, is_configuration, is_product, is_test
from codeagent.verification.reach import Reached, Read, reached
from codeagent.verification.roles import Roles
from codeagent.verification.shadowing import Installed, KindOf, shadowing
from codeagent.verification.tree import Tree


@dataclass(frozen=True, slots=True)
class Untouched:
    """What is asked of the untouched tree and of the image. The defaults know of nothing."""

    kind_of: KindOf = lambda _folder: "missing"
    read: Read = lambda _path: None
    installed: Installed = lambda _names: ()
    tree: Tree = field(default_factory=Tree)


@dataclass(frozen=True, slots=True)
class Guarded:
    """`paths` of a diff may not decide; they are sorted. `doubts` say of others, as `PATH: CLAUSE`, why a passing run
    may be due to what is checked. `doctests`: the check runs the examples in Python's docstrings."""

    paths: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    doctests: bool = False


def guard(patches: Sequence[FilePatch], command: str, untouched: Untouched) -> Guarded:
    """What of a diff may not decide, and what may not be relied on. `command` is the verification command."""
    read = cache(untouched.read)
    untouched = replace(untouched, read=read)
    reach = reached(command, read, untouched.tree)
    roles = Roles(read, untouched.tree, reach.names, (command, *reach.texts), reach.compares)
    found = _guarded(patches, reach, roles, untouched)
    doctests = runs_doctests(command, read) or any("doctest" in text for text in reach.texts)
    return Guarded(tuple(sorted(found)), tuple(_doubts(patches, found, roles)), doctests)


def _doubts(patches: Sequence[FilePatch], found: set[str], roles: Roles) -> Iterator[str]:
    left = [patch.path for patch in patches if not set(patch.paths) & found]
    without_code = not any(map(is_code, left))
    for path in left:
        if clause := roles.doubt(path, without_code=without_code):
            yield f"{path}: {clause}"


def _guarded(patches: Sequence[FilePatch], reach: Reached, roles: Roles, untouched: Untouched) -> set[str]:
    created = _created(patches)
    checks = (path for path in untouched.tree.files if reach.names(path) or _named_as_guarded(path))
    shadows = shadowing(created, untouched.kind_of, untouched.installed, reach.roots, checks)
    tree = _without_links_to_the_program(untouched.tree)
    return {
        path
        for patch in patches
        for path in patch.paths
        if _is_executable(patch)
        or path in shadows
        or (path in created and reach.builds(path))
        or any(
            reach.names(name) or _named_as_guarded(name) or roles.is_of_the_check(name)
            for name in tree.names_of(path)
        )
    }


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
