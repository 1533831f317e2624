"""The encoded form of a conversation that only grows at its end: what was encoded once is not touched again.

That keeps the cost of a request from growing with the rounds before it, and it is what makes an earlier request a
byte-identical prefix of a later one.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from operator import is_

from codeagent.conversation import Item

Encode = Callable[[Sequence[Item], int], list[bytes]]
"""Encodes the items from an index on; those before it are there to be looked at."""


class Written:
    """Calls `encode` only for what is new. An item that is no longer the same object starts everything over."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode
        self._known: tuple[list[Item], list[bytes]] = ([], [])

    def __call__(self, items: Sequence[Item]) -> list[bytes]:
        known, parts = self._known
        if len(known) > len(items) or not all(map(is_, known, items)):
            known, parts = [], []
        new = self._encode(items, len(known))
        # One assignment: an interruption leaves either what was known before or all of what is known now.
        self._known = (list(items), parts + new)
        return self._known[1]

    def forget(self) -> None:
        """The form has changed: everything is encoded again."""
        self._known = ([], [])
