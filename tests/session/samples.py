"""Sessions for tests of what lists, shows and exports them, written by the real journal."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from codeagent.events import (
    ApprovalDecided,
    ApprovalRequested,
    ModelResponse,
    SessionStarted,
    ToolCalled,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from codeagent.session.store import Session

USAGE = {"input_tokens": 900, "cached_input_tokens": 300, "output_tokens": 40}
NOT_REQUESTED = {"status": "not_requested"}


def function_call(call_id: str, name: str, arguments: str) -> dict[str, Any]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}


def response(*items: dict[str, Any], text: str = "") -> ModelResponse:
    return ModelResponse("completed", "completed", USAGE, text, list(items), "responses", "openai", "gpt-5.6")


def ended(outcome: str | None, answer: str | None = None) -> TurnEnded:
    return TurnEnded(outcome, answer, None, [], NOT_REQUESTED, 2, USAGE, 0)


def answered(
    state: Path, question: str = "why null?", repo: str = "/src/shop", output: str = "1\tx\n" * 40
) -> Session:
    """A closed session of one turn: a read and an approved command, then an answer."""
    command = '{"command":"rm build"}'
    with Session.create(state) as session:
        emit, journal = session.emit, session.journal
        emit(SessionStarted(repo, "gpt-5.6", "openai", "codeagent-sandbox", "0.1.0"))
        journal.turn = 1
        emit(TurnStarted(question))
        journal.round = 1
        emit(
            response(function_call("c1", "read_file", '{"path":"a.py"}'), function_call("c2", "run_command", command))
        )
        emit(ToolCalled("c1", "read_file", '{"path":"a.py"}'))
        emit(ToolCalled("c2", "run_command", command))
        emit(ApprovalRequested("c2", "rm build", "ask", "rm writes"))
        emit(ApprovalDecided("c2", "allow", "user", ""))
        emit(ToolFinished("c2", "ok", None, "exit code 0, 12 ms\n", 12))
        emit(ToolFinished("c1", "ok", None, output, 3))
        journal.round = 2
        emit(response({"type": "message", "content": []}, text="Because of a.py:1."))
        emit(ended("answered", "Because of a.py:1."))
    return session
