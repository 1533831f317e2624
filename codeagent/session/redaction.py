"""Takes what looks like a key out of a record before it leaves the user's machine in an export.

By shape, and only shapes that hardly anything else has: an export that mangles ordinary code would be of no use.
The exact values of the keys in use never reached the log (see `codeagent/keys.py`).
"""

from __future__ import annotations

import re
from typing import Any

from codeagent.session.journal import Record

REDACTED = "[looks like a key: removed]"

_SHAPES = re.compile(
    r"""
    -----BEGIN\ [A-Z ]*PRIVATE\ KEY-----.*?(?:-----END\ [A-Z ]*PRIVATE\ KEY-----|\Z)
    | \b(?:sk|pk|rk)-[A-Za-z0-9_-]{16,}            # OpenAI, Anthropic, OpenRouter
    | \b(?:sk|rk|pk)_(?:live|test)_[A-Za-z0-9]{16,} # Stripe
    | \bgh[pousr]_[A-Za-z0-9]{30,} | \bgithub_pat_[A-Za-z0-9_]{30,} | \bglpat-[A-Za-z0-9_-]{18,}
    | \bxox[abeoprs]-[A-Za-z0-9-]{10,}             # Slack
    | \b(?:AKIA|ASIA)[A-Z0-9]{16}\b                # AWS key ids
    | \bAIza[A-Za-z0-9_-]{35}                      # Google
    | \b(?:gsk|hf|npm|xai|pplx)[_-][A-Za-z0-9]{30,} | \bpypi-[A-Za-z0-9_-]{40,}
    | \beyJ[A-Za-z0-9_-]{10,}\.eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}  # JSON Web Tokens
    | (?<=[Bb]earer\ )[A-Za-z0-9._~+/=-]{20,}
    | (?<=://)[^\s/:@]{1,80}:[^\s/@]{3,200}(?=@)    # passwords in URLs
    """,
    re.VERBOSE | re.DOTALL,
)

_OPAQUE = frozenset({"encrypted_content", "signature", "data", "thought_signature", "reasoning_details"})
"""Fields of provider payloads that only the provider understands; an edited one would be worth nothing."""


def redact_shapes(text: str) -> str:
    """`text` with everything of the shape of a key replaced."""
    return _SHAPES.sub(REDACTED, text)


def redact_record(record: Record) -> dict[str, Any]:
    """A copy of a record, safe to export; opaque payloads are as they were."""
    return {name: _redacted(value, name) for name, value in record.items()}


def _redacted(value: Any, name: str = "") -> Any:
    if isinstance(value, str):
        return value if name in _OPAQUE else redact_shapes(value)
    if isinstance(value, dict):
        return {key: _redacted(inner, key) for key, inner in value.items()}
    if isinstance(value, list):
        return value if name in _OPAQUE else [_redacted(inner, name) for inner in value]
    return value
