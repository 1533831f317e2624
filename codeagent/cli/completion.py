"""`codeagent completion SHELL`: a completion script for bash, zsh or fish, on stdout."""

from __future__ import annotations

import argparse

EXAMPLES = """\
examples:
  codeagent completion bash > ~/.local/share/bash-completion/completions/codeagent
  codeagent completion zsh > "${fpath[1]}/_codeagent"
  codeagent completion fish > ~/.config/fish/completions/codeagent.fish
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "completion",
        help="completion for bash, zsh or fish",
        description="Prints a completion script for the shell that is named.",
        epilog=EXAMPLES,
    )
    parser.add_argument("shell", choices=("bash", "zsh", "fish"), help="the shell to complete in")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the script. It is made from the parsers themselves, so it cannot go stale."""
    import shtab

    from codeagent.cli.main import build_parser

    parser = build_parser()
    _name_kinds(parser)
    print(shtab.complete(parser, args.shell))
    return 0


def _name_kinds(parser: argparse.ArgumentParser) -> None:
    """Tells the script which values are files (`FILE` in the help) and which are folders (`PATH`)."""
    import shtab

    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                _name_kinds(child)
        elif action.metavar == "PATH":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.metavar == "FILE":
            action.complete = shtab.FILE  # type: ignore[attr-defined]
        elif not action.option_strings and not action.choices:
            # Nothing can be offered for a question. zsh is told so as an empty list: for a description alone it
            # shows a message, and then does not insert the one flag that fits.
            action.complete = {"zsh": "()"}  # type: ignore[attr-defined]
