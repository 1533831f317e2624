"""The arguments of a call, as they may be sent back."""

from __future__ import annotations

import json
from typing import Any


def parsed_object(arguments: str) -> dict[str, Any] | None:
    """The JSON object that the string is; None when it is none, or holds numbers that JSON has no form for."""
    try:
        parsed = json.loads(arguments)
        if not isinstance(parsed, dict):
            return None
        json.dumps(parsed, allow_nan=False)  # 1e999 is read as an infinity
    except (ValueError, RecursionError):
        return None
    return parsed


def usable_arguments(arguments: str) -> str:
    """The same string when it is a JSON object, else `{}`.

    The error output says what was wrong; the history must be readable for servers that parse it again. llama.cpp
    answers 500 for ever to a history that holds arguments which are no object.
    """
    return "{}" if parsed_object(arguments) is None else arguments
