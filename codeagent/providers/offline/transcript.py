"""What the tools have said so far in this turn, and what is still to be asked.

Nothing is remembered between inferences: each investigates again over the outputs that the conversation holds, and a
call without one becomes one of the next calls. So a resumed session goes on like one that was never interrupted.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Sequence
from typing import NamedTuple

from codeagent.conversation import Item, ToolCall, ToolOutput, UserMessage
from codeagent.errors import ErrorKind

MAX_FILES, MAX_PAGES = 40, 10  # pages of one file
MAX_SAVED = 2_000  # lines of a search that returned more than a call shows
SEARCHES = ("rg -n --no-heading -M 400", "grep -rnE")  # the second, in an image without the first, is any grep
_HIT = re.compile(r"^(?!\./\.git/)(.+?):(\d+):(?![^\s:]*\.\w+:\d+:)(.{0,500})", re.MULTILINE)
# What the checker of citations reads whole without quotation marks, and between backticks.
_BARE = re.compile(r"(?:[\w./@+~$-]|[\[(][\w.-]+[\])](?=[\w/.-])){1,240}(?<!_)")
_SPACED = re.compile(r"[^`:\\]*[^`:\\ ] [^`:\\]*\.[A-Za-z0-9]{1,8}")
UNFINISHED = (ErrorKind.INTERRUPTED, ErrorKind.CANCELLED, ErrorKind.SANDBOX_FAILED)  # such a call is made again


class Hit(NamedTuple):
    """One line that a search has found."""

    path: str
    line: int
    text: str


def place(path: str, lines: int | str = 1) -> str:
    """`path:lines` as the checker of citations reads it whole; empty where it cannot be written exactly."""
    if not path.isprintable() or "\N{REPLACEMENT CHARACTER}" in path or not re.search(r"[^\W\d_]", path):
        return ""
    return f"{path}:{lines}" if _BARE.fullmatch(path) else f"`{path}:{lines}`" * bool(_SPACED.fullmatch(path))


class Transcript:
    """The current turn. `wanted` are the next calls, as tool and arguments; `left` is what the answer has to do
    without, by phrase; `command` searches."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.question, self.rounds = "", 0
        self.wanted: dict[tuple[str, str], None] = {}
        self.left = defaultdict[str, dict[str, None]](dict)
        self._files: set[str] = set()
        self._outputs: dict[tuple[str, str], ToolOutput] = {}
        calls: dict[str, ToolCall] = {}
        for before, item in zip([None, *items], items, strict=False):
            if isinstance(item, UserMessage) and item.origin == "user":
                self.question, self.rounds, self._outputs = item.text, 0, {}
            elif isinstance(item, UserMessage):  # what it names has changed
                read = [json.loads(call)["path"] for tool, call in self._outputs if tool == "read_file"]
                self._outputs = {} if any(path in item.text for path in read) else self._outputs
            elif isinstance(item, ToolCall):
                calls[item.call_id] = item
                self.rounds += not isinstance(before, ToolCall)
            elif isinstance(item, ToolOutput) and item.call_id in calls and item.error_kind not in UNFINISHED:
                self._outputs[calls[item.call_id].name, calls[item.call_id].arguments] = item
        ran = [output.text for (_, call), output in self._outputs.items() if SEARCHES[0] in call]
        self.command = SEARCHES[any("[exit code 127" in text.partition("\n")[0] for text in ran)]

    def _ask(self, tool: str, **arguments: str | int | bool | None) -> ToolOutput | None:
        call = (tool, json.dumps(arguments, ensure_ascii=False))
        if call not in self._outputs:
            self.wanted[call] = None
        return self._outputs.get(call)

    def listing(self) -> list[str]:
        """Files and folders of the two upper levels; folders end in a slash."""
        output = self._ask("list_dir", path=".", depth=2, offset=0)
        lines = output.text.split("\n")[1:] if output and output.status == "ok" else []
        return [line.split("  ")[0] for line in lines if not line.startswith("[")]

    def search(self, pattern: str, flags: str = "", narrowed: str = "") -> list[Hit] | None:
        """The lines that an extended regular expression matches; None until they are known. Flags that only the first
        command has narrow it down to some files."""
        parts = (self.command, flags, narrowed * (self.command == SEARCHES[0]), f"-e '{pattern}'", ".")
        command = " ".join(part for part in parts if part)
        output = self._ask("run_command", command=command, workdir=None, timeout_seconds=60, writes=False)
        if output is None:
            return None
        saved = re.search(r"read_file (/outputs/[\w.-]+)", output.text)  # where there is more than a call returns
        _, text = (saved and self.text(saved[1], MAX_SAVED)) or ("", output.text)
        found = list[Hit]()
        for path, line, shown in _HIT.findall(
            text
        ):  # a path that begins otherwise is the end of one with line breaks
            if path.startswith("./") and place(path[2:]) and not shown.startswith("[Omitted long "):
                found.append(Hit(path[2:], int(line), shown))
            else:
                self.leave_out("unwritten", path.removeprefix("./"))
        code = re.search(r"exit code (?!0|1\b)\d+", output.text.partition("\n")[0])
        failure = output.error_kind or (code[0] if code and not found else "")
        if failure := f"> {MAX_SAVED} lines" if saved and text.count("\n") >= MAX_SAVED else failure:
            self.leave_out("gaps", f"{' '.join(self.command.split()[:2])} …: {failure}")
        return found

    def leave_out(self, phrase: str, *names: str) -> None:
        """Names that cannot be written are told so that nothing in them is taken for a place."""
        told = (re.sub(r"(?<![A-KM-Za-km-z_])\d+", "…", one) if phrase == "unwritten" else one for one in names)
        self.left[phrase] |= dict.fromkeys(told)

    def text(self, path: str, last_line: int = 1_000_000) -> tuple[str, str] | None:
        """The path that a name stands for, and the text, cut a page below `last_line`; None when there is none."""
        if not place(path) or len(self._files | {path}) > MAX_FILES:
            self.leave_out("unread" if place(path) else "unwritten", path)
            return None
        self._files.add(path)
        output = self._ask("read_file", path=path, start_line=None, end_line=None)
        if output and output.error_kind == "file_not_found":
            close = re.split(r",\s+|\n", output.text.partition("close matches:")[2].strip())
            found = min(close, key=lambda one: one.rpartition("/")[2] != path.rpartition("/")[2])
            return self.text(found, last_line) if found and found not in self._files else None
        if not (lines := self._lines(path, output)):
            return None
        last, of = max(lines), re.search(r"lines \d+-\d+ of (\d+)", output.text.partition("\n")[0] if output else "")
        step = last * 3 // 4 or 1  # all pages that follow are asked for at once, a little shorter than the first
        starts = range(last + 1, min(last_line, int(of[1]) if of else last) + 1, step)
        for start in starts[:MAX_PAGES]:
            lines |= self._lines(path, self._ask("read_file", path=path, start_line=start, end_line=start + step - 1))
        self.leave_out("unread", *[path] * (len(starts) > MAX_PAGES))
        return path, "\n".join(lines.get(at, "") for at in range(1, max(lines) + 1))

    def _lines(self, path: str, output: ToolOutput | None) -> dict[int, str]:
        if output and output.status == "error":
            self.leave_out("gaps", f"{path}: {output.error_kind}")
        found = re.findall(r"^ *(\d+)\t(.*)", output.text, re.MULTILINE) if output else []
        return {int(number): line for number, line in found}
