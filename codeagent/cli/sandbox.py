"""`codeagent sandbox`: build, show, open and clean what codeagent keeps on the container engine."""

from __future__ import annotations

import argparse
import contextlib
import json
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

from codeagent.cli.flags import add_command
from codeagent.cli.person import agreed, say, waiting

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine
    from codeagent.sandbox.image import Image
    from codeagent.sandbox.inventory import Holding
    from codeagent.settings import SandboxSettings

EXAMPLES = {
    "build": """\
  codeagent sandbox build                 make or fetch what a session needs, ahead of time
  codeagent sandbox build --install       on a bare Debian or Ubuntu, as root: install and start an engine first
""",
    "status": """\
  codeagent sandbox status                what answers, and what of codeagent's is on it
  codeagent sandbox status --json         one JSON object, for a script
""",
    "shell": """\
  codeagent sandbox shell                 for the repository here
  codeagent sandbox shell --repo ~/src/shop --image python:3.12
""",
    "clean": """\
  codeagent sandbox clean                 shows what would go, and asks
  codeagent sandbox clean --dry-run       only shows it
  codeagent sandbox clean --yes           without asking, for scripts

exit codes: 0 removed or nothing to remove, 1 not removed, 2 usage, or no terminal to ask at and no --yes, 4 no engine
""",
}
_ASKING = "asking the engine"
EXAMPLES["sandbox"] = "".join(examples.splitlines(keepends=True)[0] for examples in EXAMPLES.values())


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = _action(subparsers, "sandbox", "build, show, open and clean the sandbox")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    build = _action(actions, "build", "make the image and the toolbox ready")
    build.add_argument("--install", action="store_true", help="install and start a private engine where none answers")
    status = _action(actions, "status", "the engine, and codeagent's images, containers and volumes on it")
    status.add_argument("--json", action="store_true", help="one JSON object")
    shell = _action(actions, "shell", "a shell for you in the sandbox that a session would get")
    shell.add_argument("--repo", metavar="PATH", type=Path, help="the repository (default: the git work tree here)")
    clean = _action(actions, "clean", "show what nobody uses now, ask, and remove it")
    clean.add_argument("--dry-run", action="store_true", help="only show it")
    clean.add_argument("--yes", action="store_true", help="show it and remove it without asking, for scripts")
    for action in (build, shell):
        action.add_argument("--image", metavar="IMAGE", help="the container image (default: codeagent-sandbox)")
    for action in (build, status, shell, clean):
        action.add_argument("--docker-host", metavar="URL", help="the container engine to use")
        action.add_argument(
            "--config", metavar="FILE", type=Path, help="read this configuration instead of the user's"
        )
        action.add_argument("--verbose", action="store_true", help="stack traces of errors")
    parser.set_defaults(run=run)


def _action(
    actions: argparse._SubParsersAction[argparse.ArgumentParser], name: str, line: str
) -> argparse.ArgumentParser:
    return add_command(actions, name, line, f"examples:\n{EXAMPLES[name]}")


def run(args: argparse.Namespace) -> int:
    # A closed terminal and a plain kill end it as any other way does: with everything taken down.
    for number in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    action: Callable[[argparse.Namespace], int] = {
        "build": _build,
        "status": _status,
        "shell": _shell,
        "clean": _clean,
    }[args.action]
    return action(args)


def _leave(number: int, _frame: FrameType | None) -> NoReturn:
    for later in (signal.SIGTERM, signal.SIGHUP):
        signal.signal(later, signal.SIG_IGN)
    raise SystemExit(128 + number)


def _settings(args: argparse.Namespace) -> SandboxSettings:
    from codeagent.config import load_config

    flags = {"image": getattr(args, "image", None), "docker-host": args.docker_host}
    return load_config(flags, config=args.config).sandbox


def _build(args: argparse.Namespace) -> int:
    from codeagent.cli.install import connect_or_install
    from codeagent.sandbox import image, toolbox
    from codeagent.ui.terminal import Terminal

    settings = _settings(args)
    with Terminal(None, sys.stderr) as terminal:
        engine = connect_or_install(settings.docker_host, args.install, terminal.note)
        with contextlib.closing(engine):
            found = image.ensure(engine, settings.image, terminal.steps)
            box = toolbox.ensure(engine, terminal.steps)
            terminal.steps("", 0, 0)
    say(f"image    {found.reference}\ntoolbox  {box.volume}\nengine   {engine.host}", sys.stdout, hang=9)
    return 0


def _status(args: argparse.Namespace) -> int:
    from codeagent.sandbox import image
    from codeagent.sandbox.engine import connect
    from codeagent.sandbox.inventory import holdings

    wanted = _settings(args)
    with waiting(_ASKING), contextlib.closing(connect(wanted.docker_host)) as engine:
        found = image.find(engine, wanted.image)
        held = holdings(engine)
    if args.json:
        print(json.dumps(_as_json(engine, wanted.image, found, held)))
        return 0
    shown = found.reference if found else f"{wanted.image}: missing, made by `codeagent sandbox build`"
    answers = f"{engine.version} ({engine.architecture}) at {engine.host}, from {engine.found_by}"
    say(f"engine  {answers}\nimage   {shown}", sys.stdout, hang=8)
    print_holdings(held, grouped=True)
    return 0


def _as_json(engine: Engine, image: str, found: Image | None, held: Sequence[Holding]) -> dict[str, object]:
    from dataclasses import asdict

    facts = ("host", "found_by", "version", "api", "architecture", "cgroup_version", "rootless")
    return {
        "engine": {name: getattr(engine, name) for name in facts},
        "image": {"name": image, "reference": found.reference if found else None, "present": found is not None},
        "holdings": [asdict(one) for one in held],
    }


def _clean(args: argparse.Namespace) -> int:
    from codeagent.sandbox.engine import connect
    from codeagent.sandbox.inventory import holdings, remove

    host = _settings(args).docker_host
    with contextlib.ExitStack() as stack:
        with waiting(_ASKING):
            engine = stack.enter_context(contextlib.closing(connect(host)))
            needless = [one for one in holdings(engine) if one.needless]
        if not needless:
            say("Nothing to remove: everything is in use.", sys.stdout)
            return 0
        print_holdings(needless)
        if args.dry_run:
            return 0
        if not (args.yes or _agreed(needless)):
            say("Nothing was removed.")
            return 1
        with waiting("removing"):
            kept = [(one, reason) for one in needless if (reason := remove(engine, one))]
    for one, reason in kept:
        say(f"{one.kind} {one.name} stays: {reason}")
    freed = sum(one.size or 0 for one in needless) - sum(one.size or 0 for one, _ in kept)
    say(f"Removed {len(needless) - len(kept)} of {len(needless)}, up to {_size(freed)}.", sys.stdout)
    return 0


def _agreed(needless: Sequence[Holding]) -> bool:
    from codeagent.errors import UsageError

    return agreed(
        f"Remove these {len(needless)}?",
        UsageError(
            "There is no terminal to ask at, so nothing was removed.",
            "Look at what is listed, then use `codeagent sandbox clean --yes`.",
        ),
    )


def print_holdings(held: Sequence[Holding], *, grouped: bool = False) -> None:
    """A line each, and one for all together that other versions made; `grouped` has only that one of those."""
    others = [one for one in held if one.other_version]
    rows = [
        (one.kind.value, one.name, _size(one.size), one.owner) for one in held if not (grouped and one.other_version)
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(3)] if rows else []
    for kind, name, size, owner in rows:
        say(f"{kind:<{widths[0]}}  {name:<{widths[1]}}  {size:>{widths[2]}}  {owner}", sys.stdout, hang=2)
    if not held:
        say("nothing of codeagent's is on this engine", sys.stdout)
    if others:
        size = _size(sum(one.size or 0 for one in others))
        said = f"{len(others)} of another version, perhaps of another installation: up to {size}"
        say(f"{said}; `codeagent sandbox clean` shows them" if grouped else said, sys.stdout)
    sys.stdout.flush()


def _size(count: int | None) -> str:
    if count is None:
        return "?"
    for unit, factor in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if count >= factor:
            return f"{count / factor:.1f} {unit}"
    return f"{count} B"


def _shell(args: argparse.Namespace) -> int:
    """Opens the session's sandbox without a session: nothing is recorded, nothing is written."""
    import os
    import secrets

    from codeagent.applying.record import require_finished
    from codeagent.cli.repository import repository
    from codeagent.errors import ToolError, UsageError
    from codeagent.paths import state_dir
    from codeagent.sandbox import image, toolbox
    from codeagent.sandbox.engine import connect
    from codeagent.sandbox.sandbox import open_sandbox
    from codeagent.sandbox.shell import run_shell
    from codeagent.ui.terminal import Terminal

    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("A shell needs a terminal.", "Run it where stdin and stdout are one.")
    repo, settings = repository(args.repo), _settings(args)
    require_finished(state_dir(), repo)
    session_id = f"shell-{secrets.token_hex(4)}"
    with contextlib.ExitStack() as stack:
        with Terminal(None, sys.stderr) as terminal:
            terminal.steps(_ASKING, 0, 0)
            engine = stack.enter_context(contextlib.closing(connect(settings.docker_host)))
            folder = stack.enter_context(engine.reaper.folder("codeagent-shell-"))
            found = image.ensure(engine, settings.image, terminal.steps)
            box = toolbox.ensure(engine, terminal.steps)
            terminal.steps("starting the sandbox", 0, 0)
            sandbox = stack.enter_context(open_sandbox(engine, found, box, repo, settings, session_id, folder))
            with contextlib.suppress(ToolError):  # whatever it is answered, this waits until it runs
                sandbox.list_dir(".", 1, 0)
        return run_shell(sandbox, engine, session_id, box, os.environ.get("TERM", "dumb"))
