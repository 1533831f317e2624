"""One session's repository, laid out in containers: the mount with its masks, then the private copy.

See `codeagent.sandbox.view.Layout` for who calls what and when.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.sandbox import copying, files, generated, git, protected
from codeagent.sandbox.channel import Channel
from codeagent.sandbox.copying import Edit, Plan
from codeagent.sandbox.files import Preparation
from codeagent.sandbox.hardening import WORKSPACE, Mount
from codeagent.sandbox.protected import Found
from codeagent.sandbox.seam import Diff, FileChange, FilePage, Listing, Steps
from codeagent.sandbox.upload import HostTree, repository_tree, upload
from codeagent.sandbox.view import View, Volumes
from codeagent.settings import SandboxSettings

BASELINE = "/codeagent-baseline"
SOURCE = "/codeagent-source"
UPLOADED = f"{BASELINE}/upload"
GIT_VOLUME = "git_volume"
"""The guest's name for where a git directory is uploaded to."""


@dataclass
class RepositoryLayout:
    """`repo` is the host's path. Generated files lie in the user's cache, where the engine sees them."""

    repo: Path
    settings: SandboxSettings
    _found: Found | None = field(default=None, init=False)
    _folders: dict[str, str] = field(default_factory=dict, init=False)
    _covered: tuple[str, ...] = field(default=(), init=False)
    _synchronised: dict[str, FileChange] = field(default_factory=dict, init=False)
    _git_left_out: bool = field(default=False, init=False)

    @cached_property
    def patterns(self) -> tuple[protected.Regex, ...]:
        return protected.regexes(self.settings.protect)

    @cached_property
    def git(self) -> git.Repository:
        return git.find(self.repo)

    @cached_property
    def generated(self) -> Path:
        return generated.generated()

    @property
    def found(self) -> Found:
        """What is protected, as far as is known; found by a walk through the repository at the first use."""
        if self._found is None:
            self._found = protected.find(self.repo, self.patterns)
        return self._found

    @property
    def git_is_beside(self) -> bool:
        return self.git.folder is not None and not self.git.inside

    # What containers see

    def mounted(self) -> View:
        """The repository itself, read-only, with all masks that are known to be needed by now."""
        self._folders = self._git_folder()
        gits = self.found.gits
        texts, hooks = git.replacements(self.git, self.repo, gits), git.hooks(self.repo, gits)
        # The guest is told of these very ones: what is there may be something else a moment later.
        self._covered = (*self.found.masks, *texts, *hooks)
        mounts = (
            Mount("bind", WORKSPACE, str(self.repo)),
            *self._masks(WORKSPACE),
            *git.mounts_inside(texts, hooks, self.generated),
            *git.mounts_beside(self.git, self.generated),
            git.mount_common(self.git, self.generated),
        )
        return self._view(mounts)

    def copying(self, volumes: Volumes, with_repository: bool) -> View:
        """Both volumes, writable, and the repository, masked and read-only. No command runs there."""
        source = (Mount("bind", SOURCE, str(self.repo)), *self._masks(SOURCE)) if with_repository else ()
        self._folders = {
            **({GIT_VOLUME: git.BESIDE} if volumes.git else self._git_folder()),
            copying.SOURCE: SOURCE if with_repository else UPLOADED,
            copying.BASELINE: BASELINE,
        }
        mounts = (
            Mount("volume", WORKSPACE, volumes.copy, read_only=False),
            Mount("volume", BASELINE, volumes.baseline, read_only=False),
            *source,
            *self._git_beside(volumes, writable=True),
        )
        return View(mounts)

    def copied(self, volumes: Volumes, writable: bool) -> View:
        """The copy alone, and the baseline, read-only; what is masked in the repository was never copied."""
        self._folders = {**self._git_folder(), copying.BASELINE: BASELINE}
        mounts = (
            Mount("volume", WORKSPACE, volumes.copy, read_only=not writable),
            Mount("volume", BASELINE, volumes.baseline),
            *self._git_beside(volumes, writable=False),
        )
        return self._view(mounts)

    def _view(self, mounts: tuple[Mount, ...]) -> View:
        return View(mounts, environment=git.environment(self.git), reading=git.reading(self.git))

    def _masks(self, top: str) -> list[Mount]:
        if not self.found.complete:
            raise SandboxError(
                f"The repository is too large to find every protected file in it ({protected.MAX_ENTRIES:,} entries, "
                f"{protected.SEARCH_SECONDS:.0f} seconds).",
                "Name a part of it with --repo.",
            )
        if self.found.unmaskable:
            raise SandboxError(
                f"The protected file {self.found.unmaskable[0]!a} cannot be masked: its name is not text, and "
                "no engine can mount over it.",
                "Rename it, or move it out of the repository.",
            )
        file, folder = generated.written(self.generated, ""), generated.empty_folder(self.generated)
        return protected.mounts(self.found, file, folder, top)

    def _git_folder(self) -> dict[str, str]:
        return {"git": git.beside(self.git)} if self.git_is_beside and not self._git_left_out else {}

    def _git_beside(self, volumes: Volumes, *, writable: bool) -> list[Mount]:
        if volumes.git:
            return [Mount("volume", git.BESIDE, volumes.git, read_only=not writable)]
        return git.mounts_beside(self.git, self.generated)

    # What guests are told and asked

    def prepare(self, channel: Channel) -> None:
        """Called once for every container, before anything else is asked of it."""
        files.prepare(
            channel,
            Preparation(
                protect=self.patterns,
                masked=self.found.masks,
                mounted=self._covered,
                prefix=self.git.prefix,
                above=git.ignore_files_above(self.git),
                folders=self._folders,
            ),
        )
        if copying.BASELINE in self._folders and copying.SOURCE not in self._folders:
            for change in self._synchronised.values():
                copying.sync(channel, change)

    def refresh(self) -> None:
        """Forgets which protected files there are; the next view looks again."""
        self._found = None

    def steady_state(self, channel: Channel) -> int | None:
        """See `Layout`."""
        now = files.scan(channel)
        if not now.lost and now.protected <= self.found.names and now.gits <= set(self.found.gits):
            return now.state
        self._found = protected.find(self.repo, self.patterns)
        return None

    def tracked_protected(self, channel: files.Calls) -> list[str]:
        """Protected files that git tracks: what was ever committed of them can be read from git's history."""
        return files.tracked(channel, self.found.names)

    def read_file(self, channel: files.Calls, path: str, start_line: int | None, end_line: int | None) -> FilePage:
        return files.read_file(channel, path, start_line, end_line)

    def list_dir(self, channel: files.Calls, path: str, depth: int, offset: int) -> Listing:
        return files.list_dir(channel, path, depth, offset)

    def fetch(self, channel: files.Calls, path: str) -> bytes:
        return files.fetch(channel, path)

    # The private copy

    def fill(self, channel: Channel, steps: Steps) -> str:
        """Copies the repository into both volumes, inside the container; returns what must be said of the copy.

        ToolError(too_large) over the limit.
        """
        return copying.fill(channel, self._plan(), steps)

    def upload(self, channel: Channel, steps: Steps) -> str:
        """The same from the host, for an engine that does not see the repository's path."""
        limit = self.settings.copy_limit
        notes = [self._upload_git(channel, limit, steps)] if GIT_VOLUME in self._folders else []
        upload(channel, repository_tree(self.repo, self.found), limit, steps)
        # Its size was checked; what the two sides count differs a little.
        notes.append(copying.fill(channel, replace(self._plan(), limit=2 * limit), steps))
        return "; ".join(filter(None, notes))

    def _upload_git(self, channel: Channel, limit: int, steps: Steps) -> str:
        """Sends the git directory that lies outside, or says why it was not sent."""
        assert self.git.common is not None  # noqa: S101 -- see `git_is_beside`
        texts, hooks = git.parts_beside(self.git)
        sent = HostTree(self.git.common, "it", texts, frozenset(hooks))
        try:
            upload(channel, sent, limit, steps, into=GIT_VOLUME)
        except ToolError as error:
            if error.kind is not ErrorKind.TOO_LARGE:
                raise
            self._git_left_out = True
            return (
                f"git does not work in this sandbox: its folder lies outside of the repository, and {error.sentence}"
            )
        self._folders |= self._git_folder()
        # Only now can the guest read what git knows.
        self.prepare(channel)
        return ""

    def _plan(self) -> Plan:
        gits = self.found.gits
        exclude = protected.compiled(self.settings.copy_exclude, "copy_exclude")
        replaced = git.replacements_in_copy(self.git, self.repo, gits)
        ours = git.COMMON.removeprefix(f"{BASELINE}/")
        texts, links = (
            {f"{ours}/{name}": what for name, what in things.items()}
            for things in git.common_folder(self.git, copy=True)
        )
        return Plan(self.settings.copy_limit, exclude, replaced, git.hooks(self.repo, gits), texts, links)

    def store(self, channel: files.Calls, changes: Sequence[FileChange]) -> None:
        copying.store(channel, changes)

    def diff(self, channel: files.Calls) -> Diff:
        return copying.diff(channel, git.object_format(self.git))

    def tree_hash(self, channel: files.Calls) -> str:
        return copying.tree_hash(channel)

    def sync_host_edit(self, channel: files.Calls, path: str) -> Edit:
        """Brings a file that the user has changed into the copy, unless the agent has changed it too (CONFLICT)."""
        change = copying.host_edit(self.repo, path)
        if change is None:
            return Edit.IGNORED
        state = copying.sync(channel, change)
        if state in (Edit.SYNCED, Edit.SAME):
            self._synchronised[path] = change
        return state
