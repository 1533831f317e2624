"""What the name of a path tells: whether it is a test, configuration, a build's product, or named as a check is."""

from __future__ import annotations

import re
from fnmatch import translate
from posixpath import basename, dirname


def _any_of(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(map(translate, patterns)))


TEST_FOLDERS = frozenset(
    "test tests __tests__ spec specs testing testdata test-data test_data testlib e2e integration-tests "
    "integration_tests functional-tests unit-tests __snapshots__ __mocks__ __fixtures__ androidtest testcases "
    "test-cases golden goldens cassettes t qa".split()
)

_TEST_FOLDER = re.compile(
    # `calc-tests`, `unit_test`, `Calc.Tests`; `integrationTest`, `CalcTests`; `test-utils`, `testFixtures`
    r".*[-_.][Tt]ests?|(?:.*[a-z0-9])?Tests?|(?:unit|self|regress|integ)tests?"
    r"|[Tt]ests?[-_]?(?:[Uu]til(?:s|ities|ity)?|[Hh]elpers?|[Ss]upport|[Ll]ib|[Kk]it|[Cc]ommon|[Dd]ata|[Ff]ixtures?"
    r"|[Rr]esources?|[Ss]hared|[Ss]etup|[Mm]ocks?|[Ss]uites?|[Cc]ases?|[Hh]arness)"
)
"""Beside the names above, with letter case."""

_TEST_NAMES = _any_of(
    *("test_*", "*_test.*", "*_tests.*", "*.test.*", "*.spec.*", "*_spec.*", "*-test.*", "*-spec.*", "test-*"),
    *("test.*", "tests.*", "testing.*", "conftest.py", "*.snap", "*.bats", "*.t", "*.robot", "*.feature"),
    *("*.golden", "*.golden.*", "*.approved.*", "*.verified.*", "*.expected", "*.expected.*", "*.expect"),
    *("testutil*", "testhelper*", "testsupport*", "testdata.*", "testlib*", "testcase*", "testbase*", "tests_*"),
)
_JAVA_TEST = re.compile(r"Test(?:[A-Z_0-9]\w*)?|\w*(?:Tests?|TestCase|Spec|[a-z0-9]IT)")
_JAVA_ENDINGS = tuple(".java .kt .kts .groovy .scala .cs .fs .vb .php .swift .cpp .cc .cxx .mm".split())
"""Of languages whose tests are named as Java's are."""

_CONFIGURATION = _any_of(
    *(
        # Python
        "pytest.ini pytest.toml tox.ini tox.toml hatch.toml pdm.toml pixi.toml pants.toml setup.cfg setup.py "
        "noxfile.py behave.ini nose2.cfg unittest.cfg pyproject.toml pipfile* poetry.lock uv.lock "
        "requirements*.txt constraints*.txt environment.y*ml *.pth sitecustomize.* usercustomize.* nose.cfg "
        "dodo.py "
        # make and friends
        "makefile gnumakefile *.mk makefile.am makefile.in makefile.inc makefile.common cmakelists.txt "
        "*.cmake cmakepresets.json cmakeuserpresets.json meson.build meson.options build.zig* kbuild "
        "snakefile jenkinsfile mise.toml meson_options.txt build.ninja justfile taskfile.y*ml rakefile "
        "*.rake build build.bazel workspace workspace.bazel module.bazel *.bzl configure configure.ac *.am "
        "sconstruct sconscript wscript dune dune-project "
        # JavaScript
        "package.json package-lock.json npm-shrinkwrap.json yarn.lock pnpm-lock.yaml bun.lock* "
        "pnpm-workspace.yaml jest.* jest-* vitest.* vite.config.* lerna.json mocha.opts *.conf.[jt]s "
        "*.conf.[cm][jt]s babel.config.* tsconfig*.json jsconfig.json tslint.json playwright.config.* "
        "cypress.config.* cypress.json ava.config.* cucumber.* jasmine.* web-test-runner.* webpack.config.* "
        "rollup.config.* deno.json* bunfig.toml nx.json turbo.json import_map.json setuptests.* angular.json "
        "gulpfile.* gruntfile.* "
        # JVM
        "pom.xml *.gradle *.gradle.kts gradle.properties gradlew* mvnw* build.sbt build.xml build.sc "
        "build.mill gradle.lockfile testng*.xml junit-platform.properties ivy.xml "
        # Go, Rust, Ruby, PHP, .NET, Elixir, Swift, Dart, Haskell, Perl
        "go.mod go.sum go.work* cargo.toml cargo.lock build.rs rust-toolchain* gemfile* *.gemspec "
        "phpunit.xml* composer.json composer.lock *.[cfv][sb]proj *.sln* *.runsettings directory.build.* "
        "*.props *.targets global.json xunit.runner.json nuget.config mix.exs mix.lock rebar.config "
        "project.clj deps.edn package.swift pubspec.* dart_test.yaml *.cabal cabal.project* stack.yaml "
        "cpanfile makefile.pl build.pl "
        # linters, type checkers and formatters, which are checks too
        "mypy.ini pyrightconfig.json ruff.toml pylintrc eslint.config.* prettier.config.* "
        "analysis_options.yaml biome.json* clippy.toml rustfmt.toml phpstan.* checkstyle*.xml detekt.y*ml "
        "psalm.xml* "
        # what a shell or an editor's test runner reads
        "dockerfile dockerfile.* docker-compose*.y*ml compose*.y*ml "
    ).split()
)
"""Beside every hidden file: tools look for those, and linters for what `.gitignore` leaves out."""
_CONFIGURATION_FOLDERS = frozenset(
    "gradle buildsrc node_modules vendor venv site-packages cmake third_party third-party thirdparty 3rdparty extern "
    "subprojects".split()
)
"""Those of others' code, too: the frameworks of tests lie there."""

_PRODUCTS = re.compile(r".*\.(?:o|a|so(?:\.[\d.]+)?|dylib|dll|exe|class|jar|war|pyc|pyo|pyd|node|wasm)")
"""What a compiler makes: `make` and loaders take it as it is, in the place of what its sources say."""

_CODE = tuple(
    (
        ".py .pyi .pyx .js .jsx .mjs .cjs .ts .tsx .mts .cts .vue .svelte .java .kt .kts .groovy .scala "
        ".clj .cljs .c .h .cc .cpp .cxx .hh .hpp .hxx .inl .m .mm .cs .fs .vb .go .rs .rb .php .pl .pm .lua "
        ".r .jl .swift .dart .ex .exs .erl .hs .ml .mli .nim .zig .d .f90 .f .pas .sh .bash .zsh .ksh .fish "
        ".ps1 .bat .awk .sed .sql .html .htm .css .scss .less .jinja .jinja2 .j2 .tmpl .tpl .erb .ejs .hbs "
        ".proto .graphql .y .l .s .asm .v .sv .vhd .el .lisp .scm .tcl .coffee .elm .bats"
    ).split()
)

_PLUGIN_FOLDERS = (".dist-info", ".egg-info", "meta-inf")
"""Runners load what the metadata in such folders names, without being told."""

_CHECKS = frozenset(
    "check checks test tests testing verify smoke spec specs e2e assert asserts qa t suite suites cases regression "
    "regressions acceptance functional integration conformance".split()
)
_DRIVERS = _CHECKS | frozenset(
    "validate lint ci run runner runall script scripts tool tools tooling hack build make harness task tasks "
    "setup hooks preload".split()
)
_NAMED_CHECKS = frozenset(
    "check checks test tests testing verify verification smoke e2e selftest acceptance conformance regress "
    "regression regressions expected expect want golden goldens".split()
)
_SOURCES = frozenset("src source lib libs app apps internal pkg cmd packages".split())


def is_test(path: str) -> bool:
    """Whether a path lies under a test folder or is named as tests are."""
    *folders, name = path.split("/")
    # The last part, too: a test folder may become a link.
    if any(part.lower() in TEST_FOLDERS for part in (*folders, name)):
        return True
    # A product may be called `speed-test`: then its sources are in a folder of their own.
    after = [part.lower() in _SOURCES for part in folders]
    if any(_TEST_FOLDER.fullmatch(part) and not any(after[at:]) for at, part in enumerate(folders)):
        return True
    stem, _, ending = name.rpartition(".")
    if f".{ending}" in _JAVA_ENDINGS and _JAVA_TEST.fullmatch(stem):
        return True
    return _TEST_NAMES.match(name.lower()) is not None


def is_configuration(path: str) -> bool:
    """Whether a path configures a test runner or a build."""
    *folders, name = path.lower().split("/")
    if any(folder in _CONFIGURATION_FOLDERS or folder.endswith(_PLUGIN_FOLDERS) for folder in folders):
        return True
    if any(part.startswith(".") for part in (*folders, name)):
        return True
    # Deeper down, a `tasks.py` is a module like any other.
    return path.lower() == "tasks.py" or _CONFIGURATION.match(name) is not None


def is_code(path: str) -> bool:
    """Whether a path is named as a program's text is, templates and queries among it; all else is data."""
    return path.lower().endswith(_CODE)


def is_product(path: str) -> bool:
    """Whether a path is named as what a compiler makes."""
    return _PRODUCTS.fullmatch(path.lower()) is not None


def in_sources(path: str) -> bool:
    """Whether a path lies in a folder that is named as those of programs are."""
    return any(part in _SOURCES for part in dirname(path.lower()).split("/"))


def in_checks(path: str) -> bool:
    """Whether a path lies in a folder that is named as those of checks are, and not within a program's."""
    return not in_sources(path) and any(part in _CHECKS for part in dirname(path.lower()).split("/"))


def drives(path: str) -> bool:
    """Whether a file that a check runs is named as part of the check, and not as the program under test."""
    parts = path.lower().split("/")
    if in_sources(path):
        return False
    # In `bin` programs lie as well, called `tool` and `run`.
    names = _CHECKS if "bin" in parts[:-1] else _DRIVERS
    return any(word in names for part in parts for word in re.split(r"[-_.]", part))


def named_as_check(path: str) -> bool:
    """Whether a file that a configuration mentions is part of the check, by its name alone."""
    *folders, name = path.lower().split("/")
    stem, _, ending = name.rpartition(".")
    words = {word for part in (*folders, stem or name) for word in re.split(r"[-_.]", part)}
    return bool(words & _NAMED_CHECKS) and not in_sources(path) and ending not in ("md", "rst")


def subject(path: str) -> str:
    """What a test is a test of, by its own name: `calc` of `test_calc.py` and `CalcTest.java`, in small letters."""
    stem = basename(path).partition(".")[0].lower()
    return re.sub(r"^tests?[_-]?|[_-]?(?:tests?|spec)$", "", stem)
