"""What `codeagent doctor` looks at, in the order in which a run needs it.

Nothing is pulled and no image is built but the toolbox, where codeagent itself changed since the last run (seconds).
"""

from __future__ import annotations

import argparse
import errno
import os
import platform
import shlex
import shutil
import stat
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from codeagent.config import Config
from codeagent.errors import CodeagentError, UsageError
from codeagent.settings import ProviderSettings, SandboxSettings

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine
    from codeagent.sandbox.image import Image
    from codeagent.sandbox.seam import Steps

LEAST_FREE = 200 << 20
"""Bytes; sessions with saved outputs need room."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One line: what was looked at, how it is, and what to do about it when it is not ok."""

    name: str
    level: Literal["ok", "warning", "error"]
    text: str
    remedy: str = ""


def examine(args: argparse.Namespace, steps: Steps) -> Iterator[Finding]:
    """Every finding, as soon as it is made. Never raises CodeagentError: what is wrong is a finding.

    `steps` is told what is waited for.
    """
    yield Finding("python", "ok", f"{platform.python_version()} on {platform.platform(terse=True)}, {sys.executable}")
    config, finding = _config(args)
    yield finding
    yield from _keys(config)
    yield _state()
    repo, finding = _repository(args)
    yield finding
    settings = config.sandbox if config else SandboxSettings()
    yield from _engine(args.docker_host or settings.docker_host, args.image or settings.image, settings, repo, steps)
    if args.online:
        steps("asking the model", 0, 0)
        yield _online(config)


def _failure(name: str, error: CodeagentError, level: Literal["warning", "error"] = "error") -> Finding:
    return Finding(name, level, error.message, error.remedy)


def _config(args: argparse.Namespace) -> tuple[Config | None, Finding]:
    from codeagent.cli.flags import config_of
    from codeagent.config import file_of, mistyped

    file = file_of(os.environ, args.config)
    try:
        config = config_of(args)
    except UsageError as error:
        return None, _failure("config", error)
    said = str(file) if file.exists() else f"built-in defaults ({file} does not exist)"
    if wrong := list(mistyped(os.environ, config.providers.values())):
        said = "; ".join((said, *wrong))
        return config, Finding("config", "warning", f"valid: {said}", "Correct its name, or unset it.")
    return config, Finding("config", "ok", f"valid: {said}")


def _keys(config: Config | None) -> Iterator[Finding]:
    """Which keys are set, never what they are, and what a run would use."""
    if config is None:
        return
    with_key = [provider for provider in config.providers.values() if provider.api_key_env]
    said = ", ".join(f"{one.api_key_env} {'set' if one.api_key else 'not set'}" for one in with_key)
    chosen = config.provider
    if chosen.api_key_env and not chosen.api_key:
        remedy = f"Set {chosen.api_key_env}, or use `--model offline`, which needs no key."
        yield Finding("keys", "warning", f"no key for provider {chosen.name}: {said}", remedy)
    else:
        yield Finding("keys", "ok", said or "no provider needs one")
    model = chosen.model or "no model named"
    if chosen.model or chosen.api == "offline":
        yield Finding("provider", "ok", f"{chosen.name} ({chosen.api}), model {model}")
    else:
        remedy = f"Set providers.{chosen.name}.model in the configuration, or give --model."
        yield Finding("provider", "warning", f"{chosen.name} ({chosen.api}), {model}", remedy)


def _state() -> Finding:
    """Whether sessions can be recorded, tried by writing a file where the folder exists."""
    from codeagent import paths
    from codeagent.session.storage import storage_error

    folder = paths.state_dir()
    there = next(place for place in (folder, *folder.parents) if place.exists())
    try:
        if not there.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        if there == folder:
            with tempfile.TemporaryFile(dir=folder) as probe:
                probe.write(b"x" * 4096)
                probe.flush()
        elif not os.access(there, os.W_OK | os.X_OK):
            raise PermissionError(13, "Permission denied")
        free = shutil.disk_usage(there).free
    except OSError as error:
        return _failure("state", storage_error(error, folder))
    if free < LEAST_FREE:
        remedy = "Free some room; `codeagent sessions list` shows the size of each session."
        return Finding("state", "warning", f"{folder}: only {free >> 20} MiB left on its disk", remedy)
    if there == folder and stat.S_IMODE(folder.stat().st_mode) & 0o077:
        remedy = f"Close it with `chmod 700 {shlex.quote(str(folder))}`."
        return Finding("state", "warning", f"{folder} can be read by other users of this machine", remedy)
    return Finding("state", "ok", f"{folder}{'' if there == folder else ' (made when it is needed)'}")


def _repository(args: argparse.Namespace) -> tuple[Path | None, Finding]:
    from codeagent.applying.record import require_finished
    from codeagent.cli.repository import repository
    from codeagent.paths import state_dir

    try:
        repo = repository(args.repo)
    except UsageError as error:
        return None, _failure("repository", error, "error" if args.repo else "warning")
    try:
        require_finished(state_dir(), repo)
    except CodeagentError as error:
        return repo, _failure("repository", error)
    kind = "git work tree" if (repo / ".git").exists() else "no git here"
    return repo, Finding("repository", "ok", f"{repo} ({kind})")


def _engine(
    host: str | None, image: str, settings: SandboxSettings, repo: Path | None, steps: Steps
) -> Iterator[Finding]:
    from codeagent.sandbox.engine import connect
    from codeagent.sandbox.image import find

    steps("asking the engine", 0, 0)
    try:
        engine = connect(host)
    except CodeagentError as error:
        yield _failure("engine", error)
        return
    try:
        yield from _engine_facts(engine, steps)
        found = find(engine, image)
        yield _image(engine, image, found)
        if found and not find(engine):
            remedy = "It is made at the first run, or now with `codeagent sandbox build`."
            yield Finding("toolbox", "warning", "there is no toolbox yet to start a container with", remedy)
        elif found and repo:
            from codeagent.cli.probe import probe

            yield from probe(engine, found, settings, repo, steps)
    except CodeagentError as error:
        yield _failure("engine", error)
    finally:
        engine.close()


def _engine_facts(engine: Engine, steps: Steps) -> Iterator[Finding]:
    info = engine.info
    rootless = ", rootless" if engine.rootless else ""
    yield Finding(
        "engine",
        "ok",
        f"{engine.version}, API {engine.api}, {engine.architecture}{rootless}, at {engine.host} ({engine.found_by})",
    )
    yield Finding("storage", "ok", f"{info.get('Driver')} in {info.get('DockerRootDir')}")
    yield _limits(engine, info)
    yield _seccomp(info)
    from codeagent.sandbox.inventory import holdings

    steps("asking the engine what it holds", 0, 0)
    if left := [one for one in holdings(engine) if one.needless]:
        others = sum(one.other_version for one in left)
        parts = [f"{len(left) - others} whose owner has ended"] if len(left) > others else []
        parts += [f"{others} of another version, perhaps of another installation"] if others else []
        yield Finding(
            "leftovers",
            "warning",
            f"of codeagent's things on this engine nobody uses now: {'; '.join(parts)}",
            "Look at them with `codeagent sandbox clean`, which asks before it removes them.",
        )


def _limits(engine: Engine, info: dict[str, Any]) -> Finding:
    """Which limits the engine's kernel really enforces."""
    limits = {"memory": "MemoryLimit", "pids": "PidsLimit", "cpu": "CpuCfsQuota"}
    absent = [name for name, key in limits.items() if info.get(key) is False]
    said = f"cgroup version {engine.cgroup_version}, driver {info.get('CgroupDriver')}"
    if absent:
        remedy = "Turn on these cgroup controllers on the engine's machine (for rootless engines: delegate them)."
        return Finding("cgroups", "warning", f"{said}; not enforced: {', '.join(absent)}", remedy)
    return Finding("cgroups", "ok", f"{said}; memory, pids and cpu limits are enforced")


def _seccomp(info: dict[str, Any]) -> Finding:
    options = [str(option) for option in info.get("SecurityOptions") or ()]
    named = ", ".join(option.removeprefix("name=").partition(",")[0] for option in options)
    if any(option.startswith("name=seccomp") and "unconfined" not in option for option in options):
        return Finding("seccomp", "ok", named)
    remedy = "Use an engine with its default seccomp profile: without it commands can reach far more of the kernel."
    return Finding(
        "seccomp", "error", f"the engine applies no seccomp profile ({named or 'no security options'})", remedy
    )


def _image(engine: Engine, name: str, found: Image | None) -> Finding:
    from codeagent.sandbox.image import DEFAULT

    if found is None:
        remedy = "It is made at the first run, or now with `codeagent sandbox build`."
        if name != DEFAULT:
            remedy = f"It is pulled at the first run, or now with `docker pull {name}`."
        return Finding("image", "warning", f"the engine has no {name} yet", remedy)
    if found.architecture != engine.architecture:
        said = f"{found.reference} is for {found.architecture}, the engine is {engine.architecture}"
        return Finding("image", "warning", said, "Name an image for the engine's architecture with --image.")
    return Finding("image", "ok", f"{found.reference} ({found.architecture})")


def _online(config: Config | None) -> Finding:
    """One small request, because only that shows that address, key and model name are right."""
    if config is None:
        return Finding("online", "warning", "not tried: the configuration is not valid", "Correct it first.")
    provider: ProviderSettings = config.provider
    if provider.api == "offline":
        return Finding("online", "ok", "the offline investigator needs no server")
    if provider.api_key_env and not provider.api_key:
        return Finding("online", "warning", "not tried: there is no key", f"Set {provider.api_key_env}.")
    import time

    from codeagent.conversation import UserMessage
    from codeagent.inference import Request
    from codeagent.providers.open import open_provider

    begun = time.monotonic()
    request = Request("Answer with one word.", (UserMessage("Say: ready"),), (), "codeagent-doctor")
    try:
        inference = open_provider(provider).infer(request, lambda _: None)
    except CodeagentError as error:
        return _failure("online", error)
    took = time.monotonic() - begun
    return Finding("online", "ok", f"{provider.model} answered in {took:.1f} s ({inference.usage.total} tokens)")
