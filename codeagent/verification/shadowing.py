"""New files that a runner or a test would load in the place of others: `pytest.py`, a package `attr/`, `assert.h`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from functools import partial
from posixpath import basename
from threading import Event as Flag
from typing import Literal

from codeagent.errors import ToolError
from codeagent.sandbox.seam import Command, Ending, Sandbox

FolderKind = Literal["missing", "plain", "package"]
"""A folder of the untouched tree: not there, there, or there as a Python package."""
KindOf = Callable[[str], FolderKind]
Installed = Callable[[Collection[str]], Collection[str]]
"""Those of some module names that the image's Python has a module for."""

_RUNNER_MODULES = frozenset(
    "pytest _pytest py pluggy iniconfig packaging pygments exceptiongroup tomli colorama attr attrs coverage xdist "
    "pytest_cov pytest_mock pytest_asyncio hypothesis nose nose2 tox nox mock doctest unittest2 sitecustomize "
    "usercustomize typing_extensions six setuptools pkg_resources".split()
)
_MODULE_ENDINGS = re.compile(r"\.(?:py|pyc|pyi|so|pyd|[a-z0-9_.-]+\.so)$")
_RUBY = frozenset("minitest rspec rake bundler set json".split())
_HEADERS = frozenset(
    "assert.h ctype.h errno.h float.h inttypes.h limits.h locale.h math.h setjmp.h signal.h stdarg.h stdbool.h "
    "stddef.h stdint.h stdio.h stdlib.h string.h strings.h time.h unistd.h cassert cstdio cstdlib cstring check.h "
    "features.h cdefs.h cmocka.h cunit.h unity.h gtest.h gmock.h catch.hpp catch_all.hpp doctest.h munit.h "
    "criterion.h utest.h".split()
)
_JVM_CLASSES = re.compile(
    r"(?:^|/)(?:org/(?:junit|assertj|hamcrest|mockito|testng|opentest4j|spockframework|apiguardian)|junit/framework"
    r"|kotlin/test|io/kotest|com/google/common/truth)/.*\.(?:java|kt|scala|groovy)$"
)
_SECONDS = 30.0
_ASK = (
    "import importlib.util, sys\n"
    "for name in sys.argv[1:]:\n"
    "    try:\n"
    "        found = importlib.util.find_spec(name)\n"
    "    except (ImportError, ValueError):\n"
    "        found = None\n"
    "    if found is not None:\n"
    "        print(name)\n"
)


def shadowing(
    created: Mapping[str, bool],
    kind_of: KindOf,
    installed: Installed,
    roots: Collection[str] = (),
    checks: Iterable[str] = (),
) -> set[str]:
    """Those of some new paths that stand in the place of a module, a class or a header from elsewhere.

    `created` tells of each path whether it is a link, which may lead to a whole package. `roots` are folders in which
    modules are looked for, apart from the top and the folders below it that are no packages. `checks` are files of
    the untouched tree that decide the check; their modules are not to be replaced either.
    """
    found = {path for path in created if _other(path)}
    modules = {path: _modules(path, is_link, kind_of, roots) for path, is_link in created.items()}
    names = {name for several in modules.values() for name in several}
    known = {name for name in names if name in _RUNNER_MODULES or name in sys.stdlib_module_names}
    for path in checks if names else ():
        # The tree is asked about folders only where a name is the same.
        if names & {part.partition(".")[0] for part in path.split("/")}:
            known |= names & _modules(path, False, kind_of, roots)
    if asked := names - known:
        known |= set(installed(asked))
    return found | {path for path, several in modules.items() if several & known}


def _other(path: str) -> bool:
    name = basename(path)
    stem, _, ending = name.rpartition(".")
    return name in _HEADERS or (ending == "rb" and stem in _RUBY) or _JVM_CLASSES.search(path) is not None


def _modules(path: str, is_link: bool, kind_of: KindOf, roots: Collection[str]) -> set[str]:
    """The modules that a new path makes importable by their bare names, from the top and from the roots above it."""
    as_file = f"{path}/__init__.py" if is_link and "." not in basename(path) else path
    above = ["", *(f"{root}/" for root in roots if as_file.startswith(f"{root}/"))]
    return {_module(as_file.removeprefix(top), partial(_kind_below, kind_of, top)) for top in above} - {""}


def _kind_below(kind_of: KindOf, top: str, folder: str) -> FolderKind:
    return kind_of(top + folder)


def _module(path: str, kind_of: KindOf) -> str:
    """The module that a new file makes importable by its bare name; empty when it makes none."""
    *folders, file = path.split("/")
    if not _MODULE_ENDINGS.search(file):
        return ""
    stem = _MODULE_ENDINGS.sub("", file)
    for name, here in _down(folders):
        kind = kind_of(here)
        if kind == "package":
            return ""
        # A folder that becomes a package by this file, or that is new with it.
        if kind == "missing" or (stem == "__init__" and here == "/".join(folders)):
            return name if name.isidentifier() else ""
    return stem if stem.isidentifier() and stem != "__init__" else ""


def _down(folders: list[str]) -> Iterator[tuple[str, str]]:
    return ((name, "/".join(folders[: depth + 1])) for depth, name in enumerate(folders))


def installed_in(sandbox: Sandbox) -> Installed:
    """Asks the Pythons in a container over the untouched tree, apart from what that tree holds."""

    def ask(names: Collection[str]) -> Collection[str]:
        # An isolated interpreter looks neither at the working directory nor at PYTHONPATH.
        script = (
            f"for python in python3 python .venv/bin/python venv/bin/python; do "
            f"command -v $python >/dev/null 2>&1 && $python -I -B -c '{_ASK}' {' '.join(sorted(names))}; done; :"
        )
        try:
            result = sandbox.run(Command("verification-modules", script, timeout_seconds=_SECONDS), Flag())
        except ToolError:
            return ()
        if result.ending is not Ending.EXITED:
            return ()
        return set("".join(text for stream, text in result.segments if stream == "stdout").split()) & set(names)

    return ask
