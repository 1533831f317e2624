from __future__ import annotations

import re
import subprocess
import sys

import pytest

from codeagent.cli.main import run

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


@pytest.mark.parametrize("command", [(), ("ask",), ("fix",), ("resume",)])
def test_help_of_what_runs_a_turn_names_every_exit_code(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        run([*command, "--help"])
    _, _, codes = capsys.readouterr().out.partition("exit codes: ")
    assert re.findall(r"\b\d+\b", codes) == ["0", "1", "2", "3", "4", "5", "6", "7", "130"]
