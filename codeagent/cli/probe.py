"""A sandbox for this repository, started as a session would, and looked at from inside."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from threading import Event as Flag
from typing import TYPE_CHECKING

from codeagent.cli.checks import Finding
from codeagent.errors import ToolError
from codeagent.sandbox.seam import Command, CommandResult, Sandbox, Steps
from codeagent.settings import SandboxSettings

if TYPE_CHECKING:
    from codeagent.sandbox.engine import Engine
    from codeagent.sandbox.image import Image
    from codeagent.sandbox.sandbox import DockerSandbox

# Shell built-ins and files of /proc only, so that any image can run it. Each line is a name and a value.
SCRIPT = r"""
set -f
while IFS=: read -r name rest; do
  case $name in *"|"*|*" lo"|lo) ;; *) echo "interface" $name ;; esac
done </proc/net/dev
while read -r interface rest; do
  case $interface in Iface) ;; *) echo "route $interface" ;; esac
done </proc/net/route
while read -r key value rest; do
  case $key in Uid:|Gid:|CapEff:|NoNewPrivs:|Seccomp:) echo "${key%:} $value" ;; esac
done </proc/self/status
(: >/workspace/.codeagent-doctor) 2>/dev/null && echo "writable repository"
(: >/codeagent-doctor) 2>/dev/null && echo "writable root file system"
(: >/tmp/codeagent-doctor) 2>/dev/null && echo "temporary yes"
set +f
for file in .[!.]* *; do
  [ -f "$file" ] && [ -r "$file" ] && { echo "readable yes"; break; }
done
true
"""


_STARTING = "looking at a sandbox"


def probe(engine: Engine, found: Image, settings: SandboxSettings, repo: Path, steps: Steps) -> Iterator[Finding]:
    """Starts the session's container for `repo`, runs one read-only command in it, and removes it. About a second.

    Raises SandboxError when the container cannot be started.
    """
    from codeagent.sandbox import toolbox
    from codeagent.sandbox.sandbox import open_sandbox

    begun = time.monotonic()
    with engine.reaper.folder("codeagent-doctor-") as outputs:
        box = toolbox.ensure(engine, steps)
        steps(_STARTING, 0, 0)
        sandbox = open_sandbox(engine, found, box, repo, settings, "doctor", outputs, steps)
        with closing(sandbox):
            mount = _mount(sandbox, repo)
            yield mount
            if mount.level == "error":
                return
            steps(_STARTING, 0, 0)
            yield from inside(sandbox, repo)
            steps("removing the sandbox", 0, 0)
    yield Finding("container", "ok", f"started, looked at and removed in {time.monotonic() - begun:.1f} s")


def _mount(sandbox: DockerSandbox, repo: Path) -> Finding:
    try:
        listing = sandbox.list_dir(".", 1, 0)
    except ToolError as error:
        said = f"{repo} cannot be listed inside the container: {error.sentence}"
        remedy = "Is the path shared with the engine's machine, and may its owner read it?"
        return Finding("mount", "error", said, remedy)
    sent = sandbox.copies_by == "upload"
    how = "a private copy of it is sent there" if sent else f"{repo} at /workspace, read-only"
    return Finding("mount", "ok", f"{how}, entries at its top: {listing.total}")


def inside(sandbox: Sandbox, repo: Path) -> Iterator[Finding]:
    """What a command sees in a sandbox of this repository."""
    result = sandbox.run(Command("doctor", SCRIPT, timeout_seconds=20.0), Flag())
    facts = _facts(result)
    if result.exit_code != 0 or "Uid" not in facts:
        said = "".join(text for _, text in result.segments).strip()[-200:]
        yield Finding(
            "commands",
            "error",
            f"a command cannot run in the image: {said or result.ending}",
            "Name another --image.",
        )
        return
    yield _user(facts, repo)
    yield _network(facts)
    yield _walls(facts)


def _facts(result: CommandResult) -> dict[str, list[str]]:
    facts: dict[str, list[str]] = {}
    for line in "".join(text for stream, text in result.segments if stream == "stdout").splitlines():
        name, _, value = line.partition(" ")
        facts.setdefault(name, []).append(value)
    return facts


def _user(facts: dict[str, list[str]], repo: Path) -> Finding:
    owner = repo.stat()
    uid, gid = facts["Uid"][0], facts["Gid"][0]
    said = f"commands run as {uid}:{gid}, the repository's owner is {owner.st_uid}:{owner.st_gid}"
    if (uid, gid) == (str(owner.st_uid), str(owner.st_gid)):
        return Finding("user", "ok", said)
    if "readable" in facts:
        return Finding("user", "ok", f"{said}; files are readable")
    remedy = "Files that only their owner may read stay closed; is the engine rootless, or on another machine?"
    return Finding("user", "warning", said, remedy)


def _network(facts: dict[str, list[str]]) -> Finding:
    """Seen from inside: no interface but loopback, and no route."""
    seen = [f"{kind} {name}" for kind in ("interface", "route") for name in facts.get(kind, [])]
    if seen:
        said = f"the container has a network: {', '.join(seen)}"
        return Finding("network", "error", said, "Do not use this engine for repositories that you do not trust.")
    return Finding("network", "ok", "closed: loopback only, no route")


def _walls(facts: dict[str, list[str]]) -> Finding:
    wrong = []
    if any(int(value, 16) for value in facts.get("CapEff", [])):
        wrong.append("commands have capabilities")
    if facts.get("NoNewPrivs") != ["1"]:
        wrong.append("no-new-privileges is off")
    if facts.get("Seccomp") != ["2"]:
        wrong.append("no seccomp filter applies")
    wrong += [f"the {what} can be written" for what in facts.get("writable", [])]
    if wrong:
        return Finding(
            "walls", "error", "; ".join(wrong), "Do not use this engine with repositories that you do not trust."
        )
    if "temporary" not in facts:
        said = "the container's temporary folder cannot be written"
        return Finding("walls", "warning", said, "Is [sandbox] tmp_size too small?")
    return Finding("walls", "ok", "no capability, no new privileges, seccomp, read-only but for /tmp")
