"""The block at the lower end of a terminal whose size changes while it stands there."""

from __future__ import annotations

import fcntl
import struct
import termios

import pytest

from codeagent.ui.screen import Screen
from tests.ui.screens import PtyScreen


@pytest.mark.parametrize(
    ("environ", "rows_up"),
    [
        ({"TERM": "xterm-256color"}, 4),  # 60 columns take two rows, 81 take three
        ({"TERM": "linux"}, 1),
        ({"TERM": "xterm", "XTERM_VERSION": "XTerm(390)"}, 1),
        ({"TERM": "screen", "STY": "1.pts-0.host"}, 1),
    ],
)
def test_what_a_narrower_terminal_has_broken_is_erased_whole(environ: dict[str, str], rows_up: int) -> None:
    with PtyScreen(100) as pty:
        screen = Screen(pty.stream, environ)
        screen.write([], [[("a" * 60, "dim")], [("b" * 81, "")]])
        fcntl.ioctl(pty.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 40, 0, 0))
        before = len(pty.sent)
        screen.write([[("said", "")]], [[("c", "")]])
        assert pty.sent[before:] == f"\r\x1b[{rows_up}A\x1b[Jsaid\r\nc"


def test_a_terminal_that_became_wider_has_broken_nothing() -> None:
    with PtyScreen(40) as pty:
        screen = Screen(pty.stream, {"TERM": "xterm"})
        screen.write([], [[("资" * 15, "dim")], [("", "")], [("x", "")]])
        fcntl.ioctl(pty.master, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 100, 0, 0))
        before = len(pty.sent)
        screen.write([])
        assert pty.sent[before:] == "\r\x1b[2A\x1b[J"
