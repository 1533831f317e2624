"""A repository and its private copy as plain folders, and results as the tools make them."""

from __future__ import annotations

import json
import subprocess
from dataclasses import dataclass
from pathlib import Path

from codeagent.conversation import ToolCall
from codeagent.errors import ErrorKind, ToolError
from codeagent.evidence.evidence import Evidence
from codeagent.evidence.lines import lines_of, sha256
from codeagent.tools.result import Fact, LinesShown, TextShown, ToolResult


@dataclass
class Diff:
    paths: tuple[str, ...] = ()


class Folders:
    """What evidence asks of a sandbox. `copy` stands in the place of `repo` once it is set."""

    def __init__(self, repo: Path) -> None:
        self.repo = repo
        self.copy: Path | None = None
        self.changed: tuple[str, ...] = ()
        self.errors: dict[str, ErrorKind] = {}

    @property
    def has_copy(self) -> bool:
        return self.copy is not None

    def fetch(self, path: str) -> bytes:
        if path in self.errors:
            raise ToolError(self.errors[path], "not to be had")
        try:
            return ((self.copy or self.repo) / path).read_bytes()
        except OSError:
            raise ToolError(ErrorKind.FILE_NOT_FOUND, "there is no such file") from None

    def diff(self) -> Diff:
        return Diff(self.changed)


class Session:
    """Calls of a session, observed."""

    def __init__(self, root: Path, **options: object) -> None:
        self.folders = Folders(root)
        self.evidence = Evidence(self.folders, root, **options)  # type: ignore[arg-type]
        self.count = 0

    def __enter__(self) -> Session:
        return self

    def __exit__(self, *_: object) -> None:
        self.evidence.close()

    def observe(self, name: str, arguments: dict[str, object], result: ToolResult) -> str:
        self.count += 1
        call_id = f"call_{self.count}"
        self.evidence.observe(ToolCall(call_id, name, json.dumps(arguments)), result)
        return call_id

    def read(self, path: str, start: int = 1, end: int | None = None) -> str:
        """As read_file does."""
        content = self.folders.fetch(path)
        lines = lines_of(content)
        shown = {number: lines[number - 1] for number in range(start, min(end or len(lines), len(lines)) + 1)}
        facts: tuple[Fact, ...] = (LinesShown(path, sha256(content), shown, all=len(shown) == len(lines)),)
        return self.observe("read_file", {"path": path}, ToolResult("", facts=facts))

    def run(self, command: str, output: str | None = None, *, cut: bool = False, code: int = 0) -> str:
        """As run_command does; without `output`, the command runs for real."""
        if output is None:
            root = self.folders.copy or self.folders.repo
            ran = subprocess.run(["sh", "-c", command], cwd=root, capture_output=True, text=True)
            output, code = ran.stdout, ran.returncode
        text = f"[exit code {code}; 0.01 s; cwd /workspace]\n{output}"
        return self.observe("run_command", {"command": command}, ToolResult(text, facts=(TextShown(output, cut),)))

    def states(self, answer: str) -> list[tuple[str, int, int, str, tuple[str, ...]]]:
        return [(c.path, c.start_line, c.end_line, c.state, c.call_ids) for c in self.evidence.check(answer)]

    def state(self, place: str) -> str:
        (citation,) = self.evidence.check(place)
        return citation.state


CODE = """import os


def first(x):
    if x is None:
        return None
    return x


def second(x):
    if x is None:
        return None
    return os.path.join(x, "second")
"""
"""Lines 6 and 12 are alike, as are 5 and 11."""


def write(root: Path, name: str, text: str) -> Path:
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(text.encode())
    return path
