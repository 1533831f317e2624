"""Runs the investigator on a folder, with tools that answer in the form of the real ones.

Searches run for real, by the grep of this machine; `rg` is translated to its -P, so that no test depends on what is
installed, or it is missing when `without_rg` is set; `busybox` is a grep with few options.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from codeagent.conversation import AssistantMessage, Item, ToolCall, ToolOutput, UserMessage, unanswered
from codeagent.errors import ErrorKind, ToolError
from codeagent.inference import Finish, Request
from codeagent.providers.offline.provider import OfflineProvider


@dataclass
class Investigated:
    """What came of a question."""

    answer: str
    rounds: int
    calls: list[ToolCall]
    items: list[Item]

    @property
    def citations(self) -> list[str]:
        """Every `path:line` of the answer, in order, each once."""
        return list(dict.fromkeys(re.findall(r"[\w./-]+\.\w+:\d+(?:-\d+)?", self.answer)))

    def cites(self, path: str, line: int) -> bool:
        for citation in self.citations:
            cited, _, lines = citation.rpartition(":")
            first, _, last = lines.partition("-")
            if cited == path and int(first) <= line <= int(last or first):
                return True
        return False


@dataclass
class Machine:
    """A repository and its tools."""

    root: Path
    without_rg: bool = False
    busybox: bool = False
    denied: tuple[str, ...] = ()
    commands: list[str] = field(default_factory=list)

    def ask(self, question: str, tool_choice_at: int = 99) -> Investigated:
        return self.go_on([UserMessage(question)], tool_choice_at)

    def go_on(self, items: list[Item], tool_choice_at: int = 99) -> Investigated:
        """Runs the rounds of one turn; from round `tool_choice_at` on, calls are not allowed."""
        provider = OfflineProvider()
        made: list[ToolCall] = []
        for rounds in range(40):
            choice = "none" if rounds >= tool_choice_at else "auto"
            inference = provider.infer(
                Request("", tuple(items), (), "key", "none" if choice == "none" else "auto"), lambda _: None
            )
            assert inference.finish is Finish.COMPLETE
            items.extend(inference.items)
            calls = unanswered(inference.items)
            made.extend(calls)
            if not calls:
                (message,) = inference.items
                assert isinstance(message, AssistantMessage)
                return Investigated(message.text, rounds, made, items)
            items.extend(self.output(call) for call in calls)
        raise AssertionError("the investigator did not come to an end")

    def output(self, call: ToolCall) -> ToolOutput:
        arguments = json.loads(call.arguments)
        try:
            return ToolOutput(call.call_id, getattr(self, call.name)(arguments))
        except ToolError as error:
            return ToolOutput(call.call_id, error.text(), error.kind)

    def list_dir(self, arguments: Mapping[str, object]) -> str:
        found = sorted((self.root / str(arguments["path"])).iterdir())
        entries = [f"{path.name}/" if path.is_dir() else f"{path.name}  {path.stat().st_size}" for path in found]
        return "\n".join([f".: entries 1-{len(entries)} of {len(entries)}", *entries])

    def read_file(self, arguments: Mapping[str, int | str | None]) -> str:
        path = self.root / str(arguments["path"])
        if not path.is_file():
            close = [str(found.relative_to(self.root)) for found in sorted(self.root.rglob(path.name))]
            raise ToolError(
                ErrorKind.FILE_NOT_FOUND,
                f"there is no file {arguments['path']}",
                "close matches:\n" + "\n".join(close) if close else "",
            )
        lines = path.read_text(encoding="utf-8", errors="replace").split("\n")
        lines = lines[:-1] if lines[-1] == "" else lines
        start = int(arguments["start_line"] or 1)
        end = min(int(arguments["end_line"] or len(lines)), len(lines), start + 1999)
        shown = [f"{number}\t{lines[number - 1]}" for number in range(start, end + 1)]
        return "\n".join([f"{arguments['path']}: lines {start}-{end} of {len(lines)}, sha256 0123456789ab", *shown])

    def run_command(self, arguments: Mapping[str, str]) -> str:
        command = arguments["command"]
        self.commands.append(command)
        if any(word in command for word in self.denied):
            raise ToolError(ErrorKind.DENIED, "the user denied this command")
        if self.busybox and ("--exclude-dir" in command or "-I" in command.split()):
            return (
                "[exit code 2; 0.01 s; cwd /workspace]\ngrep: unrecognized option '--exclude-dir=.git'\nUsage: grep"
            )
        if is_rg := command.startswith("rg "):
            if self.without_rg:
                return "[exit code 127; 0.01 s; cwd /workspace]\nsh: 1: rg: not found"
            options = "grep -r -I -P --exclude-dir=.git "
            command = command.replace("-t code -g '!.*' ", "--exclude='.*' ").replace("--type-add ", "")
            command = re.sub(r"-g '!\{(.*?)\}'", lambda match: _each("--exclude-dir=", match[1]), command)
            command = re.sub(r"'code:\*\.\{(.*?)\}'", lambda match: _each("--include=*.", match[1]), command)
            command = options + command.removeprefix("rg ").replace("--no-heading -M 400 ", "")
        run = subprocess.run(["sh", "-c", command], cwd=self.root, capture_output=True, text=True, errors="replace")
        omitted = r"\1[Omitted long matching line]"
        shown = re.sub(r"^(\./[^:\n]+:\d+:).{401,}$", omitted, run.stdout, flags=re.M) if is_rg else run.stdout
        return f"[exit code {run.returncode}; 0.01 s; cwd /workspace]\n{shown}{run.stderr}"


def _each(option: str, names: str) -> str:
    return " ".join(f"'{option}{name}'" for name in names.split(","))


def repository(root: Path, files: Mapping[str, str]) -> Path:
    """Writes a small repository."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return root
