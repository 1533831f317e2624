"""The numbers of a server's `usage`. They are for display and budgets: a strange one never costs the response."""

from __future__ import annotations

import math

_LARGEST = 10**15


def count(usage: object, *path: str) -> int:
    """The whole number at a path of names; 0 where there is none, or one that cannot be a count."""
    value = usage
    for name in path:
        value = value.get(name) if isinstance(value, dict) else None
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) < 16:
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return 0
    return min(max(0, int(value)), _LARGEST)
