"""What the tools have said so far in this turn, and what is still to be asked.

Nothing is remembered between inferences: the investigation is done again from its beginning each time, over the
outputs that the conversation holds. A call without an output, or whose output says that it was cut off, becomes
one of the next calls. So a resumed session goes on like one that was never interrupted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from codeagent.conversation import Item, ToolCall, ToolOutput, UserMessage
from codeagent.errors import ErrorKind

MAX_FILES = 40
MAX_PAGES = 6
"""Pages that are read on to reach a place far down in a file."""
BELOW = 300
"""Lines that are read below a place."""
MAX_SAVED = 2_000
"""Lines of a search's results that are read where there are more than a call returns."""
SEARCHES = ("rg -n --no-heading -M 400", "grep -rnE")
"""The second is for an image without the first; it has only options that any grep has."""

UNFINISHED = (ErrorKind.INTERRUPTED, ErrorKind.CANCELLED, ErrorKind.SANDBOX_FAILED)
"""Errors that say nothing of what was asked: such a call is made again."""

_NUMBERED = re.compile(r" *(\d+)\t(.*)")
_TOTAL = re.compile(r"lines \d+-\d+ of (\d+)")
_HIT = re.compile(r"(?:\./)?([^:\n]+):(\d+):(.{0,500})$")


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that a search has found."""

    path: str
    line: int
    text: str


class Transcript:
    """The current turn, from the user's last message on. `wanted` are the calls to make next, as tool and arguments;
    `failures` says of searches and files what could not be had, `cut` that a search found more than was read."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.question = ""
        self.rounds = 0
        self.wanted: dict[tuple[str, str], None] = {}
        self.failures: dict[str, None] = {}
        self.cut = False
        self._files: set[str] = set()
        self._outputs: dict[tuple[str, str], ToolOutput] = {}
        calls: dict[str, ToolCall] = {}
        for before, item in zip([None, *items], items, strict=False):
            if isinstance(item, UserMessage) and item.origin == "user":
                self.question, self.rounds, self._outputs = item.text, 0, {}
            elif isinstance(item, UserMessage):
                self._forget(item.text)
            elif isinstance(item, ToolCall):
                calls[item.call_id] = item
                self.rounds += not isinstance(before, ToolCall)
            elif isinstance(item, ToolOutput) and item.call_id in calls and item.error_kind not in UNFINISHED:
                self._outputs[calls[item.call_id].name, calls[item.call_id].arguments] = item
        ran = (output.text for (_, call), output in self._outputs.items() if SEARCHES[0] in call)
        self._search = SEARCHES[any("[exit code 127" in text.partition("\n")[0] for text in ran)]

    def _forget(self, note: str) -> None:
        """What was read or found in files that a note names, as it does when they have changed, no longer counts."""
        read = (json.loads(call)["path"] for name, call in self._outputs if name == "read_file")
        for path in {path for path in read if path in note}:
            kept = {call: out for call, out in self._outputs.items() if path not in call[1] and path not in out.text}
            self._outputs = kept

    def _ask(self, tool: str, arguments: dict[str, str | int | bool | None]) -> ToolOutput | None:
        call = (tool, json.dumps(arguments, ensure_ascii=False))
        if call not in self._outputs:
            self.wanted[call] = None
        return self._outputs.get(call)

    def listing(self) -> list[str]:
        """Files and folders of the two upper levels; folders end in a slash."""
        output = self._ask("list_dir", {"path": ".", "depth": 2, "offset": 0})
        lines = output.text.split("\n")[1:] if output and output.status == "ok" else []
        return [line.split("  ")[0] for line in lines if not line.startswith("[")]

    def search(self, pattern: str, flags: str = "") -> list[Hit] | None:
        """The lines that an extended regular expression matches; None until they are known."""
        command = " ".join(part for part in (self._search, flags, f"-e '{pattern}'", ".") if part)
        output = self._ask(
            "run_command", {"command": command, "workdir": None, "timeout_seconds": 60, "writes": False}
        )
        if output is None:
            return None
        text = output.text
        if whole := re.search(r"read_file (/outputs/[\w.-]+)", text):
            found = self.text(whole[1], MAX_SAVED)
            text = found[1] if found else text
            self.cut |= found is None or found[1].count("\n") >= MAX_SAVED
        matches = (match for line in text.split("\n") if (match := _HIT.match(line)))
        hits = [Hit(match[1], int(match[2]), match[3]) for match in matches if not match[1].startswith(".git/")]
        code = re.search(r"exit code (\d+)", output.text.partition("\n")[0])
        if output.status == "error" or (not hits and code and code[1] not in "01"):
            failure = output.error_kind or (code and code[0])
            self.failures[f"`{' '.join(self._search.split()[:2])} …`: {failure}"] = None
        return hits

    def text(self, path: str, line: int = 1) -> tuple[str, str] | None:
        """The path that a name stands for and the file's text, at least around `line` and with empty lines for what
        was not read; None when it is not known or cannot be had."""
        if path not in self._files and len(self._files) >= MAX_FILES:
            return None
        self._files.add(path)
        first = self._page(path, None, None)
        if first is None:
            return None
        path, lines, total = first
        last = max(lines, default=0)
        size, end = max(last * 3 // 4, 1), min(line + BELOW, total)
        for page_start in range(last + 1, end + 1, size)[:MAX_PAGES]:
            start, page_end = page_start, page_start + size - 1
            while start <= min(page_end, total):  # a page ends early where lines are long
                page = self._page(path, start, page_end)
                lines |= page[1] if page else {}
                start = max([*page[1], start] if page else [page_end]) + 1
        return path, "\n".join(lines.get(number, "") for number in range(1, max(lines, default=0) + 1))

    def _page(self, path: str, start: int | None, end: int | None) -> tuple[str, dict[int, str], int] | None:
        """Path, lines by number, and number of lines; of the likeliest file, where there is none of that name."""
        output = self._ask("read_file", {"path": path, "start_line": start, "end_line": end})
        if output is None:
            return None
        if output.error_kind == "file_not_found" and (found := _close_match(path, output.text)):
            return self._page(found, start, end) if found not in self._files else None
        if output.status == "error":
            self.failures |= {} if output.error_kind == "file_not_found" else {f"`{path}`: {output.error_kind}": None}
            return None
        head, _, body = output.text.partition("\n")
        total = _TOTAL.search(head)
        return path, dict(_numbered(body)), int(total[1]) if total else 0


@lru_cache(maxsize=256)
def _numbered(body: str) -> tuple[tuple[int, str], ...]:
    return tuple((int(match[1]), match[2]) for line in body.split("\n") if (match := _NUMBERED.match(line)))


def _close_match(path: str, text: str) -> str:
    """The likeliest of the paths that an error suggests, or nothing."""
    name = path.rpartition("/")[2]
    found = [one for one in re.split(r",\s+|\n", text.partition("close matches:")[2].strip()) if one and one != path]
    return min(found, key=lambda one: one.rpartition("/")[2] != name, default="")
