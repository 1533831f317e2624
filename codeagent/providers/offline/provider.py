"""The built-in investigator behind the same seam as every model: fixed rules, no network, no key."""

from __future__ import annotations

import json
from typing import Any

from codeagent.conversation import AssistantMessage, Item, Source, ToolCall
from codeagent.inference import Finish, Inference, Progress, Request, TextDelta, Usage
from codeagent.providers.offline import question as questions
from codeagent.providers.offline import transcript as transcripts
from codeagent.providers.offline.answer import compose
from codeagent.providers.offline.investigation import Report, investigate
from codeagent.providers.offline.question import Question
from codeagent.providers.offline.transcript import Transcript

MAX_ROUNDS = 15
MAX_READS = 10
MAX_NAMES = 30


class OfflineProvider:
    """Decides the next calls from the conversation alone; holds no state between inferences."""

    def __init__(self, name: str = "offline") -> None:
        self.name = name
        self.api = "offline"
        self.model = "offline"
        self.context_window = 1_000_000

    def infer(self, request: Request, progress: Progress) -> Inference:
        """The next calls, or the answer. Never raises."""
        transcript = transcripts.read(request.items)
        question = questions.parse(transcript.question)
        report = investigate(question, transcript)
        may_call = request.tool_choice == "auto" and transcript.rounds < MAX_ROUNDS
        calls = _calls(question, report, transcript) if may_call else []
        if calls:
            first = len(request.items)
            return self._response([_call(first + at, *call) for at, call in enumerate(calls)])
        text = compose(question, report, transcript, out_of_budget=bool(report.needs))
        progress(TextDelta(text))
        return self._response([{"type": "message", "text": text}])

    def _response(self, payloads: list[dict[str, str]]) -> Inference:
        items = tuple(self._item(payload) for payload in payloads)
        return Inference(items, Finish.COMPLETE, "completed", Usage(), tuple(payloads))

    def _item(self, payload: dict[str, str]) -> Item:
        return item_of(payload, Source("offline", self.name, self.model, payload))


def item_of(payload: dict[str, str], source: Source) -> Item:
    """The item that one element of `Inference.raw` stands for."""
    if payload["type"] == "message":
        return AssistantMessage(payload["text"], source)
    return ToolCall(payload["call_id"], payload["name"], payload["arguments"], source)


def _call(number: int, name: str, arguments: dict[str, Any]) -> dict[str, str]:
    return {
        "type": "function_call",
        "call_id": f"offline_{number}",
        "name": name,
        "arguments": json.dumps(arguments, ensure_ascii=False),
    }


def _calls(question: Question, report: Report, transcript: Transcript) -> list[tuple[str, dict[str, Any]]]:
    """What to ask next, all of it at once: nothing in it depends on the rest."""
    needs = report.needs
    calls: list[tuple[str, dict[str, Any]]] = []
    if not transcript.listed and transcript.rounds == 0:
        calls.append(("list_dir", {"path": ".", "depth": 2, "offset": 0}))
    if needs.names:
        names = list(needs.names)[:MAX_NAMES]
        calls.append(_command(transcripts.definition_search(names, transcript.search)))
    for text in needs.texts:
        calls.append(_command(transcripts.text_search(text, transcript.search, bool(question.words))))
    for exception in needs.exceptions:
        calls.append(_command(transcripts.raise_search(exception, transcript.search)))
    reads: dict[str, tuple[int | None, int | None]] = {}
    for path, start, end in needs.reads:
        reads.setdefault(path, (start, end))  # one part of a file a round: the next may make another part needless
    for path, (start, end) in list(reads.items())[:MAX_READS]:
        calls.append(("read_file", {"path": path, "start_line": start, "end_line": end}))
    return calls


def _command(command: str) -> tuple[str, dict[str, Any]]:
    return ("run_command", {"command": command, "workdir": None, "timeout_seconds": 60, "writes": False})
