"""What a refusal teaches about a server."""

from __future__ import annotations

import re
from collections.abc import Collection

from codeagent.providers.failures import Failure

_REFUSAL = re.compile(
    r"unknown|unsupported|not (be )?support|unrecogni[sz]ed|not permitted|extra inputs|extra_forbidden|unexpected"
    r"|not allowed|not available|does not accept|no longer exists?|deprecated|invalid parameter|cannot be used"
)


_SCHEMA = re.compile(
    r"invalid_function_parameters|invalid schema|input_schema|json schema|schema.*(not support|unsupported)"
)


def refused_field(failure: Failure, sent: Collection[str]) -> str:
    """Which of the request's optional fields the server says it does not take; empty when none.

    Some name it in a field, some only in a sentence, so a word of refusal must stand beside the name.
    """
    if failure.status not in (400, 404, 415, 422, 501):
        return ""
    named = re.split(r"[^a-z_]+", failure.param.lower())
    by_field = next((name for name in sent if name in named), "")
    if by_field and (_REFUSAL.search(failure.words) or failure.code):
        return by_field
    if "strict" in sent and schema_refused(failure):
        return "strict"
    if not _REFUSAL.search(failure.words):
        return ""
    return next((name for name in sent if re.search(rf"(?<![a-z_]){name}(?![a-z_])", failure.words)), "")


def schema_refused(failure: Failure) -> bool:
    """The schema of a tool may be one that the server does not take as strict: each has its own subset."""
    return _SCHEMA.search(failure.words) is not None


def without(name: str) -> str:
    """The notice for a parameter that is left out from now on."""
    return f"the server does not take `{name}`; sent again without it"
