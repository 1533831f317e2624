"""What the guest says of a command that has ended, checked and put into words: who ended it, and why."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.output import Output
from codeagent.sandbox.seam import CommandResult, Ending
from codeagent.settings import SandboxSettings

KILLED = 128 + 9
ENDINGS = {
    "exited": Ending.EXITED,
    "signalled": Ending.SIGNALLED,
    "timeout": Ending.TIMEOUT,
    "cancelled": Ending.CANCELLED,
    "full": Ending.FULL,
}
COUNTS = ("duration_ms", "total_bytes", "background", "memory_kills", "refused_forks")


def command_result(
    fields: Mapping[str, Any], output: Output, settings: SandboxSettings, notes: tuple[str, ...]
) -> CommandResult:
    """The result of a command. ToolError(sandbox_failed) when the guest's words make no sense."""
    code = fields.get("code")
    counts = {name: fields.get(name) for name in COUNTS}
    sane = all(type(value) is int and value >= 0 for value in counts.values())
    if (
        fields.get("ending") not in ENDINGS
        or not sane
        or not (code is None or (type(code) is int and 0 <= code < 256))
    ):
        raise ToolError(ErrorKind.SANDBOX_FAILED, "the container gave an answer that makes no sense")
    ending = ENDINGS[fields["ending"]]
    # The kernel kills for lack of memory with the same signal as anybody else; its counter tells them apart.
    if code == KILLED and counts["memory_kills"] and ending in (Ending.EXITED, Ending.SIGNALLED):
        ending = Ending.MEMORY
    return CommandResult(
        ending=ending,
        exit_code=code if ending in (Ending.EXITED, Ending.SIGNALLED, Ending.MEMORY) else None,
        duration_ms=fields["duration_ms"],
        segments=output.segments,
        head_segments=output.head_segments,
        omitted_bytes=output.omitted_bytes,
        total_bytes=fields["total_bytes"],
        saved=output.saved,
        notes=(*notes, *_notes(fields, ending, output, settings)),
        starved=_starved(fields, settings),
    )


def _notes(fields: Mapping[str, Any], ending: Ending, output: Output, settings: SandboxSettings) -> list[str]:
    notes = []
    if kills := fields["memory_kills"]:
        whose = "it or a part of it" if ending is Ending.MEMORY else _processes(kills, "of this container")
        notes.append(f"the kernel killed {whose}: the container's memory of {_mib(settings.memory)} was used up")
    if fields["refused_forks"]:
        notes.append(f"processes could not be started: the container's limit of {settings.pids} was reached")
    if ending is Ending.FULL:
        notes.append(f"it was ended because it wrote more than the copy may grow ({_mib(settings.copy_limit)})")
    if fields["background"] and ending in (Ending.EXITED, Ending.SIGNALLED):
        notes.append(f"{_processes(fields['background'], 'left in the background')} ended with the command")
    if output.problem:
        notes.append(output.problem)
    return notes


def _starved(fields: Mapping[str, Any], settings: SandboxSettings) -> str:
    if fields["memory_kills"]:
        return f"it used up the container's memory of {_mib(settings.memory)}"
    return f"it reached the container's limit of {settings.pids} processes" if fields["refused_forks"] else ""


def _processes(count: int, which: str) -> str:
    return f"{count} process{'es' if count > 1 else ''} {which}"


def _mib(size: int) -> str:
    return f"{size / (1 << 20):.0f} MiB"
