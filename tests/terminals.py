"""What a person at a pseudo-terminal waits for before typing."""

from __future__ import annotations

import pexpect

from tests.clocks import wait_until


def listening(child: pexpect.spawn[str]) -> None:
    """Waits until what is typed counts: a question of ours that is still too new to have been read echoes nothing."""
    wait_until(child.getecho)
