"""What runners print is counted; what says nothing about the code is told from a failure."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.verification.record import TestCount
from codeagent.verification.runners import added, count_tests, named_runners, silent, unusable, with_report
from tests.clocks import processor_time_below


def counted(command: str, output: str) -> TestCount | None:
    return count_tests(output, named_runners(command))


@pytest.mark.parametrize(
    ("command", "name"),
    [
        ("pytest -q tests", "pytest"),
        ("python3 -m pytest tests/test_a.py::test_b", "pytest"),
        ("cd app && python -B -m unittest -v", "unittest"),
        ("./node_modules/.bin/jest --ci", "jest"),
        ("npx vitest run", "vitest"),
        ("npx mocha", "mocha"),
        ("node --test tests/", "node --test"),
        ("go test ./...", "go test"),
        ("cargo test --quiet", "cargo test"),
        ("mvn -q test", "maven"),
        ("./gradlew :app:test", "gradle"),
        ("sh -c 'pytest -q'", "pytest"),
        ("make test", None),
        ("sh check.sh --pytest", None),
    ],
)
def test_a_runner_is_known_by_its_command(command: str, name: str | None) -> None:
    assert [runner.name for runner in named_runners(command)] == ([name] if name else [])


# name, executed, failed, skipped, whether nothing ran, collected
SUMMARIES: list[tuple[str, str, TestCount | None]] = [
    ("pytest", "== 1 failed, 2 passed, 1 skipped in 0.12s ==\n", TestCount("pytest", 3, 1, 1, False, 4)),
    ("pytest -q", "...\n3 passed in 0.01s\n", TestCount("pytest", 3, 0, 0, False, 3)),
    ("pytest", "\x1b[32m== \x1b[1m2 passed\x1b[0m in 0.01s ==\x1b[0m\n", TestCount("pytest", 2, 0, 0, False, 2)),
    ("pytest", "=== 2 passed in 75.10s (0:01:15) ===\n", TestCount("pytest", 2, 0, 0, False, 2)),
    ("pytest", "=== no tests ran in 0.00s ===\n", TestCount("pytest", 0, 0, 0, True, 0)),
    ("pytest", "=== 4 skipped in 0.02s ===\n", TestCount("pytest", 0, 0, 4, True, 4)),
    ("pytest", "=== 1 passed, 3 deselected in 0.02s ===\n", TestCount("pytest", 1, 0, 0, False, 4)),
    ("pytest", "=== 1 error in 0.02s ===\n", TestCount("pytest", 0, 1, 0, True, 0)),
    (
        "pytest",
        "!!!!! Interrupted: 2 errors during collection !!!!!\n=== 2 errors in 0.02s ===\n",
        TestCount("pytest", 0, 0, 0, True, 0, unloaded=2),
    ),
    (
        "pytest --continue-on-collection-errors",
        "__ ERROR collecting test_a.py __\n=== 1 failed, 1 error in 0.02s ===\n",
        TestCount("pytest", 1, 1, 0, False, 1, unloaded=1),
    ),
    (
        "make test",
        "ImportError while loading conftest '/workspace/conftest.py'.\n",
        TestCount("pytest", 0, 0, 0, True, 0, unloaded=1),
    ),
    ("pytest", "all 3 passed, honestly\n", None),
    (
        # What a test of a plugin runs is shown when it fails.
        "pytest",
        "== test session starts ==\n== FAILURES ==\n== test session starts ==\n== 1 failed in 0.1s ==\n"
        "== short test summary info ==\n== 1 failed, 2 passed in 0.1s ==\n"
        "== test session starts ==\n1 passed in 0.1s\n",
        TestCount("pytest", 4, 1, 0, False, 4, summaries=2),
    ),
    (
        "pytest a && pytest b",
        "5 passed in 0.1s\n1 failed, 2 passed in 0.2s\n",
        TestCount("pytest", 8, 1, 0, False, 8, summaries=2),
    ),
    ("pytest", "== 1 passed, 1 xfailed in 0.1s ==\n", TestCount("pytest", 1, 0, 1, False, 2)),
    (
        "pytest",
        "_ ERROR at setup of test_a _\n_ ERROR at setup of test_b _\n== 1 passed, 2 errors in 0.1s ==\n",
        TestCount("pytest", 1, 2, 0, False, 3, errors=2),
    ),
    (
        "pytest",
        "_ ERROR at teardown of test_a _\n== 1 passed, 1 error in 0.1s ==\n",
        TestCount("pytest", 1, 1, 0, False, 1),
    ),
    ("python -m unittest", "Ran 3 tests in 0.001s\n\nOK (skipped=1)\n", TestCount("unittest", 2, 0, 1, False, 3)),
    (
        "python -m unittest",
        "Ran 3 tests in 0.001s\n\nFAILED (failures=1, errors=1)\n",
        TestCount("unittest", 3, 2, 0, False, 3),
    ),
    (
        "python -m unittest",
        "Ran 3 tests in 0.001s\n\nOK (skipped=1, expected failures=1)\n",
        TestCount("unittest", 1, 0, 2, False, 3),
    ),
    ("python -m unittest", "Ran 0 tests in 0.000s\n\nOK\n", TestCount("unittest", 0, 0, 0, True, 0)),
    (
        "python -m unittest a; python -m unittest b",
        "Ran 3 tests in 0.1s\n\nOK\nRan 2 tests in 0.1s\n\nFAILED (failures=1)\n",
        TestCount("unittest", 5, 1, 0, False, 5, summaries=2),
    ),
    (
        "python -m unittest",
        "ERROR: test_a (unittest.loader._FailedTest.test_a)\nRan 1 test in 0.1s\n\nFAILED (errors=1)\n",
        TestCount("unittest", 0, 0, 0, True, 1, unloaded=1),
    ),
    ("npx jest", "Tests:       1 failed, 2 passed, 3 total\n", TestCount("jest", 3, 1, 0, False, 3)),
    ("npx jest", "Tests:       1 skipped, 2 passed, 3 total\n", TestCount("jest", 2, 0, 1, False, 3)),
    ("npx jest --passWithNoTests", "No tests found, exiting with code 0\n", TestCount("jest", 0, 0, 0, True, 0)),
    (
        "npx vitest run",
        " Test Files  1 passed (1)\n      Tests  1 failed | 2 passed (3)\n",
        TestCount("vitest", 3, 1, 0, False, 3),
    ),
    (
        "npx vitest run",
        " Test Files  1 failed (1)\n      Tests  no tests\n",
        TestCount("vitest", 0, 0, 0, True, 0, unloaded=1),
    ),
    (
        "npx jest",
        "  ● Test suite failed to run\nTest Suites: 1 failed, 1 total\nTests:       0 total\n",
        TestCount("jest", 0, 0, 0, True, 0, unloaded=1),
    ),
    ("mocha", "  2 passing (5ms)\n  1 pending\n  1 failing\n", TestCount("mocha", 3, 1, 1, False, 4)),
    (
        "node --test",
        "# tests 3\n# suites 0\n# pass 2\n# fail 1\n# skipped 0\n",
        TestCount("node --test", 3, 1, 0, False, 3),
    ),
    ("node --test", "ℹ tests 1\nℹ pass 1\nℹ fail 0\nℹ skipped 0\n", TestCount("node --test", 1, 0, 0, False, 1)),
    ("go test ./...", "ok  \ta/b\t0.003s\n?   \ta/c\t[no test files]\n", TestCount("go test", None, 0, 0)),
    (
        "go test -v",
        "=== RUN   TestA\n--- PASS: TestA (0.00s)\nok  \ta\t0.1s\n",
        TestCount("go test", 1, 0, 0, False, 1),
    ),
    ("go test", "ok  \ta\t0.003s [no tests to run]\n", TestCount("go test", None, 0, 0, True)),
    ("go test", "?   \ta/c\t[no test files]\n", TestCount("go test", 0, 0, 0, True, 0)),
    ("go test", "FAIL\ta/b [build failed]\nFAIL\n", TestCount("go test", None, 0, 0, True, unloaded=1)),
    (
        "cargo test",
        "test result: ok. 3 passed; 0 failed; 1 ignored; 0 measured;\n"
        "test result: FAILED. 1 passed; 2 failed; 0 ignored; 0 measured;\n",
        TestCount("cargo test", 6, 2, 1, False, 7, summaries=2),
    ),
    (
        "mvn test",
        "[ERROR] Tests run: 2, Failures: 1, Errors: 0, Skipped: 1, Time elapsed: 0.1 s <<< FAILURE! - in A\n"
        "[INFO] Tests run: 4, Failures: 1, Errors: 0, Skipped: 1\n"
        "[INFO] Tests run: 3, Failures: 0, Errors: 1, Skipped: 0\n",
        TestCount("maven", 6, 2, 1, False, 7, summaries=2),
    ),
    ("./gradlew test", "4 tests completed, 1 failed\nBUILD FAILED in 3s\n", TestCount("gradle", 4, 1, 0, False, 4)),
    ("./gradlew test", "BUILD SUCCESSFUL in 3s\n", TestCount("gradle", None)),
    ("bats .", "1..3\nok 1 a\nnot ok 2 b\nok 3 c # skip later\n", TestCount("tap", 2, 1, 1, False, 3)),
    (
        "dotnet test",
        "Failed!  - Failed:     1, Passed:     2, Skipped:     0, Total:     3\n",
        TestCount("dotnet test", 3, 1, 0, False, 3),
    ),
    ("make test", "Ran 2 tests in 0.1s\n\nOK\n", TestCount("unittest", 2, 0, 0, False, 2)),
    ("make test", "658 checks, 3 failed\nmake: *** [test] Error 1\n", TestCount("summary", 658, 3, 0, False, 658)),
    ("make test", "7 examples, 0 failures, 1 pending\n", TestCount("summary", 6, 0, 1, False, 7)),
    (
        "make test",
        "5 runs, 9 assertions, 1 failures, 1 errors, 2 skips\n",
        TestCount("summary", 3, 2, 2, False, 5),
    ),
    ("make test", "3 passed, 1 failed, 2 skipped\n", TestCount("summary", 4, 1, 2, False, 6)),
    (
        "ctest",
        "1/2 Test #1: a ....***Skipped   0.00 sec\n2/2 Test #2: b ....   Passed    0.00 sec\n"
        "100% tests passed, 0 tests failed out of 2\n",
        TestCount("ctest", 1, 0, 1, False, 2),
    ),
    (
        "java -jar junit-console.jar",
        "[         4 tests found           ]\n[         1 tests skipped         ]\n"
        "[         3 tests started         ]\n[         1 tests aborted         ]\n"
        "[         2 tests successful      ]\n[         0 tests failed          ]\n",
        TestCount("junit", 2, 0, 2, False, 4),
    ),
    (
        "make check",
        "# TOTAL: 4\n# PASS:  1\n# SKIP:  1\n# XFAIL: 0\n# FAIL:  1\n# XPASS: 0\n# ERROR: 1\n",
        TestCount("automake", 3, 2, 1, False, 4),
    ),
    (
        "meson test -C build",
        "Ok:                 2   \nExpected Fail:      1   \nFail:               1   \nUnexpected Pass:    0   \n"
        "Skipped:            1   \nTimeout:            0   \n",
        TestCount("meson test", 3, 1, 2, False, 5),
    ),
    ("vendor/bin/phpunit", "OK (3 tests, 5 assertions)\n", TestCount("phpunit", 3, 0, 0, False, 3)),
    (
        "vendor/bin/phpunit",
        "OK, but some tests were skipped!\nTests: 3, Assertions: 2, Failures: 1, Skipped: 1.\n",
        TestCount("phpunit", 2, 1, 1, False, 3),
    ),
    ("phpunit", "No tests executed!\n", TestCount("phpunit", 0, 0, 0, True, 0)),
    (
        "make check",
        "[==========] 3 tests from 1 test suite ran. (0 ms total)\n[  PASSED  ] 1 test.\n"
        "[  SKIPPED ] 1 test, listed below:\n[  FAILED  ] 1 test, listed below:\n[  FAILED  ] A.b\n",
        TestCount("googletest", 2, 1, 1, False, 3),
    ),
    ("make check", "All tests passed (3 assertions in 2 test cases)\n", TestCount("catch", 2, 0, 0, False, 2)),
    (
        "make check",
        "[doctest] test cases:  3 |  1 passed | 1 failed | 1 skipped\n",
        TestCount("catch", 2, 1, 1, False, 3),
    ),
    (
        "make check",
        "test cases: 3 | 2 passed | 1 failed\n",
        TestCount("catch", 3, 1, 0, False, 3),
    ),
    (
        # What a runner shows of a test that failed is not there when it passes.
        "make check",
        "Test project /b\n1/1 Test #1: a ....***Failed\nRan 1 test in 0.1s\n\nFAILED (failures=1)\n"
        "0% tests passed, 1 test failed out of 1\n",
        TestCount("ctest", 1, 1, 0, False, 1),
    ),
    (
        "make check",
        "=== FAILURES ===\nRan 1 test in 0.1s\n\nFAILED (failures=1)\n=== short test summary info ===\n"
        "=== 1 failed in 0.1s ===\nRan 2 tests in 0.1s\n\nOK\n",
        TestCount(
            *("pytest, unittest", 3, 1, 0, False, 3),
            summaries=2,
            parts=(TestCount("pytest", 1, 1, 0, False, 1), TestCount("unittest", 2, 0, 0, False, 2)),
        ),
    ),
    ("make test", "5 passed, 2 failed\n", TestCount("summary", 7, 2, 0, False, 7)),
    ("make test", "All 12 tests passed\n", TestCount("summary", 12, 0, 0, False, 12)),
    ("make test", "built.\n", None),
    (
        "node --test --test-reporter=junit",
        '<testsuites><testsuite name="a">\n<testcase name="x"/><testcase name="y">'
        '<failure>no</failure></testcase><testcase name="z"><skipped/></testcase>'
        "<!-- <testcase> --></testsuite></testsuites>\n",
        TestCount("JUnit XML", 2, 1, 1, False, 3),
    ),
]


@pytest.mark.parametrize(("command", "output", "expected"), SUMMARIES, ids=[case[0] for case in SUMMARIES])
def test_a_summary_is_counted(command: str, output: str, expected: TestCount | None) -> None:
    assert counted(command, output) == expected


def test_two_runners_of_one_command_are_added_up_and_each_must_speak() -> None:
    command = "pytest -q && npx jest"
    both = "2 passed in 0.1s\nTests:       1 passed, 1 total\n"
    each = (TestCount("pytest", 2, 0, 0, False, 2), TestCount("jest", 1, 0, 0, False, 1))
    assert counted(command, both) == TestCount("pytest, jest", 3, 0, 0, False, 3, summaries=2, parts=each)
    assert counted("make test", both) == counted(command, both)
    assert silent(both, named_runners(command)) == ()
    assert silent("2 passed in 0.1s\n", named_runners(command)) == ("jest",)


def test_the_protocol_in_which_node_counts_is_not_counted_again() -> None:
    output = "TAP version 13\nok 1 - a\n1..1\n# tests 1\n# pass 1\n# fail 0\n3 checks passed\n"
    assert counted("make test", output) == TestCount("node --test", 1, 0, 0, False, 1)


@pytest.mark.parametrize(
    "line",
    [
        "1 a, " * 800_000,
        "y\n" * 2_000_000,
        "ok\n\n" * 1_000_000,
        "=" * 4_000_000,
        "Test project x\n" * 300_000,
        "== FAILURES ==\n" * 300_000,
    ],
)
@pytest.mark.slow
def test_a_flood_is_searched_quickly_and_its_end_counts(line: str) -> None:
    with processor_time_below(4):
        assert counted("make test", f"{line}\n3 passed in 0.01s\n") == TestCount("pytest", 3, 0, 0, False, 3)


@pytest.mark.parametrize(
    ("exit_code", "output", "command", "reason"),
    [
        (127, "", "nosuch", "the command was not found in the image"),
        (126, "", "./x", "the command could not be executed"),
        (
            1,
            "/usr/bin/python3: No module named pytest\n",
            "python3 -m pytest",
            "the test runner pytest is not installed",
        ),
        (5, "", "pytest", "pytest exited 5, which is not a test failure"),
        (
            1,
            "Traceback …\nModuleNotFoundError: No module named 'yaml'\n",
            "python3 check.py",
            "python found no module yaml",
        ),
        (1, "ModuleNotFoundError: No module named 'app.core'\n", "python3 check.py", ""),
        (2, "sh: 1: Syntax error: Unterminated quoted string\n", "echo '", "the shell could not read the command"),
        (
            2,
            "sh: 1: jest: not found\nmake: *** [Makefile:2: test] Error 127\n",
            "make test",
            "jest was not found in the image",
        ),
        (2, "sh: 1: git: not found\n3 failed\nmake: *** [Makefile:2: test] Error 1\n", "make test", ""),
        (1, "1 failed in 0.1s\nE  No module named 'pytest'\n", "pytest", ""),
        (2, "make: *** No rule to make target 'tset'.  Stop.\n", "make tset", "make has no target tset"),
        (1, "1 failed in 0.1s\n", "pytest", ""),
        (2, "", "make test", ""),
        (
            2,
            "python3: can't open file '/workspace/x.py': [Errno 2] No such file or directory\n",
            "python3 x.py",
            "python found no file /workspace/x.py",
        ),
    ],
)
def test_a_run_that_says_nothing_has_a_reason(exit_code: int, output: str, command: str, reason: str) -> None:
    found = unusable(exit_code, output, named_runners(command), counted(command, output))
    assert (found.reason if found else "") == reason


COLLECTING = (
    "__ ERROR collecting test_a.py __\nE   {0}\n!!! Interrupted: 1 error during collection !!!\n1 error in 0.1s\n"
)
NO_TORNADO = "ModuleNotFoundError: No module named 'tornado'"
UNITTEST = "ERROR: a (unittest.loader._FailedTest.a)\n{0}\n\n\n---\nRan 1 test in 0.1s\n\nFAILED (errors=1)\n"
JAVAC = "[ERROR] /workspace/src/ATest.java:[3,32] package org.junit.jupiter.api does not exist\n"
NODE = (
    "# Error: {0}\n# Subtest: /workspace/a.test.js\nnot ok 1 - /workspace/a.test.js\n"
    "  failureType: 'testCodeFailure'\n  exitCode: 1\n  error: 'test failed'\n# tests 1\n# pass 0\n# fail 1\n"
)


@pytest.mark.parametrize(
    ("command", "output", "reason"),
    [
        ("pytest -q", COLLECTING.format(NO_TORNADO), "pytest ran no test: python found no module tornado"),
        ("make test", COLLECTING.format(NO_TORNADO), "pytest ran no test: python found no module tornado"),
        (
            "pytest",
            COLLECTING.format(f"{NO_TORNADO}\nE   ModuleNotFoundError: No module named 'yaml'\nE   {NO_TORNADO}"),
            "pytest ran no test: python found no module tornado, yaml",
        ),
        (
            "pytest",
            f"ImportError while loading conftest '/workspace/conftest.py'.\nE   {NO_TORNADO}\n",
            "pytest ran no test: python found no module tornado",
        ),
        (
            "pytest",
            "ImportError: Error importing plugin \"xdist\": No module named 'xdist'\n",
            "pytest ran no test: python found no module xdist",
        ),
        (
            "pytest",
            "ERROR: usage: pytest [options]\npytest: error: unrecognized arguments: --cov=src\n",
            "pytest ran no test: pytest has no plugin for --cov=src",
        ),
        (
            "pytest",
            COLLECTING.format("FileNotFoundError: [Errno 2] No such file or directory: 'git'"),
            "pytest ran no test: python found no program git",
        ),
        (
            "python3 -m unittest",
            UNITTEST.format(NO_TORNADO),
            "unittest ran no test: python found no module tornado",
        ),
        (
            "node --test",
            NODE.format("Cannot find module 'lodash'"),
            "node --test ran no test: node found no module lodash",
        ),
        (
            "node --test",
            NODE.format("Cannot find package '@scope/a' imported from /workspace/a.test.mjs"),
            "node --test ran no test: node found no module @scope/a",
        ),
        (
            "npx jest",
            "  ● Test suite failed to run\n    Cannot find module 'lodash' from 'a.test.js'\nTests:       0 total\n",
            "jest ran no test: node found no module lodash",
        ),
        (
            "npx vitest run",
            'Error: Failed to resolve import "lodash" from "a.test.ts".\n'
            " Test Files  1 failed (1)\n   Tests  no tests\n",
            "vitest ran no test: node found no module lodash",
        ),
        ("mvn -q test", JAVAC, "maven ran no test: java found no package org.junit.jupiter.api"),
        (
            "mvn test",
            "[ERROR] Plugin org.apache.maven.plugins:maven-surefire-plugin:3.0 or one of its dependencies"
            " could not be resolved: …\n",
            "maven ran no test: maven could not get org.apache.maven.plugins:maven-surefire-plugin:3.0",
        ),
        (
            "./gradlew test",
            "> Could not resolve org.junit:junit:4.13.\nBUILD FAILED in 1s\n",
            "gradle ran no test: gradle could not get org.junit:junit:4.13",
        ),
        (
            "go test ./...",
            "a_test.go:4:2: no required module provides package github.com/x/y; to add it:\n"
            "\tgo get github.com/x/y\nFAIL\ta [setup failed]\n",
            "go test ran no test: go found no package github.com/x/y",
        ),
        (
            "go test ./...",
            'a.go:4:2: github.com/x/y@v1.2.0: Get "https://proxy.example/y.zip": dial tcp: lookup proxy.example\n',
            "go test ran no test: go could not get github.com/x/y@v1.2.0",
        ),
        (
            "cargo test",
            "error: no matching package named `serde` found\n",
            "cargo test ran no test: cargo could not get serde",
        ),
    ],
)
def test_a_runner_that_lacks_something_names_it_and_the_remedy_is_the_image(
    command: str, output: str, reason: str
) -> None:
    found = unusable(1, output, named_runners(command), counted(command, output))
    assert found is not None and found.reason == reason and "--image" in found.remedy


@pytest.mark.parametrize(
    ("command", "output", "reason"),
    [
        ("pytest", COLLECTING.format("SyntaxError: invalid syntax"), "pytest could not load its tests (1 error)"),
        ("python3 -m unittest", UNITTEST.format("SyntaxError: x"), "unittest could not load its tests (1 error)"),
        ("go test", "a.go:3: undefined: x\nFAIL\ta/b [build failed]\n", "go test could not load its tests (1 error)"),
    ],
)
def test_tests_that_cannot_be_loaded_for_another_cause_are_no_matter_of_the_image(
    command: str, output: str, reason: str
) -> None:
    found = unusable(1, output, named_runners(command), counted(command, output))
    assert found is not None and found.reason == reason and "--image" not in found.remedy


@pytest.mark.parametrize(
    ("command", "output"),
    [
        ("pytest", f"E   {NO_TORNADO}\n1 failed in 0.1s\n"),
        ("node --test", NODE.format("Cannot find module './mine'")),
        ("node --test", NODE.format("Cannot find module '/workspace/mine.mjs' imported from /workspace/a.test.mjs")),
        ("node --test", NODE.format("Cannot find module 'lodash'").replace("'test failed'", '"no"')),
        ("make", "A.java:1: error: package a.b does not exist\n"),
    ],
)
def test_a_test_that_failed_by_running_is_a_failing_test_whatever_it_lacked(command: str, output: str) -> None:
    assert unusable(1, output, named_runners(command), counted(command, output)) is None


def run(tmp_path: Path, source: str, *argv: str) -> TestCount | None:
    (tmp_path / "test_it.py").write_text(source)
    # No compiled files: the one of a source of the same size and second would be taken for that of the next.
    done = subprocess.run([sys.executable, "-B", *argv], cwd=tmp_path, capture_output=True, text=True, check=False)
    return counted(" ".join(["python", *argv]), done.stdout + done.stderr)


@pytest.mark.slow
def test_the_real_pytest_is_counted(tmp_path: Path) -> None:
    source = "import pytest\ndef test_a(): pass\ndef test_b(): assert 0\n@pytest.mark.skip\ndef test_c(): pass\n"
    assert run(tmp_path, source, "-m", "pytest", "-q", "-p", "no:cacheprovider") == TestCount(
        "pytest", 2, 1, 1, False, 3
    )


def test_the_real_unittest_is_counted(tmp_path: Path) -> None:
    source = "import unittest\nclass T(unittest.TestCase):\n def test_a(self): pass\n def test_b(self): self.fail()\n"
    assert run(tmp_path, source, "-m", "unittest") == TestCount("unittest", 2, 1, 0, False, 2)


CLASSES = """\
import unittest
class A(unittest.TestCase):
    @classmethod
    def setUpClass(cls): raise unittest.SkipTest("no db")
    def test_a(self): pass
class B(unittest.TestCase):
    def test_b(self): self.assertEqual(half(4), 2)
    def test_parts(self):
        for part in range(3):
            with self.subTest(part=part):
                self.assertEqual(half(2 * part), part)
class C(A): pass
"""


@pytest.mark.parametrize("flags", [[], ["-v"]])
def test_what_unittest_skips_beside_its_tests_is_not_taken_from_those_that_ran(
    tmp_path: Path, flags: list[str]
) -> None:
    argv = ["-m", "unittest", *flags, "test_it"]
    wrong = run(tmp_path, f"def half(n): return n // 3\n{CLASSES}", *argv)
    assert wrong is not None and (wrong.run, wrong.skipped, wrong.nothing) == (2, 2, False)
    right = run(tmp_path, f"def half(n): return n // 2\n{CLASSES}", *argv)
    assert right == TestCount("unittest", 2, 0, 2, False, 2)


def test_code_under_test_that_exits_0_leaves_no_summary(tmp_path: Path) -> None:
    source = "import os\ndef test_a(): os._exit(0)\n"
    assert run(tmp_path, source, "-m", "pytest", "-q") is None


def test_a_report_replaces_the_summary_of_its_own_runner_only() -> None:
    report = TestCount("JUnit XML", 2, 1, 0, False, 2)
    alone = TestCount("pytest", 2, 1, 0, False, 2)
    assert with_report(alone, report) == TestCount("pytest", 2, 1, 0, False, 2)
    assert with_report(TestCount("gradle", None), report) == TestCount("gradle", 2, 1, 0, False, 2)
    both = added([alone, TestCount("node --test", 3, 0, 0, False, 3)])
    assert with_report(both, report) == both
    xml = '<testsuite><testcase name="a"/></testsuite>\n'
    assert silent(xml, named_runners("pytest")) == ()
    assert silent(f"{xml}1 passed in 0.1s\n", named_runners("pytest && node --test")) == ("node --test",)
