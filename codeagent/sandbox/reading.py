"""The files of a sandbox for a call that may be cancelled."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from codeagent.sandbox.seam import FilePage, Flag, Listing

if TYPE_CHECKING:
    from codeagent.sandbox.sandbox import DockerSandbox


@dataclass(frozen=True, slots=True)
class Reading:
    """See `seam.Sandbox.reading`."""

    sandbox: DockerSandbox
    cancel: Flag

    def read_file(self, path: str, start_line: int | None, end_line: int | None) -> FilePage:
        return self.sandbox.read_file(path, start_line, end_line, self.cancel)

    def list_dir(self, path: str, depth: int, offset: int) -> Listing:
        return self.sandbox.list_dir(path, depth, offset, self.cancel)

    def fetch(self, path: str) -> bytes:
        return self.sandbox.fetch(path, self.cancel)
