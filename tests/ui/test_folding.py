"""What is broken for a narrow terminal, and what is to be pasted and therefore is not."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.ui.folding import fold
from codeagent.ui.inert import cells
from codeagent.ui.terminal import Terminal
from tests.ui.screens import PtyScreen


@pytest.mark.parametrize(
    ("text", "rows"),
    [
        ("one two three four", ["one two", "    three", "    four"]),
        ("  set in  columns stay", ["  set in", "    columns", "    stay"]),
        ("See `sudo usermod -aG docker me` for it.", ["See", "    `sudo usermod -aG docker me`", "    for it."]),
        ("(`docker save x` and y)", ["(`docker save x`", "    and y)"]),
        (
            "Go on: codeagent resume --session k3f9x (--max-rounds raises it)",
            ["Go on:", "    codeagent resume --session k3f9x", "    (--max-rounds", "    raises", "    it)"],
        ),
        ("Look: codeagent doctor; then go on", ["Look:", "    codeagent doctor;", "    then go", "    on"]),
        (
            "codeagent: error: codeagent ask has no flag",
            ["codeagent:", "    error:", "    codeagent", "    ask has", "    no flag"],
        ),
        ('    kill "$(cat /a/b/c/docker.pid)"', ['    kill "$(cat /a/b/c/docker.pid)"']),
        ("a `lone backtick", ["a `lone", "    backtick"]),
        ("为什么返回空 为什么", ["为什么返回空", "    为什么"]),
        ("", [""]),
    ],
)
def test_commands_stay_whole(text: str, rows: list[str]) -> None:
    assert fold(text, 12, 4) == rows


@given(st.text("ab `:;(\u4e2d", max_size=60), st.integers(1, 30))
def test_nothing_is_lost_and_only_one_piece_can_be_too_wide(text: str, width: int) -> None:
    rows = fold(text, width)
    assert "".join("".join(rows).split()) == "".join(text.split())
    if "`" not in text:
        assert all(cells(row) <= width or len(row.split()) <= 1 for row in rows if not row.startswith(" "))


def test_a_line_to_be_pasted_is_left_to_the_terminal_to_break() -> None:
    command = "setsid dockerd --host=unix:///root/.cache/codeagent/engine/docker.sock --bridge=none &"
    with PtyScreen(40) as pty:
        with Terminal(None, pty.stream, environ={"TERM": "xterm"}) as terminal:
            terminal.steps("building the image", 0, 0)
            terminal.note(f"To start it again:\n    {command}\nTo stop it:\n    kill it")
        assert f"To start it again:\r\n    {command}\r\nTo stop it:\r\n    kill it" in pty.sent
