"""Whether a command line's exit code is that of what it runs, as far as its grammar tells."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_APART = frozenset(("command_substitution", "process_substitution", "heredoc_body"))
"""What runs in these has an exit code that nobody asks for."""
_SEQUENCES = frozenset(("program", "subshell", "compound_statement"))
"""Their exit code is that of their last statement."""


def hidden(command: str) -> str:
    """What hides the exit code, as a clause; empty when nothing does.

    A pipeline has the exit code of its last part (`pytest | tail` succeeds when `tail` does), and a command in the
    background has none.
    """
    from codeagent.approval.shell import tree

    return _hidden(tree(command.encode("utf-8", "replace")))


def _hidden(node: Node) -> str:
    if node.type in _APART:
        return ""
    if node.type == "pipeline":
        return "the command is a pipeline, whose exit code is its last part's and not the tests'"
    children = node.children
    last = max((at for at, child in enumerate(children) if child.is_named and child.type != "comment"), default=0)
    if any(child.type == "&" for child in children[last + 1 :]):
        return "the command ends in the background, where its exit code is lost"
    if node.type in _SEQUENCES:
        # A function may be what the last statement calls.
        functions = [child for child in children[:last] if child.type == "function_definition"]
        children = [*functions, *children[last:]]
    return next((found for child in children if (found := _hidden(child))), "")
