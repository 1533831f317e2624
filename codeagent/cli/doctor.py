"""`codeagent doctor`: what is installed, reachable and misconfigured, each line with its remedy."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.cli.flags import add_config_flags

if TYPE_CHECKING:
    from codeagent.cli.checks import Finding

EXAMPLES = """\
examples:
  codeagent doctor                 this machine, the engine, and a sandbox for the repository here
  codeagent doctor --online        also one small request to the model
  codeagent doctor --json

Each line is ok, warning or error. The exit code is 1 when a line is an error, otherwise 0.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "doctor",
        help="what is installed, reachable, misconfigured",
        description="Looks at everything that a run needs, and says what to do about what is wrong. Changes nothing.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--repo", metavar="PATH", type=Path, help="the repository (default: the git work tree here)")
    parser.add_argument("--provider", metavar="NAME", help="a provider of the configuration")
    parser.add_argument("--model", metavar="NAME", help="the model to look at")
    parser.add_argument("--image", metavar="IMAGE", help="the container image (default: codeagent-sandbox)")
    parser.add_argument("--docker-host", metavar="URL", help="the container engine to use")
    add_config_flags(parser)
    parser.add_argument("--online", action="store_true", help="send one small request to the provider")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--no-color", action="store_true", help="no colour (NO_COLOR is honoured too)")
    parser.add_argument("--verbose", action="store_true", help="stack traces of errors")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints every finding as it is made; 1 when one is an error."""
    from codeagent.cli.checks import examine
    from codeagent.ui.terminal import Terminal

    findings = []
    with Terminal(None, sys.stderr, quiet=not sys.stderr.isatty(), no_color=args.no_color) as terminal:
        for finding in examine(args, terminal.steps):
            findings.append(finding)
            if not args.json:
                terminal.steps("", 0, 0)
                _print(finding, args.no_color)
    failed = any(finding.level == "error" for finding in findings)
    if args.json:
        lines = [{"name": one.name, "level": one.level, "text": one.text, "remedy": one.remedy} for one in findings]
        print(json.dumps({"ok": not failed, "checks": lines}, indent=2))
    return 1 if failed else 0


def _print(finding: Finding, no_color: bool) -> None:
    import os

    from codeagent.ui.streams import colours

    start, end = "", ""
    if colours(sys.stdout, os.environ, no_color):
        start, end = {"ok": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m"}[finding.level], "\x1b[0m"
    for number, row in enumerate(rows(finding, _width())):
        print(f"{start}{row[:7]}{end}{row[7:]}" if number == 0 else row, flush=True)


def _width() -> int | None:
    """Columns to fold in; None where nothing is folded."""
    import os

    from codeagent.ui.streams import on_terminal, width_of

    return width_of(sys.stdout, os.environ) - 1 if on_terminal(sys.stdout) else None


def rows(finding: Finding, width: int | None) -> Iterator[str]:
    """The finding beside its name, and below it what to do; where that column would be narrow, further left."""
    from codeagent.ui.folding import CODE_INDENT, fold
    from codeagent.ui.inert import inert_line

    width = width or sys.maxsize  # None: nothing is folded
    left = _INDENT if width - _INDENT >= _LEAST_COLUMNS else 2
    yield from fold(f"{finding.level:<7}  {finding.name:<10}  {inert_line(finding.text)}", width, left)
    for line in finding.remedy.splitlines():
        if line.startswith(CODE_INDENT):
            yield CODE_INDENT + inert_line(line.strip())
        else:
            yield from (" " * left + row for row in fold(inert_line(line), width - left))


_INDENT = 21
"""Columns before a finding's text."""
_LEAST_COLUMNS = 20
