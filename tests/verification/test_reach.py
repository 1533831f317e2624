"""Which files a check loads, followed through makefiles, package scripts and shell scripts."""

from __future__ import annotations

import pytest

from codeagent.verification.makefile import Makefile
from codeagent.verification.names import drives
from codeagent.verification.reach import reached
from codeagent.verification.tree import Tree
from tests.clocks import processor_time_below

MAKEFILE = """\
TOP := .
RULES = $(TOP)/build-rules
CHECK ?= scripts/check.sh
SOURCES = src/a.c src/b.c
include $(RULES)/common.inc
-include local.inc $(OBJECTS:.o=.dep)
sinclude $(UNKNOWN)

.PHONY: test run
all: run
test: lint $(SOURCES)
\t@sh $(CHECK) --fast && \\
\t  $(MAKE) -C sub verify
lint: ; @./tools/lint src/a.c
run:
\tpython3 tools/serve.py
VERSION := $(shell sh scripts/version.sh)
"""

TREE = {
    "Makefile": MAKEFILE,
    "./build-rules/common.inc": "",
    "build-rules/common.inc": "include deeper.inc\n",
    "scripts/check.sh": '. "./lib/asserts.sh"\npython3 src/app.py --self-test\n'
    "python3 tools/compare.py a b\nsh helpers/x.sh\n",
    "lib/asserts.sh": ". lib/more.sh\n",
    "sub/Makefile": "verify:\n\tnode ../run-checks.js\n\tnode verify.js\n",
    "package.json": '{"main": "src/index.js", "jest": {"setupFiles": ["./jest-hooks/setup.js"]}, "scripts": {'
    '"pretest": "node scripts/prepare.js", "test": "npm run -s unit && mocha -r ./test-hooks.js checks/",'
    ' "unit": "NODE_ENV=test node --require ./preload.js scripts/all.mjs", "start": "node server/run.js"}}',
    "pytest.ini": "[pytest]\naddopts = -p support.plugin\npython_files = check_*.py\n",
    "conftest.py": 'pytest_plugins = ["helpers.fixtures", "more"]\n',
}


def those_reached(command: str, paths: str, tree: dict[str, str] = TREE) -> list[str]:
    named = reached(command, tree.get).names
    return [path for path in paths.split() if named(path)]


def test_make_is_followed_into_what_it_includes_and_what_the_target_runs() -> None:
    paths = (
        "Makefile build-rules/common.inc deeper.inc local.inc x.dep scripts/check.sh lib/asserts.sh lib/more.sh "
        "tools/compare.py tools/lint scripts/version.sh sub/Makefile run-checks.js sub/verify.js"
    )
    others = "src/app.py src/a.c src/b.c helpers/x.sh tools/serve.py README.md sub/other.js"
    assert those_reached("make test", f"{paths} {others}") == paths.split()


OBJECTS = """\
SOURCES := $(wildcard src/*.c)
OBJECTS := $(patsubst src/%.c,build/%.obj,$(SOURCES))
REPORT := $(addprefix out/,report)
DEPENDS := $(SOURCES:src/%.c=deps/%.d)
check: unit $(OBJECTS) $(REPORT) $(DEPENDS) src/gen.c
unit:
\tpytest
src/gen.c: a.y
\tyacc a.y
$(OBJECTS): build/%.obj: src/%.c
\tcc $<
out/%: src/calc.c
\tcc $<
$(DEPENDS):
\tcc -M
%.py: %.in
\tsed $<
%:
\t:
"""


@pytest.mark.parametrize("path", "unit build/calc.obj out/report deps/calc.d lib/version.py src/gen.c".split())
def test_a_new_file_may_be_taken_for_what_a_recipe_makes(path: str) -> None:
    assert reached("make check", {"Makefile": OBJECTS, "lib/version.in": "", "src/calc.c": ""}.get).builds(path)


@pytest.mark.parametrize("path", "src/util.c src/util.py build/notes report a.y".split())
def test_a_new_file_that_nothing_makes_is_a_new_file(path: str) -> None:
    assert not reached("make check", {"Makefile": OBJECTS, "src/calc.c": ""}.get).builds(path)


def test_a_new_folder_may_be_taken_for_what_a_recipe_makes() -> None:
    tree = {"Makefile": "check: docs\n\tpython3 verify.py\ndocs:\n\t:\n.chk.ok:\n\tsh $<\n", "a.chk": ""}
    builds = reached("make check", tree.get, Tree(frozenset({"docs/a.md"}))).builds
    assert [path for path in ("check/notes.txt", "a.ok", "docs/b.md", "src/x.txt", "b.ok") if builds(path)] == [
        "check/notes.txt",
        "a.ok",
    ]


def test_a_variable_of_the_command_line_is_what_no_file_changes() -> None:
    tree = {"Makefile": "PART = fast\nPART += more\nt:\n\tsh $(PART)/run.sh\n"}
    assert those_reached("make PART=slow t", "slow/run.sh fast/run.sh", tree) == ["slow/run.sh"]


def test_only_the_recipes_of_the_target_count() -> None:
    assert those_reached("make run", "tools/serve.py scripts/check.sh Makefile") == ["tools/serve.py", "Makefile"]
    assert those_reached("make", "tools/serve.py scripts/check.sh") == ["tools/serve.py"]
    assert those_reached("make -C sub verify", "sub/verify.js Makefile sub/Makefile") == [
        "sub/verify.js",
        "sub/Makefile",
    ]
    assert those_reached("make -f ci/rules test", "ci/rules Makefile") == ["ci/rules"]


def test_the_scripts_of_a_package_are_followed() -> None:
    paths = "scripts/prepare.js test-hooks.js checks/a.js preload.js scripts/all.mjs jest-hooks/setup.js"
    for command in ("npm test", "npm run test -- --fast", "yarn test", "pnpm -s test", "npm t"):
        assert those_reached(command, f"{paths} server/run.js src/index.js") == paths.split(), command


def test_plugins_and_names_of_tests_that_a_configuration_gives_are_reached() -> None:
    paths = "support/plugin.py helpers/fixtures.py helpers/fixtures/__init__.py more.py check_a.py pricing/check_b.py"
    assert those_reached("pytest -q", f"{paths} support/other.py app.py") == paths.split()


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("D=ci; sh $D/check.sh", "ci/check.sh"),
        ('sh "${CHECKS:-ci}/check.sh"', "ci/check.sh"),
        ("CHECK=check.sh sh $CHECK", "check.sh"),
        ("sh $(pwd)/check.sh", "check.sh"),
        ("sh `pwd`/check.sh", "check.sh"),
        ("env A=1 timeout 5 bash check.sh", "check.sh"),
        ("cd sub && make verify", "sub/verify.js"),
        ("sh -c 'cd sub; make verify'", "sub/verify.js"),
        ("test x = `sh scripts/version.sh`", "scripts/version.sh"),
        ("node --import ./hooks.mjs --test", "hooks.mjs"),
        ("docker/run.sh", "docker/run.sh"),
        ("node -r./hook.js index.js", "hook.js"),
        ("node audit", "audit.js"),
        ("node audit", "audit/index.js"),
        ("pytest @which.txt", "which.txt"),
        ("pytest -p support.more", "support/more.py"),
        ("pytest -psupport.more", "support/more.py"),
        ("PYTEST_PLUGINS=a,support.more pytest", "support/more.py"),
        ("bash -c 'pushd sub && sh go.sh'", "sub/go.sh"),
    ],
)
def test_a_file_is_reached_however_it_is_named(command: str, path: str) -> None:
    assert those_reached(command, path) == [path]


@pytest.mark.parametrize(
    ("command", "roots"),
    [
        ("pytest -q", set()),
        ("cd app && pytest", {"app"}),
        ("PYTHONPATH=src:lib pytest", {"src", "lib"}),
        ("env PYTHONPATH='src' python3 app/check.py", {"src", "app"}),
        ("sh -c 'cd app; pytest'", {"app"}),
        ("make test", {"src", "tools"}),
    ],
)
def test_the_folders_in_which_modules_are_looked_for(command: str, roots: set[str]) -> None:
    assert reached(command, TREE.get).roots == roots


@pytest.mark.parametrize("command", ["make test", "npm test", "sh loop.sh"])
def test_what_runs_in_circles_or_makes_no_sense_ends(command: str) -> None:
    tree = {
        "Makefile": "include Makefile\nA = $(B)\nB = $(A)\ntest: test\n\t$(MAKE) test\n\tsh $(A)\n" + "x:" * 5_000,
        "package.json": '{"scripts": {"test": "npm test && npm run test"}}',
        "loop.sh": "sh loop.sh\n. ./loop.sh\n'unclosed\n",
    }
    assert those_reached(command, "src/app.py", tree) == []
    assert those_reached(command, "src/app.py", dict.fromkeys(tree, '{"scripts": [1]}')) == []


def test_variables_that_multiply_each_other_end_soon() -> None:
    laughs = "".join(f"V{n} = " + f"$(V{n + 1}) " * 200 + "\n" for n in range(20))
    with processor_time_below(5):
        assert those_reached("make test", "src/app.py", {"Makefile": laughs + "test: $(V0)\n\tsh $(V0)\n"}) == []


def test_the_program_under_test_is_no_part_of_its_check() -> None:
    assert [path for path in ("src/run.sh", "lib/check.js", "app/main.py", "index.js") if drives(path)] == []
    assert all(map(drives, ("scripts/all.mjs", "run-tests.py", "ci/x", "tools/compare.py", "check.js")))


def test_variables_of_make_are_replaced_and_what_is_not_known_is_any_text() -> None:
    makefile = Makefile()
    makefile.read("A = x\nB := $(A)/y\nC ?= 1\nC ?= 2\nA += z\nexport D = ${B}\n")
    assert [makefile.expanded(text) for text in ("$(D)", "$(C)", "$(NO)/a", "$(A:.c=.d)", "$(wildcard t/*.mk)")] == [
        "x z/y",
        "1",
        "*/a",
        "*.d",
        "t/*.mk",
    ]


@pytest.mark.parametrize(
    ("command", "path"),
    [
        ("python3 -m unittest", "testcalc.py"),
        ("python3 -m unittest -v discover -s checks", "checks/deep/testcalc.py"),
        ("python3 -m unittest discover -p 'check*.py'", "lib/check_all.py"),
        ("python3 -m unittest discover --pattern=*_ok.py", "lib/all_ok.py"),
        ("nose2", "testcalc.py"),
        ("behave", "features/steps/calc.py"),
        ("make discover", "testcalc.py"),
    ],
)
def test_what_a_runner_discovers_by_itself_is_reached(command: str, path: str) -> None:
    tree = {"Makefile": "discover:\n\tpython3 -m unittest\n"}
    assert those_reached(command, f"{path} src/calc.py testbed/calc.py src/features/calc.py", tree) == [path]


def test_a_runner_that_is_told_its_tests_discovers_none() -> None:
    assert those_reached("python3 -m unittest checks.all", "testimonials.py checks/all.py") == ["checks/all.py"]


def among(paths: str, command: str) -> list[str]:
    """The files of a tree that a command reaches."""
    found = reached(command, lambda _path: None, Tree(frozenset(paths.split())))
    return [path for path in paths.split() if found.names(path)]


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("python3 -m pytest -q trials", "trials/expect.py trials/unit/test_a.py"),
        ("python3 -m unittest discover -s trials", "trials/expect.py trials/test_a.py"),
        ("cd suite && for f in *; do PYTHONPATH=.. sh ./$f || exit 1; done", "suite/case1"),
        ("for f in suite/*; do sh $f; done", "suite/case1"),
        ("cd trials; for f in *.sh; do ./$f; done", "trials/a.sh"),
    ],
)
def test_a_folder_of_tests_that_is_named_is_reached_whole(command: str, paths: str) -> None:
    assert among(f"{paths} calc.py src/half.py", command) == paths.split()


@pytest.mark.parametrize(
    ("command", "paths"),
    [
        ("pytest -q calc", "calc/half.py calc/test_half.py other.py"),
        ("pytest -q calc", "calc/half.py calc/test_half_edges.py other.py"),
        ("pytest -q calc", "calc/core.py calc/tests/test_api.py other.py"),
        ("pytest -q calc", "calc/core.py calc/test_api.py setup.py"),
        ("pytest -q src", "src/core.py src/test_api.py other.py"),
        ("cd src && for f in *.py; do python3 $f; done", "src/half.sh"),
        ("cd calc && pytest $ARGUMENTS", "calc/core.py calc/test_api.py"),
    ],
)
def test_a_program_that_has_its_tests_beside_it_is_not_reached(command: str, paths: str) -> None:
    assert not [path for path in among(paths, command) if "test" not in path]


def test_what_a_recipe_takes_from_a_folder_of_checks_is_reached() -> None:
    tree = {"Makefile": "t:\n\tjavac -d build/out src/*.java check/*.java && java -cp build/out HalfCheck\n"}
    assert those_reached("make t", "src/Half.java check/Want.java health-check/Main.java", tree) == [
        "check/Want.java"
    ]


@pytest.mark.parametrize(
    "makefile",
    [
        "define all\nsh scripts/it.sh\nendef\nt:\n\t$(all)\n",
        "t: RUN = scripts/it.sh\nt:\n\tsh $(RUN)\n",
        "run = sh scripts/$(1).sh $2\nt:\n\t$(call run,it,x)\n",
        "PARTS = a b\nt:\n\tfor d in $(PARTS); do $(MAKE) -C $$d t; done\n",
        "PARTS = a b\nt: $(PARTS)\n$(PARTS):\n\t$(MAKE) -C $@ t\n",
    ],
)
def test_what_a_recipe_runs_is_found_however_make_computes_it(makefile: str) -> None:
    tree = {"Makefile": makefile, "a/Makefile": "t:\n\tsh ../scripts/it.sh\n", "scripts/it.sh": ""}
    found = reached("make t", tree.get, Tree(frozenset(tree)))
    assert [path for path in ("scripts/it.sh", "scripts/other.sh") if found.names(path)] == ["scripts/it.sh"]


@pytest.mark.parametrize(
    ("command", "script"),
    [
        ("npm --prefix web test", '{"scripts": {"test": "node scripts/it.js"}}'),
        ("npm test -w web", '{"scripts": {"test": "node scripts/it.js"}}'),
        ("cd web && npm test", '{"scripts": {"test": "run-s part:*", "part:a": "node scripts/it.js"}}'),
    ],
)
def test_the_scripts_of_a_package_further_down_are_followed(command: str, script: str) -> None:
    tree = {"package.json": '{"workspaces": ["web"]}', "web/package.json": script}
    found = reached(command, tree.get, Tree(frozenset(tree)))
    assert [path for path in ("web/scripts/it.js", "scripts/it.js") if found.names(path)] == ["web/scripts/it.js"]


@pytest.mark.parametrize(
    ("name", "text", "path"),
    [
        ("pytest.ini", "[pytest]\npython_files =\n    check_*.py\n    probe_*.py\n", "probe_a.py"),
        ("setup.cfg", "[tool:pytest]\npython_files = check_*.py\n    probe_*.py\n", "lib/probe_a.py"),
        ("pyproject.toml", 'python_files = [\n  "check_*.py",\n  "probe_*.py",\n]\n', "probe_a.py"),
        ("pytest.ini", "[pytest]\ntestpaths = trials\n", "trials/helper.py"),
        ("jest.config.js", "module.exports = {setupFiles: ['<rootDir>/src/begin.js']}", "src/begin.js"),
        ("package.json", '{"jest": {"globalSetup": "./src/begin.js"}}', "src/begin.js"),
        ("sub/pytest.ini", "[pytest]\npython_files = probe_*.py\n", "sub/probe_a.py"),
        ("sub/jest.config.js", "module.exports = {setupFiles: ['./src/begin.js']}", "sub/src/begin.js"),
        ("sub/conftest.py", 'pytest_plugins = [\n    "support.one",\n    "support.two",\n]\n', "sub/support/two.py"),
    ],
)
def test_what_a_configuration_calls_a_test_or_loads_before_one_is_reached(name: str, text: str, path: str) -> None:
    tree = {name: text, "trials/test_a.py": "", "calc.py": ""}
    found = reached("npm test", tree.get, Tree(frozenset(tree)))
    assert [each for each in (path, "calc.py", "src/index.js") if found.names(each)] == [path]


@pytest.mark.parametrize(
    "name", ["Makefile", "pytest.ini", "jest.config.js", "conftest.py", "package.json", "check.sh"]
)
@pytest.mark.parametrize(
    "part", ["define x\n", "a/", "x = $(call x,1)\n", "testpaths = \n a", "setupFiles: [", "cd a && "]
)
@pytest.mark.slow
def test_no_text_of_a_repository_takes_long(name: str, part: str) -> None:
    tree = {name: part * (200_000 // len(part)), "verify.sh": ""}
    with processor_time_below(5):
        reached("make; sh check.sh; npm test", tree.get, Tree(frozenset(tree)))
