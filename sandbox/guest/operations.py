"""What an operation is: a named handler that answers one request.

`guest.files.Files.operations` are those on files; `run` is the server's own.
A handler runs in one of a fixed number of threads, with the effective ids of the repository's owner. It returns the
reply's fields (they must fit into one frame, 64 KiB of JSON) and its body; an iterator of chunks is sent while
it is produced, each chunk of any size. It refuses by raising `Refusal`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any


class Refusal(Exception):
    """The request cannot be carried out; the host turns it into a ToolError.

    `kind` is one of the error kinds that the host publishes (`file_not_found`, `protected_path`, …).
    `sentence` and `detail` are read by the model: no path outside `/workspace`, no stack trace.
    """

    def __init__(self, kind: str, sentence: str, detail: str = "") -> None:
        super().__init__(sentence)
        self.kind = kind
        self.sentence = sentence
        self.detail = detail


@dataclass(frozen=True, slots=True)
class Root:
    """The repository: a directory descriptor of `/workspace`, opened once, never inherited by a command.

    `folders` are further descriptors that the host asked for at start, by name (see `guest.main`), opened
    before the guest gave up its first ids.
    """

    fd: int
    folders: Mapping[str, int] = field(default_factory=dict)


Reply = tuple[dict[str, Any], "bytes | Iterator[bytes]"]
Handler = Callable[[Root, dict[str, Any], bytes], Reply]
