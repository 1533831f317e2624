"""What can be configured: each dotted key with its check, what is built in, and which variable and flag set what."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from codeagent.settings import Rule

Check = Callable[[object], Any]
"""Turns a raw value into the right one; raises ValueError with what was expected."""


def _text(value: object) -> str:
    if isinstance(value, str) and value.strip() and "\0" not in value:
        return value
    raise ValueError("a non-empty text")


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, list) and all(isinstance(part, str) for part in value):
        return tuple(value)
    raise ValueError("a list of texts")


def _number(value: object, expected: str = "a number above 0") -> float:
    try:
        number = float(value) if isinstance(value, (int, float, str)) and not isinstance(value, bool) else -1.0
    except ValueError:
        number = -1.0
    if 0 < number < float("inf"):
        return number
    raise ValueError(expected)


def _price(value: object) -> float:
    return 0.0 if value == 0 and not isinstance(value, bool) else _number(value)


def _count(value: object) -> int:
    expected = "a whole number above 0"
    number = _number(value, expected)
    if number.is_integer():
        return int(number)
    raise ValueError(expected)


_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40}


def _size(value: object) -> int:
    """Bytes; `2GiB`, `512m` and plain numbers are understood, all by powers of 1,024."""
    match = re.fullmatch(r"(\d+)\s*([kmgt]?)(i?b)?", str(value).strip().lower())
    if match and not isinstance(value, bool) and int(match[1]) > 0:
        return int(match[1]) * _UNITS[match[2]]
    raise ValueError('a size such as "512MiB" or "2GiB"')


def _one_of(*choices: str) -> Check:
    def check(value: object) -> str:
        if value in choices:
            return str(value)
        raise ValueError("one of " + ", ".join(choices))

    return check


def _table(value: object) -> Mapping[str, object]:
    if isinstance(value, dict):
        return value
    raise ValueError("a table")


def _headers(value: object) -> Mapping[str, str]:
    if isinstance(value, dict) and all(isinstance(part, str) for part in value.values()):
        return value
    raise ValueError("a table of texts")


def _rule(value: object) -> Rule:
    table = {"prefix": value} if isinstance(value, list) else value
    if not isinstance(table, dict) or not set(table) <= {"prefix", "match", "not_match"}:
        raise ValueError("a list of words, or a table with `prefix` and optionally `match` and `not_match`")
    prefix = _texts(table.get("prefix"))
    if not prefix:
        raise ValueError("a prefix of at least one word")
    return Rule(prefix, _texts(table.get("match", [])), _texts(table.get("not_match", [])))


def _rules(value: object) -> tuple[Rule, ...]:
    if isinstance(value, list):
        return tuple(_rule(part) for part in value)
    raise ValueError('a list such as [["make", "test"], {prefix = ["npm", "test"], match = ["npm test"]}]')


def _url(value: object) -> str:
    from urllib.parse import urlsplit

    try:
        parts = urlsplit(_text(value))
        if parts.scheme in ("http", "https") and parts.hostname and parts.port != 0:
            return str(value)
    except ValueError:
        pass
    raise ValueError("an address such as https://host/v1")


FIELDS: Mapping[str, Check] = {
    "provider": _text,
    "model": _text,
    "max_rounds": _count,
    "time_limit": _number,
    "verify_time_limit": _number,
    "token_limit": _count,
    "instruction_files": _texts,
    "approval.mode": _one_of("ask", "read-only", "contained", "all"),
    "approval.allow": _rules,
    "approval.deny": _rules,
    "sandbox.image": _text,
    "sandbox.docker_host": _text,
    "sandbox.memory": _size,
    "sandbox.cpus": _number,
    "sandbox.pids": _count,
    "sandbox.tmp_size": _size,
    "sandbox.copy_limit": _size,
    "sandbox.copy_exclude": _texts,
    "sandbox.protect": _texts,
    "providers.*.api": _one_of("responses", "chat", "messages", "offline"),
    "providers.*.model": _text,
    "providers.*.base_url": _url,
    "providers.*.api_key_env": _text,
    "providers.*.state": _one_of("client", "server"),
    "providers.*.context_window": _count,
    "providers.*.max_output_tokens": _count,
    "providers.*.reasoning_effort": _text,
    "providers.*.idle_timeout_seconds": _number,
    "providers.*.retry_seconds": _number,
    "providers.*.price.input": _price,
    "providers.*.price.output": _price,
    "providers.*.price.cached_input": _price,
    "providers.*.headers": _headers,
    "providers.*.options": _table,
}

BUILT_IN: Mapping[str, object] = {
    "max_rounds": 40,
    "time_limit": 900.0,
    "verify_time_limit": 900.0,
    "approval.mode": "ask",
    "sandbox.image": "codeagent-sandbox",
    "instruction_files": ["AGENTS.md"],
    "providers.openai.api": "responses",
    "providers.openai.model": "gpt-5.6",
    "providers.openai.api_key_env": "OPENAI_API_KEY",
    "providers.deepseek.api": "chat",
    "providers.deepseek.model": "deepseek-v4-flash",
    "providers.deepseek.base_url": "https://api.deepseek.com",
    "providers.deepseek.api_key_env": "DEEPSEEK_API_KEY",
    "providers.local.api": "chat",
    "providers.local.base_url": "http://127.0.0.1:8080/v1",
    "providers.anthropic.api": "messages",
    "providers.anthropic.model": "claude-opus-5-5",
    "providers.anthropic.api_key_env": "ANTHROPIC_API_KEY",
}

VARIABLES: Mapping[str, str] = {
    # The vendor's own variables act on `openai` alone and below ours, so they stand first.
    "OPENAI_BASE_URL": "providers.openai.base_url",
    "OPENAI_MODEL": "providers.openai.model",
    "CODEAGENT_PROVIDER": "provider",
    "CODEAGENT_MODEL": "model",
    "CODEAGENT_IMAGE": "sandbox.image",
    "CODEAGENT_DOCKER_HOST": "sandbox.docker_host",
    "CODEAGENT_APPROVE": "approval.mode",
    "CODEAGENT_MAX_ROUNDS": "max_rounds",
    "CODEAGENT_TIME_LIMIT": "time_limit",
    "CODEAGENT_VERIFY_TIME_LIMIT": "verify_time_limit",
    "CODEAGENT_TOKEN_LIMIT": "token_limit",
}

KNOWN_VARIABLES = frozenset({*VARIABLES, "CODEAGENT_HOME", "CODEAGENT_CONFIG", "CODEAGENT_PROFILE"})
"""Those that set no value, too."""

FLAGS: Mapping[str, str] = {
    "provider": "provider",
    "model": "model",
    "image": "sandbox.image",
    "docker-host": "sandbox.docker_host",
    "approve": "approval.mode",
    "max-rounds": "max_rounds",
    "time-limit": "time_limit",
    "verify-time-limit": "verify_time_limit",
    "token-limit": "token_limit",
}


def check_of(key: str) -> Check | None:
    """The check for a dotted key, None for an unknown one; provider names are free."""
    parts = key.split(".")
    if parts[0] == "providers" and len(parts) > 2:
        parts[1] = "*"
    return FIELDS.get(".".join(parts))


def nearest(key: str) -> str:
    """The known key that is most like an unknown one."""
    import difflib

    own = key.split(".")
    candidates = [name.replace("*", own[1]) if len(own) > 1 else name for name in FIELDS]
    close = difflib.get_close_matches(key, candidates, n=1, cutoff=0.0)
    return close[0] if close else "provider"
