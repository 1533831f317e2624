"""Which part of a change may not decide whether the change is a fix."""

from __future__ import annotations

import pytest

from codeagent.patches import FilePatch
from codeagent.verification.guard import Untouched, guard
from codeagent.verification.shadowing import FolderKind
from codeagent.verification.tree import Tree


def kind_of(folder: str) -> FolderKind:
    kinds: dict[str, FolderKind] = {"app": "package", "app/core": "package", "src": "plain", "email": "plain"}
    return kinds.get(folder, "missing")


def touched(*patches: FilePatch, command: str = "pytest -q") -> list[str]:
    return guarded(list(patches), command, Untouched(kind_of))


def guarded(patches: list[FilePatch], command: str, untouched: Untouched) -> list[str]:
    return list(guard(patches, command, untouched).paths)


def changed(path: str, mode: int = 0o100644) -> FilePatch:
    return FilePatch(path, path, mode, mode)


def created(path: str, mode: int = 0o100644) -> FilePatch:
    return FilePatch(None, path, None, mode)


@pytest.mark.parametrize(
    "path",
    [
        *("tests/test_a.py", "test/helper.py", "src/test/java/a/FooTest.java", "pkg/foo_test.go", "a/b.spec.ts"),
        *("conftest.py", "app/conftest.py", "pytest.ini", "setup.cfg", "pyproject.toml", "tox.ini", "Makefile"),
        *(
            "package.json",
            "jest.config.js",
            "pom.xml",
            "build.gradle.kts",
            "Cargo.toml",
            "go.mod",
            "src/UserTest.java",
        ),
        *("src/TestMain.java", "src/UserIT.java", "tasks.py", ".eslintrc.json", "ruff.toml", "golden/out.txt"),
        *(
            *("src/page.golden", "src/page.approved.html", "out.expected", "src/Page.verified.txt"),
            "testutils.py",
            "app/testing.py",
            "tests_helper.rb",
            "src/CalcTest.php",
            "x.robot",
            "tox.toml",
            "CMakePresets.json",
        ),
        *(".rspec-local", ".isort.cfg", ".yamllint", ".pytest_cache/v/cache/lastfailed", "tslint.json", "build.zig"),
        *("Package.swift", "app.fsproj", "Common.props", "analysis_options.yaml", "e2e.conf.js"),
        # Linters and formatters leave out what git ignores.
        *(".gitignore", "src/.gitignore", ".gitattributes", "src/integrationTest/java/Helper.java"),
        *("Calc.Tests/Helper.cs", "CalcTests/Helper.swift", "src/testFixtures/java/H.java", "unittests/helper.cpp"),
        *("internal/testutil/t.go", "src/test-utils/render.ts", "lib/test_helpers/h.rb", "api-tests/h.py"),
        *("CMakeLists.txt", ".github/workflows/ci.yml", "__snapshots__/a.snap", "node_modules/x/index.js", ".env"),
    ],
)
def test_tests_and_configuration_are_guarded_changed_or_new(path: str) -> None:
    assert touched(changed(path)) == [path]
    assert touched(created(path)) == [path]


@pytest.mark.parametrize(
    "path",
    [
        *(
            "app/service.py",
            "src/main/java/a/UserService.java",
            "lib/contest.py",
            "app/latest.py",
            "src/Attestation.java",
        ),
        *("src/Testament.java", "src/AUDIT.java", "app/tasks.py", "app/makefile.py", "src/snapshots/store.py"),
        *(
            "src/latest/x.py",
            "apps/speed-test/src/index.js",
            "contests/x.py",
            "src/features/cart.js",
            "src/attestation_data.py",
            "lib/props.js",
            "testcalc.py",
        ),
    ],
)
def test_the_code_itself_is_not_guarded(path: str) -> None:
    assert touched(changed(path), created(path)) == []


@pytest.mark.parametrize(
    "path",
    [
        "pytest.py",
        "unittest.py",
        "unittest/__init__.py",
        "sitecustomize.py",
        "src/json.py",
        "_pytest/main.py",
        "random.pyc",
    ],
)
def test_a_new_module_that_a_runner_would_import_is_guarded(path: str) -> None:
    assert touched(created(path)) == [path]


@pytest.mark.parametrize(
    "path", ["app/json.py", "app/core/types.py", "helpers.py", "email/template.html", "app/email/x.py"]
)
def test_a_new_module_that_shadows_nothing_is_not_guarded(path: str) -> None:
    assert touched(created(path)) == []


def test_files_named_in_the_command_are_guarded() -> None:
    named = [changed("check.py"), changed("scripts/run.sh"), changed("app/service.py")]
    assert touched(*named, command="python3 check.py && sh ./scripts/run.sh") == ["check.py", "scripts/run.sh"]
    assert touched(changed("checks/all.py"), command="python -m checks.all") == ["checks/all.py"]
    assert touched(changed("a.py"), command="pytest /workspace/a.py::test_x") == ["a.py"]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("cd sub && sh check.sh", "sub/check.sh"),
        ("sh $PWD/check.sh", "check.sh"),
        ("sh ${PWD}/check.sh", "check.sh"),
        ("sh a/../check.sh", "check.sh"),
        ("sh check*.sh", "check_all.sh"),
        ("python3 checks", "checks/__main__.py"),
        ("python3 -m checks", "checks/__main__.py"),
        ("python3 -m unittest checks.all", "checks/all.py"),
    ],
)
def test_a_file_is_named_however_the_command_reaches_it(command: str, path: str) -> None:
    assert touched(changed(path), command=command) == [path]


@pytest.mark.parametrize(
    "command",
    ["pytest -q -k calc", "make calc", "npx jest calc", "npm test -- calc", "pytest --maxfail=1 calc_tests"],
)
def test_a_word_that_names_no_file_guards_none(command: str) -> None:
    assert touched(changed("calc.py"), changed("calc.js"), command=command) == []


@pytest.mark.parametrize(
    "path",
    [
        *("plug.dist-info/entry_points.txt", "src/plug.egg-info/entry_points.txt"),
        "META-INF/services/org.junit.platform.launcher.TestExecutionListener",
        *("app/__pycache__/core.cpython-311.pyc", "build-out/Foo.class", "gradle-common.gradle", "common.gradle.kts"),
    ],
)
def test_what_runners_load_by_themselves_is_guarded(path: str) -> None:
    assert touched(created(path)) == [path]


@pytest.mark.parametrize(
    "name", "calc.o libcalc.a calc.so libc.so.1 x.dylib x.dll x.exe A.class a.jar m.pyd m.node m.wasm".split()
)
def test_what_a_compiler_makes_is_guarded_for_make_and_loaders_take_it_for_the_sources(name: str) -> None:
    assert touched(created(f"build-out/{name}")) == [f"build-out/{name}"]


def test_a_test_folder_that_becomes_a_link_is_guarded() -> None:
    assert touched(created("tests", 0o120000)) == ["tests"]


def test_executables_are_guarded_before_and_after() -> None:
    became = FilePatch("tool", "tool", 0o100644, 0o100755)
    assert touched(changed("bin/check", 0o100755), became, created("run", 0o100755)) == ["bin/check", "run", "tool"]


def test_a_rename_out_of_the_tests_is_guarded_on_both_sides() -> None:
    assert touched(FilePatch("tests/test_a.py", "old.py", 0o100644, 0o100644)) == ["tests/test_a.py"]


@pytest.mark.parametrize(
    ("links", "command", "path"),
    [
        ({"check.sh": "impl/main.sh"}, "sh check.sh", "impl/main.sh"),
        ({"check.sh": "impl/now/main.sh", "impl/now": "impl/v1"}, "sh check.sh", "impl/v1/main.sh"),
        ({"check.sh": "impl/now/main.sh", "impl/now": "impl/v1"}, "sh check.sh", "impl/now"),
        ({"ci": "scripts2"}, "python3 ci/verify_it.py", "scripts2/verify_it.py"),
        ({"tests": "suite"}, "pytest -q", "suite/expect.py"),
        ({"tests": "src/suite"}, "pytest -q", "src/suite/expect.py"),
        ({"tests/data": "examples"}, "pytest -q", "examples/a.json"),
        ({"Makefile": "build-rules"}, "make", "build-rules"),
    ],
)
def test_a_link_that_is_guarded_guards_what_it_leads_to(links: dict[str, str], command: str, path: str) -> None:
    untouched = Untouched(kind_of, tree=Tree(links=links))
    assert guarded([changed(path), changed("src/calc.py")], command, untouched) == [path]


def test_a_link_to_the_program_makes_no_test_of_it_and_circles_end() -> None:
    links = {"tests/lib": "src/lib", "node_modules/calc": "packages/calc", "a": "b", "b": "a", "x/up": "x"}
    program = [changed("src/lib/calc.py"), changed("packages/calc/index.js"), changed("x/calc.py"), changed("b/c.py")]
    assert guarded(program, "pytest -q", Untouched(kind_of, tree=Tree(links=links))) == []


def test_a_new_module_is_guarded_that_is_found_before_a_helper_of_the_tests() -> None:
    tree = Tree(frozenset({"tests/support.py", "tests/test_calc.py", "src/calc.py", "src/rates.py"}))
    patches = [created("src/support.py"), created("src/calc_rates.py")]

    def kinds(folder: str) -> FolderKind:
        return "plain" if folder in ("src", "tests") else "missing"

    command = "PYTHONPATH=src:tests python3 -m unittest tests.test_calc"
    assert guarded(patches, command, Untouched(kinds, tree=tree)) == ["src/support.py"]
