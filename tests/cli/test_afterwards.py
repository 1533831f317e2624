"""The steps between a turn's last text and its end: each failure has something that stands in, and is told."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from codeagent.cli.afterwards import Afterwards
from codeagent.cli.change import StoredDiff
from codeagent.errors import (
    CodeagentError,
    ErrorKind,
    Interrupted,
    ModelError,
    SandboxError,
    StorageError,
    ToolError,
)
from codeagent.events import SessionStarted, TurnStarted
from codeagent.sandbox.seam import Diff
from codeagent.session.store import Session
from tests.session.test_store import file_size_limit

STARTED = SessionStarted("/repo", "model", "provider", "image", "1.0")


@pytest.fixture
def session(tmp_path: Path) -> Any:
    with Session.create(tmp_path) as session:
        session.emit(STARTED)
        yield session


def raising(error: BaseException) -> Callable[[], str]:
    def step() -> str:
        raise error

    return step


FAILURES: dict[str, tuple[BaseException, str, str]] = {
    "lost": (SandboxError("The sandbox was lost.", "Look at it."), "The sandbox was lost.", "The sandbox was lost."),
    "refused": (ToolError(ErrorKind.TOO_LARGE, "it is too large"), "it is too large", "it is too large"),
    "a fault": (
        KeyError("x"),
        "Something went wrong that should not (KeyError: 'x').",
        "Something went wrong that should not (KeyError: 'x').",
    ),
    "a signal": (Interrupted(), "the step was interrupted", ""),
    "a key": (KeyboardInterrupt(), "the step was interrupted", ""),
}


@pytest.mark.parametrize("kind", FAILURES)
def test_a_step_that_fails_is_replaced_and_told(
    session: Session, capsys: pytest.CaptureFixture[str], kind: str
) -> None:
    error, reason, told = FAILURES[kind]
    after = Afterwards(session.journal)
    assert after.attempt("the step", raising(error), lambda why: f"instead: {why.message}") == f"instead: {reason}"
    after.tell(verbose=False)
    assert capsys.readouterr().err.partition("\n")[0] == (f"codeagent: error: {told}" if told else "")


def test_one_cause_is_told_once_and_not_where_the_end_says_it(
    session: Session, capsys: pytest.CaptureFixture[str]
) -> None:
    after = Afterwards(session.journal, ModelError("The server failed."))
    for error in (SandboxError("It is lost."), SandboxError("It is lost."), SandboxError("It was slow.")):
        after.attempt("a step", raising(error), lambda _why: "")
    after.tell("It was slow", verbose=False)
    after.tell(verbose=False)
    assert capsys.readouterr().err == "codeagent: error: The server failed.\ncodeagent: error: It is lost.\n"


def test_a_step_within_a_failed_one_may_fail_too(session: Session) -> None:
    after = Afterwards(session.journal)

    def instead(first: CodeagentError) -> str:
        return after.attempt("less", raising(ValueError("again")), lambda _second: f"nothing: {first.message}")

    assert after.attempt("all", raising(SandboxError("It is lost.")), instead) == "nothing: It is lost."


def test_an_event_that_cannot_be_stored_is_shown(session: Session, capsys: pytest.CaptureFixture[str]) -> None:
    shown: list[Any] = []
    session.journal.subscribe(lambda record: shown.append((record["type"], record["message"])))
    after = Afterwards(session.journal)
    assert after.record(TurnStarted("stored")) and not after.unstored
    with file_size_limit(3):
        assert not after.record(TurnStarted("lost"), TurnStarted("told otherwise"))
    assert (shown, after.unstored) == ([("turn_started", "stored"), ("turn_started", "told otherwise")], True)
    after.tell(verbose=False)
    assert "The disk is full" in capsys.readouterr().err


def test_a_change_that_could_not_be_stored_is_stored_later(session: Session, tmp_path: Path) -> None:
    failing: list[Exception] = [SandboxError("It is lost."), ToolError(ErrorKind.SANDBOX_FAILED, "not now")]
    failing.append(StorageError("The disk is full."))
    told: list[str] = []

    def diff() -> Diff:
        if failing:
            raise failing.pop(0)
        return Diff(b"diff --git a/x b/x\n", ("x",))

    stored = StoredDiff(session, tmp_path, diff, lambda text, _style: told.append(text))
    stored.catch_up()
    assert len(failing) == 3  # nothing was written yet
    for _ in range(2):
        stored.update()
    with pytest.raises(StorageError):
        stored.catch_up()
    assert told == ["the change could not be stored yet: It is lost.", "the change could not be stored yet: not now"]
    stored.catch_up()
    assert session.diff_file.read_bytes() == stored.patch == b"diff --git a/x b/x\n"
