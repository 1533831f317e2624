"""`codeagent doctor`: what is installed, reachable and misconfigured, each line with its remedy."""

from __future__ import annotations

import argparse
import json
import sys
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

    findings = []
    for finding in examine(args):
        findings.append(finding)
        if not args.json:
            _print(finding, args.no_color)
    failed = any(finding.level == "error" for finding in findings)
    if args.json:
        lines = [{"name": one.name, "level": one.level, "text": one.text, "remedy": one.remedy} for one in findings]
        print(json.dumps({"ok": not failed, "checks": lines}, indent=2))
    return 1 if failed else 0


def _print(finding: Finding, no_color: bool) -> None:
    import os

    from codeagent.ui.inert import inert_line
    from codeagent.ui.streams import colours, filled

    start, end = "", ""
    if colours(sys.stdout, os.environ, no_color):
        start, end = {"ok": "\x1b[32m", "warning": "\x1b[33m", "error": "\x1b[31m"}[finding.level], "\x1b[0m"
    told = filled(f"{finding.level:<7}  {finding.name:<10}  {inert_line(finding.text)}", sys.stdout, _INDENT)
    print(f"{start}{told[:7]}{end}{told[7:]}", flush=True)
    if finding.remedy:
        print(filled(" " * _INDENT + inert_line(finding.remedy), sys.stdout, _INDENT), flush=True)


_INDENT = 21
"""Columns before a finding's text."""
