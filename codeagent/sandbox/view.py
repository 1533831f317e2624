"""How the repository is laid out in a container: what `codeagent.sandbox.sandbox` asks of whoever knows about files.

The sandbox decides when a container is started, replaced or given up; the layout decides what is mounted in it, and
speaks to the guest about files.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from codeagent.sandbox.channel import Channel
from codeagent.sandbox.copying import Edit
from codeagent.sandbox.files import Calls
from codeagent.sandbox.hardening import Mount
from codeagent.sandbox.seam import Diff, FileChange, FilePage, Listing, Steps


@dataclass(frozen=True, slots=True)
class View:
    """One container's sight of the repository.

    `mounts` are `/workspace` and what lies over or beside it; `folders` are opened by the guest before it gives up
    its first ids (name → path in the container, which commands need not be able to reach); `environment` is added
    to that of every command, `reading` to that of commands that may not write.
    """

    mounts: Sequence[Mount]
    folders: Mapping[str, str] = field(default_factory=dict)
    environment: Mapping[str, str] = field(default_factory=dict)
    reading: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Volumes:
    """The volumes of a private copy, by name; the top of each belongs to the repository's owner.

    `copy` is mounted at `/workspace`; `baseline` holds whatever `diff` needs of the copy as it was made. Commands may
    see the baseline, since it holds nothing that the copy did not, but it is writable for `fill` and `upload` alone.
    So is `git`: the git directory that lies outside of the repository, where the engine does not see it; else "".
    """

    copy: str
    baseline: str
    git: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        return (self.copy, self.baseline, *((self.git,) if self.git else ()))


class Layout(Protocol):
    """One session's repository. Methods that take a channel speak to a guest whose container has that view."""

    @property
    def git_is_beside(self) -> bool:
        """Whether the repository's git directory lies outside of it."""

    def mounted(self) -> View:
        """The repository itself, read-only, with all masks that are known to be needed by now."""

    def copying(self, volumes: Volumes, with_repository: bool) -> View:
        """Both volumes, writable, and the repository, masked and read-only, for `fill` or (without it) `upload`.

        No command ever runs in that container; it ends when the copy is made.
        """

    def copied(self, volumes: Volumes, writable: bool) -> View:
        """The copy alone, and the baseline, read-only; what is masked in the repository was never copied."""

    def prepare(self, channel: Channel) -> None:
        """Called once for every container, before anything else is asked of it."""

    def steady_state(self, channel: Channel) -> int | None:
        """The state in which the guest finds protected files and masks, when nothing that needs a mask lacks one.

        None when a mask came off or a new protected file appeared: `mounted` then gives the view that is needed.
        Calls that go to the repository itself name the state, and are carried out only while it lasts.
        """

    def refresh(self) -> None:
        """Forgets which protected files there are; the next view looks again. A mask on what is gone cannot be."""

    def tracked_protected(self, channel: Calls) -> list[str]: ...

    def fill(self, channel: Channel, steps: Steps) -> str:
        """Copies the repository into both volumes, inside the container; returns what must be said of the copy.

        ToolError(too_large) over the limit.
        """

    def upload(self, channel: Channel, steps: Steps) -> str:
        """The same from the host, for an engine that does not see the repository's path."""

    def read_file(self, channel: Calls, path: str, start_line: int | None, end_line: int | None) -> FilePage: ...

    def list_dir(self, channel: Calls, path: str, depth: int, offset: int) -> Listing: ...

    def fetch(self, channel: Calls, path: str) -> bytes: ...

    def store(self, channel: Calls, changes: Sequence[FileChange]) -> None: ...

    def diff(self, channel: Calls) -> Diff: ...

    def tree_hash(self, channel: Calls) -> str: ...

    def sync_host_edit(self, channel: Calls, path: str) -> Edit:
        """Brings a file that the user has changed into the copy, unless the agent has changed it too (CONFLICT)."""
