"""One frozen Config: built-in defaults, then `config.toml`, then the environment, then flags."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from codeagent.settings import ApproveMode, ProviderSettings, Rule, SandboxSettings


@dataclass(frozen=True, slots=True)
class Config:
    """Everything that a run is told, resolved. `origins` says where each value comes from."""

    provider: ProviderSettings
    providers: Mapping[str, ProviderSettings]
    approve: ApproveMode = "ask"
    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()
    max_rounds: int = 40
    time_limit: float = 900.0
    token_limit: int | None = None
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    instruction_files: tuple[str, ...] = ("AGENTS.md",)
    origins: Mapping[str, str] = field(default_factory=dict)
