"""What stands for rounds that are no longer sent: their facts, taken from the calls and outputs themselves."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from typing import Any

from codeagent.conversation import AssistantMessage, Item, ToolCall, ToolOutput, UserMessage
from codeagent.errors import ErrorKind

_PATCHED = re.compile(r"^(?:\+\+\+ (?:b/)?|\*\*\* (?:Update|Add|Delete) File: )(.+)$", re.MULTILINE)
_LONGEST_LINE = 200
_TASK_CHARACTERS = 4_000  # kept of the first message, however small the window


def kept_messages(items: Iterable[Item], room: int) -> list[UserMessage]:
    """The user's own messages (the task, every constraint) and the repository's instructions, as they were.

    A message is cut only when together they would take more than `room` bytes; the first, being the task, has
    half of the room to itself.
    """
    kept = [item for item in items if isinstance(item, UserMessage) and item.origin != "program"]
    if sum(len(item.text.encode("utf-8", "replace")) for item in kept) <= room:
        return list(kept)
    share = room // 2 // max(1, len(kept) - 1)
    sizes = [max(room // 2, _TASK_CHARACTERS), *[max(share, _LONGEST_LINE)] * (len(kept) - 1)]
    return [UserMessage(_middle_cut(item.text, size), item.origin) for item, size in zip(kept, sizes, strict=True)]


def summarise(items: Sequence[Item], rounds: int, room: int, changed: Iterable[str] = ()) -> str:
    """What was done in the given rounds, in at most about `room` bytes; of each kind the newest facts are kept.

    `changed` are files that differ in the private copy now, whatever changed them.
    """
    facts = _Facts(items)
    facts.changed.update(dict.fromkeys(map(_one_line, changed)))
    head = (
        f"The first {rounds} rounds of this conversation were taken out to stay within the context window. "
        "This is what they contained, listed by the program; the texts themselves can be read again."
    )
    sections = (
        (
            "Files read",
            [f"{path}: lines {', '.join(spans)}" if spans else path for path, spans in facts.read.items()],
        ),
        ("Files changed in the private copy", list(facts.changed)),
        ("Denied, not to be tried again", facts.denied),
        ("Proposed and not run, open still", facts.open),
        ("Interrupted, effect unknown", facts.unknown),
        ("What you wrote", facts.said),
        ("Commands and their results", facts.commands),
        ("Other calls", facts.others),
    )
    filled = [(title, lines) for title, lines in sections if lines]
    texts: dict[str, str] = {}
    for done, (title, lines) in enumerate(sorted(filled, key=lambda section: sum(map(len, section[1])))):
        texts[title] = _section(
            title, lines, room // (len(filled) - done)
        )  # what a short one leaves, a long one gets
        room -= len(texts[title].encode("utf-8", "replace"))
    return "\n\n".join([head, *(texts[title] for title, _ in filled)])


class _Facts:
    """The facts of some rounds, each list in the order in which they happened."""

    def __init__(self, items: Sequence[Item]) -> None:
        self.read: dict[str, list[str]] = {}
        self.changed: dict[str, None] = {}
        self.denied: list[str] = []
        self.open: list[str] = []
        self.unknown: list[str] = []
        self.said: list[str] = []
        self.commands: list[str] = []
        self.others: list[str] = []
        outputs = {item.call_id: item for item in items if isinstance(item, ToolOutput)}
        for item in items:
            if isinstance(item, AssistantMessage) and item.text.strip():
                self.said.append(" ".join(item.text.split()))
            elif isinstance(item, ToolCall) and item.call_id in outputs:
                self._add(item, outputs[item.call_id])

    def _add(self, call: ToolCall, output: ToolOutput) -> None:
        arguments = _arguments(call)
        subject = _one_line(str(arguments.get("command") or arguments.get("path") or call.arguments))
        result = _one_line(output.text.partition("\n")[0])
        if output.error_kind is ErrorKind.DENIED:
            self.denied.append(f"{subject}: {result}")
        elif output.error_kind is ErrorKind.CANCELLED:
            self.open.append(f"{subject}: {result}")
        elif output.error_kind is ErrorKind.INTERRUPTED:
            self.unknown.append(subject)
        elif output.error_kind is not None or call.name not in ("read_file", "apply_patch", "run_command"):
            self.others.append(f"{call.name} {subject}: {result}")
        elif call.name == "read_file":
            self._add_read(subject, arguments)
        elif call.name == "apply_patch":
            self.changed.update(dict.fromkeys(_PATCHED.findall(str(arguments.get("patch", "")))))
        else:
            self.commands.append(f"{subject}: {result}")

    def _add_read(self, path: str, arguments: dict[str, Any]) -> None:
        spans = self.read.pop(path, [])  # read again: now among the newest
        start, end = arguments.get("start_line"), arguments.get("end_line")
        span = f"{start or 1}-{end or 'end'}" if start or end else "all"
        self.read[path] = [*(old for old in spans if old != span), span][-8:]


def _section(title: str, lines: Sequence[str], room: int) -> str:
    """The newest lines that fit, in their order, and how many do not."""
    kept: list[str] = []
    for line in reversed(lines):
        short = line if len(line) <= room // 2 else _middle_cut(line, room // 2)
        room -= len(short.encode("utf-8", "replace")) + 3
        if room < 0 and kept:
            break
        kept.append(f"- {short}")
    left_out = len(lines) - len(kept)
    earlier = [f"- ({left_out} earlier ones are not listed)"] if left_out else []
    return "\n".join([f"{title}:", *earlier, *reversed(kept)])


def _arguments(call: ToolCall) -> dict[str, Any]:
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return {}
    return arguments if isinstance(arguments, dict) else {}


def _one_line(text: str) -> str:
    return _middle_cut(" ".join(text.split()), _LONGEST_LINE)


def _middle_cut(text: str, size: int) -> str:
    if len(text) <= size:
        return text
    half = max(1, size // 2)
    return f"{text[:half]} [… {len(text) - 2 * half} characters …] {text[-half:]}"
