from __future__ import annotations

import subprocess
import sys

import pytest

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
