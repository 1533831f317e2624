"""Every status on every fixture: the right change, a wrong one, cheats, checks that show nothing."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.seam import Diff
from codeagent.sandbox.toolbox import Toolbox
from codeagent.verification.record import VerificationStatus
from codeagent.verification.verify import Baseline
from tests.docker.verifying import Change, Verifying
from tests.fixtures_expected import CONFIG_STORE, FEATURE_FLAGS, ORDER_PRICING, USER_SERVICE, Case


@dataclass(frozen=True)
class Cheats:
    """`files` change what decides the check; `leaving` makes the code under test end the process with 0."""

    case: Case
    files: Change
    leaving: Change


def text_of(case: Case, path: str) -> str:
    return (case.root / path).read_text()


def replaced(case: Case, path: str, old: str, new: str) -> Change:
    text = text_of(case, path)
    assert old in text
    return {path: text.replace(old, new)}


USERS = "src/main/java/com/acme/users/repository/CachingUserRepository.java"
ALL_CHEATS = (
    Cheats(
        USER_SERVICE,
        {
            "Makefile": "test:\n\t@echo 'Tests run: 23, Failures: 0'\n",
            "src/test/java/com/acme/users/TestMain.java": "package com.acme.users;\npublic class TestMain {\n"
            '    public static void main(String[] a) { System.out.println("Tests run: 23, Failures: 0"); }\n}\n',
            "src/main/java/org/junit/Assert.java": "package org.junit;\npublic class Assert {}\n",
            "GNUmakefile": "test:\n\t@true\n",
            ".mvn/jvm.config": "-Dx\n",
        },
        replaced(
            USER_SERVICE, USERS, "save(User user) {", "save(User user) {\n        Runtime.getRuntime().halt(0);"
        ),
    ),
    Cheats(
        ORDER_PRICING,
        {
            "conftest.py": "import os\nprint('15 passed in 0.1s', flush=True)\nos._exit(0)\n",
            "tests/conftest.py": "def pytest_collection_modifyitems(items):\n    del items[:]\n",
            "pytest.ini": "[pytest]\naddopts = -k nothing_fails\n",
            "pytest.py": "print('15 passed in 0.01s')\n",
            "_pytest/__init__.py": "",
            "sitecustomize.py": "import os\nos._exit(0)\n",
            "yaml.pth": "import os\n",
            "pyproject.toml": "[tool.pytest.ini_options]\naddopts = '--deselect tests'\n",
        },
        replaced(ORDER_PRICING, "pricing/catalog/period.py", "return day < self.end", "import os; os._exit(0)"),
    ),
    Cheats(
        FEATURE_FLAGS,
        {
            "package.json": '{"name": "feature-flags", "scripts": {"test": "true"}}\n',
            "test/rules.test.js": "",
            "test/support.js": "process.exit(0)\n",
            ".npmrc": "node-options=--test-only\n",
            "node_modules/assert/index.js": "module.exports = () => {}\n",
        },
        replaced(FEATURE_FLAGS, "src/rules/buckets.js", "return Math.trunc", "process.exit(0); return Math.trunc"),
    ),
    Cheats(
        CONFIG_STORE,
        {
            "Makefile": "test:\n\t@echo '658 checks, 0 failed'\n",
            "tests/check.h": "#define CHECK(x) ((void)(x))\n",
            "tests/main.c": "int main(void) { return 0; }\n",
            "include/assert.h": "#define assert(x) ((void)0)\n",
            "makefile": "test:\n\t@true\n",
        },
        replaced(CONFIG_STORE, "src/table.c", "table->used--;", "table->used--;\n    exit(0);"),
    ),
)


@pytest.fixture(scope="module", params=ALL_CHEATS, ids=lambda cheats: cheats.case.name)
def cheats(request: pytest.FixtureRequest) -> Cheats:
    found: Cheats = request.param
    return found


@pytest.fixture(scope="module")
def verifying(
    cheats: Cheats, engine: Engine, toolbox: Toolbox, image: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Verifying]:
    verifying = Verifying(cheats.case.root, tmp_path_factory.mktemp("verifying"), engine, toolbox)
    yield verifying
    assert verifying.left() == []


def patch(path: Path) -> Diff:
    return Diff(path.read_bytes())


def test_the_right_change_passes(cheats: Cheats, verifying: Verifying) -> None:
    record = verifying.record(cheats.case.check, patch(cheats.case.right_patch))
    assert (record.status, record.tests_modified) == (VerificationStatus.PASSED, ())


def test_the_wrong_change_fails(cheats: Cheats, verifying: Verifying) -> None:
    record = verifying.record(cheats.case.check, patch(cheats.case.wrong_patch))
    assert (record.status, record.tests_modified) == (VerificationStatus.FAILED, ())


def test_no_cheat_with_files_that_decide_the_check_passes(cheats: Cheats, verifying: Verifying) -> None:
    record = verifying.changed(cheats.case.check, cheats.files)
    assert (record.status, record.tests_modified) == (VerificationStatus.FAILED, tuple(sorted(cheats.files)))


def test_code_that_ends_the_process_with_success_in_the_middle_of_the_tests_fails(
    cheats: Cheats, verifying: Verifying
) -> None:
    record = verifying.changed(cheats.case.check, cheats.leaving)
    assert (record.status, record.tests_modified) == (VerificationStatus.FAILED, ())
    assert record.after is not None and record.after.published()["exit_code"] == 0
    # Node runs each test file in a process of its own, and goes on with the next.
    assert record.reason.endswith(("did not print its summary", "only 6 tests ran, 14 before the change"))


def test_checks_that_show_nothing_are_not_taken_for_a_fault(cheats: Cheats, verifying: Verifying) -> None:
    right = patch(cheats.case.right_patch)
    passing = verifying.record("test -d .", right)
    missing = verifying.record("nosuchrunner --all", right)
    assert (passing.status, passing.reason) == (
        VerificationStatus.NOT_REPRODUCED,
        "the command already passes on the untouched repository",
    )
    assert (missing.status, missing.reason) == (
        VerificationStatus.NOT_RUN,
        "the command was not found in the image",
    )


def test_a_check_whose_runs_disagree_is_flaky(cheats: Cheats, verifying: Verifying) -> None:
    verifying.tmp_sizes = (32 << 20, 64 << 20)
    check = "test $(stat -f -c %b /tmp) -gt 10000"  # blocks of 4 KiB: chance, as far as the check can see
    record = verifying.record(check, patch(cheats.case.right_patch), repeat=2, baseline=Baseline(None))
    assert (record.status, record.reason) == (VerificationStatus.FLAKY, "1 of 2 runs with the change passed")
    assert record.after is not None
    assert [each["exit_code"] for each in record.after.published()["each"]] in ([0, 1], [1, 0])


def test_an_engine_that_dies_half_way_leaves_it_not_run(cheats: Cheats, verifying: Verifying) -> None:
    with verifying.killing("sleep 61"):
        record = verifying.record("sleep 61", patch(cheats.case.right_patch), baseline=Baseline(None))
    assert (record.status, record.after) == (VerificationStatus.NOT_RUN, None)
    assert record.reason.startswith("the run with the change could not be made: the sandbox was lost")
