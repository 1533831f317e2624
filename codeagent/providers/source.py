"""Who an item came from, and which items came together."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence

from codeagent.conversation import Item, Source, ToolOutput, UserMessage


def source_of(item: Item) -> Source | None:
    """Who produced the item; None for what no model did."""
    return None if isinstance(item, (UserMessage, ToolOutput)) else item.source


def groups(items: Sequence[Item]) -> Iterator[list[Item]]:
    """The items as messages hold them: what a model said in one response together, outputs that follow each other
    together, and each user message alone."""
    group: list[Item] = []
    for item in items:
        if group and not _together(group[-1], item):
            yield group
            group = []
        group.append(item)
    if group:
        yield group


def _together(one: Item, next_one: Item) -> bool:
    if isinstance(one, UserMessage) or isinstance(next_one, UserMessage):
        return False
    if isinstance(one, ToolOutput) or isinstance(next_one, ToolOutput):
        return isinstance(one, ToolOutput) and isinstance(next_one, ToolOutput)
    first, second = one.source, next_one.source
    if first is None or second is None or not (first.response or second.response):
        return True  # an author that does not tell its responses apart, such as the offline one
    # Two responses may be equal; the second one begins again at its first place.
    return first.response == second.response and first.position < second.position


def named_types(sources: Iterable[Source], words: str) -> set[str]:
    """The types of these that a server names in its refusal (`words`, in lower case)."""
    kinds = {kind for source in sources if isinstance(kind := source.payload.get("type"), str) and kind}
    return {kind for kind in kinds if re.search(rf"(?<!\w){re.escape(kind.lower())}(?!\w)", words)}


def not_taken(types: Iterable[str]) -> str:
    return f"the server does not take items of the type {', '.join(sorted(types))}; sent again without them"
