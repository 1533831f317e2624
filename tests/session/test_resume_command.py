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
from codeagent.events import Noted, SessionStarted, ToolFinished, TurnStarted
from codeagent.session.catalogue import find, overview
from codeagent.session.history import History
from codeagent.session.log import Log
from codeagent.session.resumption import GOES_ON, Setup, read_history, require_open_turn, take_up
from codeagent.session.store import EVENTS, Session
from tests.session.samples import answered, ended, function_call, response

STORED = History(repo="/usr", provider="deepseek", model="deepseek-v4", image="python:3.12")
SETUP = Setup("/src/shop", "openai", "gpt-5.6", "image", "0.1.0")


def parsed(*argv: str) -> argparse.Namespace:
    return build_parser("resume").parse_args(["resume", *argv])


@pytest.mark.parametrize(
    ("argv", "kept"),
    [
        ([], {"repo": Path("/usr"), "provider": "deepseek", "model": "deepseek-v4", "image": "python:3.12"}),
        (["--model", "other"], {"repo": Path("/usr"), "provider": "deepseek", "image": "python:3.12"}),
        (["--provider", "openai"], {"repo": Path("/usr"), "image": "python:3.12"}),
        (["--repo", "/x"], {"provider": "deepseek", "model": "deepseek-v4", "image": "python:3.12"}),
    ],
)
def test_what_is_not_given_again_stays(argv: list[str], kept: dict[str, Any]) -> None:
    assert _stored_choices(parsed(*argv), STORED, "s") == kept


def test_a_model_given_to_an_offline_session_is_not_looked_for_offline() -> None:
    offline = History(repo="/usr", provider="offline", model="offline")
    assert "provider" not in _stored_choices(parsed("--model", "gpt-5.6"), offline, "s")
    assert _stored_choices(parsed(), offline, "s")["provider"] == "offline"


@pytest.mark.parametrize(
    ("repo", "message"),
    [
        ("/nowhere/shop", "The repository of session s is no longer at /nowhere/shop."),
        ("", "The log of session s does not say which repository it is about."),
    ],
)
def test_a_repository_that_is_not_there_any_more_is_asked_for(repo: str, message: str) -> None:
    with pytest.raises(UsageError) as refused:
        _stored_choices(parsed(), History(repo=repo, provider="openai"), "s")
    assert refused.value.message == message
    assert refused.value.remedy == "Say where it is now: `codeagent resume --session s --repo PATH`."


def test_a_provider_that_the_log_has_lost_is_the_configured_one() -> None:
    assert _stored_choices(parsed(), History(repo="/usr"), "s")["provider"] is None


def test_approval_mode_does_not_carry_over() -> None:
    assert "approve" not in _stored_choices(parsed(), STORED, "s")


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


def test_what_was_asked_before_a_turn_began_stands_before_what_is_said_now(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.emit(
            SessionStarted("/r", "m", "p", "i", "v", message="why?", patching=True, verify="make", verify_repeat=2)
        )
    history, damaged = read_history(session.folder)
    assert (history.pending, history.patching, history.verify, history.verify_repeat) == ("why?", True, "make", 2)
    require_open_turn(session.id, history)
    with Session.open(session.folder) as again:
        items = take_up(again, history, damaged, SETUP, "and now?")
        assert (items, again.journal.turn) == ([UserMessage("why?")], 1)
    history, _ = read_history(session.folder)
    assert (history.items, history.pending, history.turn) == ((UserMessage("why?"),), "and now?", 1)
    assert (history.patching, history.verify) == (False, None)  # what the later process was given


def test_the_latest_session_may_be_one_whose_process_ended_before_its_turn_began(tmp_path: Path) -> None:
    answered(tmp_path, repo="/r")
    with Session.create(tmp_path) as session:
        session.emit(SessionStarted("/r", "m", "p", "i", "v", message="fix it", patching=True))
    assert find(tmp_path, "codeagent resume --session", repo=Path("/r")) == session.folder
    assert (overview(session.folder).question, overview(session.folder).turns) == ("fix it", 0)


def test_a_fix_that_was_not_begun_because_nothing_fails_has_nothing_to_go_on_with(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.emit(SessionStarted("/r", "m", "p", "i", "v", message="why?"))
        session.journal.turn = 1
        session.emit(ended(None))
    with pytest.raises(UsageError, match="has no turn to go on with"):
        require_open_turn(session.id, read_history(session.folder)[0])


def test_going_on_records_the_repairs_once(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.journal.turn = session.journal.round = 1
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
        session.emit(TurnStarted("why?"))
        session.emit(response(function_call("c1", "run_command", "{}")))
        session.emit(ToolFinished("c2", "ok", None, "of a call that is not in the log", 1))
    history, damaged = read_history(session.folder)
    with Session.open(session.folder) as again:
        items = take_up(again, history, damaged, SETUP, None)
        assert again.journal.turn == 1
    assert items == list(history.items)
    history, damaged = read_history(session.folder)
    assert list(history.items) == items
    assert (history.provider, history.model) == ("openai", "gpt-5.6")
    with Session.open(session.folder) as again:
        take_up(again, history, damaged, SETUP, "and now?")
    resumed = [record for record in Log(session.folder / EVENTS) if record["type"] == "session_resumed"]
    assert [(record["interrupted_calls"], record["orphan_outputs"]) for record in resumed] == [(["c1"], 1), ([], 1)]


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


def test_a_turn_that_was_killed_while_it_came_to_its_end_is_told_to_go_on(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.journal.turn = 1
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
        session.emit(TurnStarted("why?"))
        session.emit(Noted("program", "The turn ends here. Do not call a tool."))
    history, damaged = read_history(session.folder)
    with Session.open(session.folder) as again:
        items = take_up(again, history, damaged, SETUP, None)
    assert items[-1] == UserMessage(GOES_ON, "program")


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
