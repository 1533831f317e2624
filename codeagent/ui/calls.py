"""A tool call in one line: its name, its argument in short, and what came of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from codeagent.ui import wording
from codeagent.ui.inert import cut, cut_start, filled, inert_line, padded
from codeagent.ui.screen import Line, Screen

_LONGEST_ARGUMENT = 2_000
_WIDEST = 120
_PLAIN_ARGUMENT = 120
_STATUS_WIDTH = len("file_not_found")
_EXIT = re.compile(r"\A\[exit code (-?\d+)\b")


@dataclass(slots=True)
class Call:
    """A call as it is shown. Times are of the monotonic clock, in seconds; `size` is of the output, in bytes."""

    call_id: str
    name: str
    argument: str
    started: float
    status: str = ""
    failed: bool = False
    by_path: bool = False
    """Whether the argument is a path, of which the end says more than the beginning."""
    seconds: float = 0.0
    size: int = 0

    @property
    def finished(self) -> bool:
        return bool(self.status)


def call_of(record: Mapping[str, Any], now: float) -> Call:
    """From a `tool_call` record."""
    name = inert_line(str(record.get("name") or "(no name)"))
    return Call(str(record.get("call_id")), name, argument_of(record), now, by_path=name in ("read_file", "list_dir"))


def finish(call: Call, record: Mapping[str, Any]) -> None:
    """Fills in what a `tool_output` record says."""
    output = str(record.get("output") or "")
    call.seconds = float(record.get("duration_ms") or 0) / 1000
    call.size = len(output.encode("utf-8", "surrogatepass"))
    call.failed = record.get("status") != "ok"
    call.status = status_of(record, output)


def status_of(record: Mapping[str, Any], output: str) -> str:
    """`ok`, `exit 1` for a command that said so, or the kind of the error."""
    if record.get("status") != "ok":
        return inert_line(str(record.get("error_kind") or "error"))
    if ended := _EXIT.match(output):
        return "ok" if ended.group(1) == "0" else f"exit {ended.group(1)}"
    return "ok"


def argument_of(record: Mapping[str, Any]) -> str:
    """The one argument that tells a call from its neighbours, as one inert line."""
    raw = str(record.get("arguments") or "")
    try:
        arguments = json.loads(raw)
    except (ValueError, RecursionError):
        return _line(raw)
    if not isinstance(arguments, dict):
        return _line(raw)
    if isinstance(command := arguments.get("command"), str):
        return _line(command.strip())
    if isinstance(patch := arguments.get("patch"), str):
        return _line(" ".join(_patched(patch)) or f"{len(patch)} characters")
    if isinstance(path := arguments.get("path"), str):
        return _line(path + _range(arguments.get("start_line"), arguments.get("end_line")))
    return _line(raw)


def _line(text: str) -> str:
    if len(text) <= _LONGEST_ARGUMENT:
        return inert_line(text)
    return f"{inert_line(text[:_LONGEST_ARGUMENT])} ({len(text) - _LONGEST_ARGUMENT:,} characters more)"


def _range(start: object, end: object) -> str:
    if start is None and end is None:
        return ""
    return f":{start or 1}-{'' if end is None else end}"


def _patched(patch: str) -> list[str]:
    """The files that a patch in unified or envelope form names, each once."""
    named = re.findall(r"^(?:\+\+\+ b/|\*\*\* (?:Add|Update|Delete) File: )(.+)$", patch, re.MULTILINE)
    return list(dict.fromkeys(named))


def finished(call: Call, screen: Screen) -> list[Line]:
    """What stands for good: aligned on a terminal, a plain sentence off one."""
    took, size = wording.duration(call.seconds), wording.size(call.size)
    if not screen.live:
        argument = _shortened(call, _PLAIN_ARGUMENT, screen)
        return [[(f"{call.name} {argument}: {call.status}, {took}, {size}", "")]]
    style = "bad" if call.failed else "warn" if call.status != "ok" else "good"
    return [columns(call, took, size, call.status, style, screen)]


def unfinished(call: Call, screen: Screen) -> list[Line]:
    """Of a turn that has ended: a call that got no output says so."""
    return finished(call, screen) if call.finished else [[(f"  {call.name} {call.argument}: no output", "warn")]]


def columns(call: Call, took: str, size: str, status: str, style: str, screen: Screen) -> Line:
    """`  name  argument…   time   size  status`; a narrow screen loses the size, then the time.

    A very wide one is not filled: the eye would have to find the way from the name to the status.
    """
    width = min(screen.width, _WIDEST)
    right = f" {took:>7}" if width >= 40 else ""
    right += f" {size:>8}" if width >= 60 else ""
    name = f"  {padded(call.name, 11, screen.mark)} "
    status = status.ljust(_STATUS_WIDTH) if width >= 79 else status
    room = max(width - len(right) - len(status) - 2 - 14, 4)
    argument = filled(_shortened(call, room, screen), room)
    return screen.fitted([(name, "name"), (argument, ""), (right, "dim"), ("  " + status, style)])


def _shortened(call: Call, room: int, screen: Screen) -> str:
    return (cut_start if call.by_path else cut)(call.argument, room, screen.mark)
