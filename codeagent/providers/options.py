"""The quirks of a server that the user may know: the `options` of a `[providers.NAME]` table.

Nobody has to: what a server refuses is learned from its refusal. An option saves the refused request.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from difflib import get_close_matches
from typing import Any, Literal

from codeagent.errors import UsageError


@dataclass(frozen=True, slots=True)
class Options:
    """Each field is one option, with its default."""

    body: Mapping[str, Any] = field(default_factory=dict)
    """Further fields of every request body, for example `{ temperature = 0.2 }`."""
    without: tuple[str, ...] = ()
    """Names of request fields that the server does not take; `compaction` where it has none (Responses)."""
    stream: bool = True
    key_header: str = ""
    """The header that carries the key as it is, for example `api-key`; empty: `Authorization: Bearer`."""
    anthropic_version: str = "2026-10-21"
    """Messages only. With versions of before 2026 the key goes out as `x-api-key`."""
    reasoning: Literal["with_calls", "always", "never"] = "with_calls"
    """Chat only: which earlier assistant messages are sent back with their reasoning."""
    empty_content: Literal["null", "empty"] = "null"
    """Chat only: the content of an assistant message that holds nothing but calls."""
    call_ids: Literal["any", "nine"] = "any"
    """Chat only: `nine` maps call ids to exactly nine letters and digits."""


_CHOICES = {
    "reasoning": ("with_calls", "always", "never"),
    "empty_content": ("null", "empty"),
    "call_ids": ("any", "nine"),
}
_TYPES: dict[str, type | tuple[type, ...]] = {"body": Mapping, "without": (list, tuple), "stream": bool}


def read_options(given: Mapping[str, object], provider: str) -> Options:
    """Checks the table. Raises UsageError naming the option and what it may be."""
    known = [option.name for option in fields(Options)]
    for name, value in given.items():
        where = f"providers.{provider}.options.{name}"
        if name not in known:
            near = get_close_matches(name, known, 1) or known
            raise UsageError(f"{where} is not an option.", f"The nearest one is `{near[0]}`; see docs/providers.md.")
        if not isinstance(value, _TYPES.get(name, str)) or value not in _CHOICES.get(name, (value,)):
            allowed = " or ".join(_CHOICES.get(name, ("a value of another type",)))
            raise UsageError(f"{where} may not be {value!r}.", f"Use {allowed}; see docs/providers.md.")
    values: dict[str, Any] = dict(given)
    if "without" in values:
        values["without"] = tuple(str(name) for name in values["without"])
    return Options(**values)
