"""Keeps the keys in use out of what tools return and servers say, before the model, the log and the user see it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable

REDACTED = "[key removed]"
_SHORTEST = 8


def redactor(secrets: Iterable[str | None]) -> Callable[[str], str]:
    """A function that replaces every exact occurrence of the given keys.

    Words such as `ollama` or `dummy`, given to servers that need no key, are no secrets: replacing them would
    only damage what the model reads. So a short value counts when it does not look like a word.
    """
    values = {secret.strip() for secret in secrets if secret}
    keys = sorted((value for value in values if _is_key(value)), key=len, reverse=True)
    if not keys:
        return lambda text: text
    pattern = re.compile("|".join(re.escape(key) for key in keys))
    return lambda text: pattern.sub(REDACTED, text)


def _is_key(value: str) -> bool:
    return len(value) >= _SHORTEST or (len(value) >= 5 and not value.isalpha())
