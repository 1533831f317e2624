from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.ui.calls import argument_of, status_of


def shown(**arguments: Any) -> str:
    return argument_of({"arguments": json.dumps(arguments)})


def test_the_argument_that_tells_a_call_from_its_neighbours() -> None:
    assert shown(path="a.py", start_line=3, end_line=9) == "a.py:3-9"
    assert shown(path="a.py", start_line=3, end_line=None) == "a.py:3-"
    assert shown(path="a.py", start_line=None, end_line=9) == "a.py:1-9"
    assert shown(path="src", depth=2, offset=0) == "src"
    assert shown(command=" rg x\n| head ", writes=False) == "rg x\\n| head"
    assert shown(patch="--- a/x\n+++ b/x\n@@\n--- a/y\n+++ b/y\n") == "x y"
    assert shown(patch="nonsense") == "8 characters"


@pytest.mark.parametrize("raw", ["", "null", "[]", '"a.py"', "5", "{", '{"path": ["a"]}', "[" * 100_000])
def test_arguments_that_are_none_are_shown_as_they_came(raw: str) -> None:
    assert argument_of({"arguments": raw})[:2_000] == raw[:2_000]


@given(st.text())
def test_any_arguments_give_one_line(raw: str) -> None:
    assert len(argument_of({"arguments": raw}).splitlines()) <= 1
    assert len(shown(command=raw).splitlines()) <= 1


def test_long_arguments_say_how_much_is_left_out() -> None:
    assert shown(command="x" * 2_500).endswith("x (500 characters more)")


@pytest.mark.parametrize(
    ("record", "output", "status"),
    [
        ({"status": "ok"}, "1\tx", "ok"),
        ({"status": "ok"}, "[killed: it wrote too much; 2 s; cwd /workspace]", "ok"),
        ({"status": "ok"}, "[exit code 0; 0.02 s; cwd /workspace]\nx", "ok"),
        ({"status": "ok"}, "[exit code 3; 0.02 s; cwd /workspace]", "exit 3"),
        ({"status": "error", "error_kind": "timeout"}, "error: timeout: x", "timeout"),
        ({"status": "error"}, "", "error"),
    ],
)
def test_statuses(record: dict[str, Any], output: str, status: str) -> None:
    assert status_of(record, output) == status
