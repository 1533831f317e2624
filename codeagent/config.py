"""One frozen Config: built-in defaults, then `config.toml`, then the environment, then flags.

Every source is flattened to dotted keys (`providers.openai.model`), checked against `FIELDS`, and laid over
the one before; the origin of each value stays with it. Nothing is ever read from a repository.
"""

from __future__ import annotations

import os
import re
import tomllib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from codeagent import paths
from codeagent.errors import UsageError
from codeagent.settings import ApproveMode, Price, ProviderSettings, Rule, SandboxSettings

Check = Callable[[object], Any]
"""Turns a raw value into the right one; raises ValueError with what was expected."""

Values = Mapping[str, tuple[Any, str]]
"""Dotted key to value and origin."""


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
    origins: Mapping[str, tuple[Any, str]] = field(default_factory=dict)
    notices: tuple[str, ...] = ()
    """Sentences for the user about choices that were made for them."""


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


FIELDS: Mapping[str, Check] = {
    "provider": _text,
    "model": _text,
    "max_rounds": _count,
    "time_limit": _number,
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
    "providers.*.base_url": _text,
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
    "CODEAGENT_TOKEN_LIMIT": "token_limit",
}

OFFLINE = ProviderSettings(name="offline", api="offline", model="offline")


def _known(key: str) -> Check | None:
    """The check for a dotted key; provider names are free."""
    parts = key.split(".")
    if parts[0] == "providers" and len(parts) > 2:
        parts[1] = "*"
    return FIELDS.get(".".join(parts))


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and _known(key) is None:
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


def _nearest(key: str) -> str:
    import difflib

    own = key.split(".")
    candidates = [name.replace("*", own[1]) if len(own) > 1 else name for name in FIELDS]
    close = difflib.get_close_matches(key, candidates, n=1, cutoff=0.0)
    return close[0] if close else "provider"


def _checked(key: str, value: object, origin: str) -> Any:
    check = _known(key)
    if check is None:
        raise UsageError(f"{origin}: unknown key `{key}`.", f"The nearest known key is `{_nearest(key)}`.")
    try:
        return check(value)
    except ValueError as expected:
        raise UsageError(f"{origin}: `{key}` is not valid.", f"It must be {expected}.") from None


def _read_toml(file: Path, required: bool) -> dict[str, object]:
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8"))
    except FileNotFoundError:
        if not required:
            return {}
        raise UsageError(f"There is no configuration file {file}.", "Check the path given with --config.") from None
    except OSError as error:
        raise UsageError(
            f"The configuration {file} cannot be read: {error.strerror}.", "Make it a readable file, or remove it."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The configuration {file} is not valid TOML: {error}.", "Correct that line.") from None


def _profile(tree: dict[str, object], name: str | None, origin: str) -> Mapping[str, object]:
    """Takes `profiles` out of the tree and returns the named one."""
    profiles = tree.pop("profiles", {})
    if name is None:
        return {}
    if isinstance(profiles, dict) and isinstance(profiles.get(name), dict):
        return cast("Mapping[str, object]", profiles[name])
    known = ", ".join(sorted(profiles)) if isinstance(profiles, dict) and profiles else "none"
    raise UsageError(f"There is no profile `{name}` in {origin}.", f"Profiles defined there: {known}.")


def gather(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    config: Path | None = None,
    profile: str | None = None,
) -> dict[str, tuple[Any, str]]:
    """All values that are set anywhere, the strongest source winning, each with its origin."""
    config = config or (Path(environ["CODEAGENT_CONFIG"]) if environ.get("CODEAGENT_CONFIG") else None)
    file = config or paths.config_file(environ)
    tree = _read_toml(file, required=config is not None)
    chosen = _profile(tree, profile or environ.get("CODEAGENT_PROFILE") or None, str(file))
    layers: list[tuple[str, Mapping[str, object]]] = [
        ("default", BUILT_IN),
        (str(file), dict(_flatten(tree))),
        (f"{file} (profile)", dict(_flatten(chosen))),
        *((name, {key: environ[name]}) for name, key in VARIABLES.items() if environ.get(name)),
        *((f"--{name}", {key: value}) for name, (key, value) in _by_flag(flags)),
    ]
    values: dict[str, tuple[Any, str]] = {}
    for origin, layer in layers:
        for key, value in layer.items():
            values[key] = (_checked(key, value, origin), origin)
    return values


FLAGS: Mapping[str, str] = {
    "provider": "provider",
    "model": "model",
    "image": "sandbox.image",
    "docker-host": "sandbox.docker_host",
    "approve": "approval.mode",
    "max-rounds": "max_rounds",
    "time-limit": "time_limit",
    "token-limit": "token_limit",
}


def _by_flag(flags: Mapping[str, object]) -> Iterator[tuple[str, tuple[str, object]]]:
    for name, value in flags.items():
        if value is not None:
            yield name, (FLAGS[name], value)


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
    return cast(
        "ProviderSettings",
        _settings(
            ProviderSettings,
            own,
            prefix,
            name=name,
            api_key=(environ.get(key_env) or None) if key_env else None,
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
        token_limit=values.get("token_limit", (None, ""))[0],
        sandbox=_settings(SandboxSettings, values, "sandbox."),
        instruction_files=values["instruction_files"][0],
        origins=values,
        notices=(notice,) if notice else (),
    )
    _check_examples(config_)
    return config_


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
