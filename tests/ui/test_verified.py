"""The record of a verification in words."""

from __future__ import annotations

from typing import Any

import pytest

from codeagent.ui.verified import record_lines, run_line, tail_lines

TREE, DIFF, STATE = "a" * 64, "d" * 64, "5" * 64
BEFORE = {
    "exit_code": 1,
    "duration_ms": 1830,
    "tests": 12,
    "runner": "pytest",
    "collected_tests": 13,
    "failed_tests": 2,
    "skipped_tests": 1,
    "runs": 1,
    "passed_runs": 0,
    "tree": TREE,
    "output_tail": "x\n" * 20 + "2 failed\n",
    "each": [{"exit_code": 1, "duration_ms": 1830, "tests": 12, "fault": "it exited 1"}],
}
AFTER = {
    "exit_code": 1,
    "duration_ms": 900,
    "tests": 12,
    "runs": 2,
    "passed_runs": 1,
    "tree": "b" * 64,
    "output_tail": "1 failed\n",
    "each": [
        {"exit_code": 0, "duration_ms": 900, "tests": 12, "fault": ""},
        {"exit_code": 1, "duration_ms": 900, "tests": 12, "fault": "it exited 1 with the change"},
    ],
}
RECORD: dict[str, Any] = {
    "status": "flaky",
    "reason": "1 of 2 runs with the change passed",
    "remedy": "",
    "command": "pytest -q",
    "directory": "/workspace",
    "image": "sha256:" + "c" * 64,
    "diff_sha256": DIFF,
    "before": BEFORE,
    "after": AFTER,
    "tests_modified": [],
    "notices": ["a.py:3 ends the process with success: os._exit(0)"],
    "repository": {"before": STATE, "after": STATE, "changed": []},
}


def test_the_whole_record_is_told() -> None:
    assert record_lines(RECORD) == [
        "Check: pytest -q (in /workspace of image cccccccccccc)",
        "Before the change: exit 1, 1.83s, 12 tests of pytest (2 failed, 1 skipped, 13 collected), "
        "on tree aaaaaaaaaaaa",
        "With the change: exit 1, 0.90s, 12 tests, 2 runs of which 1 passed, on tree bbbbbbbbbbbb",
        "  run 1: exit 0, 0.90s, 12 tests, passed",
        "  run 2: exit 1, 0.90s, 12 tests, no pass: it exited 1 with the change",
        "Change: diff with SHA-256 dddddddddddd",
        "Look at: a.py:3 ends the process with success: os._exit(0)",
        "Your repository: untouched (state 555555555555 before and after)",
    ]
    assert f"Change: diff with SHA-256 {DIFF}" in record_lines(RECORD, full=True)


def test_a_run_that_ended_before_the_turn_says_what_to_do() -> None:
    nothing: dict[str, Any] = {"after": None, "diff_sha256": "", "repository": {}, "notices": []}
    record = {**RECORD, **nothing, "status": "not_run", "remedy": "Install it."}
    lines = record_lines(record)
    assert (lines[0], lines[-1]) == ("What to do: Install it.", "With the change: not run")


def test_a_repository_that_was_changed_meanwhile_is_named() -> None:
    changed = {"before": STATE, "after": "6" * 64, "changed": ["a.py", "b.py"]}
    assert record_lines({**RECORD, "repository": changed})[-1] == (
        "Your repository: changed meanwhile, not by codeagent: a.py, b.py "
        "(state 555555555555 before, 666666666666 after)"
    )


def test_nothing_is_told_of_what_was_not_asked_for() -> None:
    assert record_lines({"status": "not_requested"}) == tail_lines({"status": "not_requested"}) == []


@pytest.mark.parametrize(("status", "shown"), [("failed", True), ("passed", False), ("not_reproduced", False)])
def test_the_end_of_the_output_is_shown_where_it_explains_the_verdict(status: str, shown: bool) -> None:
    assert tail_lines({**RECORD, "status": status}) == (["  | 1 failed"] if shown else [])
    before = tail_lines({**RECORD, "status": "not_run", "after": None})
    assert (len(before), before[-1]) == (8, "  | 2 failed")


@pytest.mark.parametrize(
    ("run", "line"),
    [
        ({"exit_code": 1, "duration_ms": 1830, "tests": 12, "runs": 1}, "exit 1, 1.83s, 12 tests"),
        ({"exit_code": None, "duration_ms": 900_000, "tests": None, "timed_out": True}, "timed out, 15m00s"),
        ({}, "exit None, 0.00s"),
    ],
)
def test_a_run_is_told_by_what_is_known_of_it(run: dict[str, object], line: str) -> None:
    assert run_line(run) == line
