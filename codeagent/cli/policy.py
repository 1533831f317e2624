"""`codeagent policy check`: how a command would be classified, and why, by the very code that the agent uses."""

from __future__ import annotations

import argparse
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.cli.person import say
from codeagent.errors import UsageError

if TYPE_CHECKING:
    from codeagent.approval.seam import Classification
    from codeagent.cli.parser import Parser
    from codeagent.settings import Rule

USAGE_EXIT = 64
"""0, 1 and 2 are the classes; the command's own errors need a code of their own."""

EXAMPLES = """\
examples:
  codeagent policy check "git log -3 | head"
  codeagent policy check --json "rm -rf build"
  codeagent policy check --jsonl commands.jsonl      one {"command": …} a line; - is stdin

exit codes: 0 read_only, 1 ask, 2 forbidden, 64 usage or configuration; with --jsonl 0
`ask` means that it may have side effects. Whether somebody is asked is up to your allow rules and --approve.
"""


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    parser = subparsers.add_parser(
        "policy",
        help="how a command would be classified, and why",
        epilog=EXAMPLES,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    check = actions.add_parser(
        "check",
        help="classify one command, or many",
        epilog=EXAMPLES,
    )
    check.add_argument("script", metavar="COMMAND", nargs="?", help="the command, as one argument")
    check.add_argument("--json", action="store_true", help="print {class, reason, commands}")
    check.add_argument("--jsonl", metavar="FILE", help='classify each {"command": …} line of FILE (- is stdin)')
    check.add_argument("--config", metavar="FILE", help="read this configuration instead of the user's")
    check.add_argument("--profile", metavar="NAME", help="lay a named profile of the configuration over it")
    parser.usage_exit_code = check.usage_exit_code = USAGE_EXIT
    check.set_defaults(run=run, usage_exit_code=USAGE_EXIT)


def run(args: argparse.Namespace) -> int:
    """The class as exit code, 64 for bad usage or configuration."""
    if (args.script is None) == (args.jsonl is None):
        raise UsageError("policy check takes one COMMAND or --jsonl FILE", 'Try: codeagent policy check "ls -la"')
    return _classified(args, *_rules(args.config, args.profile))


def _rules(config: str | None, profile: str | None) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """The user's allow and deny rules. Where no configuration exists, its reader is not even imported."""
    from codeagent.paths import config_file

    chosen = (
        config or profile or any(name.startswith("CODEAGENT_") for name in os.environ.keys() - {"CODEAGENT_HOME"})
    )
    if not chosen and not config_file().exists():
        return (), ()
    from codeagent.config import load_config

    loaded = load_config(config=Path(config) if config else None, profile=profile)
    return loaded.allow, loaded.deny


def _classified(args: argparse.Namespace, allow: tuple[Rule, ...], deny: tuple[Rule, ...]) -> int:
    import json

    from codeagent.approval.classify import classify
    from codeagent.approval.rules import Rules

    rules = Rules(allow, deny)
    if args.jsonl is not None:
        for command in _commands(args.jsonl):
            print(json.dumps({**_published(classify(command, rules)), "command": command}))
        return 0
    found = classify(args.script, rules)
    if args.json:
        print(json.dumps(_published(found)))
    else:
        _show(found)
    return int(found.class_)


def _published(found: Classification) -> dict[str, Any]:
    rule = {"rule": found.rule} if found.rule else {}
    return {"class": found.class_.label, "reason": found.reason, "commands": found.commands, **rule}


def _show(found: Classification) -> None:
    from codeagent.ui.inert import inert_line

    say(f"{found.class_.label}: {inert_line(found.reason)}", sys.stdout)
    if found.rule:
        effect = ", so it runs without a question" if found.rule.startswith("allow ") else ""
        print(f"  rule: {inert_line(found.rule)}{effect}")
    for argv in found.commands:
        print("  " + " ".join(word if _PLAIN_WORD.fullmatch(word) else repr(word) for word in argv))


_PLAIN_WORD = re.compile(r"[\w@%+=:,./-]+")
"""What needs no quotes to be seen whole."""


def _commands(name: str) -> Iterator[str]:
    """The commands of a JSON Lines file. Raises UsageError naming the first line that is not one."""
    import json

    try:
        content = sys.stdin.buffer.read() if name == "-" else Path(name).read_bytes()
    except OSError as error:
        raise UsageError(
            f"{name} cannot be read: {error.strerror}", "Give a readable file, or - for stdin."
        ) from None
    for number, line in enumerate(content.decode(errors="surrogateescape").split("\n"), 1):
        if not line.strip():
            continue
        try:
            command = json.loads(line)["command"]
        except (ValueError, RecursionError, TypeError, KeyError):
            command = None
        if not isinstance(command, str):
            raise UsageError(f'line {number} of {name} is not {{"command": …}}', "Write one JSON object a line.")
        yield command
