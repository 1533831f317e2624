"""Where values come from. Every source is flattened to dotted keys (`providers.openai.model`), checked, and laid over
the one before; the origin of each value stays with it.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from codeagent import paths
from codeagent.config.fields import BUILT_IN, FLAGS, VARIABLES, check_of, nearest
from codeagent.errors import UsageError

Values = Mapping[str, tuple[Any, str]]
"""Dotted key to value and origin."""


def gather(
    flags: Mapping[str, object],
    environ: Mapping[str, str],
    config: Path | None = None,
    profile: str | None = None,
) -> dict[str, tuple[Any, str]]:
    """All values that are set anywhere, the strongest source winning, each with its origin."""
    file = file_of(environ, config)
    tree = _read_toml(file, "--config" if config else "CODEAGENT_CONFIG" if environ.get("CODEAGENT_CONFIG") else None)
    profiles = _profiles(tree, str(file))
    chosen = _chosen(profiles, profile or environ.get("CODEAGENT_PROFILE") or None, file)
    given = {f"--{name}": {FLAGS[name]: value} for name, value in flags.items() if value is not None}
    layers: list[tuple[str, Mapping[str, object]]] = [
        ("default", BUILT_IN),
        (str(file), dict(_flatten(tree))),
        (f"{file} (profile)", chosen),
        *((name, {key: environ[name]}) for name, key in VARIABLES.items() if environ.get(name)),
        *given.items(),
    ]
    values: dict[str, tuple[Any, str]] = {}
    for origin, layer in layers:
        for key, value in layer.items():
            values[key] = (_checked(key, value, origin), origin)
    return values


def file_of(environ: Mapping[str, str], config: Path | None = None) -> Path:
    """The configuration file that is read: as named, else the user's own."""
    named = environ.get("CODEAGENT_CONFIG")
    return config or (Path(named) if named else paths.config_file(environ))


def _read_toml(file: Path, named_by: str | None) -> dict[str, object]:
    """An absent file is empty, unless the user has named it."""
    try:
        return tomllib.loads(file.read_bytes().decode("utf-8-sig"))
    except (FileNotFoundError, NotADirectoryError):
        if named_by is None:
            return {}
        raise UsageError(
            f"There is no configuration file {file}.", f"Check the path given with {named_by}."
        ) from None
    except OSError as error:
        raise UsageError(
            f"The configuration {file} cannot be read: {error.strerror}.", "Make it a readable file, or remove it."
        ) from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UsageError(f"The configuration {file} is not valid TOML: {error}.", "Correct that line.") from None


def _profiles(tree: dict[str, object], file: str) -> dict[str, dict[str, object]]:
    """Takes `profiles` out of the tree. All of them are checked: a wrong one is found before it is needed."""
    profiles = tree.pop("profiles", {})
    if not isinstance(profiles, dict) or not all(isinstance(one, dict) for one in profiles.values()):
        raise UsageError(f"{file}: `profiles` is not valid.", "It must be tables such as [profiles.work].")
    found = {name: dict(_flatten(cast("Mapping[str, object]", table))) for name, table in profiles.items()}
    for name, values in found.items():
        for key, value in values.items():
            _checked(key, value, f"{file} (profile {name})")
    return found


def _chosen(profiles: Mapping[str, Mapping[str, object]], name: str | None, file: Path) -> Mapping[str, object]:
    if name is None or name in profiles:
        return profiles[name] if name is not None else {}
    known = ", ".join(sorted(profiles)) or ("none" if file.exists() else "none; there is no such file")
    raise UsageError(f"There is no profile `{name}` in {file}.", f"Profiles defined there: {known}.")


def _flatten(table: Mapping[str, object], prefix: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        key = f"{prefix}{name}"
        if isinstance(value, dict) and check_of(key) is None:
            yield from _flatten(value, f"{key}.")
        else:
            yield key, value


def _checked(key: str, value: object, origin: str) -> Any:
    check = check_of(key)
    if check is None:
        raise UsageError(f"{origin}: unknown key `{key}`.", f"The nearest known key is `{nearest(key)}`.")
    try:
        return check(value)
    except ValueError as expected:
        # What stands in a variable or in the file may be a secret; what was typed is on the screen already.
        what = (
            f"{origin} {value}"
            if origin.startswith("--")
            else origin
            if origin in VARIABLES
            else f"{origin}: `{key}`"
        )
        raise UsageError(f"{what} is not valid.", f"It must be {expected}.") from None
