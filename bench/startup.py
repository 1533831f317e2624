"""Start-up, in multiples of the bare interpreter's."""

from __future__ import annotations

import sys
from pathlib import Path

from bench.measure import Row, median, ms, process, side_by_side
from codeagent.sandbox.engine import Engine

PROGRAM = str(Path(sys.executable).with_name("codeagent"))
ROUNDS = 15


def help_and_policy(_engine: Engine) -> Row:
    bare, help_, policy = map(
        median,
        side_by_side(
            ROUNDS,
            process(sys.executable, "-c", "pass"),
            process(PROGRAM, "--help"),
            process(PROGRAM, "policy", "check", "git log -3 | head"),
        ),
    )
    return Row(
        6,
        "codeagent --help; policy check CMD",
        "<= 5 x; <= 8 x `python -c pass`",
        f"{help_ / bare:.1f} x; {policy / bare:.1f} x (bare {ms(bare)}, help {ms(help_)}, policy {ms(policy)})",
        help_ <= 5 * bare and policy <= 8 * bare,
    )
