"""The part that a file has in a check, whatever it is called: what does not decide, what is told, what is a fix."""

from __future__ import annotations

from posixpath import splitext

import pytest

from codeagent.patches import FilePatch
from codeagent.verification.guard import Guarded, Untouched, guard
from codeagent.verification.tree import Tree
from tests.clocks import processor_time_below

ASSERT_SH = 'assert_eq() { [ "$1" = "$2" ] || exit 1; }\n'
ADD = "def add(a, b):\n    return a - b\n"
LOOP = "for f in samples/*.in; do python3 calc.py < $f | diff - ${f%.in}.out || exit 1; done\n"


def of_change(command: str, tree: dict[str, str], *paths: str) -> Guarded:
    patches = [FilePatch(path, path, 0o100644, 0o100644) for path in paths]
    return guard(patches, command, Untouched(read=tree.get, tree=Tree(frozenset(tree))))


@pytest.mark.parametrize(
    "script",
    [
        ". ./support/a.sh",
        '. "$(dirname "$0")/support/a.sh"',
        '. "$(dirname -- "$0")"/support/a.sh',
        ". `dirname $0`/support/a.sh",
        '. "${0%/*}/support/a.sh"',
        'D=$(dirname "$0")\n. "$D/support/a.sh"',
        'HERE=.; . "$HERE/support/a.sh"',
        'D=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)\nsource "$D/support/a.sh"',
        'D="$( cd -- "$(dirname -- "$(readlink -f "$0")")" >/dev/null && pwd -P )"; . "$D/support/a.sh"',
        'cd "$(git rev-parse --show-toplevel)" && . support/a.sh',
        'LIB="$(dirname "$0")/support/a.sh"\n. "$LIB"',
        'for f in support/*.sh; do . "./$f"; done',
        'for f in "$(dirname "$0")"/support/*.sh; do\n  . "$f"\ndone',
        'for n in a b; do . "support/$n.sh"; done',
        "test -d x && . $UNKNOWN/support/a.sh",
    ],
)
def test_what_a_script_sources_is_guarded_however_it_tells_its_place(script: str) -> None:
    tree = {"run.sh": f"#!/bin/sh\n{script}\nassert_eq 1 2\n", "support/a.sh": ASSERT_SH, "calc.py": ""}
    assert of_change("sh run.sh", tree, "support/a.sh", "calc.py").paths == ("support/a.sh",)


def test_a_place_is_that_of_the_script_wherever_it_lies() -> None:
    script = 'cd "$(dirname "$0")"; . ./a.sh\n. "$(dirname "$0")/../more/b.sh"\n'
    tree = {"ci/run.sh": script, "ci/a.sh": "", "more/b.sh": "", "a.sh": "", "b.sh": "", "calc.py": ""}
    found = of_change("sh ci/run.sh", tree, "ci/a.sh", "more/b.sh", "b.sh", "calc.py").paths
    assert found == ("ci/a.sh", "more/b.sh")


@pytest.mark.parametrize(
    ("recipe", "paths"),
    [
        ("python3 calc.py 1 2 | diff - out/add.ref", "out/add.ref"),
        ("python3 calc.py 1 2 | diff - out/$(N).ref", "out/add.ref"),
        ("diff -u <(python3 calc.py 1 2) out/add.ref", "out/add.ref"),
        ("W=out/add.ref; python3 calc.py | cmp -s - $$W", "out/add.ref"),
        ("python3 calc.py > got && diff -r got out", "out/add.ref"),
        (LOOP.strip().replace("$", "$$"), "samples/a.in samples/a.out"),
        ("python3 -m doctest docs/usage.rst", "docs/usage.rst"),
        ("pytest --doctest-glob='*.rst'", "docs/usage.rst"),
        ("sh run.sh", "samples/a.in samples/a.out"),
    ],
)
def test_what_a_recipe_compares_with_and_names_as_examples_is_guarded(recipe: str, paths: str) -> None:
    tree = {"Makefile": f"N = add\ntest:\n\t{recipe}\n", "run.sh": LOOP, "calc.py": "", "src/table.txt": ""}
    tree |= dict.fromkeys(["out/add.ref", "samples/a.in", "samples/a.out", "docs/usage.rst", "README.rst"], "")
    others = ["calc.py", "src/table.txt"]
    changed = ["out/add.ref", "samples/a.in", "samples/a.out", "docs/usage.rst", *others]
    assert of_change("make test", tree, *changed).paths == tuple(paths.split())


@pytest.mark.parametrize(
    "command",
    [
        "sh run.sh",
        "python3 -m doctest -v calc.py",
        "pytest --doctest-modules calc.py",
        "pytest -c doctest.ini calc.py",
    ],
)
def test_of_a_module_whose_examples_are_run_only_those_are_the_checks(command: str) -> None:
    tree = {"run.sh": "python3 -m doctest calc.py\n", "calc.py": ADD}
    assert of_change(command, tree, "calc.py") == Guarded(doctests=True)
    tested = {**tree, "calc.py": "def test_add(): assert True\n"}
    assert command == "sh run.sh" or of_change(command, tested, "calc.py").paths == ("calc.py",)
    assert of_change(f"python3 calc.py && {command}", tree, "calc.py").paths == ("calc.py",)


@pytest.mark.parametrize(
    ("path", "compared"),
    [
        ("samples/a.min.js", "python3 fmt.py samples/a.js | diff - samples/a.min.js"),
        ("samples/a.css", "for f in samples/*.css; do diff /tmp/o $f || exit 1; done"),
        ("samples/a.sh", "python3 fmt.py | cmp - samples/a.sh"),
        ("out.s", "./cc a.src | diff - out.s"),
    ],
)
def test_what_an_output_is_compared_with_is_data_whatever_its_ending_unless_it_is_run(
    path: str, compared: str
) -> None:
    tree = {"run.sh": f"{compared}\n", "fmt.py": "", path: ""}
    assert of_change("sh run.sh", tree, path, "fmt.py").paths == (path,)
    assert of_change("sh run.sh", {**tree, "run.sh": f"{compared}\n./x {path}\n"}, path).paths == ()
    loading = {f"lib/x{splitext(path)[1]}": f"load {path}\n"}
    assert of_change("sh run.sh", {**tree, **loading}, path).paths == ()


@pytest.mark.parametrize(
    ("reading", "path"),
    [
        ('(Path("examples") / "three.c").read_text()', "examples/three.c"),
        ('(Path(__file__).parent / "samples" / "page.html").read_text()', "samples/page.html"),
        ('[open(p.replace(".in.", ".out.")) for p in glob("samples/*.in.py")]', "samples/one.out.py"),
        ('[p.read_text() for p in Path("samples").glob("*.html")]', "samples/a.html"),
    ],
)
def test_what_a_test_opens_is_data_whatever_its_ending_unless_it_is_loaded(reading: str, path: str) -> None:
    test = f"from render import page\n{reading}\n"
    tree = {"tests/test_a.py": test, "render.py": ADD, "cli.py": "import render\n", "samples/one.in.py": "", path: ""}
    assert of_change("pytest -q", tree, path, "render.py").paths == (path,)
    started = {**tree, "tests/test_a.py": f"import subprocess\n{test}"}
    assert of_change("pytest -q", started, path).paths == ()
    loading = {f"x{splitext(path)[1]}": f'load "{path}"\n'}
    assert of_change("pytest -q", {**tree, **loading}, path).paths == ()


def test_a_test_that_reads_modules_or_writes_one_makes_no_data_of_them() -> None:
    reading = 'import pkg.one\n[p.read_text() for p in Path("pkg").glob("*.py")]\n'
    tree = {"tests/test_a.py": reading, "pkg/__init__.py": "", "pkg/one.py": ADD, "pkg/two.py": ADD}
    assert of_change("pytest -q", tree, "pkg/two.py").paths == ()
    page = {"lib/app.js": "", "web/page.html": "", "web/page.js": ""}
    showing = 'readFileSync("web/page.html")\nrequire("../web/page"); require("./app")\n'
    assert of_change("node --test", {**page, "test/a.test.js": showing}, "web/page.html").paths == ()
    writing = {"tests/test_a.py": 'import calc\nopen("conf.py", "w")\n', "calc.py": ADD, "docs/conf.py": ADD}
    assert of_change("pytest -q", writing, "docs/conf.py").paths == ()


@pytest.mark.parametrize(
    "run", ["python3 bin/tool.py | diff - want", "python3 ./bin/run.py", "sh bin/greet.sh", "sh bin/runner"]
)
def test_in_bin_a_program_is_a_program_and_a_script_that_starts_a_runner_is_the_checks(run: str) -> None:
    path = next(word.removeprefix("./") for word in run.split() if "bin/" in word)
    tree = {"tests/run.sh": f"{run}\n", path: "", "want": ""}
    assert of_change("sh tests/run.sh", tree, path).paths == ()
    tests = {"Makefile": "test:\n\tsh bin/all && sh bin/check-it.sh\n", "bin/all": "set -e\npython3 -m pytest -q\n"}
    found = of_change("make test", {**tree, **tests, "bin/check-it.sh": ""}, "bin/all", "bin/check-it.sh")
    assert found.paths == ("bin/all", "bin/check-it.sh")


@pytest.mark.parametrize(
    ("reading", "path"),
    [
        ('open("data/sums.json")', "data/sums.json"),
        ('open(ROOT + "/../data/sums.json")', "data/sums.json"),
        ('open(os.path.join(HERE, "..", "data", "sums.json"))', "data/sums.json"),
        ('open(os.path.join("data", "sums" + ".json"))', "data/sums.json"),
        ('open(f"data/{name}.json")', "data/sums.json"),
        ('(ROOT / "examples").glob("*.txt")', "examples/one.txt"),
        ('glob("examples/*.txt")', "examples/one.txt"),
        ('os.listdir("examples")', "examples/one.txt"),
        ('Path("examples").rglob("*.txt")', "examples/deep/one.txt"),
        ('config.read("settings.cfg")', "settings.cfg"),
        ('doctest.testfile("../README.md")', "README.md"),
        ('require("../data/sums")', "data/sums.json"),
    ],
)
def test_data_that_a_test_reads_and_the_program_does_not_is_guarded(reading: str, path: str) -> None:
    tree = {"tests/test_calc.py": f"from calc import add\n{reading}\n", "calc.py": ADD, path: "", "other.txt": ""}
    assert of_change("pytest -q", tree, path, "calc.py", "other.txt").paths == (path,)


def test_data_that_the_program_reads_as_well_is_the_program_and_data_that_is_tested_itself_may_be_a_fix() -> None:
    reading = 'open("data/rates.csv")\n'
    shared = {"tests/test_calc.py": f"import calc\n{reading}", "calc.py": reading, "data/rates.csv": ""}
    told = Guarded((), ("data/rates.csv: tests/test_calc.py names it",))
    assert of_change("pytest -q", shared, "data/rates.csv") == Guarded()
    assert of_change("pytest -q", {**shared, "tests/test_calc.py": reading, "calc.py": ""}, "data/rates.csv") == told
    inside = {
        "tests/test_calc.py": "import calc\n" + reading.replace("data", "src"),
        "calc.py": "",
        "src/rates.csv": "",
    }
    assert of_change("pytest -q", inside, "src/rates.csv").doubts == ("src/rates.csv: tests/test_calc.py names it",)


@pytest.mark.parametrize(
    "taking", ["from pkg.fx import wanted\n", "from .pkg.fx import (\n    wanted,\n)\n", "from pkg.fx import *\n"]
)
def test_fixtures_that_a_conftest_takes_from_a_module_are_guarded(taking: str) -> None:
    tree = {
        "conftest.py": f"from pkg.app import App\n\n{taking}\n@pytest.fixture\ndef app(): return App()\n",
        "pkg/fx.py": "import pytest\n\n\n@pytest.fixture\ndef wanted(): return 3\n",
        "pkg/app.py": "class App: pass\n",
    }
    assert of_change("pytest -q", tree, "pkg/fx.py", "pkg/app.py") == Guarded(("pkg/fx.py",))


THROWING = "exports.check = (a, b) => { if (a !== b) throw new Error() }\n"
CHECKING = "def check(a, b):\n    assert a == b\n"


@pytest.mark.parametrize(
    ("test", "helper", "text", "clause"),
    [
        ("from lib.near import x", "lib/near.py", "import pytest\n", "uses it, and it uses a test framework"),
        ("from lib.near import check\ncheck(1, 2)", "lib/near.py", CHECKING, "asserts with its check"),
        ("from lib.asserts import x", "lib/asserts.py", "def x(): 1\n", "uses it, and it is named as a check's"),
        ("require('../lib/near-by')\ncheck(1)", "lib/near-by.js", THROWING, "asserts with its check"),
        ("from lib.near import WANTED", "lib/near.py", "WANTED = 3\n", "uses it, and the program does not"),
        (
            "import near",
            "near.py",
            '"""For every function, class."""\n# def\nW = 3\n',
            "uses it, and the program does not",
        ),
        (
            "require('../near')",
            "near.js",
            "exports.W = Object.freeze([[1, 2]]);\n",
            "uses it, and the program does not",
        ),
    ],
)
def test_a_module_that_the_tests_judge_with_is_told(test: str, helper: str, text: str, clause: str) -> None:
    tree = {"tests/test_calc.py": f"import calc\n{test}", helper: text, "calc.py": ADD}
    assert of_change("pytest -q", tree, helper) == Guarded((), (f"{helper}: tests/test_calc.py {clause}",))
    # What the program uses is the program, and so is what is tested alone.
    assert of_change("pytest -q", {**tree, "main.py": "near-by near asserts\n"}, helper) == Guarded()
    assert of_change("pytest -q", {**tree, "tests/test_calc.py": test}, helper) == Guarded()


def test_values_that_a_conftest_hands_to_tests_of_the_program_are_told() -> None:
    tree = {"conftest.py": "import sums\n", "test_calc.py": "import calc\n", "sums.py": "W = 3\n", "calc.py": ADD}
    assert of_change("pytest -q", tree, "sums.py").doubts == (
        "sums.py: conftest.py uses it, and the program does not",
    )


def test_a_header_with_assertions_is_told_and_a_framework_in_a_folder_of_others_code_is_guarded() -> None:
    tree = {
        "Makefile": "test:\n\tcc tests/t.c src/add.c third_party/unity/unity.c && ./a.out\n",
        "tests/t.c": '#include "minunit.h"\nint main(void) {\n  mu_assert(add(1, 2) == 3);\n}\n',
        "include/minunit.h": "#define mu_assert(x) do { if (!(x)) return 1; } while (0)\n",
        "third_party/unity/unity.c": "",
        "src/add.c": "",
        "include/add.h": "#define ADD_LIMIT(x) (x)\nint add(int, int);\n",
    }
    found = of_change("make test", tree, *tree)
    assert found.paths == ("Makefile", "tests/t.c", "third_party/unity/unity.c")
    assert found.doubts == ("include/minunit.h: tests/t.c asserts with its mu_assert",)


def test_a_change_without_code_is_told() -> None:
    tree = {"tests/test_calc.py": "import calc\n", "calc.py": ADD, "computed.dat": "", "notes.md": ""}
    clause = "it is no code, and the change has none"
    assert of_change("pytest -q", tree, "computed.dat").doubts == (f"computed.dat: {clause}",)
    assert of_change("pytest -q", tree, "calc.py", "computed.dat", "notes.md") == Guarded()
    loading = {**tree, "calc.py": 'Path("templates") / "page.txt"\n', "templates/page.txt": ""}
    assert of_change("pytest -q", loading, "templates/page.txt") == Guarded()


VALIDATING = "def check_sum(n):\n    if n: raise ValueError\n"
CHECKING_USER = "exports.checkUser = (user) => { if (!user) throw new Error() }\n"
RANGE = "def ensure_range(n, lo, hi):\n    assert lo <= hi\n    if n < lo: fail(n)\n"
LIST_EQ = "int list_eq(int*a,int*b)\n{\n  if (a != b) return 1;\n}\n"
INSERTING = "def insert(n):\n    assert n > 0\n"


@pytest.mark.parametrize(
    ("path", "tree"),
    [
        ("calc.py", {"tests/test_a.py": "from calc import add\nassert add(1, 2) == 3\n"}),
        ("app.py", {"conftest.py": "from app import app\n", "app.py": "app = App()\ndef get(): 1\n"}),
        ("main.py", {"conftest.py": "from main import app\n", "main.py": "import routes\ndef get(): 1\n"}),
        ("check.py", {"tests/test_a.py": "from check import check_sum\ncheck_sum(3)\n", "check.py": VALIDATING}),
        ("table.py", {"tests/test_a.py": "import table\ntable.insert(1)\n", "table.py": INSERTING}),
        ("lib/user.js", {"test/a.test.js": "require('../lib/user')\ncheckUser(1)\n", "lib/user.js": CHECKING_USER}),
        ("forms/v.py", {"tests/t.py": "import forms.v, calc\nensure_range(1, 0, 2)\n", "forms/v.py": RANGE}),
        (
            "hd/disk.py",
            {"t_test.py": "from hd import disk\ndisk.check(5)\n", "hd/__init__.py": "", "hd/disk.py": CHECKING},
        ),
        (
            "s/list.c",
            {
                "tests/t.c": '#include "list.h"\nint main(){\n  list_eq(a,b);\n}\n',
                "s/list.h": "",
                "s/list.c": LIST_EQ,
            },
        ),
        (
            "kit/fixtures.py",
            {
                "tests/test_a.py": "from kit.fixtures import load\nimport calc\n",
                "kit/__init__.py": "from .fixtures import load\n",
                "kit/fixtures.py": ADD,
            },
        ),
        (
            "pkg/__init__.py",
            {"tests/test_a.py": "import pkg\n", "pkg/__init__.py": "__version__ = '1'\n", "pkg/core.py": ADD},
        ),
        ("lib/add.js", {"test/a.test.js": "const add = require('../lib/add')\n", "lib/add.js": "m.add = () => 1\n"}),
        ("conf.py", {"tests/test_a.py": "import conf, calc\n", "conf.py": "LIMIT = 3\n", "calc.py": "import conf\n"}),
        ("include/add.h", {"tests/t.c": '#include "add.h"\n', "include/add.h": "int add(int, int);\n"}),
        ("calc.py", {"Makefile": "test:\n\tpython3 calc.py | diff - out.ref\n", "out.ref": ""}),
    ],
)
def test_an_ordinary_fix_is_neither_guarded_nor_told(path: str, tree: dict[str, str]) -> None:
    command = "make test" if "Makefile" in tree else "pytest -q"
    assert of_change(command, {"calc.py": ADD, **tree}, path) == Guarded()


@pytest.mark.parametrize(
    "part",
    [
        '"a*b/{x}*.c" ',
        "from a import b\n",
        "def checkcheck(",
        "$(cd pwd ",
        "for f in a ",
        "A=$A$A;",
        "<(",
        "eq",
        "`",
        "'\\",
        "a b(",
        "import ",
        "/*",
        ") ",
        "*",
    ],
)
@pytest.mark.slow
def test_no_text_of_a_repository_takes_long(part: str) -> None:
    long = part * (200_000 // len(part))
    tree = {
        "run.sh": long,
        "tests/test_a.py": f"import lib\n{long}",
        "conftest.py": long,
        "calc.py": long,
        "d/a.txt": "",
    }
    with processor_time_below(5):
        of_change("sh run.sh", {**tree, "lib.py": f"@fixture\n{long}"}, "d/a.txt", "lib.py", "calc.py")
