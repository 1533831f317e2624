"""Files of a check that a configuration mentions, whatever language that is written in."""

from __future__ import annotations

import pytest

from codeagent.verification.mentions import mentioned
from codeagent.verification.tree import Tree


def found(command: str, tree: dict[str, str]) -> set[str]:
    return mentioned(command, tree.get, Tree(frozenset(tree)))


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("justfile", "t:\n  sh verify.sh\n"),
        ("Taskfile.yml", "tasks:\n  t:\n    cmds: [sh verify.sh]\n"),
        ("CMakeLists.txt", "add_test(NAME t COMMAND sh ${CMAKE_SOURCE_DIR}/verify.sh)\n"),
        ("noxfile.py", 'session.run("sh", "./verify.sh")\n'),
        ("tox.ini", "[testenv]\ncommands = sh verify.sh\n"),
        ("Rakefile", 'task(:t) { sh "sh verify.sh" }\n'),
        ("build.gradle", "task t(type: Exec) { commandLine 'sh', 'verify.sh' }\n"),
        ("composer.json", '{"scripts": {"t": "sh verify.sh"}}'),
        ("Makefile", ".RECIPEPREFIX = >\nt:\n> $(foreach s,verify.sh,sh $(s);)\n"),
    ],
)
def test_a_file_that_is_named_as_a_check_is_found_wherever_a_configuration_has_its_path(name: str, text: str) -> None:
    assert found("t", {name: text, "verify.sh": "", "serve.sh": ""}) == {"verify.sh"}


def test_what_such_a_file_mentions_in_turn_is_found_from_its_own_folder_and_from_the_top() -> None:
    tree = {
        "Makefile": "t:\n\tsh qa/check_all.sh\n",
        "qa/check_all.sh": "python3 ../app.py | diff - expected/all.txt\n. qa/check_lib.sh\n",
        "qa/check_lib.sh": "",
        "qa/expected/all.txt": "",
        "qa/expected/other.txt": "",
        "app.py": "",
    }
    assert found("make t", tree) == {"qa/check_all.sh", "qa/check_lib.sh", "qa/expected/all.txt"}


def test_data_that_a_test_mentions_and_that_is_named_as_what_is_expected_is_found() -> None:
    tree = {"tests/test_a.py": 'open("data/expected_rates.csv"); open("data/rates.csv")\n'}
    tree |= {"data/expected_rates.csv": "", "data/rates.csv": "", "data/expected_other.csv": ""}
    assert found("pytest", tree) == {"data/expected_rates.csv"}


@pytest.mark.parametrize(
    "command", ["python3 -c 'import checks.run'", "node -e \"require('./checks/run')\"", "sh -c '. checks/run.py'"]
)
def test_a_script_within_the_command_may_leave_out_the_ending(command: str) -> None:
    assert found(command, {"checks/run.py": "", "checks/more.py": "", "run.py": ""}) == {"checks/run.py"}


@pytest.mark.parametrize(
    "tree",
    [
        {"Makefile": "t: verify.py\n", "verify.py": "", "tests/test_verify.py": ""},  # it is what is tested
        {"Makefile": "t: src/verify.py lib/check.c\n", "src/verify.py": "", "lib/check.c": ""},
        {"package.json": '{"bin": "bin/check.js"}', "bin/check.js": ""},
        {"setup.py": "scripts=['bin/check']", "bin/check": ""},
        {"README.md": "verify.py\n", "verify.py": ""},
        {"Makefile": "t: docs/verification.md\n", "docs/verification.md": ""},
        {"package-lock.json": '"verify.py"', "node_modules/a/package.json": '"verify.py"', "verify.py": ""},
    ],
)
def test_the_program_and_what_no_configuration_mentions_is_not_found(tree: dict[str, str]) -> None:
    assert found("make t", tree) == set()
