"""Keeps what is sent inside the model's context window. The conversation itself stays whole.

What is sent (the view) grows only at its end, so that a provider's prompt cache holds, until it comes near the
window. Then, in this order and each only as far as needed: old outputs are cleared, earlier rounds give way to a
summary, the newest outputs are cut. Calls stay beside their outputs and reasoning beside its call, because only
whole rounds are taken out and only the text of outputs is replaced.

The summary is made by the program from the calls and their outputs (see `summary.py`): it costs nothing, cannot fail,
names only what happened. Where the API compacts rounds itself, what it made of them stands before the summary and
never instead of it: it is opaque, and nothing that must survive depends on it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from codeagent.agent.summary import kept_messages, summarise
from codeagent.conversation import AssistantMessage, Item, Reasoning, ToolCall, ToolOutput, UserMessage
from codeagent.errors import ContextFull
from codeagent.events import Compacted
from codeagent.inference import Compact, Finish, Inference, ToolSpec

TOKENS_PER_BYTE = 1 / 3.5
"""Where the estimate starts; the server's own counts move it within the bounds that real tokenizers have."""
_RATE_BOUNDS = (1 / 4.5, 1.0)
_CREDIBLE_RATE = 1 / 10  # fewer tokens than this are a server that does not count
_ITEM_BYTES = 80  # names and punctuation around an item on the wire

RECENT_ROUNDS = 3
"""Rounds whose outputs are cleared last: the model is still working on them."""
_CLEARED_TO = 0.6  # of the limit; below it, so that the view does not change again in the next round
_ENOUGH = 0.8  # of the limit; when clearing did not get below it, the next step follows
_SUMMARY_SHARE = 0.2
_TAIL_SHARE = 0.35
_WORTH_CLEARING = 400  # bytes; below, the note that stands instead saves nothing


@dataclass(frozen=True)
class _Excerpt:
    """What of a conversation is sent: not the items before `start`, which `head` stands for; of outputs, by call id,
    the text that replaced them."""

    replaced: Mapping[str, str] = field(default_factory=dict)
    start: int = 0
    head: tuple[Item, ...] = ()

    def shown(self, item: Item) -> Item:
        if isinstance(item, ToolOutput) and item.call_id in self.replaced:
            return replace(item, text=self.replaced[item.call_id])
        return item


class Context:
    """The view of one conversation. `fit` and `shorten` are given the whole conversation each time.

    `window` is in tokens and holds request and response together. `changed` names the files that differ in the
    private copy now, for a summary.
    """

    def __init__(
        self,
        window: int,
        instructions: str,
        tools: Sequence[ToolSpec],
        changed: Callable[[], Iterable[str]] = tuple,
    ) -> None:
        self._limit = window - min(window // 5, 20_000)  # the response needs room, too
        self._window = window
        self._changed = changed
        self._fixed = _bytes(instructions) + sum(
            _bytes(tool.name) + _bytes(tool.description) + _bytes(str(tool.parameters)) for tool in tools
        )
        self._rate = TOKENS_PER_BYTE
        self._calibrated = False
        self._shortened = False  # and no whole response has come since
        self._asks = True  # for what the API makes of rounds, until that has not been worth it
        self._excerpt = _Excerpt()
        self._view: list[Item] = []
        self._view_bytes = 0
        self._seen = 0  # how many items of the conversation the view has taken in

    def restore(self, items: Sequence[Item], compactions: Sequence[Compacted], made: Sequence[Item] = ()) -> None:
        """Takes up what an earlier process had compacted: the same view, to the byte.

        `made` is what the API made of the rounds that are summarised, as items, where this one can read it.
        """
        texts, starts = _texts(items), _round_starts(items)
        replaced: dict[str, str] = {}
        start, head = 0, tuple[Item, ...]()
        for event in compactions:
            self._rate = _bounded(event.tokens_per_byte or self._rate)
            for call_id in event.cleared_calls:
                if call_id in texts:
                    size = event.cut_calls.get(call_id)
                    replaced[call_id] = _cleared(texts[call_id]) if size is None else _cut(texts[call_id], size)
        last = next((event for event in reversed(compactions) if event.summary), None)
        if last is not None and last.summary and 0 < last.summarised_rounds < len(starts):
            start = starts[last.summarised_rounds]
            head = _head(items[:start], last.summary, last.message_bytes or self._share(), made)
        self._show(items, _Excerpt(replaced, start, head))

    def fit(self, items: Sequence[Item], compact: Compact | None = None) -> tuple[Sequence[Item], Compacted | None]:
        """What to send, and what was taken out just now. Raises ContextFull when it cannot be made to fit.

        `compact` is asked for what stands for rounds that have to go. When it is left by an exception, nothing has
        changed.
        """
        self._take_in(items)
        if self._estimate() <= self._limit:
            return list(self._view), None
        target, enough = round(self._limit * _CLEARED_TO), round(self._limit * _ENOUGH)
        compacted = self._compact(items, target, enough, (RECENT_ROUNDS, 1), compact)
        # Before the first response the estimate is only a guess; then the server decides.
        if self._calibrated and self._estimate() > self._window:
            raise self._full()
        return list(self._view), compacted

    def shorten(self, items: Sequence[Item]) -> tuple[Sequence[Item], Compacted | None]:
        """The same after the server found the view too long: as short as it gets, and shorter from now on.

        Compacted is None when nothing could go, or when the last time has not led to a whole response.
        """
        self._take_in(items)
        if self._shortened:
            return list(self._view), None
        self._shortened = True
        refused = self._estimate()
        self._limit = max(min(self._limit, round(refused * 0.8)), 1_000)
        target = round(self._limit * 0.5)
        compacted = self._compact(items, target, target, (1,), None)
        return list(self._view), compacted if self._estimate() < refused else None

    def used(self, inference: Inference) -> None:
        """Learns from what the server counted for the last view."""
        self._shortened = self._shortened and inference.finish is Finish.CONTEXT_FULL
        rate = inference.usage.input_tokens / (self._view_bytes + self._fixed)
        if rate > _CREDIBLE_RATE:
            self._rate = _bounded(rate)
            self._calibrated = True

    def _take_in(self, items: Sequence[Item]) -> None:
        if len(items) < self._seen:
            self._show(items, self._excerpt)
        for item in items[self._seen :]:
            self._view.append(self._excerpt.shown(item))
            self._view_bytes += _item_bytes(self._view[-1])
        self._seen = len(items)

    def _show(self, items: Sequence[Item], cut: _Excerpt) -> None:
        self._excerpt = cut
        self._view = [*cut.head, *map(cut.shown, items[cut.start :])]
        self._view_bytes = sum(map(_item_bytes, self._view))
        self._seen = len(items)

    def _estimate(self) -> int:
        """Tokens of the view with instructions and tools."""
        return round((self._view_bytes + self._fixed) * self._rate)

    def _share(self) -> int:
        """Bytes that a summary, or the user's own messages beside it, may take."""
        return round(self._limit * _SUMMARY_SHARE / self._rate)

    def _compact(
        self, items: Sequence[Item], target: int, enough: int, recent: Sequence[int], compact: Compact | None
    ) -> Compacted | None:
        """Takes out what it must, in the order of the module's first words; None when nothing could go."""
        before, starts = self._excerpt, _round_starts(items)
        event = Compacted([], 0, tokens_per_byte=self._rate)
        try:
            for rounds in recent:
                if self._estimate() > enough:
                    self._clear(items, starts, target, rounds)
            if self._estimate() > enough:
                event = self._summarise(items, starts, before, compact) or event
        except BaseException:
            self._show(items, before)  # what was not recorded has not happened
            raise
        sizes = self._cut_last(items) if self._estimate() > self._limit else {}
        replaced, earlier = self._excerpt.replaced, before.replaced
        cleared = [call_id for call_id, text in replaced.items() if earlier.get(call_id) != text]
        if not cleared and event.summary is None:
            return None
        rounds = sum(1 for index in starts if index < self._excerpt.start)
        return replace(event, cleared_calls=cleared, summarised_rounds=rounds, cut_calls=sizes)

    def _clear(self, items: Sequence[Item], starts: Sequence[int], target: int, recent: int) -> None:
        """Clears outputs, the oldest first, until the view is below the target."""
        end = starts[-recent] if len(starts) >= recent else 0
        excess = (self._estimate() - target) / self._rate
        replaced = dict(self._excerpt.replaced)
        for item in items[self._excerpt.start : end]:
            if excess <= 0:
                break
            if isinstance(item, ToolOutput):
                text = _cleared(item.text)
                saved = _bytes(replaced.get(item.call_id, item.text)) - _bytes(text)
                if saved > _WORTH_CLEARING:
                    replaced[item.call_id] = text
                    excess -= saved
        self._show(items, replace(self._excerpt, replaced=replaced))

    def _summarise(
        self, items: Sequence[Item], starts: Sequence[int], before: _Excerpt, compact: Compact | None
    ) -> Compacted | None:
        """Replaces rounds; the newest stays, and those before it that the tail has room for.

        None when nothing more can go. What the API makes of them is left out when it is too long.
        """
        cut = self._tail(items, starts)
        start, room = starts[cut] if cut else 0, self._share()
        # No new round can go, but a smaller window may want fewer words. What the API made is not given up for that.
        again = start == before.start and (compact is None or not _sealed(before.head))
        if start < before.start or not (cut and (again or start > before.start)):
            return None
        summary = summarise(items[:start], cut, room, self._changed())
        event = Compacted([], cut, summary, message_bytes=room, tokens_per_byte=self._rate)
        asked = compact is not None and self._asks and not again
        made = compact(_to_compact(items, start, before, room)) if compact and asked else None
        # It holds the user's messages, too: the room of both.
        short = made is not None and sum(map(_item_bytes, made.items)) <= 2 * room
        head = _head(items[:start], summary, room, made.items if made and short else ())
        self._show(items, replace(self._excerpt, start=start, head=head))
        if made is None:
            return event
        # When it makes too little room, it would be asked for again in every round.
        self._asks = short and (sum(map(_item_bytes, head)) + self._fixed) * self._rate < self._limit * _CLEARED_TO
        return replace(event, compaction=_recorded(made)) if short else event

    def _tail(self, items: Sequence[Item], starts: Sequence[int]) -> int:
        """Which round is the first that stays; 0 when none can go."""
        room = self._limit * _TAIL_SHARE / self._rate
        cut, end = max(0, len(starts) - 1), len(items)
        for candidate in range(cut, 0, -1):
            room -= sum(_item_bytes(self._excerpt.shown(item)) for item in items[starts[candidate] : end])
            if room < 0:
                break
            cut, end = candidate, starts[candidate]
        return cut

    def _cut_last(self, items: Sequence[Item]) -> dict[str, int]:
        """Cuts the outputs that are left to equal shares of the room that is left; their sizes in bytes."""
        shown = [item for item in self._view if isinstance(item, ToolOutput)]
        rest = self._view_bytes - sum(_bytes(output.text) for output in shown)
        room = self._limit * 0.9 / self._rate - self._fixed - rest
        share = max(0, round(room / max(1, len(shown))))
        texts = _texts(items)
        long = [output.call_id for output in shown if _bytes(output.text) > max(share, _WORTH_CLEARING)]
        replaced = {**self._excerpt.replaced, **{call_id: _cut(texts[call_id], share) for call_id in long}}
        self._show(items, replace(self._excerpt, replaced=replaced))
        return dict.fromkeys(long, share)

    def _full(self) -> ContextFull:
        return ContextFull(
            f"The conversation does not fit into the model's context window of {self._window} tokens.",
            "Ask a shorter question, start a new session, or use a model with a larger window.",
        )


def _head(items: Sequence[Item], summary: str, room: int, made: Sequence[Item]) -> tuple[Item, ...]:
    """What stands for the items: what the API made of them, the user's messages that are not among it word for word,
    and the program's summary."""
    told = {item.text for item in made if isinstance(item, UserMessage)}
    kept = [item for item in kept_messages(items, room) if item.text not in told]
    return (*made, *kept, UserMessage(summary, "program"))


def _to_compact(items: Sequence[Item], start: int, before: _Excerpt, room: int) -> list[Item]:
    """The items before `start` as they were last sent, so that they fit, without the program's summary of earlier
    ones: an API gives messages back as they are, and each summary would stand beside the one before it for ever."""
    earlier = kept_messages(items[: before.start], room)
    return [*earlier, *_sealed(before.head), *map(before.shown, items[before.start : start])]


def _sealed(head: Iterable[Item]) -> list[Item]:
    """What an API has put there, but for the messages that it gave back."""
    return [item for item in head if not isinstance(item, UserMessage)]


def _recorded(made: Inference) -> Mapping[str, object]:
    """A compaction as the log keeps it, with who can read it."""
    source = next(source for item in made.items if (source := getattr(item, "source", None)) is not None)
    author = {"api": source.api, "provider": source.provider, "model": source.model}
    return {**author, "items": list(made.raw), "usage": asdict(made.usage)}


def _bounded(rate: float) -> float:
    low, high = _RATE_BOUNDS
    return min(high, max(low, rate))


def _round_starts(items: Sequence[Item]) -> list[int]:
    """Where each round begins: the first item that the model wrote after something that it did not write."""
    written = [isinstance(item, (AssistantMessage, Reasoning, ToolCall)) for item in items]
    return [index for index, own in enumerate(written) if own and (index == 0 or not written[index - 1])]


def _texts(items: Iterable[Item]) -> dict[str, str]:
    return {item.call_id: item.text for item in items if isinstance(item, ToolOutput)}


def _bytes(text: str) -> int:
    """About what a text takes on the wire: UTF-8, with the escapes of JSON."""
    return len(text.encode("utf-8", "replace")) + text.count("\n") + text.count('"')


def _item_bytes(item: Item) -> int:
    if isinstance(item, (AssistantMessage, Reasoning, ToolCall)) and item.source is not None:
        return _bytes(str(item.source.payload)) + _ITEM_BYTES
    if isinstance(item, ToolCall):
        return _bytes(item.call_id) + _bytes(item.name) + _bytes(item.arguments) + _ITEM_BYTES
    if isinstance(item, ToolOutput):
        return _bytes(item.call_id) + _bytes(item.text) + _ITEM_BYTES
    if isinstance(item, Reasoning):
        return _ITEM_BYTES
    return _bytes(item.text) + _ITEM_BYTES


def _cleared(text: str) -> str:
    """Its first line (what was read, or how the command ended), and that the rest can be had again."""
    first = text.partition("\n")[0][:300]
    return f"{first}\n[The rest of this output was cleared to save room. Make the call again if you need it.]"


def _cut(text: str, size: int) -> str:
    """Head and tail of a text, about `size` bytes together, and how much is missing between them."""
    characters = max(0, round(len(text) * size / max(1, _bytes(text))) - 160)
    head, tail = text[: characters * 2 // 3], text[len(text) - characters // 3 :]
    left_out = len(text) - len(head) - len(tail)
    mark = f"[{left_out} characters were left out here to fit the context window; ask for a smaller part]"
    return f"{head}\n{mark}\n{tail}"
