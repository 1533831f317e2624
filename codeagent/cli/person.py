"""The person at the terminal, where there is one: who types on stdin and sees stderr."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TextIO

from codeagent.errors import UsageError


def at_terminal() -> bool:
    """Whether somebody can be asked; stdout may be anything."""
    return sys.stdin.isatty() and sys.stderr.isatty()


def say(text: str, stream: TextIO | None = None, hang: int = 0) -> None:
    """Prints inert sentences, on stderr unless told otherwise; a terminal gets them broken between words."""
    from codeagent.ui.streams import filled

    stream = sys.stderr if stream is None else stream
    print(filled(text, stream, hang=hang), file=stream)


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Inside, somebody who sees stderr sees that `what` is going on; nothing else may be printed meanwhile."""
    from codeagent.ui.terminal import Terminal

    with Terminal(None, sys.stderr) as terminal:
        terminal.steps(what, 0, 0)
        yield


def agreed(question: str, otherwise: UsageError) -> bool:
    """Whether the person says yes. Raises `otherwise` where there is none, and Interrupted on Ctrl-C."""
    if not at_terminal():
        raise otherwise
    from codeagent.ui.approval import Prompt

    return Prompt().confirm(question)
