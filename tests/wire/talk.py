"""A conversation with a scripted server through a real provider, as the loop would hold it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar

from codeagent.conversation import Item, ToolOutput, UserMessage, adopted, text_of, unanswered
from codeagent.errors import ErrorKind
from codeagent.inference import Inference, Request, RetryNotice, TextDelta, ToolSpec
from codeagent.providers.adapter import Adapter
from codeagent.providers.open import open_provider
from codeagent.settings import ProviderSettings
from tests.model_server import ModelServer

APIS = ("responses", "chat", "messages")

READ_FILE = ToolSpec(
    "read_file",
    "Reads a file.",
    {
        "type": "object",
        "properties": {"path": {"type": "string"}, "start_line": {"type": ["integer", "null"], "minimum": 1}},
        "required": ["path", "start_line"],
        "additionalProperties": False,
    },
)
RUN_COMMAND = ToolSpec(
    "run_command",
    "Runs a command.",
    {
        "type": "object",
        "properties": {"command": {"type": "string"}},
        "required": ["command"],
        "additionalProperties": False,
    },
)


class Talk:
    """Keeps the history, what was shown, what was said about retries, and the waits, which nobody waits for."""

    open_providers: ClassVar[list[Adapter]] = []  # closed after each test, see conftest.py

    def __init__(self, server: ModelServer | str, api: str, **settings: Any) -> None:
        self.history: list[Item] = []
        self.shown: list[str] = []
        self.notices: list[RetryNotice] = []
        self.waits: list[float] = []
        self.provider = self.opened(server, api, **settings)

    def opened(self, server: ModelServer | str, api: str, **settings: Any) -> Adapter:
        url = server if isinstance(server, str) else server.url
        given = {"name": "tested", "model": "m-1", "base_url": url, "api_key": "key-123", **settings}
        provider = open_provider(ProviderSettings(api=api, **given), self.waits.append)  # type: ignore[arg-type]
        self.open_providers.append(provider)
        return provider

    def switch(self, server: ModelServer, api: str, **settings: Any) -> None:
        """The same conversation goes on with another provider."""
        self.provider = self.opened(server, api, **settings)

    def progress(self, told: TextDelta | RetryNotice) -> None:
        if isinstance(told, TextDelta):
            self.shown.append(told.text)
        else:
            self.notices.append(told)
            self.shown.clear()

    def infer(self, tool_choice: str = "auto") -> Inference:
        request = Request(
            "Be brief.",
            list(self.history),
            (READ_FILE, RUN_COMMAND),
            "session-1",
            "none" if tool_choice == "none" else "auto",
        )
        inference = self.provider.infer(request, self.progress)
        inference = replace(inference, items=adopted(inference.items, self.history))
        self.history += inference.items
        return inference

    def ask(self, question: str) -> Inference:
        self.history.append(UserMessage(question))
        return self.infer()

    def answer(self, *texts: str, error: ErrorKind | None = None) -> None:
        """One output a call; the last text serves for all that remain."""
        for number, call in enumerate(unanswered(self.history)):
            text = texts[min(number, len(texts) - 1)] if texts else "done"
            self.history.append(ToolOutput(call.call_id, text, error))

    def turn(self, question: str, rounds: int = 20) -> str:
        """Asks, answers every call with `done`, and gives the answer's text."""
        inference = self.ask(question)
        while unanswered(inference.items) and rounds:
            self.answer()
            inference = self.infer()
            rounds -= 1
        return text_of(inference.items)
