"""How many tokens a model may be given, by the beginning of its name, where the config does not say."""

from __future__ import annotations

import re
from urllib.parse import urlsplit

_UNKNOWN = 128_000
_UNKNOWN_LOCAL = 32_000
"""What a local server allots by default is often less than the model could take, and some cut silently."""

_HOSTED = (
    (r"gpt-4\.1", 1_000_000),
    (r"gpt-4o|gpt-4-turbo|o1|chatgpt-4o", 128_000),
    (r"gpt-4-32k", 32_000),
    (r"gpt-4", 8_000),
    (r"gpt-3\.5", 16_000),
    (r"o3|o4", 200_000),
    (r"gpt-5|codex", 400_000),
    (r"claude", 200_000),
    (r"gemini", 1_000_000),
    (r"grok", 256_000),
)
"""Models that nobody runs at home: at a local address, a proxy passes them on."""

_OPEN = (
    (r"deepseek-v4", 1_000_000),
    (r"deepseek", 128_000),
    (r"mistral-large|mistral-medium|magistral|devstral|codestral", 128_000),
    (r"kimi", 256_000),
    (r"qwen3", 256_000),
    (r"qwen", 128_000),
    (r"glm-4", 128_000),
    (r"gpt-oss", 128_000),
)


def is_local(base_url: str | None) -> bool:
    """Whether the server runs on this machine."""
    return urlsplit(base_url or "").hostname in ("127.0.0.1", "localhost", "::1", "0.0.0.0")  # noqa: S104


def context_window(model: str, base_url: str | None) -> int:
    """A window in tokens that does not promise more than the model has."""
    local = is_local(base_url)
    name = model.lower().rsplit("/", 1)[-1]
    known = _HOSTED if local else _HOSTED + _OPEN
    return next((window for start, window in known if re.match(start, name)), _UNKNOWN_LOCAL if local else _UNKNOWN)
