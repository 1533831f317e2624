"""What a person sees of `sessions list` on screens of several widths. What scripts get is tested with the command."""

from __future__ import annotations

from pathlib import Path

import pytest

from codeagent.cli.session_table import print_table
from codeagent.session.catalogue import Overview
from tests.ui.records import HOSTILE
from tests.ui.screens import PtyScreen

SESSIONS = [
    Overview(
        "20260301-090000-abcde", Path(), "为什么返回空？\nand then what", "/src/shop", outcome="answered", size=2048
    ),
    Overview(
        "20260301-080000-k3f9x",
        Path(),
        "fix it",
        "/src/a-repository-with-a-long-name",
        outcome="round_limit",
        verification="not_reproduced",
        size=5 << 20,
    ),
    Overview("20260301-070000-zzzzz", Path(), problem="no readable event"),
]


def shown(columns: int, sessions: list[Overview], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("COLUMNS", raising=False)
    with PtyScreen(columns) as pty:
        monkeypatch.setattr("sys.stdout", pty.stream)
        print_table(sessions)
        return pty.shown()


def test_a_wide_screen_has_one_line_a_session(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(140, SESSIONS, monkeypatch) == [
        "ID                     AGE  SIZE    LOOP                 FIX             REPOSITORY            QUESTION",
        "20260301-090000-abcde  ?    2 KB    answered             not requested   shop                  "
        "为什么返回空？ and then what",
        "20260301-080000-k3f9x  ?    5.0 MB  round_limit          not reproduced  a-repository-with-a…  fix it",
        "20260301-070000-zzzzz  ?    0 KB    (no readable event)",
    ]


def test_a_narrow_screen_has_the_question_below(monkeypatch: pytest.MonkeyPatch) -> None:
    assert shown(50, SESSIONS[1:2], monkeypatch) == [
        "ID                     AGE  SIZE",
        "  LOOP         FIX             REPOSITORY",
        "  QUESTION",
        "20260301-080000-k3f9x  ?    5.0 MB",
        "  round_limit  not reproduced  a-repository-with…",
        "  fix it",
    ]


def test_how_a_session_ended_is_whole_on_the_narrowest_usual_screen(monkeypatch: pytest.MonkeyPatch) -> None:
    ended = Overview("20260301-090000-abcde", Path(), "why", "/src/shop", outcome="too_many_errors", size=2048)
    assert shown(40, [ended], monkeypatch)[3:] == [
        "20260301-090000-abcde  ?    2 KB",
        "  too_many_errors  not requested  shop",
        "  why",
    ]


@pytest.mark.parametrize("columns", [20, 60, 200])
def test_foreign_text_does_not_act(columns: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)
    with PtyScreen(columns) as pty:
        monkeypatch.setattr("sys.stdout", pty.stream)
        print_table(
            [Overview(HOSTILE, Path(), HOSTILE, f"/src/{HOSTILE}", problem=problem) for problem in ("", HOSTILE)]
        )
        sent = pty.sent
    assert [one for one in sent if not one.isprintable() and one not in "\r\n"] == []
