"""What running a tool gives: a text for the model, and apart from it what the evidence is made of."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from codeagent.errors import ErrorKind, ToolError


@dataclass(frozen=True, slots=True)
class LinesShown:
    """Lines of one file that the model was shown, whole, by number; `sha256` is of the file's bytes.

    `all` tells that these are all lines of the file, and that it is UTF-8.
    """

    path: str
    sha256: str
    lines: Mapping[int, str]
    all: bool = False


@dataclass(frozen=True, slots=True)
class TextShown:
    """Text without a known place (a command's output). `cut` tells that a part of it was left out."""

    text: str
    cut: bool


Fact = LinesShown | TextShown
Stream = Literal["stdout", "stderr"]


@dataclass(frozen=True, slots=True)
class ToolResult:
    """The one result of a call. `streams` are a command's output pieces in order, told apart."""

    text: str
    error_kind: ErrorKind | None = None
    facts: tuple[Fact, ...] = ()
    streams: tuple[tuple[Stream, str], ...] = ()


def refused(error: ToolError) -> ToolResult:
    """The result that a ToolError becomes."""
    return ToolResult(error.text(), error.kind)
