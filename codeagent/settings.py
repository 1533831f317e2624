"""What a user may choose, as plain values; `codeagent.config` reads and resolves them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

Api = Literal["responses", "chat", "messages", "offline"]
ApproveMode = Literal["ask", "read-only", "contained", "all"]


@dataclass(frozen=True, slots=True)
class Price:
    """In the user's currency, per million tokens."""

    input: float
    output: float
    cached_input: float | None = None


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One `[providers.NAME]` table. `api_key` is read from the environment, never from the file."""

    name: str
    api: Api
    model: str = ""
    base_url: str | None = None
    base_url_env: str | None = None
    """The variable that gave `base_url`, where one did."""
    api_key_env: str | None = None
    api_key: str | None = field(default=None, repr=False)
    state: Literal["client", "server"] = "client"
    context_window: int | None = None
    max_output_tokens: int | None = None
    reasoning_effort: str | None = None
    idle_timeout_seconds: float = 120.0
    retry_seconds: float = 120.0
    """Total time that retries of one request may take."""
    price: Price | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    options: Mapping[str, object] = field(default_factory=dict)
    """Quirks of the server that the user knows (see docs/providers.md), learned ones come on top."""


@dataclass(frozen=True, slots=True)
class Rule:
    """An argv prefix from the user's `[approval]` table, with examples that are checked when it is read."""

    prefix: tuple[str, ...]
    match: tuple[str, ...] = ()
    not_match: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class SandboxSettings:
    """The `[sandbox]` table. Sizes in bytes."""

    image: str = "codeagent-sandbox"
    docker_host: str | None = None
    memory: int = 2 << 30
    cpus: float = 2.0
    pids: int = 512
    tmp_size: int = 512 << 20
    copy_limit: int = 2 << 30
    copy_exclude: tuple[str, ...] = ()
    protect: tuple[str, ...] = field(default=())
    """Further protected patterns, in gitignore syntax, added to the built-in ones."""
