"""The first milliseconds of the program."""

from __future__ import annotations

import subprocess
import sys

import pytest

INTERRUPTED = """
import signal, sys

module, sys.argv[1:] = sys.argv[1], ["doctor"]

class Interrupting:
    def find_spec(self, name, *_):
        if name == module:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
from codeagent.__main__ import main
main()
"""


@pytest.mark.parametrize("module", ["codeagent.cli.main", "codeagent.cli.parser", "codeagent.cli.doctor"])
def test_ctrl_c_while_the_program_loads_leaves_no_trace(module: str) -> None:
    ran = subprocess.run([sys.executable, "-c", INTERRUPTED, module], capture_output=True, text=True, timeout=60)
    assert (ran.returncode, ran.stdout, ran.stderr) == (130, "", "")
