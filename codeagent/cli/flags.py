"""The flags that ask, chat, fix and resume share, and how they reach the Config."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codeagent.config import Config

APPROVE_HELP = (
    "ask: a person decides what may have side effects (default); read-only: such commands are denied; "
    "contained: whatever stays inside the containers runs; all: what would be asked runs"
)


def add_command(
    subparsers: argparse._SubParsersAction[argparse.ArgumentParser], name: str, line: str, epilog: str
) -> argparse.ArgumentParser:
    """A command, or an action of one, whose description is its line in the list of them."""
    return subparsers.add_parser(name, help=line, description=f"{line[0].upper()}{line[1:]}.", epilog=epilog)


def add_config_flags(parser: argparse.ArgumentParser) -> None:
    """`--config`, `--profile` and what a command of any kind prints."""
    parser.add_argument("--config", metavar="FILE", type=Path, help="read this configuration instead of the user's")
    parser.add_argument("--profile", metavar="NAME", help="lay a named profile of the configuration over it")


def add_turn_flags(
    parser: argparse.ArgumentParser, repo: str = "the repository (default: the git work tree here)"
) -> None:
    """The flags of the commands that run a turn; `repo` is the help of `--repo`."""
    parser.add_argument("--repo", metavar="PATH", type=Path, help=repo)
    parser.add_argument("--model", metavar="NAME", help="the model; `offline` needs no key and no network")
    parser.add_argument("--provider", metavar="NAME", help="a provider of the configuration")
    parser.add_argument("--image", metavar="IMAGE", help="the container image (default: codeagent-sandbox)")
    parser.add_argument(
        "--approve", metavar="MODE", choices=("ask", "read-only", "contained", "all"), help=APPROVE_HELP
    )
    parser.add_argument("--max-rounds", metavar="N", help="rounds of model and tools (default: 40)")
    parser.add_argument("--time-limit", metavar="SECONDS", help="wall time of the turn (default: 900)")
    parser.add_argument("--token-limit", metavar="N", help="input and output tokens of the turn (default: none)")
    parser.add_argument("--verify", metavar="CMD", help="a command that fails now and must pass with the change")
    parser.add_argument("--verify-repeat", metavar="N", type=_positive, default=1, help="runs with the change (1)")
    parser.add_argument(
        "--verify-time-limit", metavar="SECONDS", help="wall time of each run of that command (default: 900)"
    )
    parser.add_argument("--docker-host", metavar="URL", help="the container engine to use")
    parser.add_argument(
        "--install", action="store_true", help="install and start a private engine where none answers"
    )
    add_config_flags(parser)
    parser.add_argument("--json", action="store_true", help="one event a line on stdout, nothing else")
    parser.add_argument(
        "--quiet", action="store_true", help="no progress, and of the end only the count of citations and two lines"
    )
    parser.add_argument("--verbose", action="store_true", help="details, and stack traces of errors")
    parser.add_argument("--no-color", action="store_true", help="no colour (NO_COLOR is honoured too)")


def _positive(text: str) -> int:
    try:
        number = int(text)
    except ValueError:
        number = 0
    if number < 1:
        raise argparse.ArgumentTypeError("must be a whole number above 0")
    return number


def config_of(args: argparse.Namespace, **instead: Any) -> Config:
    """The resolved Config of a command line; `instead` replaces flags that were not given."""
    from codeagent.config import FLAGS, load_config

    flags = {name: getattr(args, name.replace("-", "_"), None) for name in FLAGS}
    for name, value in instead.items():
        flags[name] = flags[name] if flags[name] is not None else value
    return load_config(flags, config=getattr(args, "config", None), profile=getattr(args, "profile", None))
