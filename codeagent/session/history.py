"""Rebuilds a conversation from a session's log, always in a form that can be sent again.

The log holds facts; the conversation is a view of them. A crash, a damaged line or another program may have left
a call without its output: it gets one here that says so. An output without its call is left out. Outputs
stand after the response that made their calls, in the order of the calls, wherever they stand in the log.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from typing import Any

from codeagent.conversation import Item, ToolCall, ToolOutput, UserMessage, adopted
from codeagent.errors import ErrorKind, ToolError
from codeagent.events import Compacted
from codeagent.session.journal import Record, encode

INTERRUPTED = (
    "codeagent ended before the result of this call was recorded; it may or may not have run. "
    "Check what it would have changed before you repeat it"
)

UNREADABLE_MESSAGE = "(The user's message that began this turn could not be read from the session's log.)"

_ONCE = ("turn_started", "note", "model_response")
"""Two events of these types that are the same in everything, time included, are one line that stands twice."""

Retype = Callable[[str, str, str, Sequence[Any]], Sequence[Item]]
"""Turns the raw output of one response (api, provider, model, raw) into items again."""


@dataclass(frozen=True, slots=True)
class History:
    """What a log says. `turn` and `round` are those of its last event.

    `message` is what the user said last; `outcome` is that of the last turn, None when it did not end. `pending` was
    asked on a command line whose process ended before the turn about it had begun. `patching`, `verify` and
    `verify_repeat` are the session's choices (see `events.SessionStarted`).
    `interrupted_calls` had no output in the log; `unreadable_items` of responses are left out, as no API could have
    written them. `compactions` are what had been compacted, in order; `compaction` is what an API made of the rounds
    that the last summary stands for (none: it did not).
    """

    items: tuple[Item, ...] = ()
    repo: str = ""
    provider: str = ""
    model: str = ""
    image: str = ""
    patching: bool = False
    verify: str | None = None
    verify_repeat: int = 1
    pending: str = ""
    turn: int = 0
    round: int = 0
    message: str = ""
    outcome: str | None = None
    interrupted_calls: tuple[str, ...] = ()
    orphan_outputs: int = 0
    unreadable_items: int = 0
    compactions: tuple[Compacted, ...] = ()
    compaction: tuple[Item, ...] = ()
    shown: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """What the outputs of commands showed of files (see `events.TurnEnded`)."""


@dataclass
class _Response:
    """One response and the outputs of its calls, which may arrive long after."""

    items: list[Item]
    outputs: dict[str, ToolOutput] = field(default_factory=dict)
    announced: int = 0  # how many of its calls the log has named, in their order

    @property
    def calls(self) -> list[ToolCall]:
        return [item for item in self.items if isinstance(item, ToolCall)]


def rebuild(records: Iterable[Record], retype: Retype) -> History:
    """One pass over the records. Those that make no sense are passed over."""
    reader = _Reader(retype)
    for record in records:
        reader.take(record)
    return reader.history()


class _Reader:
    def __init__(self, retype: Retype) -> None:
        self._retype = retype
        self._parts: list[_Response | UserMessage] = []
        self._by_call: dict[str, _Response] = {}
        self._names: dict[str, str] = {}  # an id as the log has it, to the id here; where one repeats, the newest
        self._choices = {"repo": "", "provider": "", "model": "", "image": ""}
        self._turn = self._round = 0
        self._digests: set[bytes] = set()
        self._verification: tuple[str | None, int] = (None, 1)
        self._patching = False
        self._message = self._pending = ""
        self._asked = -1  # the last turn whose message is here
        self._outcome: str | None = None
        self._orphans = 0
        self._compactions: list[Compacted] = []
        self._compaction: tuple[Item, ...] = ()
        self._shown: dict[str, Mapping[str, Any]] = {}

    def take(self, record: Record) -> None:
        if record["type"] in _ONCE and self._repeated(record):
            return
        turn, round_ = record.get("turn"), record.get("round")
        if isinstance(turn, int) and isinstance(round_, int):
            self._turn, self._round = max(turn, self._turn), round_
        match record["type"]:
            case "session_started" | "session_resumed":
                self._take_choices(record)
            case "turn_started":
                self._outcome = None
                self._asked = self._turn
                self._pending = ""
                self._message = _text(record, "message")
                self._parts.append(UserMessage(self._message))
            case "note":
                of_repository = record.get("origin") == "repository"
                self._parts.append(UserMessage(_text(record, "text"), "repository" if of_repository else "program"))
            case "model_response":
                self._outcome = None
                self._add_response(record)
            case "tool_call":
                self._name_call(_text(record, "call_id"))
            case "tool_output":
                self._add_output(record)
            case "compacted":
                self._compact(record)
            case "turn_ended":
                self._pending = ""
                self._outcome = _text(record, "outcome") or None
                self._take_shown(record.get("shown"))

    def _repeated(self, record: Record) -> bool:
        """Whether the very same line was there before: a copy of the log's, not another event."""
        digest = blake2b(encode(record).encode("ascii")).digest()
        known = digest in self._digests
        self._digests.add(digest)
        return known

    def history(self) -> History:
        items: list[Item] = []
        interrupted: list[str] = []
        for part in self._parts:
            if isinstance(part, UserMessage):
                items.append(part)
                continue
            items += part.items
            for call in part.calls:
                output = part.outputs.get(call.call_id)
                if output is None:
                    interrupted.append(call.call_id)
                    output = interrupted_output(call.call_id)
                items.append(output)
        verify, repeat = self._verification
        return History(
            items=tuple(items),
            **self._choices,
            patching=self._patching,
            verify=verify,
            verify_repeat=repeat,
            pending=self._pending,
            turn=self._turn,
            round=self._round,
            message=self._message,
            outcome=self._outcome,
            interrupted_calls=tuple(interrupted),
            orphan_outputs=self._orphans,
            unreadable_items=0,  # whoever retypes them counts them
            compactions=tuple(self._compactions),
            compaction=self._compaction,
            shown=self._shown,
        )

    def _take_shown(self, shown: object) -> None:
        if isinstance(shown, Mapping):
            for call_id, files in shown.items():
                if isinstance(files, Mapping):
                    self._shown[self._names.get(str(call_id), str(call_id))] = files

    def _take_choices(self, record: Record) -> None:
        self._choices.update({name: _text(record, name) for name in self._choices if name in record})
        verify, repeat = record.get("verify"), record.get("verify_repeat")
        self._verification = (verify if isinstance(verify, str) else None, repeat if isinstance(repeat, int) else 1)
        self._patching = record.get("patching") is True
        self._pending = _text(record, "message") or self._pending

    def _add_response(self, record: Record) -> None:
        raw = record.get("items")
        if not isinstance(raw, list):
            return
        api = _text(record, "api") or _api_of(raw)
        provider = _text(record, "provider") or self._choices["provider"]
        model = _text(record, "model") or self._choices["model"]
        self._choices |= {"provider": provider, "model": model}  # `chat` may have changed them in between
        if self._turn > self._asked:  # no API takes a conversation that the model begins
            self._asked = self._turn
            self._message = self._message or UNREADABLE_MESSAGE
            self._parts.append(UserMessage(UNREADABLE_MESSAGE, "program"))
        items = self._retype(api, provider, model, raw)
        response = _Response(list(self._adopted(items)))
        self._parts.append(response)
        came = [item.call_id for item in items if isinstance(item, ToolCall)]
        for call, call_id in reversed(list(zip(response.calls, came, strict=True))):
            self._by_call[call.call_id] = response
            self._names[call_id] = call.call_id

    def _adopted(self, items: Sequence[Item]) -> Sequence[Item]:
        """The same ids that the calls had when they were carried out; nearly always those that they came with."""
        ids = [item.call_id for item in items if isinstance(item, ToolCall)]
        if all(ids) and len(set(ids)) == len(ids) and self._by_call.keys().isdisjoint(ids):
            return items
        return adopted(items, [ToolCall(call_id, "", "") for call_id in self._by_call])

    def _name_call(self, call_id: str) -> None:
        """The log names the calls of a response in their order, under the ids that they were answered by."""
        response = next((part for part in reversed(self._parts) if isinstance(part, _Response)), None)
        if response is None or response.announced >= len(response.calls) or not call_id:
            return
        call = response.calls[response.announced]
        response.announced += 1
        if call_id in self._by_call:
            self._names[call_id] = call.call_id
            return
        response.items[response.items.index(call)] = replace(call, call_id=call_id)
        self._by_call[call_id] = self._by_call.pop(call.call_id)

    def _add_output(self, record: Record) -> None:
        call_id = _text(record, "call_id")
        call_id = self._names.get(call_id, call_id)
        response = self._by_call.get(call_id)
        if response is None:
            self._orphans += 1
        elif call_id not in response.outputs:  # the first one is what the model was told
            response.outputs[call_id] = ToolOutput(call_id, _text(record, "output"), _kind(record))

    def _compact(self, record: Record) -> None:
        """Takes the event up; fields that make no sense are as if they were not there."""
        cleared, rounds, summary = record.get("cleared_calls"), record.get("summarised_rounds"), record.get("summary")
        sizes, room, rate = (record.get(name) for name in ("cut_calls", "message_bytes", "tokens_per_byte"))
        event = Compacted(
            [call_id for call_id in cleared if isinstance(call_id, str)] if isinstance(cleared, list) else [],
            rounds if isinstance(rounds, int) else 0,
            summary if isinstance(summary, str) else None,
            room if isinstance(room, int) else 0,
            {name: size for name, size in sizes.items() if isinstance(size, int)} if isinstance(sizes, dict) else {},
            tokens_per_byte=rate if isinstance(rate, float) else 0.0,
        )
        self._compactions.append(event)
        if event.summary is None:
            return
        made = record.get("compaction")
        raw = made.get("items") if isinstance(made, dict) else None
        self._compaction = ()
        if isinstance(made, dict) and isinstance(raw, list):
            api, provider, model = (_text(made, name) for name in ("api", "provider", "model"))
            self._compaction = tuple(self._retype(api, provider, model, raw))


def interrupted_output(call_id: str) -> ToolOutput:
    """What a call is answered with when nothing is known of its result."""
    return ToolOutput(call_id, ToolError(ErrorKind.INTERRUPTED, INTERRUPTED).text(), ErrorKind.INTERRUPTED)


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""


def _kind(record: Record) -> ErrorKind | None:
    if record.get("status") == "ok":
        return None
    try:
        return ErrorKind(_text(record, "error_kind"))
    except ValueError:  # written by a newer version that knows more kinds
        return ErrorKind.CANCELLED


def _api_of(raw: Sequence[Any]) -> str:
    """The API that an output came from, told by its form."""
    kinds = {str(item.get("type")) for item in raw if isinstance(item, dict)}
    if kinds & {"tool_use", "text", "thinking", "redacted_thinking"}:
        return "messages"
    return "responses" if kinds & {"message", "function_call", "reasoning"} else "chat"
