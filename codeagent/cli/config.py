"""`codeagent config show`: each value and where it comes from. Keys are never shown, only whether they are set."""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from codeagent.cli.flags import add_config_flags
from codeagent.cli.person import say

EXAMPLES = """\
examples:
  codeagent config show
  codeagent config show --profile work --json

Later sources win: built-in defaults, the configuration file, its profile, the environment, flags.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "config",
        help="each setting and where it comes from",
        description="Shows the settings that a run would use, each with its origin.",
        epilog=EXAMPLES,
    )
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    show = actions.add_parser(
        "show",
        help="print each value and where it comes from",
        description="Prints each value and where it comes from.",
        epilog=EXAMPLES,
    )
    add_config_flags(show)
    show.add_argument("--json", action="store_true", help="one JSON object on stdout")
    show.add_argument("--verbose", action="store_true", help="stack traces of errors")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Prints the resolved configuration; exit code 2 when it is not valid."""
    from codeagent.cli.flags import config_of
    from codeagent.config import Config, file_of

    config: Config = config_of(args)
    settings = dict(sorted(shown_settings(config)))
    file = str(file_of(os.environ, args.config))
    if args.json:
        values = {key: {"value": value, "origin": origin} for key, (value, origin) in settings.items()}
        print(json.dumps({"file": file, "values": values, "notices": list(config.notices)}, indent=2))
        return 0
    from codeagent.ui.inert import inert

    _print_table(settings, file)
    for notice in config.notices:
        say(inert(f"note: {notice}"))
    return 0


def shown_settings(config: Any) -> Iterator[tuple[str, tuple[Any, str]]]:
    """Dotted key to value and origin, of everything that has a value, secrets replaced by whether they are set."""
    origins: Mapping[str, tuple[Any, str]] = config.origins
    for key, (value, origin) in origins.items():
        yield key, (_shown(key, value), origin)
    for key, value in _unset_defaults(config):
        if key not in origins:
            yield key, (_plain(value), "default")
    if "provider" not in origins:
        chosen = "default" if config.provider.name == "openai" else "chosen"
        yield "provider", (config.provider.name, origins["model"][1] if config.provider.api == "offline" else chosen)
    if "model" not in origins:
        yield "model", (config.provider.model or None, f"providers.{config.provider.name}")
    for name, provider in config.providers.items():
        if provider.api_key_env:
            state = "set" if provider.api_key else "not set"
            yield f"providers.{name}.api_key", (f"({state})", provider.api_key_env)


def _unset_defaults(config: Any) -> Iterator[tuple[str, Any]]:
    for field in dataclasses.fields(config.sandbox):
        yield f"sandbox.{field.name}", getattr(config.sandbox, field.name)
    yield "token_limit", config.token_limit
    yield "approval.allow", config.allow
    yield "approval.deny", config.deny


def _shown(key: str, value: Any) -> Any:
    """Headers carry keys, and an address may carry a password."""
    if key.endswith(".headers"):
        return dict.fromkeys(value, "(set)")
    if key.endswith((".base_url", ".docker_host")) and isinstance(value, str):
        return _without_password(value)
    return _plain(value)


def _without_password(url: str) -> str:
    try:
        parts = urlsplit(url)
        if parts.password is None and not parts.query:
            return url
    except ValueError:
        return "(not a valid address)"
    host = parts.netloc.rpartition("@")[2]
    user = f"{parts.username}:(set)@" if parts.password is not None else parts.netloc[: -len(host)]
    return urlunsplit((parts.scheme, user + host, parts.path, "(set)" if parts.query else "", parts.fragment))


def _plain(value: Any) -> Any:
    """Tuples, rules and mappings as JSON has them."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _plain(dataclasses.asdict(value))
    if isinstance(value, (tuple, list)):
        return [_plain(part) for part in value]
    if isinstance(value, Mapping):
        return {str(key): _plain(part) for key, part in value.items()}
    return value


def _print_table(settings: Mapping[str, tuple[Any, str]], file: str) -> None:
    from codeagent.ui.inert import cells, inert_line

    rows = [(key, _told(key, value), origin) for key, (value, origin) in settings.items()]
    shown = [tuple(inert_line(cell) for cell in row) for row in rows]
    first = max(cells(row[0]) for row in shown)
    second = min(max(cells(row[1]) for row in shown), 40)
    print(f"# {inert_line(file)}{'' if os.path.exists(file) else ' (does not exist)'}")  # noqa: PTH110 -- as text
    for key, value, origin in shown:
        print(f"{key}{' ' * (first - cells(key))}  {value}{' ' * (second - cells(value))}  {origin}")


def _told(key: str, value: Any) -> str:
    """As the configuration file would have it, without quotes; sizes with a unit."""
    if value is None:
        return "(none)"
    if isinstance(value, str):
        return value
    if key in _SIZES:
        unit, suffix = next(((unit, suffix) for unit, suffix in _UNITS if value % unit == 0), (1, ""))
        return f"{value // unit}{suffix}"
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    return json.dumps(value, ensure_ascii=False)


_SIZES = ("sandbox.memory", "sandbox.tmp_size", "sandbox.copy_limit")
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
