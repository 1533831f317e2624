"""The built-in investigator behind the same seam as every model: fixed rules, no network, no key."""

from __future__ import annotations

from codeagent.conversation import AssistantMessage, Item, Source, ToolCall
from codeagent.inference import Finish, Inference, Progress, Request, TextDelta, Usage
from codeagent.providers.offline import question as questions
from codeagent.providers.offline.answer import compose
from codeagent.providers.offline.investigation import investigate
from codeagent.providers.offline.transcript import Transcript

MAX_ROUNDS = 16
MAX_CALLS = 12


class OfflineProvider:
    """Decides the next calls from the conversation alone; holds no state between inferences."""

    def __init__(self, name: str = "offline") -> None:
        self.name = name
        self.api = "offline"
        self.model = "offline"
        self.context_window = 1_000_000

    def infer(self, request: Request, progress: Progress) -> Inference:
        """The next calls, or the answer. Never raises."""
        transcript = Transcript(request.items)
        question = questions.parse(transcript.question)
        report = investigate(question, transcript)
        if transcript.wanted and request.tool_choice == "auto" and transcript.rounds < MAX_ROUNDS:
            calls = enumerate(list(transcript.wanted)[:MAX_CALLS], len(request.items))
            return self._response([_call(f"offline_{at}", name, arguments) for at, (name, arguments) in calls])
        text = compose(report, transcript)
        progress(TextDelta(text))
        return self._response([{"type": "message", "text": text}])

    def compact(self, request: Request, progress: Progress) -> None:
        """There is no such thing here."""

    def _response(self, payloads: list[dict[str, str]]) -> Inference:
        items = tuple(item_of(one, Source("offline", self.name, self.model, one)) for one in payloads)
        return Inference(items, Finish.COMPLETE, "completed", Usage(), tuple(payloads))


def item_of(payload: dict[str, str], source: Source) -> Item:
    """The item that one element of `Inference.raw` stands for."""
    if payload["type"] == "message":
        return AssistantMessage(payload["text"], source)
    return ToolCall(payload["call_id"], payload["name"], payload["arguments"], source)


def _call(call_id: str, name: str, arguments: str) -> dict[str, str]:
    return {"type": "function_call", "call_id": call_id, "name": name, "arguments": arguments}
