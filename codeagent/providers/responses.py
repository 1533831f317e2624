"""OpenAI Responses: https://platform.openai.com/docs/api-reference/responses

By default stateless: `store: false`, encrypted reasoning returned and sent back. What each field becomes, what is
dropped and why is in docs/providers.md.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from codeagent.conversation import Item, Json, ToolCall
from codeagent.inference import Finish, Inference, Request
from codeagent.providers.adapter import Dialect, Events
from codeagent.providers.encoding import Shown, cleaned, encoded
from codeagent.providers.failures import Failure, Kind, final, of_event, transient
from codeagent.providers.learning import refused_field, schema_refused, without
from codeagent.providers.options import Options
from codeagent.providers.responses_compaction import Compaction, usage_of
from codeagent.providers.responses_items import COMPACTION, Input, items_of, refused_text
from codeagent.providers.source import source_of
from codeagent.providers.written import Written
from codeagent.settings import ProviderSettings

_OPTIONAL = ("include", "prompt_cache_key", "reasoning", "max_output_tokens", "tool_choice", "strict", "store")
_TERMINAL = ("response.completed", "response.incomplete", "response.failed")


class Responses:
    """A Dialect (see `codeagent.providers.adapter`)."""

    path = "/responses"

    def __init__(self, settings: ProviderSettings, options: Options) -> None:
        self._settings = settings
        self._options = options
        self._without = set(options.without)
        self._strict = True
        self._server_state = settings.state == "server"
        self._input = Input(settings.name, settings.model, stored=self._server_state)
        self._written = Written(self._input.encode)
        self._stored: _Stored | None = None
        self._sent: Sequence[Item] = ()
        without = COMPACTION in options.without
        self.compaction: Dialect | None = None if without else Compaction(settings, options, self._input)

    def body(self, request: Request) -> bytes:
        self._sent = request.items
        fields = self._fields(request)
        parts = self._written(request.items)
        if self._stored is not None and self._stored.begins(request.items, self._input.call_id):
            fields["previous_response_id"] = self._stored.response_id
            parts = self._input.encode(request.items, self._stored.length)
        return b'%s,"input":[%s]}' % (encoded(fields)[:-1], b",".join(parts))

    def _fields(self, request: Request) -> dict[str, Any]:
        settings = self._settings
        fields: dict[str, Any] = {"model": settings.model, "instructions": request.instructions}
        if request.tools:
            fields["tools"] = self._tools(request)
            if request.tool_choice == "none":
                fields["tool_choice"] = "none"
        fields["stream"] = self._options.stream
        fields["store"] = self._server_state
        fields["include"] = ["reasoning.encrypted_content"]
        fields["prompt_cache_key"] = request.cache_key[:64]
        if settings.max_output_tokens is not None:
            fields["max_output_tokens"] = settings.max_output_tokens
        if settings.reasoning_effort is not None:
            fields["reasoning"] = {"effort": settings.reasoning_effort}
        fields.update(self._options.body)
        return {name: value for name, value in fields.items() if name not in self._without}

    def _tools(self, request: Request) -> list[dict[str, Any]]:
        # Without the field, the API tries to make a schema strict by itself, so it is always said.
        strict = {} if "strict" in self._without else {"strict": self._strict}
        return [
            {"type": "function", "name": t.name, "description": t.description, "parameters": t.parameters, **strict}
            for t in request.tools
        ]

    def read(self, events: Events, show: Shown) -> Inference:
        done: list[tuple[Any, Json]] = []
        text: list[str] = []
        for event in events:
            if event is None:
                break
            kind = event.get("type")
            if kind == "response.output_text.delta":
                show(event.get("delta"))
                text.append(str(event.get("delta") or ""))
            elif kind == "response.output_item.done" and isinstance(event.get("item"), dict):
                done.append((event.get("output_index"), event["item"]))
            elif kind in _TERMINAL:
                return self._ended(event.get("response") or {}, str(kind), done, "".join(text))
            elif kind == "error" or (kind is None and event.get("error")):
                raise of_event(event)
        raise Failure(Kind.CUT, "the stream ended without its terminal event")

    def read_whole(self, answer: Json) -> Inference:
        if not isinstance(answer.get("output"), list):
            raise Failure(Kind.FOREIGN, str(answer)[:200])
        return self._ended(answer, f"response.{answer.get('status') or 'completed'}", [], "")

    def _ended(self, response: Json, kind: str, done: list[tuple[Any, Json]], text: str) -> Inference:
        failed = kind == "response.failed"
        failure = of_event({"error": response.get("error")}) if failed else None
        if failure is not None and (transient(failure) or final(failure)):
            raise failure
        raw = cleaned(_output(response, done, text))
        items = items_of(self._settings.name, self._settings.model, raw)
        finish, word, detail = _finish(response, items, raw)
        if failure is not None:
            finish, word, detail = Finish.FAILED, failure.code or "failed", failure.message
        elif self._server_state and response.get("id"):
            self._stored = _Stored(str(response["id"]), tuple(self._sent), items)
        return Inference(items, finish, word, usage_of(response.get("usage")), tuple(raw), detail)

    def learn(self, failure: Failure) -> str:
        words = failure.words
        if "previous_response" in words and self._stored is not None:
            self._stored = None
            self._server_state = self._server_state and "support" not in words
            return "the server does not have the earlier response; the whole conversation is sent"
        if "encrypted content is not supported" in words and "include" not in self._without:
            self._without.add("include")
            return without("include")
        if forgotten := self._input.forget(self._sent, failure):
            self._written.forget()
            self._stored = None
            return forgotten
        if self._strict and schema_refused(failure):
            self._strict = False
            return "the server does not take the tools' schemas as strict ones"
        name = refused_field(failure, [name for name in _OPTIONAL if name not in self._without])
        if not name:
            return ""
        self._without.add(name)
        return without(name)


@dataclass(frozen=True)
class _Stored:
    """A response that the server keeps: what had been sent, and what it answered."""

    response_id: str
    sent: tuple[Item, ...]
    answered: tuple[Item, ...]

    @property
    def length(self) -> int:
        return len(self.sent) + len(self.answered)

    def begins(self, items: Sequence[Item], sent_as: Callable[[str], str]) -> bool:
        """Whether the conversation still begins with exactly this, and goes on after it.

        `sent_as` gives the id that the output of a call will have: the server must know the call by it.
        """
        if len(items) <= self.length or any(a is not b for a, b in zip(self.sent, items, strict=False)):
            return False
        following = items[len(self.sent) : self.length]
        return all(
            source_of(kept) == source_of(item) and _id_kept(item, sent_as)
            for kept, item in zip(self.answered, following, strict=True)
        )


def _id_kept(item: Item, sent_as: Callable[[str], str]) -> bool:
    """Whether the server knows a call by the id that its output will have."""
    source = source_of(item)
    return not isinstance(item, ToolCall) or source is None or sent_as(item.call_id) == source.payload.get("call_id")


def _output(response: Json, done: list[tuple[Any, Json]], text: str) -> list[Json]:
    """The output items: those of `output_item.done` in the order of their index, and what the end adds to them.

    Some servers leave the index out or never send a done event; an item that was cut may only be in the end's list.
    """
    if all(isinstance(index, int) for index, _ in done):
        done = sorted(done, key=lambda pair: pair[0])
    items = [item for number, (_, item) in enumerate(done) if (_, item) not in done[:number]]
    told = [item for item in response.get("output") or () if isinstance(item, dict)]
    known = {name for item in items for name in (item.get("id"), item.get("call_id")) if name}
    items += [item for item in told[len(items) :] if not {item.get("id"), item.get("call_id")} & known]
    if not items and text:
        items = [{"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}]
    return items


def _finish(response: Json, items: Sequence[Item], raw: Sequence[Json]) -> tuple[Finish, str, str]:
    """Why the model stopped, the server's word for it, and its explanation."""
    refused = refused_text(items)
    if refused:
        return Finish.REFUSED, "refusal", refused
    status = str(response.get("status") or "completed")
    if status == "incomplete":
        reason = str((response.get("incomplete_details") or {}).get("reason") or status)
        return Finish.TRUNCATED, reason, ""
    if any(item.get("status") == "incomplete" for item in raw):
        # llama.cpp says `completed` for a response that it cut.
        return Finish.TRUNCATED, status, "an item of the response is incomplete"
    return Finish.COMPLETE, status, ""
