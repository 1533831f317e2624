"""Files that decide what a check checks: a change to one of them is no fix.

If a diff touches one, the change is verified without that part, with the file as it is in the untouched tree.
"""

from __future__ import annotations

import re
import shlex
import sys
from collections.abc import Callable, Iterable, Sequence
from fnmatch import fnmatchcase
from itertools import pairwise
from posixpath import join, normpath
from typing import Literal

from codeagent.patches import FilePatch

TEST_FOLDERS = frozenset(
    "test tests __tests__ spec specs testing testdata test-data test_data testlib e2e integration-tests "
    "integration_tests functional-tests unit-tests __snapshots__ __mocks__ __fixtures__ androidtest".split()
)

TEST_NAMES = (
    *("test_*", "*_test.*", "*_tests.*", "*.test.*", "*.spec.*", "*_spec.*", "*-test.*", "*-spec.*", "test-*"),
    *("test.*", "tests.*", "conftest.py", "*.snap", "*.bats", "*.t"),
)
JAVA_TEST_NAMES = ("Test*", "*Test", "*Tests", "*TestCase", "*IT", "*Spec")
JAVA_ENDINGS = (".java", ".kt", ".kts", ".groovy", ".scala", ".cs")

CONFIGURATION = (
    # Python
    *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "setup.py", "noxfile.py"),
    *("pyproject.toml", ".coveragerc", "pipfile*", "poetry.lock", "uv.lock", "requirements*.txt", "constraints*.txt"),
    *(
        "environment.y*ml",
        "*.pth",
        "sitecustomize.*",
        "usercustomize.*",
        "nose.cfg",
        "mypy.ini",
        "tasks.py",
        "dodo.py",
    ),
    # make and friends
    *("makefile", "gnumakefile", "*.mk", "makefile.*", "cmakelists.txt", "*.cmake", "ctest*", "meson.build"),
    *("meson_options.txt", "build.ninja", "justfile", ".justfile", "taskfile.y*ml", "rakefile", "*.rake"),
    *("build", "build.bazel", "workspace", "workspace.bazel", "module.bazel", ".bazelrc", "*.bzl", "configure"),
    *("configure.ac", "*.am", "sconstruct", "sconscript", "wscript", "dune", "dune-project"),
    # JavaScript
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock*"),
    *("pnpm-workspace.yaml", "jest.config.*", "jest.setup.*", "jest-*", "vitest.*", "vite.config.*", ".mocharc*"),
    *("mocha.opts", "karma.conf*", "babel.config.*", ".babelrc*", "tsconfig*.json", "jsconfig.json", ".swcrc"),
    *("playwright.config.*", "cypress.config.*", "cypress.json", "ava.config.*", ".taprc", ".npmrc", ".yarnrc*"),
    *(".pnp.*", "webpack.config.*", "rollup.config.*", "deno.json*", "bunfig.toml", "nx.json", "turbo.json"),
    # JVM
    *("pom.xml", "*.gradle", "*.gradle.kts", "gradle.properties", "gradlew*", "mvnw*", "build.sbt"),
    *("build.xml", "testng*.xml", "junit-platform.properties", "ivy.xml"),
    # Go, Rust, Ruby, PHP, .NET, Elixir
    *("go.mod", "go.sum", "go.work*", "cargo.toml", "cargo.lock", "build.rs", "rust-toolchain*", "gemfile*"),
    *(".rspec", "*.gemspec", "phpunit.xml*", "composer.json", "composer.lock", "*.csproj", "*.sln", "*.runsettings"),
    *("directory.build.*", "nuget.config", "mix.exs", "mix.lock", "rebar.config", "project.clj", "deps.edn"),
    # compiled: a runner loads them in the place of their sources
    *("*.pyc", "*.pyo", "*.class"),
    # what a shell or an editor's test runner reads
    *(".envrc", ".env", ".env.*", ".tool-versions", "dockerfile*", "docker-compose*.y*ml", "compose*.y*ml"),
)
CONFIGURATION_FOLDERS = frozenset(
    ".mvn .cargo .github .gitlab .circleci .config gradle buildsrc node_modules vendor .venv venv site-packages "
    ".yarn .bundle cmake".split()
)

PLUGIN_FOLDERS = (".dist-info", ".egg-info", "meta-inf")
"""Runners load what the metadata in such folders names, without being told."""

_RUNNER_MODULES = frozenset(
    "pytest _pytest py pluggy iniconfig packaging pygments exceptiongroup tomli colorama attr attrs coverage xdist "
    "pytest_cov pytest_mock pytest_asyncio hypothesis nose nose2 tox nox mock doctest unittest2 sitecustomize "
    "usercustomize typing_extensions six setuptools pkg_resources".split()
)
_MODULE_ENDINGS = re.compile(r"\.(?:py|pyc|pyi|so|pyd|[a-z0-9_.-]+\.so)$")


FolderKind = Literal["missing", "plain", "package"]
"""A folder of the untouched tree: not there, there, or there as a Python package."""


def guarded(patches: Sequence[FilePatch], command: str, kind_of: Callable[[str], FolderKind]) -> list[str]:
    """The paths of a diff that may not decide, sorted.

    `command` is the verification command; `kind_of(folder)` looks at the untouched tree, so that a new `json.py`
    inside a package, which shadows nothing, is not taken for one that does.
    """
    named = _named(command)
    return sorted(
        {
            path
            for patch in patches
            for path in patch.paths
            if named(path)
            or is_test(path)
            or is_configuration(path)
            or _is_executable(patch)
            or (patch.old_path is None and shadows(path, kind_of))
        }
    )


def _named(command: str) -> Callable[[str], bool]:
    """Whether a command line names a path, however it reaches it: from a folder, by a pattern, as a module."""
    words = _words(command)
    folders = ["", *(after for word, after in pairwise(words) if word == "cd")]
    names = {normpath(join(folder, name)) for word in words for name in _names(word) for folder in folders}
    names |= {path for name in _modules(words) for path in (f"{name}.py", f"{name}/__main__.py")}
    names |= {f"{name}/__main__.py" for name in names if not name.endswith(".py")}
    patterns = [name for name in names if set(name) & set("*?[")]
    return lambda path: path in names or any(fnmatchcase(path, pattern) for pattern in patterns)


def _words(command: str) -> list[str]:
    """The words of a command line, those of a script within it (`sh -c '…'`) too."""
    reader = shlex.shlex(command, posix=True, punctuation_chars=True)
    reader.whitespace_split, reader.commenters = True, ""
    try:
        words = list(reader)
    except ValueError:
        return command.split()
    inner = [each for word in words if re.search(r"\s", word) for each in _words(word)]
    return words + inner


def _names(word: str) -> Iterable[str]:
    """What a word may mean as a path: itself, the value of an option, the file of a test's id."""
    for part in (word, word.partition("=")[2], word.partition("::")[0]):
        name = re.sub(r"^(?:\$PWD|\$\{PWD\}|/workspace)/", "", part)
        if name and not name.startswith("/"):
            yield name


def _modules(words: Sequence[str]) -> Iterable[str]:
    """Modules that the command names, as paths without their ending; a test's name may follow its module's."""
    dotted = [after for word, after in pairwise(words) if word == "-m"]
    if "unittest" in words:
        dotted += [word for word in words if not word.startswith("-")]
    for name in dotted:
        parts = name.split(".")
        yield from ("/".join(parts[:end]) for end in range(1, len(parts) + 1) if all(parts))


def is_test(path: str) -> bool:
    """Whether a path lies under a test folder or is named as tests are."""
    *folders, name = path.split("/")
    # The last part, too: a test folder may become a link.
    if any(part.lower() in TEST_FOLDERS for part in (*folders, name)):
        return True
    stem, _, ending = name.rpartition(".")
    if f".{ending}" in JAVA_ENDINGS and any(fnmatchcase(stem, pattern) for pattern in JAVA_TEST_NAMES):
        return True
    return any(fnmatchcase(name.lower(), pattern) for pattern in TEST_NAMES)


def is_configuration(path: str) -> bool:
    """Whether a path configures a test runner or a build."""
    *folders, name = path.lower().split("/")
    if any(folder in CONFIGURATION_FOLDERS or folder.endswith(PLUGIN_FOLDERS) for folder in folders):
        return True
    return any(fnmatchcase(name, pattern) for pattern in CONFIGURATION)


def shadows(path: str, kind_of: Callable[[str], FolderKind]) -> bool:
    """Whether a new file makes a module that a runner would import instead of its own."""
    *folders, file = path.split("/")
    if not _MODULE_ENDINGS.search(file):
        return False
    for depth, folder in enumerate([*folders, _MODULE_ENDINGS.sub("", file)]):
        here = "/".join(folders[: depth + 1])
        if folder in _RUNNER_MODULES or folder in sys.stdlib_module_names:
            return depth == len(folders) or kind_of(here) == "missing"
        if kind_of(here) == "package":
            return False
    return False


def _is_executable(patch: FilePatch) -> bool:
    return any(
        mode is not None and mode & 0o111 and mode & 0o170000 == 0o100000 for mode in (patch.old_mode, patch.new_mode)
    )
