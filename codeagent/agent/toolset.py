"""The tools of a turn, bound to its sandbox and its gate."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from codeagent.agent.dispatch import Action, Tool
from codeagent.approval.seam import Classification, CommandClass, Review
from codeagent.conversation import ToolCall
from codeagent.sandbox.seam import Flag, Sandbox
from codeagent.tools import apply_patch, list_dir, read_file, run_command
from codeagent.tools.arguments import parse_arguments
from codeagent.tools.result import ToolResult

Classify = Callable[[str], Classification]
_PATCH = Classification(CommandClass.ASK, "it changes files in the private copy")


class Toolset:
    """`written` is called after every call that may have written into the private copy."""

    def __init__(self, sandbox: Sandbox, outputs: Path, classify: Classify, written: Callable[[], None]) -> None:
        self._sandbox = sandbox
        self._outputs = outputs
        self._classify = classify
        self._written = written

    def tools(self, *, patching: bool) -> dict[str, Tool]:
        """By name, in the order in which the model is shown them; `apply_patch` only where a fix is asked for."""
        tools = [
            Tool(read_file.SPEC, self._read_file),
            Tool(list_dir.SPEC, self._list_dir),
            Tool(run_command.SPEC, self._run_command),
        ]
        if patching:
            tools.append(Tool(apply_patch.SPEC, self._apply_patch))
        return {tool.spec.name: tool for tool in tools}

    def _read_file(self, call: ToolCall) -> Action:
        args = parse_arguments(read_file.SPEC, call.arguments)
        return Action(lambda cancel, _left: read_file.run(self._sandbox.reading(cancel), self._outputs, args))

    def _list_dir(self, call: ToolCall) -> Action:
        args = parse_arguments(list_dir.SPEC, call.arguments)
        return Action(lambda cancel, _left: list_dir.run(self._sandbox.reading(cancel), args))

    def _run_command(self, call: ToolCall) -> Action:
        args = run_command.parse(call.arguments)
        classification = self._classify(args.command)
        writable = classification.class_ is not CommandClass.READ_ONLY and args.writes is not False

        def run(cancel: Flag, seconds_left: float) -> ToolResult:
            try:
                return run_command.run(args, call.call_id, self._sandbox, cancel, writable, seconds_left)
            finally:
                if writable:
                    self._written()

        return Action(run, Review(call.call_id, "run_command", args.command, args.workdir, writable, classification))

    def _apply_patch(self, call: ToolCall) -> Action:
        args = parse_arguments(apply_patch.SPEC, call.arguments)

        def run(_cancel: Flag, _left: float) -> ToolResult:
            result = apply_patch.run(self._sandbox, args)
            self._written()
            return result

        def check() -> None:
            apply_patch.check(self._sandbox, args)

        return Action(run, Review(call.call_id, "apply_patch", args["patch"], "", True, _PATCH, check))
