"""Reads the outputs of tools back from their text: what a stored session still knows of what was shown."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping

from codeagent.conversation import Item, ToolCall, ToolOutput
from codeagent.evidence.ledger import Ledger, Text
from codeagent.evidence.lines import numbers_in

_HEADER = re.compile(
    r"^(?P<path>\"(?:[^\"\\]|\\.)*\"|.+?): (?:lines? [\d,]+-[\d,]+ of [\d,]+|empty file)"
    r".*?\bsha256 (?P<hash>[0-9a-f]{8,64})"
)
_LINE = re.compile(r"^ *(\d+)\t(.*)$", re.DOTALL)
_GAP = re.compile(r"^\[… [\d,]+ bytes left out.*…\]\n", re.MULTILINE)
_MAY_BE_CUT = 4_000
"""Characters from which on a line beside what was left out may not be a whole one."""
_CUT = re.compile(r" … \[[\d,]+ more characters in this line")


def replay(ledger: Ledger, items: Iterable[Item], shown: Mapping[str, Mapping[str, object]]) -> None:
    """Enters the outputs of a conversation into a ledger. `shown` holds by call what was known of a command's output:
    `{path: {sha256, lines}}`."""
    calls: dict[str, ToolCall] = {}
    for item in items:
        if isinstance(item, ToolCall):
            calls[item.call_id] = item
        elif isinstance(item, ToolOutput) and item.call_id in calls and item.error_kind in (None, "timeout"):
            call = calls[item.call_id]
            texts = _enter(ledger, item.call_id, call.name, call.arguments, item.text)
            for path, known in shown.get(item.call_id, {}).items():
                if texts and isinstance(known, Mapping):
                    numbers = numbers_in(str(known.get("lines") or ""))
                    for text in texts:
                        ledger.recall(text, path, str(known.get("sha256") or ""), numbers)


def _enter(ledger: Ledger, call_id: str, name: str, arguments: str, output: str) -> list[Text]:
    """Enters one output, as it stands in the log; what it holds without a word on where it is from is returned."""
    given = arguments_of(arguments)
    if name == "read_file":
        path = str(given.get("path") or "")
        if path.startswith("/outputs/"):
            texts = [text for _, text in numbered(output)]
            return [ledger.add_text(call_id, path, "\n".join(texts))]
        header = _HEADER.match(output.partition("\n")[0])
        if header:
            shown = unquoted(header["path"])
            ledger.add_lines(call_id, shown, header["hash"], dict(numbered(output)))
    elif name == "run_command":
        command = str(given.get("command") or "")
        return [ledger.add_text(call_id, command, part) for part in _around_gap(output.partition("\n")[2])]
    return []


def _around_gap(text: str) -> list[str]:
    """An output, or its parts before and after what was left out, without lines that may have been cut there."""
    gap = _GAP.search(text)
    if gap is None:
        return [text]
    head, tail = text[: gap.start()], text[gap.end() :]
    if len(head) - head.rfind("\n", 0, -1) > _MAY_BE_CUT:
        head = head[: head.rfind("\n", 0, -1) + 1]
    first = tail.partition("\n")[0]
    return [head, tail[len(first) + 1 :] if len(first) >= _MAY_BE_CUT else tail]


def arguments_of(arguments: str) -> Mapping[str, object]:
    """A call's arguments; empty when they are not a JSON object."""
    try:
        given = json.loads(arguments)
    except (ValueError, RecursionError):
        return {}
    return given if isinstance(given, dict) else {}


def numbered(output: str) -> list[tuple[int, str]]:
    """The whole lines of a read_file output; one that was cut is left out."""
    return [
        (int(match[1]), match[2])
        for line in output.split("\n")[1:]
        if (match := _LINE.match(line)) and not _CUT.search(match[2])
    ]


def unquoted(path: str) -> str:
    """The path that stands in C quotes (git's form for names that cannot be shown), or the path itself."""
    if not (path.startswith('"') and path.endswith('"') and len(path) > 1):
        return path
    codes = {"a": 7, "b": 8, "t": 9, "n": 10, "v": 11, "f": 12, "r": 13, '"': 34, "\\": 92}
    content = bytearray()
    for match in re.finditer(r"\\([0-7]{3}|.)|([^\\]+)", path[1:-1], re.DOTALL):
        if match[2]:
            content += match[2].encode("utf-8", "surrogateescape")
        elif len(match[1]) == 3:
            content.append(int(match[1], 8) & 255)
        else:
            content.append(codes.get(match[1], ord(match[1]) & 255))
    return content.decode("utf-8", "surrogateescape")
