"""read_file: numbered lines of one text file of the repository, or of a command's saved output."""

from __future__ import annotations

import codecs
import hashlib
import re
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from codeagent.errors import ErrorKind, ToolError
from codeagent.inference import ToolSpec
from codeagent.sandbox.output import saved_name
from codeagent.sandbox.seam import FileLine, FilePage, Files
from codeagent.tools.paths import quoted, unquoted
from codeagent.tools.result import Fact, LinesShown, TextShown, ToolResult

OUTPUTS = "/outputs/"
PAGE_LINES = 2_000
PAGE_BYTES = 47 * 1024
LINE_CHARACTERS = 2_000
SHORT_HASH = 12
NEXT_BYTES = 30_000
"""How much of a very long line the command that is proposed shows, less than is returned at most."""
_ASCII_LIKE = ("utf-8", "utf-8-sig")

SPEC = ToolSpec(
    "read_file",
    "Numbered lines of one text file, at most 2,000 lines and 48 KiB a call, counted as `grep -n` counts. The first "
    "line states path, line range, total lines and a content hash; a longer file says how to read on. Very long "
    "lines are cut with a mark. Binary and protected files are refused. A command's whole output is read as "
    "/outputs/<call_id>.txt.",
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["path", "start_line", "end_line"],
        "properties": {
            "path": {"type": "string", "description": "Relative to the repository's root."},
            "start_line": {"type": ["integer", "null"], "minimum": 1, "description": "First line; null: 1."},
            "end_line": {
                "type": ["integer", "null"],
                "minimum": 1,
                "description": "Last line; null: as far as fits.",
            },
        },
    },
)


def run(files: Files, outputs: Path, arguments: Mapping[str, Any]) -> ToolResult:
    """Carries out one call. `outputs` is the session's folder of saved outputs. ToolError when it cannot be done."""
    path, start, end = unquoted(arguments["path"]), arguments["start_line"], arguments["end_line"]
    if start is not None and end is not None and end < start:
        raise ToolError(ErrorKind.INVALID_ARGUMENTS, f"end_line {end} lies before start_line {start}")
    if path.startswith(OUTPUTS):
        page = saved_page(outputs, path, start, end)
        whole = [line for line in page.lines if not line.omitted]
        text = "\n".join(line.text for line in whole)
        return ToolResult(render(page), facts=(TextShown(text, len(whole) < page.total_lines),))
    page = files.read_file(path, start, end)
    return ToolResult(render(page), facts=shown(page))


def shown(page: FilePage) -> tuple[Fact, ...]:
    """What the model has seen of the file: its whole lines."""
    lines = {number: text for number, text, omitted in page.lines if not omitted}
    everything = len(lines) == page.total_lines and page.encoding in _ASCII_LIKE
    return (LinesShown(page.path, page.sha256, lines, everything),)


def render(page: FilePage) -> str:
    """The page as the model reads it."""
    width = len(str(page.lines[-1].number)) if page.lines else 0
    lines = [
        f"{str(number).rjust(width)}\t{text}{_cut(page, FileLine(number, text, omitted)) if omitted else ''}"
        for number, text, omitted in page.lines
    ]
    return "\n".join([_header(page), *lines, *_next(page)])


def _header(page: FilePage) -> str:
    facts = [f"sha256 {page.sha256[:SHORT_HASH]}"]
    if page.encoding not in _ASCII_LIKE:
        facts.append(f"encoding {page.encoding}")
    elif page.encoding == "utf-8-sig":
        facts.append("UTF-8 with a byte order mark")
    if page.lines:
        span = f"lines {page.lines[0].number}-{page.lines[-1].number} of {page.total_lines}"
    else:
        span = "empty file, 0 lines"
    return f"{quoted(page.path)}: {', '.join([span, *facts])}" + "".join(f"; {note}" for note in page.notes)


def _cut(page: FilePage, line: FileLine) -> str:
    mark = f" … [{line.omitted:,} more characters in this line"
    if len(page.lines) > 1:
        return f"{mark}; start_line={line.number} end_line={line.number} shows more of it]"
    seen = len(line.text.encode("utf-8")) + (len(codecs.BOM_UTF8) if _begins_with_mark(page, line) else 0)
    cut = f"head -n {line.number} | tail -n 1 | cut -b {seen + 1}-{seen + NEXT_BYTES}"
    if page.path.startswith(OUTPUTS):
        return f"{mark}; the command again, followed by `| {cut}`, shows the next ones]"
    if not page.path.isprintable():
        return mark + "]"
    name = shlex.quote(page.path if not page.path.startswith("-") else f"./{page.path}")
    if page.encoding in _ASCII_LIKE:
        return f"{mark}; run_command `{cut.replace('|', f'{name} |', 1)}` shows the next ones]"
    return f"{mark}; run_command `iconv -f {_for_iconv(page.encoding)} -t UTF-8 {name} | {cut}` shows the next ones]"


def _begins_with_mark(page: FilePage, line: FileLine) -> bool:
    return line.number == 1 and page.encoding == "utf-8-sig"


def _for_iconv(codec: str) -> str:
    """Python's name of an encoding as iconv knows it."""
    name = codec.upper().replace("LATIN-1", "ISO-8859-1").replace("ISO2022", "ISO-2022")
    return re.sub(r"-([LB]E)$", r"\1", name if name == "SHIFT_JIS" else name.replace("_", "-"))


def _next(page: FilePage) -> list[str]:
    last = page.lines[-1].number if page.lines else page.total_lines
    left = page.total_lines - last
    return [f"[{left:,} more line{'s' * (left > 1)}; read on with start_line={last + 1}]"] if left > 0 else []


def saved_page(outputs: Path, path: str, start: int | None, end: int | None) -> FilePage:
    """A page of a saved output (UTF-8, at most 16 MiB), which lies on the host, out of the commands' reach."""
    call_id = re.fullmatch(r"/outputs/([^/]+)\.txt", path)
    try:
        content = (outputs / saved_name(call_id[1])).read_bytes() if call_id else None
    except OSError:
        content = None
    if content is None:
        raise ToolError(ErrorKind.FILE_NOT_FOUND, f"{quoted(path)} is not the saved output of a call of this session")
    texts = content.decode("utf-8", "replace").split("\n")
    if texts[-1] == "":
        texts.pop()
    first = start or 1
    if first > max(len(texts), 1):
        raise ToolError(
            ErrorKind.INVALID_ARGUMENTS, f"line {first} is past the end: the output has {len(texts):,} lines"
        )
    wanted = texts[first - 1 : min(end or len(texts), first - 1 + PAGE_LINES)]
    notes = () if not content or content.endswith(b"\n") else ("no newline at the end",)
    return FilePage(
        path=path,
        lines=tuple(_fitting(wanted, first, alone=end == first)),
        total_lines=len(texts),
        size=len(content),
        sha256=hashlib.sha256(content).hexdigest(),
        notes=notes,
    )


def _fitting(texts: list[str], first: int, alone: bool) -> list[FileLine]:
    room = PAGE_BYTES
    lines: list[FileLine] = []
    for number, text in enumerate(texts, first):
        kept = text.encode()[: room - 8].decode("utf-8", "ignore") if alone else text[:LINE_CHARACTERS]
        room -= len(kept.encode()) + 8
        if room < 0 and lines:
            break
        lines.append(FileLine(number, kept.replace("\0", "\ufffd"), len(text) - len(kept)))
    return lines
