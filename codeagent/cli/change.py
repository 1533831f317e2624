"""The change of a session: the diff of its private copy, kept on disk as it grows."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from codeagent.errors import SandboxError, StorageError, ToolError
from codeagent.events import WorkspaceChanged
from codeagent.sandbox.seam import Diff
from codeagent.session.store import Session

Note = Callable[[str, str], None]


class StoredDiff:
    """Keeps the session's stored diff that of its private copy, which `diff` gives."""

    def __init__(self, session: Session, repo: Path, diff: Callable[[], Diff], note: Note) -> None:
        self._session = session
        self._repo = repo
        self._diff = diff
        self._note = note
        self._stored = b""
        self._notes: tuple[str, ...] = ()
        self._behind = False
        with suppress(OSError):
            self._stored = session.diff_file.read_bytes()  # of a session that goes on

    @property
    def patch(self) -> bytes:
        """The stored diff; another object once it is another diff."""
        return self._stored

    def update(self) -> None:
        """To be called after everything that may have written. Raises nothing: the call has its result all the same,
        and a sandbox that is lost is for the next one to find."""
        self._behind = True
        try:
            self._save()
        except (ToolError, SandboxError, StorageError) as error:
            self._note(f"the change could not be stored yet: {error}", "warn")

    def catch_up(self) -> None:
        """Stores what `update` could not. Raises ToolError, SandboxError or StorageError."""
        if self._behind:
            self._save()

    def _save(self) -> None:
        diff = self._diff()
        if (diff.patch, diff.notes) != (self._stored, self._notes):
            from codeagent.applying.merge import keep_bases

            self._session.save_diff(diff.patch)
            self._stored = diff.patch
            keep_bases(self._repo, diff.patch, self._session.bases)
            self._session.emit(WorkspaceChanged(list(diff.paths)))
            for note in diff.notes:
                if note not in self._notes:
                    self._note(note, "warn")
            self._notes = diff.notes
        self._behind = False
