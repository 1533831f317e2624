"""The compaction of the Responses API: https://developers.openai.com/api/docs/guides/compaction

`POST /responses/compact` takes a conversation and gives back the user's messages as they were and one `compaction`
item, which only its author can read. What it gives goes into later requests unchanged.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from codeagent.conversation import Item, Json, ToolCall
from codeagent.inference import Finish, Inference, Request, Usage
from codeagent.providers.adapter import Events
from codeagent.providers.counts import count
from codeagent.providers.encoding import Shown, cleaned, encoded
from codeagent.providers.failures import Failure, Kind
from codeagent.providers.learning import refused_field, without
from codeagent.providers.options import Options
from codeagent.providers.responses_items import COMPACTION, Input, items_of
from codeagent.settings import ProviderSettings

_OPTIONAL = ("prompt_cache_key", "instructions")


class Compaction:
    """A Dialect (see `codeagent.providers.adapter`) whose response is a shorter form of its request's items.

    The request is always the items themselves, also where the server keeps the conversation: the id of an earlier
    response names everything up to it, calls without their outputs and rounds that are to stay included.
    """

    path = "/responses/compact"
    compaction = None

    def __init__(self, settings: ProviderSettings, options: Options, written: Input) -> None:
        self._settings = settings
        self._without = set(options.without)
        self._input = written
        self._sent: Sequence[Item] = ()

    def body(self, request: Request) -> bytes:
        self._sent = request.items
        fields: dict[str, Any] = {
            "model": self._settings.model,
            "instructions": request.instructions,
            "prompt_cache_key": request.cache_key[:64],
        }
        kept = {name: value for name, value in fields.items() if name not in self._without}
        return b'%s,"input":[%s]}' % (encoded(kept)[:-1], b",".join(self._input.encode(request.items, 0)))

    def read(self, events: Events, show: Shown) -> Inference:  # noqa: ARG002 -- no answer comes as a stream here
        raise Failure(Kind.FOREIGN, "it answered with a stream")

    def read_whole(self, answer: Json) -> Inference:
        raw = cleaned(answer.get("output") or [])
        items = items_of(self._settings.name, self._settings.model, raw)
        sealed = [item for item in raw if item["type"] == COMPACTION and item.get("encrypted_content")]
        if not sealed or any(isinstance(item, ToolCall) for item in items):
            raise Failure(Kind.FOREIGN, f"it answered with {answer.get('object') or 'something else'}")
        return Inference(items, Finish.COMPLETE, COMPACTION, usage_of(answer.get("usage")), tuple(raw))

    def learn(self, failure: Failure) -> str:
        if forgotten := self._input.forget(self._sent, failure):
            return forgotten
        name = refused_field(failure, [name for name in _OPTIONAL if name not in self._without])
        if not name:
            return ""
        self._without.add(name)
        return without(name)


def usage_of(usage: object) -> Usage:
    """The tokens of one response, in the words of this API."""
    return Usage(
        count(usage, "input_tokens"),
        count(usage, "input_tokens_details", "cached_tokens"),
        count(usage, "output_tokens"),
    )
