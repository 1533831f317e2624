"""The person at the terminal, where there is one: who types on stdin and sees stderr."""

from __future__ import annotations

import sys

from codeagent.errors import UsageError


def at_terminal() -> bool:
    """Whether somebody can be asked; stdout may be anything."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def agreed(question: str, otherwise: UsageError) -> bool:
    """Whether the person says yes. Raises `otherwise` where there is none, and Interrupted on Ctrl-C."""
    if not at_terminal():
        raise otherwise
    from codeagent.ui.approval import Prompt

    return Prompt().confirm(question)
