"""Files that decide what a check checks: a change to one of them is no fix.

If a diff touches one, the change is verified without that part, with the file as it is in the untouched tree.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

from codeagent.patches import SYMLINK, FilePatch
from codeagent.verification.reach import Read, reached
from codeagent.verification.shadowing import Installed, KindOf, shadowing

TEST_FOLDERS = frozenset(
    "test tests __tests__ spec specs testing testdata test-data test_data testlib e2e integration-tests "
    "integration_tests functional-tests unit-tests __snapshots__ __mocks__ __fixtures__ androidtest testcases "
    "test-cases golden goldens cassettes t qa".split()
)

TEST_NAMES = (
    *("test_*", "*_test.*", "*_tests.*", "*.test.*", "*.spec.*", "*_spec.*", "*-test.*", "*-spec.*", "test-*"),
    *("test.*", "tests.*", "conftest.py", "*.snap", "*.bats", "*.t"),
)
_JAVA_TEST = re.compile(r"Test(?:[A-Z_0-9]\w*)?|\w*(?:Tests?|TestCase|Spec|[a-z0-9]IT)")
JAVA_ENDINGS = (".java", ".kt", ".kts", ".groovy", ".scala", ".cs")

CONFIGURATION = (
    # Python
    *("pytest.ini", ".pytest.ini", "pytest.toml", ".pytest.toml", "tox.ini", "setup.cfg", "setup.py", "noxfile.py"),
    *("pyproject.toml", ".coveragerc", "pipfile*", "poetry.lock", "uv.lock", "requirements*.txt", "constraints*.txt"),
    *("environment.y*ml", "*.pth", "sitecustomize.*", "usercustomize.*", "nose.cfg", "dodo.py"),
    # make and friends
    *("makefile", "gnumakefile", "*.mk", "makefile.am", "makefile.in", "makefile.inc", "makefile.common"),
    *("cmakelists.txt", "*.cmake", "meson.build"),
    *("meson_options.txt", "build.ninja", "justfile", ".justfile", "taskfile.y*ml", "rakefile", "*.rake"),
    *("build", "build.bazel", "workspace", "workspace.bazel", "module.bazel", ".bazelrc", "*.bzl", "configure"),
    *("configure.ac", "*.am", "sconstruct", "sconscript", "wscript", "dune", "dune-project"),
    # JavaScript
    *("package.json", "package-lock.json", "npm-shrinkwrap.json", "yarn.lock", "pnpm-lock.yaml", "bun.lock*"),
    *("pnpm-workspace.yaml", "jest.*", "jest-*", "vitest.*", "vite.config.*", ".mocharc*", ".pnpmfile.*"),
    *("mocha.opts", "karma.conf*", "babel.config.*", ".babelrc*", "tsconfig*.json", "jsconfig.json", ".swcrc"),
    *("playwright.config.*", "cypress.config.*", "cypress.json", "ava.config.*", ".taprc", ".npmrc", ".yarnrc*"),
    *(".pnp.*", "webpack.config.*", "rollup.config.*", "deno.json*", "bunfig.toml", "nx.json", "turbo.json"),
    *("import_map.json", "setuptests.*", ".nycrc*", ".c8rc*", "angular.json", "gulpfile.*", "gruntfile.*"),
    # JVM
    *("pom.xml", "*.gradle", "*.gradle.kts", "gradle.properties", "gradlew*", "mvnw*", "build.sbt"),
    *("build.xml", "testng*.xml", "junit-platform.properties", "ivy.xml"),
    # Go, Rust, Ruby, PHP, .NET, Elixir
    *("go.mod", "go.sum", "go.work*", "cargo.toml", "cargo.lock", "build.rs", "rust-toolchain*", "gemfile*"),
    *(".rspec", "*.gemspec", "phpunit.xml*", "composer.json", "composer.lock", "*.csproj", "*.sln", "*.runsettings"),
    *("directory.build.*", "nuget.config", "mix.exs", "mix.lock", "rebar.config", "project.clj", "deps.edn"),
    # linters, type checkers and formatters, which are checks too
    *("mypy.ini", ".mypy.ini", "pyrightconfig.json", "ruff.toml", ".ruff.toml", ".flake8", ".pylintrc", "pylintrc"),
    *(".eslintrc*", "eslint.config.*", ".eslintignore", ".prettierrc*", "prettier.config.*", ".prettierignore"),
    *("biome.json*", ".stylelintrc*", ".golangci.*", "clippy.toml", ".clippy.toml", "rustfmt.toml", ".clang-tidy"),
    *(".clang-format", ".rubocop.y*ml", "phpstan.*", "checkstyle*.xml", ".pre-commit-config.y*ml", ".shellcheckrc"),
    # compiled: a runner loads them in the place of their sources
    *("*.pyc", "*.pyo", "*.class"),
    # what a shell or an editor's test runner reads
    *(
        ".envrc",
        ".env",
        ".env.*",
        ".tool-versions",
        ".nvmrc",
        ".node-version",
        ".python-version",
        ".ruby-version",
        "dockerfile",
        "dockerfile.*",
        "docker-compose*.y*ml",
        "compose*.y*ml",
    ),
)
CONFIGURATION_FOLDERS = frozenset(
    ".mvn .cargo .github .gitlab .circleci .config gradle buildsrc node_modules vendor .venv venv site-packages "
    ".yarn .bundle cmake".split()
)

PLUGIN_FOLDERS = (".dist-info", ".egg-info", "meta-inf")
"""Runners load what the metadata in such folders names, without being told."""


@dataclass(frozen=True, slots=True)
class Untouched:
    """What is asked of the untouched tree and of the image. The defaults know of nothing."""

    kind_of: KindOf = lambda _folder: "missing"
    read: Read = lambda _path: None
    installed: Installed = lambda _names: ()


def guarded(patches: Sequence[FilePatch], command: str, untouched: Untouched) -> list[str]:
    """The paths of a diff that may not decide, sorted. `command` is the verification command."""
    reach = reached(command, untouched.read)
    shadows = shadowing(_created(patches), untouched.kind_of, untouched.installed, reach.roots)
    return sorted(
        {
            path
            for patch in patches
            for path in patch.paths
            if reach.names(path)
            or is_test(path)
            or is_configuration(path)
            or _is_executable(patch)
            or path in shadows
        }
    )


def _created(patches: Sequence[FilePatch]) -> dict[str, bool]:
    """Each path that was not there before, and whether it is a link."""
    moved = (patch for patch in patches if patch.new_path not in (None, patch.old_path))
    return {patch.path: patch.new_mode == SYMLINK for patch in moved}


def is_test(path: str) -> bool:
    """Whether a path lies under a test folder or is named as tests are."""
    *folders, name = path.split("/")
    # The last part, too: a test folder may become a link.
    if any(part.lower() in TEST_FOLDERS for part in (*folders, name)):
        return True
    stem, _, ending = name.rpartition(".")
    if f".{ending}" in JAVA_ENDINGS and _JAVA_TEST.fullmatch(stem):
        return True
    return any(fnmatchcase(name.lower(), pattern) for pattern in TEST_NAMES)


def is_configuration(path: str) -> bool:
    """Whether a path configures a test runner or a build."""
    *folders, name = path.lower().split("/")
    if any(folder in CONFIGURATION_FOLDERS or folder.endswith(PLUGIN_FOLDERS) for folder in folders):
        return True
    # Deeper down, a `tasks.py` is a module like any other.
    return path.lower() == "tasks.py" or any(fnmatchcase(name, pattern) for pattern in CONFIGURATION)


def _is_executable(patch: FilePatch) -> bool:
    return any(
        mode is not None and mode & 0o111 and mode & 0o170000 == 0o100000 for mode in (patch.old_mode, patch.new_mode)
    )
