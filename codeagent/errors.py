"""Everything that is raised on purpose.

CodeagentError              one sentence on what is wrong, one on what to do, and an exit code
├── UsageError          2   the command line, the configuration, a missing key
├── ModelError          3   the API failed after retries, or refused the request
│   └── ContextFull         the request is too long for the model
├── SandboxError        4   no engine, no image, a container that is lost for good
└── StorageError        2   the state directory cannot be written, the disk is full

ToolError                   a sentence for the model; becomes a tool output, never ends the turn
Interrupted                 SIGINT, SIGTERM or SIGHUP; a BaseException, so that no `except Exception` eats it
"""

from __future__ import annotations

from enum import StrEnum


class CodeagentError(Exception):
    """What is wrong (`message`), what to do about it (`remedy`) and how the process exits."""

    exit_code = 1

    def __init__(self, message: str, remedy: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.remedy = remedy


class UsageError(CodeagentError):
    """The command line or the configuration cannot be acted on; nothing was started."""

    exit_code = 2


class StorageError(CodeagentError):
    """The session cannot be recorded: the state directory is not writable, or the disk is full."""

    exit_code = 2


class ModelError(CodeagentError):
    """The model's API failed after retries, or refused the request."""

    exit_code = 3


class ContextFull(ModelError):
    """The server says that the request is longer than the model's context window."""


class SandboxError(CodeagentError):
    """There is no engine or no image, or the container is lost and cannot be replaced."""

    exit_code = 4


class Interrupted(BaseException):
    """The user (SIGINT), the system (SIGTERM) or a closed terminal (SIGHUP) asked the program to stop."""

    exit_code = 130


class ErrorKind(StrEnum):
    """The kinds of error that a tool output can have; fixed, because models and scripts read them."""

    INVALID_ARGUMENTS = "invalid_arguments"
    UNKNOWN_TOOL = "unknown_tool"
    FILE_NOT_FOUND = "file_not_found"
    NOT_A_FILE = "not_a_file"
    NOT_A_DIRECTORY = "not_a_directory"
    PERMISSION_DENIED = "permission_denied"
    OUTSIDE_REPOSITORY = "outside_repository"
    PROTECTED_PATH = "protected_path"
    BINARY_FILE = "binary_file"
    TOO_LARGE = "too_large"
    TIMEOUT = "timeout"
    DENIED = "denied"
    CANCELLED = "cancelled"
    SANDBOX_FAILED = "sandbox_failed"
    INTERRUPTED = "interrupted"
    PATCH_FAILED = "patch_failed"


class ToolError(Exception):
    """A tool call that could not be carried out; becomes its output.

    `sentence` is one sentence for the model. `detail` may follow it on further lines (close matches,
    the output so far). Neither holds a host path, a key or a stack trace.
    """

    def __init__(self, kind: ErrorKind, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.detail = detail

    def text(self) -> str:
        """What the model reads: `error: <kind>: <sentence>`, then the detail."""
        first = f"error: {self.kind}: {' '.join(self.sentence.split())}"
        return f"{first}\n{self.detail}" if self.detail else first
