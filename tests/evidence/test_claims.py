"""A claim that tests pass needs a recorded run that says so."""

from __future__ import annotations

import pytest

from codeagent.evidence.claims import unsupported
from codeagent.evidence.runs import Run
from tests.clocks import processor_time_below

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
    "All 15 unit tests pass without any failure.",
    "Tests pass, not a single failure.",
    "The tests are passing and nothing fails.",
    "All tests passed when I ran them.",
    "With this change the check passes (it did not before).",
    "The suite comes back clean.",
    "pytest reports success.",
    "Test results: green.",
    "Verification: passed.",
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
    "The tests pass only when the cache is empty.",
    "Nothing was verified.",
    "A request without a token fails.",
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


LONG = ["the ", "1 ", "tests ", "所有", "a-", "the fix ", "verified ", "```a\n", "pytest ", "no ", "a.", "test_a "]


@pytest.mark.parametrize("part", LONG)
@pytest.mark.slow
def test_neither_a_long_answer_nor_a_long_command_takes_long(part: str) -> None:
    with processor_time_below(6):
        unsupported(part * (30_000 // len(part)), [Run("one", part * (30_000 // len(part)) + "x", 0)])
