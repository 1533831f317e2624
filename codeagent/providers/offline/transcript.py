"""What has been learned so far: the outputs of the investigator's own calls, read back from the conversation.

Nothing is remembered between inferences. Everything is in the items, so a resumed session goes on like one
that was never interrupted.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from codeagent.conversation import Item, ToolCall, ToolOutput, UserMessage

NUMBERED = re.compile(r"^\s*(\d+)(?:\t|: ?|\| ?)(.*)$")
_TOTAL = re.compile(r"(?:\bof\b|/)\s*([\d,]+)(?=\s|$|,|\))|([\d,]+)\s+(?:total\s+)?lines?\b")
_HIT = re.compile(r"^(?:\./)?([^:\n]+):(\d+):(.*)$")
_PATH = re.compile(r"[\w@+~.-]+(?:/[\w@+~ .-]+)*")


@dataclass(frozen=True, slots=True)
class Hit:
    """One line that a search has found."""

    path: str
    line: int
    text: str


@dataclass(slots=True)
class File:
    """As much of a file as was shown."""

    lines: dict[int, str] = field(default_factory=dict)
    total: int = 0
    asked: list[tuple[int, int]] = field(default_factory=list)

    def has(self, line: int) -> bool:
        """Whether the line was shown, or was asked for and cannot be had."""
        return line in self.lines or any(start <= line <= end for start, end in self.asked)


@dataclass(slots=True)
class Transcript:
    """`searched` are the names whose definitions were looked for, `sought` the plain texts, `renamed` the close
    matches of paths that do not exist; `search` is the first of SEARCHES that the image has."""

    question: str = ""
    rounds: int = 0
    hits: list[Hit] = field(default_factory=list)
    files: dict[str, File] = field(default_factory=dict)
    searched: set[str] = field(default_factory=set)
    sought: set[str] = field(default_factory=set)
    missing: dict[str, tuple[str, ...]] = field(default_factory=dict)
    unreadable: dict[str, str] = field(default_factory=dict)
    failures: dict[str, None] = field(default_factory=dict)
    search: int = 0
    cut: bool = False
    listed: bool = False


def read(items: Sequence[Item]) -> Transcript:
    """The current turn, from the user's last message on."""
    start = max((at for at, item in enumerate(items) if _is_question(item)), default=0)
    transcript = Transcript(_question(items, start))
    calls: dict[str, ToolCall] = {}
    in_round = False
    for item in items[start:]:
        if isinstance(item, ToolCall):
            transcript.rounds += not in_round
            in_round = True
            calls[item.call_id] = item
        elif isinstance(item, ToolOutput):
            in_round = False
            if item.call_id in calls:
                _take(transcript, calls[item.call_id], item)
        elif isinstance(item, UserMessage) and item.origin == "program":
            _forget(transcript, item.text)
    return transcript


def _is_question(item: Item) -> bool:
    return isinstance(item, UserMessage) and item.origin == "user"


def _question(items: Sequence[Item], start: int) -> str:
    item = items[start] if start < len(items) else None
    return item.text if isinstance(item, UserMessage) else ""


def _forget(transcript: Transcript, note: str) -> None:
    """A note that names a file that was read: what was read of it no longer counts."""
    for path in [path for path in transcript.files if path in note]:
        del transcript.files[path]
        transcript.hits = [hit for hit in transcript.hits if hit.path != path]


def _take(transcript: Transcript, call: ToolCall, output: ToolOutput) -> None:
    try:
        arguments = json.loads(call.arguments)
    except ValueError:
        return
    if call.name == "read_file":
        _take_file(transcript, arguments, output)
    elif call.name == "list_dir":
        transcript.listed = True
    elif call.name == "run_command":
        _take_search(transcript, str(arguments.get("command", "")), output)


def _take_file(transcript: Transcript, arguments: dict[str, object], output: ToolOutput) -> None:
    path = str(arguments.get("path", ""))
    if output.error_kind == "file_not_found":
        transcript.missing[path] = _close_matches(path, output.text)
        return
    if output.error_kind is not None:
        transcript.unreadable[path] = output.error_kind
        return
    header, _, body = output.text.partition("\n")
    file = transcript.files.setdefault(path, File())
    shown: list[int] = []
    for line in body.split("\n"):
        match = NUMBERED.match(line)
        if match:
            file.lines[int(match.group(1))] = match.group(2)
            shown.append(int(match.group(1)))
    totals = [int((a or b).replace(",", "")) for a, b in _TOTAL.findall(header)]
    file.total = max([file.total, *totals, *shown], default=0)
    start = arguments.get("start_line")
    if isinstance(start, int):
        file.asked.append((start, max(shown, default=start)))


def _close_matches(path: str, text: str) -> tuple[str, ...]:
    """The paths that the error suggests, the likeliest first."""
    name = path.rpartition("/")[2]
    found = (match.group().strip(" .") for match in _PATH.finditer(text.partition(":")[2]))
    paths = dict.fromkeys(item for item in found if "." in item.rpartition("/")[2] and item != path)
    return tuple(sorted(paths, key=lambda item: item.rpartition("/")[2] != name))


def _take_search(transcript: Transcript, command: str, output: ToolOutput) -> None:
    failure = _failure(output)
    used = next((at for at, program in enumerate(SEARCHES) if command.startswith(program)), len(SEARCHES))
    if failure and used + 1 < len(SEARCHES) and _lacking(failure, output.text):
        transcript.search = max(transcript.search, used + 1)  # to be asked again, of the next one
        return
    if failure:
        transcript.failures.setdefault(f"`{' '.join(command.split()[:3])} …`: {failure}")
    names = names_in(command)
    transcript.searched.update(names)
    if not names:
        transcript.sought.update(texts_in(command))
    seen = {(hit.path, hit.line) for hit in transcript.hits}
    for line in output.text.split("\n"):
        match = _HIT.match(line)
        if match is None:
            transcript.cut |= re.search(r"\b(?:left out|omitted)\b", line) is not None
        elif (match.group(1), int(match.group(2))) not in seen and not match.group(1).startswith(".git/"):
            transcript.hits.append(Hit(match.group(1), int(match.group(2)), match.group(3)))


def _failure(output: ToolOutput) -> str:
    """Why a search says nothing; empty when it was carried out. Programs that search exit with 1 for no match."""
    if output.error_kind is not None:
        return output.error_kind
    code = re.search(r"\bexit code (\d+)\b", output.text.partition("\n")[0])
    failed = (
        code is not None and int(code.group(1)) > 1 and not re.search(r"^(?:\./)?[^:\n]+:\d+:", output.text, re.M)
    )
    return f"exit code {code.group(1)}" if code and failed else ""


def _lacking(failure: str, text: str) -> bool:
    """Whether the image lacks the program, or one of its options."""
    return (
        failure in ("exit code 126", "exit code 127")
        or re.search(r"(?:unrecognized|invalid|unknown) option", text) is not None
    )


# The commands that the investigator writes, and what it reads back from them. Patterns have two forms: for ripgrep,
# and for a grep of any kind, which need not know \\b, \\s and \\w.

SEARCHES = ("rg -n --no-heading", "grep -r -n -I -E --exclude-dir=.git", "grep -r -n -E")

_KINDS = "class|interface|enum|record|struct|trait|object|protocol|impl|type|def|fn|func|function|extends|implements"


def definition_search(names: Sequence[str], search: int) -> str:
    """A command that finds where names are defined, and which types build on them."""
    any_name = "|".join(names)
    if search:
        head = f"({_KINDS})[[:space:]](.*[^A-Za-z0-9_])?({any_name})([^A-Za-z0-9_]|$)"
        function = rf"(^|[^.>A-Za-z0-9_])({any_name})[[:space:]]*(\(|[:=][[:space:]]*(async|function|\())"
    else:
        head = rf"\b({_KINDS})\b.*\b({any_name})\b"
        function = rf"(^|[^.>\w])({any_name})\s*(\(|[:=]\s*(async|function|\())"
    return _search(f"{head}|{function}", search)


def text_search(text: str, search: int, ignore_case: bool = False) -> str:
    """A command that finds every line that holds a word."""
    return _search(text, search, "-w -i" if ignore_case else "-w")


def raise_search(exception: str, search: int) -> str:
    """A command that finds where an exception is raised."""
    return _search(rf"(raise|throw|new|panic|Err)[[:space:](]+([A-Za-z0-9_.]*\.)?({exception})\(?", search)


def _search(pattern: str, search: int, flags: str = "") -> str:
    return " ".join(part for part in (SEARCHES[search], flags, f"-e '{pattern}'", ".") if part)


def names_in(command: str) -> list[str]:
    """The names that `definition_search` was made for."""
    match = re.search(r"\|\(\^\|\[\^\.>[^\]]*\]\)\(([\w$|]+)\)", command)
    return match.group(1).split("|") if match else []


def texts_in(command: str) -> list[str]:
    """The text that `text_search` or `raise_search` was made for."""
    match = re.search(r" -w (?:-i )?-e '([\w$-]+)'", command) or re.search(r"\)\?\(([\w$]+)\)\\\(\?'", command)
    return [match.group(1)] if match else []
