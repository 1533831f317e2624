"""`codeagent fix TASK --verify CMD`: investigate, change a private copy, verify independently."""

from __future__ import annotations

import argparse
from typing import Any

from codeagent.cli.flags import add_turn_flags
from codeagent.errors import UsageError

EXAMPLES = """\
examples:
  codeagent fix "findById returns null for cached users" --verify "make test"
  codeagent fix "the parser drops the time zone" --verify "pytest -q tests/test_dates.py" --approve contained
  codeagent diff && codeagent apply          look at the change, then apply it

The command must fail before the change and pass after it, each in a fresh container. The repository is not written.
exit codes: 0 verified, 1 not printed, or a fault of codeagent, 2 usage, 3 model, 4 sandbox, 5 not verified, \
6 needs input, 7 stopped early, 130 interrupted
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "fix",
        help="investigate, change a private copy, verify independently",
        description="Changes a private copy of the repository and verifies the change apart from the model's words.",
        epilog=EXAMPLES,
    )
    parser.add_argument("task", metavar="TASK", help="what is wrong, in any language")
    add_turn_flags(parser)
    parser.add_argument("--force", action="store_true", help="go on although the command already passes")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from codeagent.cli.choices import Choices

    if not args.task.strip():
        raise UsageError("The task is empty.", 'Say what is wrong: codeagent fix "…" --verify "make test"')
    if not (args.verify or "").strip():
        raise UsageError(
            "fix needs a command that shows the fault.",
            'Give one that fails now and passes when it is fixed: --verify "make test"',
        )
    choices = Choices.of(args, patching=True)
    choices.require_model()
    from codeagent.cli.wiring import opened_workbench

    with opened_workbench(choices, args.task) as bench:
        return bench.turn(args.task, fixing=True)
