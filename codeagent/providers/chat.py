"""Chat Completions, of OpenAI (https://platform.openai.com/docs/api-reference/chat) and of all who offer the same.

What a server differs in is learned from its refusals, once; docs/providers.md lists what can be learned.
"""

from __future__ import annotations

import re
from typing import Any

from codeagent.conversation import Json
from codeagent.inference import Finish, Inference, Request, Usage
from codeagent.providers.adapter import Events
from codeagent.providers.call_ids import any_ids, nine_ids
from codeagent.providers.chat_items import REASONING_FIELDS, Form, Messages, items_of
from codeagent.providers.chat_stream import Assembly
from codeagent.providers.counts import count
from codeagent.providers.encoding import Shown, cleaned, encoded
from codeagent.providers.failures import Failure, Kind, of_event
from codeagent.providers.learning import refused_field, without
from codeagent.providers.options import Options
from codeagent.providers.written import Written
from codeagent.settings import ProviderSettings

_OPTIONAL = ("stream_options", "strict", "prompt_cache_key", "reasoning_effort", "tool_choice")
_COMPLETE = ("stop", "tool_calls", "function_call", "end_turn", "tool_use", "stop_sequence", "eos")
_TRUNCATED = ("length", "max_tokens", "model_length", "content_filter")
_SERVER_GAVE_UP = ("error", "abort", "insufficient_system_resource")
"""Reasons of OpenRouter, vLLM and DeepSeek that speak of the server and not of the model."""


class Chat:
    """A Dialect (see `codeagent.providers.adapter`)."""

    path = "/chat/completions"
    compaction = None

    def __init__(self, settings: ProviderSettings, options: Options) -> None:
        self._settings = settings
        self._options = options
        self._without = set(options.without)
        self._limit_field = "max_completion_tokens"
        self._form = Form(
            reasoning=options.reasoning,
            empty_content="" if options.empty_content == "empty" else None,
            ids=nine_ids() if options.call_ids == "nine" else any_ids(),
        )
        self._written = Written(Messages(settings.name, settings.model, self._form).encode)

    def body(self, request: Request) -> bytes:
        system = encoded({"role": "system", "content": request.instructions})
        messages = b",".join([system, *self._written(request.items)])
        return b'%s,"messages":[%s]}' % (encoded(self._fields(request))[:-1], messages)

    def _fields(self, request: Request) -> dict[str, Any]:
        settings = self._settings
        fields: dict[str, Any] = {"model": settings.model}
        if request.tools:
            fields["tools"] = [self._tool(t.name, t.description, t.parameters) for t in request.tools]
            if request.tool_choice == "none":
                fields["tool_choice"] = "none"
        fields["stream"] = self._options.stream
        if self._options.stream:
            fields["stream_options"] = {"include_usage": True}
        if settings.base_url is None:
            # Known to OpenAI; others may refuse what they do not know, and none needs it.
            fields["prompt_cache_key"] = request.cache_key[:64]
        if settings.max_output_tokens is not None and self._limit_field:
            fields[self._limit_field] = settings.max_output_tokens
        if settings.reasoning_effort is not None:
            fields["reasoning_effort"] = settings.reasoning_effort
        fields.update(self._options.body)
        return {name: value for name, value in fields.items() if name not in self._without}

    def _tool(self, name: str, description: str, parameters: Json) -> Json:
        strict = {} if "strict" in self._without else {"strict": True}
        function = {"name": name, "description": description, "parameters": parameters, **strict}
        return {"type": "function", "function": function}

    def read(self, events: Events, show: Shown) -> Inference:
        assembly = Assembly(show)
        ended = False
        try:
            for event in events:
                if event is None:
                    ended = True
                    break
                if event.get("error"):
                    raise of_event(event)
                assembly.take(event)
                if assembly.finish:
                    events.tail()
                # The count comes last, without a choice; a stream that was cut has none.
                ended = ended or bool(assembly.usage and not event.get("choices"))
        except Failure as failure:
            if failure.kind not in (Kind.CUT, Kind.SILENT) or not assembly.finish:
                raise
        if not assembly.finish and not (ended and assembly.chunks):
            raise Failure(Kind.CUT, "the stream ended without a reason")
        return self._ended(assembly)

    def read_whole(self, answer: Json) -> Inference:
        if not isinstance(answer.get("choices"), list):
            raise Failure(Kind.FOREIGN, str(answer)[:200])
        assembly = Assembly(Shown(lambda _: None))
        assembly.take(answer)
        return self._ended(assembly)

    def _ended(self, assembly: Assembly) -> Inference:
        word = assembly.finish
        if word in _SERVER_GAVE_UP:
            raise Failure(Kind.EVENT, f"the server gave up: {word}", code="server_error")
        message = cleaned(assembly.message())
        items = items_of(self._settings.name, self._settings.model, (message,))
        usage = _usage(assembly.usage)
        refused = str(message.get("refusal") or "")
        if refused or word == "refusal":
            return Inference(items, Finish.REFUSED, word or "refusal", usage, (message,), refused)
        if word in _COMPLETE or not word:
            return Inference(items, Finish.COMPLETE, word or "[DONE]", usage, (message,))
        detail = "" if word in _TRUNCATED else f"the server gave a reason that is not known: {word}"
        return Inference(items, Finish.TRUNCATED, word, usage, (message,), detail)

    # What refusals teach -----------------------------------------------------------------------------------

    def learn(self, failure: Failure) -> str:
        if failure.status is None or not 400 <= failure.status < 600:
            return ""
        lesson = self._learn_form(failure) or self._learn_limit(failure)
        if lesson:
            return lesson
        name = refused_field(failure, [name for name in _OPTIONAL if name not in self._without])
        if not name:
            return ""
        self._without.add(name)
        return without(name)

    def _learn_form(self, failure: Failure) -> str:
        form, words = self._form, failure.words
        lesson = ""
        if any(name in words for name in REASONING_FIELDS[:2]) and "effort" not in words:
            lesson = self._learn_reasoning(words)
        elif re.search(r"tool[ _]call[ _]?id", words) and re.search(
            r"length of 9|9 characters|a-z, ?a-z, ?0-9", words
        ):
            lesson = "the server wants call ids of nine letters and digits"
            form.ids = nine_ids()
        elif re.search(r"unexpected role 'user' after role 'tool'", words):
            lesson = "the server wants an assistant message after the outputs of calls"
            form.user_after_tool = False
        elif "content" in words and re.search(r"null|none|nil|empty|required|missing|string|valid", words):
            lesson = self._learn_content(words)
        if lesson:
            self._written.forget()
        return lesson

    def _learn_reasoning(self, words: str) -> str:
        form = self._form
        required = re.search(r"must be (passed|sent|provided|included|returned)|required|missing|passed back", words)
        if required and not form.reasoning_required:
            form.reasoning, form.reasoning_required = "always" if form.reasoning == "always" else "with_calls", True
            return "the server wants its reasoning back"
        if required and form.reasoning != "always":
            form.reasoning = "always"
            return "the server wants its reasoning back with every message"
        if not required and form.reasoning != "never":
            form.reasoning, form.reasoning_required = "never", False
            return "the server does not take its reasoning back"
        return ""

    def _learn_content(self, words: str) -> str:
        form = self._form
        if form.empty_content is None and not re.search(r"empty|blank|at least 1", words):
            form.empty_content = ""
            return "the server wants the content of a message to be text, even where there is none"
        if form.empty_content == "" and re.search(r"empty|blank|non-empty|at least 1", words):
            form.empty_content = None
            return "the server wants no content rather than an empty one"
        return ""

    def _learn_limit(self, failure: Failure) -> str:
        if self._settings.max_output_tokens is None or not self._limit_field:
            return ""
        named = refused_field(failure, [self._limit_field])
        if not named and not ("max_tokens" in failure.words and "max_completion_tokens" in failure.words):
            return ""
        refused = self._limit_field
        self._limit_field = "max_tokens" if refused == "max_completion_tokens" else ""
        return without(refused)


def _usage(usage: Json) -> Usage:
    cached = (
        count(usage, "prompt_tokens_details", "cached_tokens")
        or count(usage, "prompt_cache_hit_tokens")
        or count(usage, "cached_tokens")
    )
    return Usage(count(usage, "prompt_tokens"), cached, count(usage, "completion_tokens"))
