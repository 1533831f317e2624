"""Citations in the text of an answer: where they stand in it, and how what is known of each is marked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal

from codeagent.ui.inert import inert
from codeagent.ui.wording import place

Seen = Literal["seen", "own", "unseen"]

MARKS: Mapping[Seen, str] = {"seen": "✓", "own": "✎", "unseen": "?"}
PLAIN_MARKS: Mapping[Seen, str] = {"seen": "", "own": "", "unseen": "?"}
"""For encodings that lack the signs: what is not marked as doubtful needs none."""


def seen(state: str) -> Seen:
    """Whether the tools showed the lines of a citation, whatever its state is called; never text from outside."""
    known: Mapping[str, Seen] = {"read": "seen", "moved": "seen", "own_change": "own"}
    return known.get(state, "unseen")


def replaced(
    text: str,
    citations: Sequence[Mapping[str, Any]],
    cited: Callable[[str, int, Seen], str],
    other: Callable[[str], str] = str,
) -> str:
    """Inert `text` with each place that a citation names passed through `cited(place, position, seen)`.

    What stands between them passes through `other`.
    """
    places = {inert(place(citation)): (at, seen(str(citation.get("state")))) for at, citation in enumerate(citations)}
    if not places:
        return other(text)
    longest_first = sorted(places, key=len, reverse=True)
    parts, end = [], 0
    for match in re.finditer("|".join(rf"{re.escape(one)}(?![\d-])" for one in longest_first), text):
        parts += [other(text[end : match.start()]), cited(match.group(), *places[match.group()])]
        end = match.end()
    return "".join([*parts, other(text[end:])])


def marked(text: str, citations: Sequence[Mapping[str, Any]], marks: Mapping[Seen, str] = MARKS) -> str:
    """Inert `text` with a mark after each citation."""
    return replaced(text, citations, lambda found, _, known: f"{found} {marks[known]}".rstrip())
