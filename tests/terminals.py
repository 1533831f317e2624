"""What a person at a pseudo-terminal waits for before typing."""

from __future__ import annotations

import time

import pexpect

PATIENCE = 30.0


def listening(child: pexpect.spawn[str]) -> None:
    """Waits until what is typed counts: a question of ours that is still too new to have been read echoes nothing."""
    until = time.monotonic() + PATIENCE
    while not child.getecho():
        assert time.monotonic() < until, "nobody listens at the terminal"
        time.sleep(0.01)
