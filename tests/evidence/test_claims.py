"""A claim that tests pass needs a recorded run that says so."""

from __future__ import annotations

import time

import pytest

from codeagent.evidence.claims import Run, exit_code, passing, unsupported

CLAIMS = [
    "All tests pass.",
    "All 120 tests now pass!",
    "The test suite passes with this change.",
    "Verified: 120 passed!",
    "I ran the checks and every test succeeded.",
    "所有测试都通过了。",
    "测试已通过。",
    "Alle Tests bestehen.",
    "Tous les tests passent.",
    "All tests are passing.",
    "15/15 tests pass.",
    "`make test` passes now.",
    "`pytest -q` exits 0.",
    "test_half passes now.",
    "The failing test now passes.",
    "Everything passes.",
    "CI is green.",
    "Tests: 15 passed, 0 failed.",
    "The tests no longer fail.",
    "No test fails any more.",
    "There are no failing tests left.",
    "The fix is verified.",
    "I have verified that the fix works.",
    "I ran `pytest` and it passed.",
    "すべてのテストが通りました。",
    "Все тесты проходят.",
]
NO_CLAIMS = [
    "Not all tests pass.",
    "The tests should pass after this.",
    "Run the tests to see whether they pass.",
    "If the tests pass, commit.",
    "测试没有通过。",
    "Two tests fail.",
    "One test fails and everything else is unknown.",
    "The fix has not been verified.",
    "I could not run the tests, so whether they pass is open.",
    "The check in `has_key` fails when the value was passed by name.",
    "The build directory is passed to the compiler.",
    "The suite of helpers passes the request on.",
    "The password is passed to `check`.",
    "```\n12 passed in 0.3s\n```",
]


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_claim_without_a_run_is_marked(claim: str) -> None:
    assert unsupported(f"I fixed `a.py:3`.\n\n- {claim} More text.", []) == [claim]


@pytest.mark.parametrize("text", NO_CLAIMS)
def test_what_is_no_claim_is_not_marked(text: str) -> None:
    assert unsupported(text, []) == []


@pytest.mark.parametrize(
    ("command", "code", "proves"),
    [
        ("pytest -q", 0, True),
        ("cd app && python3 -m pytest", 0, True),
        ("npm test", 0, True),
        ("go test ./...", 0, True),
        ("make test", 0, True),
        ("mvn -q test", 0, True),
        ("./run_tests.sh", 0, True),
        ("node --test", 0, True),
        ("pytest -q", 1, False),
        ("pytest -q", None, False),
        ("pytest -q | tail -3", 0, False),
        ("pytest -q || true", 0, False),
        ("pytest -q; echo done", 0, False),
        ("pytest &", 0, False),
        ("pytest && echo done", 0, False),
        ("echo 'all tests pass'", 0, False),
        ("cat test_a.py", 0, False),
    ],
)
def test_which_runs_prove_that_tests_passed(command: str, code: int | None, proves: bool) -> None:
    assert passing(Run("c", command, code)) is proves
    assert (unsupported("All tests pass.", [Run("c", command, code)]) == []) is proves


def test_the_exit_code_is_read_from_the_first_line() -> None:
    assert exit_code("[exit code 3; 0.05 s; cwd /workspace]\nexit code 0") == 3
    assert exit_code("[killed: timeout; 2 s; cwd /workspace]") is None


LONG = ["the ", "1 ", "tests ", "所有", "a-", "the fix ", "verified ", "```a\n", "pytest ", "no ", "a.", "test_a "]


@pytest.mark.parametrize("part", LONG)
def test_neither_a_long_answer_nor_a_long_command_takes_long(part: str) -> None:
    began = time.process_time()
    unsupported(part * (30_000 // len(part)), [Run("one", part * (30_000 // len(part)) + "x", 0)])
    assert time.process_time() - began < 3
