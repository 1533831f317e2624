"""Which command lines have an exit code that is not their tests'."""

from __future__ import annotations

import pytest

from codeagent.verification.exitcode import hidden

PIPELINE = "the command is a pipeline, whose exit code is its last part's and not the tests'"
BACKGROUND = "the command ends in the background, where its exit code is lost"


@pytest.mark.parametrize(
    "command",
    [
        *("pytest | tail", "make && pytest | tail", "! pytest | grep x", "pytest |& tee log", "{ pytest | tail; }"),
        *("if pytest | tail; then true; fi", "for i in 1 2; do pytest | tail; done", "f() { pytest | tail; }; f"),
        "cat <<END | grep x\npytest\nEND\n",
    ],
)
def test_a_pipeline_hides_the_exit_code_of_all_but_its_last_part(command: str) -> None:
    assert hidden(command) == PIPELINE


@pytest.mark.parametrize(
    "command",
    ["pytest &", "pytest & # later", "make; pytest &\n", "(pytest &)", "{ pytest & }", "make && (pytest &)",
     "if true; then pytest & fi"],
)  # fmt: skip
def test_the_background_hides_the_exit_code(command: str) -> None:
    assert hidden(command) == BACKGROUND


@pytest.mark.parametrize(
    "command",
    [
        *("pytest -q", "make && pytest", 'test "$(grep x f | wc -l)" = 0', "n=`grep x f | wc -l`; test $n = 0"),
        *("diff <(a | b) c", "serve & pytest", "serve | tee log & pytest", "pytest & wait $!", "pytest -k 'a | b'"),
        *("a | b; pytest", "pytest > out 2>&1", "pytest # | tail &", "pytest -k $((1 & 3))"),
    ],
)
def test_a_command_whose_own_exit_code_counts_is_taken(command: str) -> None:
    assert hidden(command) == ""
