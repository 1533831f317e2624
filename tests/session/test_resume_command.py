"""What `codeagent resume` goes on with: the session's own choices, unless the command line says otherwise."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import pytest

from codeagent.cli.main import build_parser, run
from codeagent.cli.resume import _stored_choices
from codeagent.conversation import AssistantMessage, UserMessage
from codeagent.errors import UsageError
from codeagent.events import SessionStarted, TurnStarted
from codeagent.session.history import History
from codeagent.session.resumption import GOES_ON, Setup, read_history, require_open_turn, sentences, take_up
from codeagent.session.store import Session
from tests.session.samples import answered, ended, function_call, response

STORED = History(repo="/src/shop", provider="deepseek", model="deepseek-v4", image="python:3.12")
SETUP = Setup("/src/shop", "openai", "gpt-5.6", "image", "0.1.0")


def parsed(*argv: str) -> argparse.Namespace:
    return build_parser("resume").parse_args(["resume", *argv])


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        ([], {"repo": Path("/src/shop"), "provider": "deepseek", "model": "deepseek-v4", "image": "python:3.12"}),
        (["--model", "other"], {"repo": Path("/src/shop"), "provider": "deepseek", "image": "python:3.12"}),
        (["--provider", "openai"], {"repo": Path("/src/shop"), "image": "python:3.12"}),
        (["--repo", "/x"], {"provider": "deepseek", "model": "deepseek-v4", "image": "python:3.12"}),
    ],
)
def test_what_is_not_given_again_stays(argv: list[str], kept: dict[str, Any]) -> None:
    assert _stored_choices(parsed(*argv), STORED) == kept


def test_a_model_given_to_an_offline_session_is_not_looked_for_offline() -> None:
    offline = History(repo="/r", provider="offline", model="offline")
    assert "provider" not in _stored_choices(parsed("--model", "gpt-5.6"), offline)
    assert _stored_choices(parsed(), offline)["provider"] == "offline"


def test_approval_mode_does_not_carry_over() -> None:
    assert "approve" not in _stored_choices(parsed(), STORED)


def test_an_answered_turn_needs_a_message(tmp_path: Path) -> None:
    session = answered(tmp_path)
    history, _ = read_history(session.folder)
    with pytest.raises(UsageError) as refused:
        require_open_turn(session.id, history)
    assert refused.value.message == (
        f"The last turn of session {session.id} has answered; there is nothing to go on with."
    )
    assert refused.value.remedy == f'Say what comes next: `codeagent resume "…" --session {session.id}`.'


@pytest.mark.parametrize("outcome", ["interrupted", "round_limit", "model_failed", "sandbox_failed", None])
def test_a_turn_that_did_not_end_by_itself_goes_on(tmp_path: Path, outcome: str | None) -> None:
    with Session.create(tmp_path) as session:
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
        session.journal.turn = 1
        session.emit(TurnStarted("why?"))
        if outcome:
            session.emit(ended(outcome))
    require_open_turn(session.id, read_history(session.folder)[0])


def test_a_session_without_a_turn_needs_a_message(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
    with pytest.raises(UsageError):
        require_open_turn(session.id, read_history(session.folder)[0])


def test_going_on_records_the_repairs_once_and_tells_them_once(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.journal.turn = session.journal.round = 1
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
        session.emit(TurnStarted("why?"))
        session.emit(response(function_call("c1", "run_command", "{}")))
    history, damaged = read_history(session.folder)
    assert sentences(history, damaged) == [
        "1 call(s) had no recorded output and may or may not have run; the model is told so."
    ]
    with Session.open(session.folder) as again:
        items = take_up(again, history, damaged, SETUP, None)
        assert again.journal.turn == 1
    assert items == list(history.items)
    history, damaged = read_history(session.folder)
    assert list(history.items) == items
    assert (history.provider, history.model) == ("openai", "gpt-5.6")
    assert sentences(history, damaged) == []


def test_a_turn_that_stopped_after_the_models_own_words_goes_on_with_a_note(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.journal.turn = 1
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
        session.emit(TurnStarted("why?"))
        message = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "so far"}]}
        session.emit(response(message))
        session.emit(ended("round_limit"))
    history, damaged = read_history(session.folder)
    assert isinstance(history.items[-1], AssistantMessage)
    with Session.open(session.folder) as again:
        items = take_up(again, history, damaged, SETUP, None)
    assert items[-1] == UserMessage(GOES_ON, "program")
    assert list(read_history(session.folder)[0].items) == items


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["resume", "  "], "The message is empty."),
        (["resume", "go on", "--session", "nope"], "There is no session 'nope'."),
    ],
)
def test_usage_errors_start_nothing(
    argv: list[str],
    message: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("CODEAGENT_HOME", str(tmp_path))
    assert run(argv) == 2
    assert capsys.readouterr().err.startswith(f"codeagent: error: {message}\n")
