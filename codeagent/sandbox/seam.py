"""What the rest of the program asks of a sandbox, as plain values.

Paths are text relative to the repository's root, `/`-separated, with undecodable bytes as surrogate
escapes (`os.fsdecode`); they are never host paths. A request that cannot be carried out raises
ToolError; a container that is lost for good raises SandboxError.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Literal, NamedTuple, Protocol


class Flag(Protocol):
    """Whether what goes on is to be cancelled; `threading.Event` is one."""

    def is_set(self) -> bool: ...


class FileLine(NamedTuple):
    """One line without its line end. `omitted` characters are missing from the end of `text`."""

    number: int
    text: str
    omitted: int = 0


@dataclass(frozen=True, slots=True)
class FilePage:
    """Consecutive lines of one text file, counted as `grep -n` counts them (LF only), from 1.

    `sha256` is of the whole file's bytes; `encoding` is a Python codec name; `notes` are sentences for
    the model (guessed encoding, CRLF, no newline at the end, ignored by git, changed while read).
    """

    path: str
    lines: tuple[FileLine, ...]
    total_lines: int
    size: int
    sha256: str
    encoding: str = "utf-8"
    notes: tuple[str, ...] = ()


class EntryKind(StrEnum):
    DIRECTORY = "directory"
    FILE = "file"
    SYMLINK = "symlink"
    OTHER = "other"  # FIFO, socket, device


@dataclass(frozen=True, slots=True)
class Entry:
    """`path` is relative to the listed directory; `size` in bytes for files, else None."""

    path: str
    kind: EntryKind
    size: int | None = None
    target: str | None = None
    protected: bool = False


@dataclass(frozen=True, slots=True)
class Listing:
    """One page of entries. `ignored` counts what git ignores (a folder counts as one); `counted` tells that there are
    no more entries than `total`."""

    path: str
    entries: tuple[Entry, ...]
    offset: int
    total: int
    ignored: int
    notes: tuple[str, ...] = ()
    counted: bool = True


@dataclass(frozen=True, slots=True)
class Command:
    """`sh -c script` in `workdir` (relative to the root). `writable` runs it in the private copy, read-write."""

    call_id: str
    script: str
    workdir: str = ""
    timeout_seconds: float = 120.0
    writable: bool = False


class Ending(StrEnum):
    """What ended a command. Only `EXITED` and `SIGNALLED` are the command's own doing."""

    EXITED = "exited"
    SIGNALLED = "signalled"
    TIMEOUT = "timeout"
    CANCELLED = "cancelled"
    MEMORY = "memory"
    FULL = "full"  # it wrote more than the private copy may grow


@dataclass(frozen=True, slots=True)
class CommandResult:
    """How a command ended and what it printed.

    `exit_code` as a shell reports it (128 + signal where a signal ended it), None when it never ran to an
    end. `segments` are the kept output in order, stdout and stderr told apart; between `head_segments`
    of them and the rest, `omitted_bytes` are left out. `saved` tells that the whole output (up to 16 MiB)
    can be read as `/outputs/<call_id>.txt`. `notes` are sentences for the model.
    """

    ending: Ending
    exit_code: int | None
    duration_ms: int
    segments: tuple[tuple[Literal["stdout", "stderr"], str], ...] = ()
    head_segments: int = 0
    omitted_bytes: int = 0
    total_bytes: int = 0
    saved: bool = False
    notes: tuple[str, ...] = ()
    starved: str = ""
    """A limit of the container that was reached meanwhile, as a clause: a failure may be for that reason alone."""


@dataclass(frozen=True, slots=True)
class FileChange:
    """New content for one path in the private copy: bytes, or None to delete it.

    `mode` in octal; None keeps it, or takes that of the path `mode_of` (the file that is moved here).
    """

    path: str
    content: bytes | None
    mode: int | None = None
    mode_of: str | None = None


@dataclass(frozen=True, slots=True)
class Diff:
    """What changed in the private copy since it was made.

    `patch` is what `git apply` takes, exact to the byte, empty when nothing changed; `paths` are the changed
    paths; `ignored` counts changed entries that the untouched tree ignores and that are left out. `notes` are
    sentences for the user about changes that no patch could take (a file that is too large).
    """

    patch: bytes = b""
    paths: tuple[str, ...] = ()
    ignored: int = 0
    notes: tuple[str, ...] = ()


Steps = Callable[[str, int, int], None]
"""Progress of something slow: what it is, how much is done, how much there is (0 when unknown)."""


class Files(Protocol):
    """The repository as the model sees it: the mount, or the private copy once there is one."""

    def read_file(self, path: str, start_line: int | None, end_line: int | None) -> FilePage: ...

    def list_dir(self, path: str, depth: int, offset: int) -> Listing: ...

    def fetch(self, path: str) -> bytes:
        """A whole file (at most 16 MiB), for citations, freshness and patches; ToolError as read_file."""


class Sandbox(Files, Protocol):
    """One session's containers. Used from several threads: read-only calls run at the same time."""

    def reading(self, cancel: Flag) -> Files:
        """The same files; a call is left where it is when `cancel` is set: ToolError(cancelled)."""

    def run(self, command: Command, cancel: Flag) -> CommandResult:
        """Runs to its end, its deadline, or until `cancel` is set; nothing it started outlives the call."""

    def store(self, changes: Sequence[FileChange]) -> None:
        """Writes into the private copy (made when there is none), all or nothing."""

    def diff(self) -> Diff: ...

    def tree_hash(self) -> str:
        """SHA-256 over what `diff` compares, as it is in the private copy now; ToolError when there is no copy."""

    @property
    def has_copy(self) -> bool:
        """Whether the private copy stands in the mount's place."""

    def close(self) -> None:
        """Ends the containers and removes the copy. Never raises; may be called twice."""
