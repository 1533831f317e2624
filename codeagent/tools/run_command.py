"""run_command: one shell script, run in the container; what came of it, head and tail, in words the model can use."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from codeagent.errors import ErrorKind, ToolError
from codeagent.inference import ToolSpec
from codeagent.sandbox.output import LINE_SEARCH, saved_name
from codeagent.sandbox.seam import Command, CommandResult, Ending, Flag, Sandbox
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.result import TextShown, ToolResult

DEFAULT_TIMEOUT = 120
MAX_TIMEOUT = 3600
MAX_STAGE = 40
"""How much of a pipeline's last stage is repeated, in characters."""

SPEC = ToolSpec(
    "run_command",
    "Runs one shell script by `sh -c` in the container, without network, terminal or input. Every call starts afresh "
    "in workdir: cd and variables do not last, files in /tmp do. stdout and stderr come as one stream, in order; at "
    "most 32 KiB of it, head and tail, are returned, the whole is readable as /outputs/<call_id>.txt. Background "
    "processes end with the call. A non-zero exit code is not an error.",
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["command", "workdir", "timeout_seconds", "writes"],
        "properties": {
            "command": {"type": "string", "description": "The script."},
            "workdir": {"type": ["string", "null"], "description": "Relative to the repository's root; null: there."},
            "timeout_seconds": {
                "type": ["integer", "null"],
                "minimum": 1,
                "maximum": MAX_TIMEOUT,
                "description": f"null: {DEFAULT_TIMEOUT}.",
            },
            "writes": {
                "type": ["boolean", "null"],
                "description": "Whether it must write into the repository (a private copy); null: it may.",
            },
        },
    },
)


@dataclass(frozen=True, slots=True)
class Arguments:
    """`writes` is the model's word on whether the command must write into the repository; None: it may."""

    command: str
    workdir: str
    timeout_seconds: int
    writes: bool | None


def parse(arguments: str) -> Arguments:
    """Raises ToolError(invalid_arguments)."""
    given = parse_arguments(SPEC, arguments)
    if not given["command"].strip():
        raise ToolError(ErrorKind.INVALID_ARGUMENTS, "the command is empty")
    return Arguments(
        given["command"],
        given["workdir"] or "",
        DEFAULT_TIMEOUT if given["timeout_seconds"] is None else given["timeout_seconds"],
        given["writes"],
    )


def run(
    args: Arguments, call_id: str, sandbox: Sandbox, cancel: Flag, writable: bool, seconds_left: float
) -> ToolResult:
    """Carries the call out, within the seconds that the turn has left. ToolError when it cannot be done."""
    timeout = max(1.0, min(float(args.timeout_seconds), seconds_left))
    result = sandbox.run(Command(call_id, args.command, args.workdir, timeout, writable), cancel)
    return rendered(args, call_id, result, timeout)


def rendered(args: Arguments, call_id: str, result: CommandResult, timeout: float) -> ToolResult:
    """The result as the model reads it. A command that ran to its end is no error, whatever its exit code."""
    lines = [_header(args, result), *(f"note: {note}" for note in result.notes)]
    text = "\n".join([*lines, _shown(call_id, result)])
    kind: ErrorKind | None = None
    if result.ending is Ending.TIMEOUT:
        kind = ErrorKind.TIMEOUT
        sentence = f"the command was ended after {_seconds(timeout)}; everything it started is gone"
        text = ToolError(kind, sentence, text).text()
    elif result.ending is Ending.CANCELLED:
        kind = ErrorKind.CANCELLED
        sentence = "the command was ended because the call was cancelled; it may have taken effect in part"
        text = ToolError(kind, sentence, text).text()
    return ToolResult(text, kind, tuple(_facts(result)), result.segments)


def _facts(result: CommandResult) -> Iterator[TextShown]:
    """What was shown of the output: its whole lines, those before and after what was left out apart."""
    head, tail = _parts(result)
    if not result.omitted_bytes:
        yield TextShown(head, False)
        return
    yield TextShown(head[: head.rfind("\n") + 1], True)
    first = tail.find("\n") + 1
    # A cut moves to the end of a line where one is near; where none was, it lies within one.
    is_whole = 0 < first < LINE_SEARCH - 1 and len(tail) > LINE_SEARCH
    yield TextShown(tail if is_whole else tail[first:] if first else "", True)


def _parts(result: CommandResult) -> tuple[str, str]:
    head = "".join(text for _, text in result.segments[: result.head_segments])
    return head, "".join(text for _, text in result.segments[result.head_segments :])


def _header(args: Arguments, result: CommandResult) -> str:
    """How it ended, how long it took, where it ran."""
    match result.ending:
        case Ending.EXITED:
            end = f"exit code {result.exit_code}{_of_stage(args.command)}"
        case Ending.SIGNALLED:
            end = f"exit code {result.exit_code} (ended by signal {(result.exit_code or 128) - 128})"
        case Ending.MEMORY:
            end = f"exit code {result.exit_code} (killed: out of memory)"
        case Ending.FULL:
            end = "killed: it wrote too much"
        case Ending.TIMEOUT:
            end = "killed: timeout"
        case Ending.CANCELLED:
            end = "killed: cancelled"
    cut = f"; output cut, {result.omitted_bytes:,} bytes left out" if result.omitted_bytes else ""
    return f"[{end}; {_seconds(result.duration_ms / 1000)}; cwd /workspace/{args.workdir}".rstrip("/") + f"{cut}]"


def _shown(call_id: str, result: CommandResult) -> str:
    if not result.total_bytes:
        return "(no output)"
    head, tail = _parts(result)
    if not result.omitted_bytes:
        return head
    where = f"; the whole output: read_file /outputs/{saved_name(call_id)}" if result.saved else ""
    mark = f"[… {result.omitted_bytes:,} bytes left out{where} …]"
    return f"{head}{'' if head.endswith(chr(10)) else chr(10)}{mark}\n{tail}"


def _seconds(seconds: float) -> str:
    return f"{seconds:.2f} s" if seconds < 10 else f"{seconds:.0f} s"


def _of_stage(command: str) -> str:
    """Whose exit code it is, when the script ends in a pipeline: the shell reports the last stage's only."""
    stage = " ".join(_last_stage(command).split())
    if not stage:
        return ""
    shown = stage if len(stage) <= MAX_STAGE else stage[: MAX_STAGE - 1] + "…"
    return f" of the pipeline's last stage ({shown}); what the stages before it returned is not known"


def _last_stage(command: str) -> str:
    """The last stage of the pipeline that the script ends in; "" when it ends in none, or is not understood."""
    from codeagent.approval import shell

    node = shell.tree(command.encode("utf-8", "replace"))
    if node.has_error:
        return ""
    while node.type in _ENDS_IN_LAST or node.type == "redirected_statement":
        parts = [child for child in node.children if child.type not in ("comment", "\n", ";", "{", "}", "(", ")")]
        if not parts or parts[-1].type == "&" or parts[0].type == "!":
            return ""
        if node.type == "pipeline":
            return "" if parts[0].type == "negated_command" else shell.text_of(parts[-1])
        node = parts[0] if node.type == "redirected_statement" else parts[-1]
    return ""


_ENDS_IN_LAST = ("program", "list", "pipeline", "subshell", "compound_statement")
"""Kinds of nodes whose exit code is that of their last part."""
