"""The built-in investigator behind the same seam as every model: fixed rules, no network, no key."""

from __future__ import annotations

from codeagent.conversation import AssistantMessage, Item, Source, ToolCall
from codeagent.inference import Finish, Inference, Progress, Request, TextDelta, Usage
from codeagent.providers.offline import question as questions
from codeagent.providers.offline.answer import compose
from codeagent.providers.offline.investigation import Investigation
from codeagent.providers.offline.transcript import Transcript

MAX_ROUNDS = 16
MAX_CALLS = 12


class OfflineProvider:
    """Decides the next calls from the conversation alone; holds no state between inferences."""

    api = model = "offline"
    context_window = 1_000_000

    def __init__(self, name: str = "offline") -> None:
        self.name = name

    def infer(self, request: Request, progress: Progress) -> Inference:
        """The next calls, or the answer. Never raises."""
        transcript = Transcript(request.items)
        found = Investigation(questions.parse(transcript.question), transcript)
        payloads = [
            {"type": "function_call", "call_id": f"offline_{at}", "name": name, "arguments": arguments}
            for at, (name, arguments) in enumerate([*transcript.wanted][:MAX_CALLS], len(request.items))
        ]
        if not payloads or request.tool_choice != "auto" or transcript.rounds >= MAX_ROUNDS:
            payloads = [{"type": "message", "text": compose(found, transcript)}]
            progress(TextDelta(payloads[0]["text"]))
        items = tuple(item_of(one, Source("offline", self.name, self.model, one)) for one in payloads)
        return Inference(items, Finish.COMPLETE, "completed", Usage(), tuple(payloads))

    def compact(self, request: Request, progress: Progress) -> None:
        """There is no such thing here."""


def item_of(payload: dict[str, str], source: Source) -> Item:
    """The item that one element of `Inference.raw` stands for."""
    if payload["type"] == "message":
        return AssistantMessage(payload["text"], source)
    return ToolCall(payload["call_id"], payload["name"], payload["arguments"], source)
