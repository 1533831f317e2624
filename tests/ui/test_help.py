from __future__ import annotations

import argparse
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest

from codeagent.cli.main import build_parser, run

SCRIPT = """
import sys
from codeagent.cli.main import run
try:
    run(sys.argv[1:])
except SystemExit as end:
    assert not end.code, end.code
heavy = {"openai", "docker", "rich", "prompt_toolkit", "shtab", "tree_sitter", "watchdog"}
print("IMPORTED", heavy & set(sys.modules))
"""


@pytest.mark.parametrize("command", ["chat", "doctor", "completion", "config"])
def test_help_gives_an_example_and_loads_nothing_heavy(command: str) -> None:
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, command, "--help"], capture_output=True, text=True, timeout=60
    )
    assert f"examples:\n  codeagent {command}" in ran.stdout
    assert ran.stdout.endswith("IMPORTED set()\n")


@pytest.mark.parametrize("columns", [40, 80, 100])
def test_texts_fit_the_screen_and_examples_stay_whole(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", str(columns))
    for parser in every(build_parser()):
        lines = parser.format_help().splitlines()
        assert [line for line in lines if len(line) > columns and not line.startswith("  codeagent ")] == []
        for example in re.findall(r"^  (codeagent .*?)(?: {2,}.*)?$", parser.epilog or "", re.MULTILINE):
            assert any(line.startswith(f"  {example}") for line in lines)


def every(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    yield parser
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                yield from every(child)


def test_each_action_of_the_sandbox_shows_examples_of_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    for action in ("build", "status", "shell", "clean"):
        with pytest.raises(SystemExit):
            run(["sandbox", action, "--help"])
        examples = re.findall(r"^  codeagent sandbox (\w+)", capsys.readouterr().out, re.MULTILINE)
        assert set(examples) == {action}


@pytest.mark.parametrize("command", [(), ("ask",), ("fix",), ("resume",)])
def test_help_of_what_runs_a_turn_names_every_exit_code(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run([*command, "--help"])
    _, _, codes = capsys.readouterr().out.partition("exit codes: ")
    assert re.findall(r"\b\d+\b", codes) == ["0", "1", "2", "3", "4", "5", "6", "7", "130"]
