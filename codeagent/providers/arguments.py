"""The arguments of a call, as they may be sent back."""

from __future__ import annotations

import json


def usable_arguments(arguments: str) -> str:
    """The same string when it is a JSON object, else `{}`.

    The error output says what was wrong; the history must be readable for servers that parse it again. llama.cpp
    answers 500 for ever to a history that holds arguments which are no object.
    """
    try:
        parsed = json.loads(arguments)
    except (ValueError, RecursionError):
        return "{}"
    return arguments if isinstance(parsed, dict) else "{}"
