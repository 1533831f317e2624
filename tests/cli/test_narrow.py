"""What commands say on a screen of 40 columns: whole words, and whole commands; and everything that a file gets."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from codeagent.cli.main import report, run
from codeagent.cli.means import name_tracked
from codeagent.cli.sandbox import print_holdings
from codeagent.errors import CodeagentError
from codeagent.events import SessionStarted, TurnEnded, TurnStarted, Verified
from codeagent.outcome import Outcome
from codeagent.sandbox.inventory import Holding, Kind
from codeagent.session.store import Session
from codeagent.ui.terminal import Terminal
from tests.applying.applied import Tree, make, patch_between
from tests.ui.screens import PtyScreen

COLUMNS = 40
OLD: Tree = {".git/HEAD": (0o100644, b"ref: refs/heads/main\n"), "a.py": (0o100644, b"x = 1\n")}
NEW: Tree = {**OLD, "a.py": (0o100644, b"x = 2\n")}
CODE = "    while the_code_of_an_answer: is_not_broken(anywhere)"
ANSWER = f"An answer of one sentence that is wider than the screen `and code`:\n\n{CODE}\n\n```\n{CODE[2:]}\n```\n"
REASON = "the command could not be run without the change, so it has shown nothing"


@pytest.fixture(autouse=True)
def _no_width_but_the_screens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    repo = make(tmp_path / "repo", OLD)
    monkeypatch.setenv("CODEAGENT_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(repo)
    found = {"path": "a.py", "start_line": 1, "end_line": 1, "state": "unread", "quoted": ""}
    with Session.create(tmp_path / "home") as made:
        made.emit(SessionStarted(str(repo.resolve()), "m", "p", "i", "v"))
        made.journal.turn = 1
        made.emit(TurnStarted("what is it that makes this test fail on a narrow screen?"))
        verified = {"status": "not_run", "reason": REASON}
        made.emit(TurnEnded(Outcome.ANSWERED, ANSWER, None, [found], verified, 1, {}, 0))
    return made.folder


def rows(arguments: list[str], monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The rows as they are sent to the screen, which breaks what is too wide for it."""
    with PtyScreen(COLUMNS) as pty, monkeypatch.context() as patched:
        for name in ("stdout", "stderr"):
            patched.setattr(f"sys.{name}", pty.stream)
        run(arguments)
        return pty.sent.removesuffix("\r\n").split("\r\n")


def looks_whole(row: str) -> bool:
    return len(row) < COLUMNS or len(re.sub("`[^`]+`", "command", row).split()) == 1 or row.endswith("(anywhere)")


@pytest.mark.parametrize(
    "arguments", [["diff"], ["apply"], ["apply", "--reverse"], ["recheck"], ["sessions", "show"], ["diff", "zzz"]]
)
def test_words_stay_whole(
    arguments: list[str], folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    shown = rows(arguments, monkeypatch)
    assert [row for row in shown if not looks_whole(row)] == []
    run(arguments)
    told = "".join(capsys.readouterr())
    assert sorted(" ".join(shown).split()) == sorted(told.split())
    assert max(map(len, told.splitlines())) > COLUMNS


def test_code_in_an_answer_stays_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown = rows(["sessions", "show"], monkeypatch)
    assert [row for row in shown if "while" in row] == [f"  {CODE}", CODE]


def test_what_does_not_fit_and_a_verdict_stay_whole(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Session.open(folder) as session:
        session.save_diff(patch_between(OLD, NEW))
        session.emit(Verified("not_run", REASON, None, None, []))
    shown = rows(["diff"], monkeypatch)
    verdict = shown[shown.index("+x = 2") + 1 :]
    assert verdict[0] == "Fix: not verified (the command could"
    assert [row for row in verdict if not looks_whole(row)] == []
    Path("a.py").write_bytes(b"x = 3\n")
    shown = rows(["apply", "--yes"], monkeypatch)
    assert "codeagent: error: The change does not" in shown
    assert [row for row in shown if not looks_whole(row)] == []


def test_an_error_is_broken_between_words(monkeypatch: pytest.MonkeyPatch) -> None:
    with PtyScreen(COLUMNS) as pty:
        monkeypatch.setattr("sys.stderr", pty.stream)
        report(
            CodeagentError(
                "Something with many words went wrong here.", "Run `codeagent doctor --image python:3.12`."
            )
        )
        assert pty.sent.split("\r\n")[:2] == ["codeagent: error: Something with many", "words went wrong here."]


def test_what_other_versions_made_is_said_once_of_all(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    name = "codeagent-toolbox-{}"
    owner = "the toolbox of another version"
    held = [Holding(Kind.VOLUME, str(at), name.format(at), 2_000, owner, True, True) for at in range(3)]
    with PtyScreen(COLUMNS) as pty, monkeypatch.context() as patched:
        patched.setattr("sys.stdout", pty.stream)
        print_holdings(held)
        shown = pty.shown()
    assert shown[:2] == ["volume  codeagent-toolbox-0  2.0 kB", "  the toolbox of another version"]
    assert shown[-2:] == ["3 of another version, perhaps of", "another installation: up to 6.0 kB"]
    assert sum("perhaps" in row for row in shown) == 1
    print_holdings([*held, replace(held[0], owner="the toolbox", other_version=False)], grouped=True)
    assert "".join(capsys.readouterr()).splitlines() == [
        "volume  codeagent-toolbox-0  2.0 kB  the toolbox",
        "3 of another version, perhaps of another installation: up to 6.0 kB; `codeagent sandbox clean` shows them",
    ]


def test_of_many_protected_files_that_git_tracks_three_are_named() -> None:
    def said(count: int) -> str:
        class Sandbox:
            def tracked_protected(self) -> list[str]:
                return [f"{number}.pem" for number in range(count)]

        err = io.StringIO()
        with Terminal(None, err, environ={}) as terminal:
            name_tracked(Sandbox(), terminal)
        return err.getvalue()

    assert said(0) == ""
    assert said(3).endswith(" in git's history: 0.pem, 1.pem, 2.pem\n")
    assert said(9).endswith(" in git's history: 0.pem, 1.pem, 2.pem and 6 more\n")
