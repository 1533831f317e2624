"""JSON on the wire: compact, stable, and always encodable.

A model may write half of a surrogate pair, and a stream may split a pair over two events. Joined halves become
the character that they stand for; what stays alone becomes U+FFFD, because no UTF-8 can carry it.
"""

from __future__ import annotations

import json
from hashlib import sha256
from typing import Any

from codeagent.inference import Progress, TextDelta

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def clean(text: str) -> str:
    """The same text without lone surrogates."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def encoded(value: Any) -> bytes:
    """Compact JSON in UTF-8, keys in their order: the same value always gives the same bytes."""
    text = _encode(value)
    try:
        return text.encode()
    except UnicodeEncodeError:
        return clean(text).encode()


def decoded(content: str) -> Any:
    """The JSON value of a text from a server. Raises ValueError, also for one nested too deeply to be read."""
    try:
        return json.loads(content)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def cleaned(value: Any) -> Any:
    """The same JSON value without lone surrogates in it; the very same object where there are none."""
    text = _encode(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.loads(clean(text))
    return value


def digest(value: Any, length: int = 12) -> str:
    """A short name for a JSON value or a string."""
    return sha256(encoded(value)).hexdigest()[:length]


class Shown:
    """Passes text on for display, holding back half a surrogate pair until its other half is there."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._held = ""

    def __call__(self, piece: object) -> None:
        if not isinstance(piece, str) or not piece:
            return
        text = self._held + piece
        self._held = text[-1] if "\ud800" <= text[-1] <= "\udbff" else ""
        whole = clean(text[: len(text) - len(self._held)])
        if whole:
            self._progress(TextDelta(whole))
