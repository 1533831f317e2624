"""`codeagent ask QUESTION`: one turn on a repository, then exit."""

from __future__ import annotations

import argparse
from typing import Any

from codeagent.cli.flags import add_turn_flags
from codeagent.errors import UsageError

EXAMPLES = """\
examples:
  codeagent ask "why does UserService return null"
  codeagent ask "where is UserService" --model offline
  codeagent ask "why does the test fail" --approve contained --json > events.jsonl

The answer goes to stdout; progress, approvals and the two lines at the end go to stderr.
exit codes: 0 answered, 1 not printed, or a fault of codeagent, 2 usage, 3 model, 4 sandbox, 5 not verified, \
6 needs input, 7 stopped early, 130 interrupted
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "ask",
        help="one question about a repository, then exit",
        description="Investigates a repository to answer one question, with citations that the program has checked.",
        epilog=EXAMPLES,
    )
    parser.add_argument("question", metavar="QUESTION", help="in any language")
    add_turn_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from codeagent.cli.choices import Choices

    if not args.question.strip():
        raise UsageError("The question is empty.", 'Ask something: codeagent ask "why does X return null"')
    choices = Choices.of(args)  # what is wrong with the command line is said before anything large is loaded
    from codeagent.cli.wiring import opened_workbench

    with opened_workbench(choices, args.question) as bench:
        return bench.turn(args.question)
