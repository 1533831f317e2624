"""One frozen Config: built-in defaults, then `config.toml`, then its profile, then the environment, then flags.

Nothing is ever read from a repository.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from codeagent.config.fields import FLAGS, KNOWN_VARIABLES, VARIABLES
from codeagent.config.sources import Values, file_of, gather
from codeagent.errors import UsageError
from codeagent.settings import ApproveMode, Price, ProviderSettings, Rule, SandboxSettings

__all__ = ["FLAGS", "OFFLINE", "VARIABLES", "Config", "file_of", "load_config", "mistyped", "require_key"]

OFFLINE = ProviderSettings(name="offline", api="offline", model="offline")


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
    verify_time_limit: float = 900.0
    token_limit: int | None = None
    sandbox: SandboxSettings = field(default_factory=SandboxSettings)
    instruction_files: tuple[str, ...] = ("AGENTS.md",)
    origins: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """Sentences for the user about choices that were made for them."""


def load_config(
    flags: Mapping[str, object] | None = None,
    *,
    environ: Mapping[str, str] = os.environ,
    config: Path | None = None,
    profile: str | None = None,
) -> Config:
    """Reads and resolves everything. `flags` are keyed by flag name without dashes, None when not given.

    Raises UsageError, naming the key and its nearest known one where a key is unknown.
    """
    values = gather(flags or {}, environ, config, profile)
    names = dict.fromkeys(key.split(".")[1] for key in values if key.startswith("providers."))
    providers = {name: _provider(values, name, environ) for name in names}
    model = values.get("model", (None, ""))[0]
    if model == "offline" or values.get("provider", ("", ""))[0] == "offline":
        _refuse_model(values)
        provider, notice = OFFLINE, None
    else:
        name, notice = _choose(values, providers, environ)
        provider = providers[name]
        if model:
            from dataclasses import replace

            provider = replace(provider, model=model)
    config_ = Config(
        provider=provider,
        providers=providers,
        approve=values["approval.mode"][0],
        allow=values.get("approval.allow", ((), ""))[0],
        deny=values.get("approval.deny", ((), ""))[0],
        max_rounds=values["max_rounds"][0],
        time_limit=values["time_limit"][0],
        verify_time_limit=values["verify_time_limit"][0],
        token_limit=values.get("token_limit", (None, ""))[0],
        sandbox=_settings(SandboxSettings, values, "sandbox."),
        instruction_files=values["instruction_files"][0],
        origins=values,
        notices=(*([notice] if notice else []), *mistyped(environ, providers.values())),
    )
    _check_examples(config_)
    return config_


def _refuse_model(values: Values) -> None:
    """Raises UsageError when one command line asks for the offline provider and for a model: it cannot have both."""
    provider, model = (values.get(key, ("", "default")) for key in ("provider", "model"))
    if provider[1].startswith("--") and model[1].startswith("--") and model[0] != "offline":
        raise UsageError(
            f"The provider `offline` uses no model, so {model[1]} {model[0]} cannot be had from it.",
            "Leave out one of the two.",
        )


def mistyped(environ: Mapping[str, str], providers: Iterable[ProviderSettings]) -> Iterator[str]:
    """A sentence for each variable that looks like one of ours and is none."""
    keys = {provider.api_key_env for provider in providers}
    for name in sorted(environ):
        if name.startswith("CODEAGENT_") and name not in KNOWN_VARIABLES and name not in keys:
            from difflib import get_close_matches

            near = get_close_matches(name, KNOWN_VARIABLES, n=1, cutoff=0.8)
            yield f"the variable {name} means nothing here{f'; is {near[0]} meant?' if near else ''}"


def _check_examples(config: Config) -> None:
    """Rules carry examples; a rule that does not do what its examples say is refused at once."""
    if config.allow or config.deny:
        from codeagent.approval.rules import check_rules

        check_rules((*config.allow, *config.deny))


def require_key(provider: ProviderSettings) -> None:
    """Raises UsageError when the provider needs a key and the environment has none."""
    if provider.api_key_env and not provider.api_key:
        raise UsageError(
            f"No API key for provider {provider.name}: {provider.api_key_env} is not set.",
            f"Set {provider.api_key_env}, or use `--model offline`, which works now and needs no key.",
        )


def _settings(cls: type[Any], values: Values, prefix: str, **extra: object) -> Any:
    own = {key[len(prefix) :]: value for key, (value, _) in values.items() if key.startswith(prefix)}
    return cls(**{**own, **extra})


def _provider(values: Values, name: str, environ: Mapping[str, str]) -> ProviderSettings:
    prefix = f"providers.{name}."
    own = {key: value for key, value in values.items() if key.startswith(prefix)}
    if f"{prefix}api" not in own:
        raise UsageError(f"The provider `{name}` has no `api`.", f"Set providers.{name}.api in the configuration.")
    price = {key: own.pop(key) for key in list(own) if key.startswith(f"{prefix}price.")}
    key_env = own.get(f"{prefix}api_key_env", (None, ""))[0]
    url_from = own.get(f"{prefix}base_url", (None, ""))[1]
    return cast(
        "ProviderSettings",
        _settings(
            ProviderSettings,
            own,
            prefix,
            name=name,
            base_url_env=url_from if url_from in VARIABLES else None,
            api_key=environ.get(key_env, "").strip() or None if key_env else None,  # a file's newline came with it
            price=_settings(Price, price, f"{prefix}price.") if price else None,
        ),
    )


def _choose(
    values: Values, providers: Mapping[str, ProviderSettings], environ: Mapping[str, str]
) -> tuple[str, str | None]:
    """The provider's name, and a notice when it was chosen for the user."""
    if named := values.get("provider"):
        if named[0] not in providers:
            known = ", ".join(sorted([*providers, "offline"]))
            raise UsageError(f"There is no provider `{named[0]}`.", f"Known providers: {known}.")
        return named[0], None
    if environ.get("OPENAI_API_KEY"):
        return "openai", None
    with_key = [name for name, provider in providers.items() if provider.api_key]
    if len(with_key) == 1:
        key_env = providers[with_key[0]].api_key_env
        return with_key[0], f"using provider {with_key[0]}, the only one whose key is set ({key_env})"
    return "openai", None
