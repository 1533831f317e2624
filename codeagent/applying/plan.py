"""What applying a diff would do to the real repository, worked out without writing anything."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from difflib import diff_bytes, unified_diff
from pathlib import Path

from codeagent.applying.merge import base_of, merged
from codeagent.applying.names import belongs_to_git, runs_elsewhere
from codeagent.beneath import NotBeneath, opened_parent, read_beneath, stat_beneath
from codeagent.patches import SYMLINK, FilePatch, PatchError, apply, is_blob, reverse, split_lines

MAX_FILE = 64 << 20

DELETED = "it was deleted since the copy was made"
CHANGED = "it was changed since the copy was made"
IN_THE_WAY = "there is a file of this name now"
OF_GIT = "git's own folder is never written"


@dataclass(frozen=True, slots=True)
class State:
    """What stands at a path: a file's content, or a link's target. `executable` is meaningless for a link."""

    content: bytes
    link: bool = False
    executable: bool = False


@dataclass(frozen=True, slots=True)
class Write:
    """One path's new state. `content` is None when it goes; `mode` is git's, None to keep what stands there; a
    link's content is its target. `before` is what must stand there until then; None: nothing may."""

    path: str
    content: bytes | None
    mode: int | None
    before: State | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """`conflicts` maps a path to why it cannot be written; with any, nothing is. `there` are the paths that are
    already as the diff makes them; into those in `merged` the change goes beside the user's."""

    writes: tuple[Write, ...]
    conflicts: dict[str, str]
    there: tuple[str, ...] = ()
    merged: frozenset[str] = frozenset()

    def merges(self) -> Iterator[bytes]:
        """For each file that a change was merged into: what will be written, as a diff to what stands there."""
        for write in self.writes:
            if write.path in self.merged and write.before is not None and write.content is not None:
                names = os.fsencode(f"{write.path} (as it is now)"), os.fsencode(f"{write.path} (merged)")
                sides = split_lines(write.before.content), split_lines(write.content)
                yield b"".join(diff_bytes(unified_diff, *sides, *names))

    @property
    def warnings(self) -> list[tuple[str, str]]:
        """What a person should look at twice: paths and why, in the order of the paths."""
        return [(write.path, why) for write in sorted(self.writes, key=lambda one: one.path) for why in _why(write)]


def _why(write: Write) -> Iterator[str]:
    if write.content is None:
        return
    if runs_elsewhere(write.path):
        yield "other programs execute or obey a file of this name"
    if is_link(write):
        target = os.fsdecode(write.content)
        if target.startswith("/") or _leads_out(write.path, target):
            yield f"a link that leads out of the repository, to {target}"
    elif write.mode is not None and write.mode & 0o111 and not (write.before and write.before.executable):
        yield "becomes executable"


def _leads_out(path: str, target: str) -> bool:
    depth = path.count("/")
    for part in target.split("/"):
        depth += -1 if part == ".." else part not in ("", ".")
        if depth < 0:
            return True
    return False


def is_link(write: Write) -> bool:
    return write.mode is not None and stat.S_IFMT(write.mode) == stat.S_IFMT(SYMLINK)


def plan(root: int, patches: Sequence[FilePatch], *, merge: bool = False, bases: Path | None = None) -> Plan:
    """Applies the patches, removals first, to the files below `root` in memory.

    A file that is not what it was when the copy was made is a conflict; `merge` puts the changes into what stands
    there now where they meet none of the user's. `bases` holds the files as they were (`merge.keep_bases`).
    """
    tree = _Tree(root)
    conflicts: dict[str, str] = {}
    there: list[str] = []
    made = {patch.new_path: patch for patch in patches}
    for patch in sorted(patches, key=lambda one: one.new_path is not None):  # what goes first makes way
        try:
            # What takes the place of a file, or of a folder of its path, tells whether it was removed.
            if any(_is_there(tree, made.get(path, patch)) for path in (*_in_place_of(patch, made), patch.path)):
                there.append(patch.path)
            else:
                _take(tree, patch, merge, bases)
        except PatchError as error:
            conflicts[patch.path] = str(error).removeprefix(f"{patch.path}: ")
        except OSError as error:
            conflicts[patch.path] = error.strerror or str(error)
    writes = tuple(tree.writes())
    merged_into = {one.path for one in patches if merge and _differs(tree.found.get(one.old_path or ""), one)}
    for path, why in tree.obstacles(writes).items():
        conflicts.setdefault(path, why)
    return Plan(writes, conflicts, tuple(dict.fromkeys(there)), frozenset(merged_into))


def _in_place_of(patch: FilePatch, made: Collection[str | None]) -> list[str]:
    return [folder for folder in _folders(patch.path) if folder in made] if patch.new_path is None else []


def _take(tree: _Tree, patch: FilePatch, merge: bool, bases: Path | None) -> None:
    """Enters one patch into the tree."""
    for path in patch.paths:
        if belongs_to_git(path):
            raise PatchError(f"{path}: {OF_GIT}")
    old, new_name = patch.old_path, patch.new_path
    before = tree.at(old) if old is not None else None
    if old is not None and before is None:
        raise PatchError(f"{old}: {DELETED}")
    if new_name not in (None, old) and tree.at(str(new_name)) is not None:
        raise PatchError(f"{new_name}: {IN_THE_WAY}")
    content = _new_content(patch, before, merge, bases)
    if old is not None and old != new_name and not patch.copied:
        tree.put(old, None)
    if new_name is not None:
        mode = patch.new_mode if patch.old_path is None or patch.new_mode != patch.old_mode else None
        if mode is None and before is not None and before.link:
            mode = SYMLINK
        kept = old != new_name and before is not None and before.executable
        tree.put(new_name, content, 0o100755 if mode is None and kept else mode)


def _is_there(tree: _Tree, patch: FilePatch) -> bool:
    """Whether what the patch makes is what stands there: as when it was applied before."""
    if patch.new_path is None:
        return patch.old_path is not None and tree.at(patch.old_path) is None and not tree.touched(patch.old_path)
    if patch.old_path not in (None, patch.new_path) and not patch.copied and tree.at(str(patch.old_path)) is not None:
        return False
    now = tree.at(patch.new_path)
    if now is None or tree.touched(patch.new_path):
        return False
    if patch.new_mode is not None and now.link != _is_link_mode(patch.new_mode):
        return False
    same_mode = patch.new_mode in (None, patch.old_mode) or now.link or now.executable == bool(patch.new_mode & 0o111)
    if patch.new_blob:
        return same_mode and is_blob(now.content, patch.new_blob)
    # Without the names of contents, only a patch without content can be known to be there: an empty file, a mode.
    if patch.hunks or patch.forward is not None or patch.old_path != patch.new_path:
        return patch.old_path is None and not patch.hunks and not now.content and same_mode
    return same_mode


def _new_content(patch: FilePatch, before: State | None, merge: bool, bases: Path | None) -> bytes | None:
    if before is not None and patch.old_mode is not None and before.link != _is_link_mode(patch.old_mode):
        raise PatchError(f"{patch.path}: it is {'a symbolic link' if before.link else 'no symbolic link'} now")
    current = before.content if before is not None else None
    if not _differs(before, patch):
        return apply(patch, current)
    if not merge:
        raise PatchError(f"{patch.path}: {CHANGED}")
    if patch.new_path is None or patch.forward is not None or current is None or (before and before.link):
        raise PatchError(f"{patch.path}: {CHANGED}, and cannot be merged")
    return _merged(patch, current, _base(patch, bases))


def _base(patch: FilePatch, bases: Path | None) -> bytes | None:
    """What the file was before the patch; for one that takes a change back, what that change had made of it."""
    if (kept := base_of(bases, patch.old_blob)) is not None:
        return kept
    original = base_of(bases, patch.new_blob)
    return None if original is None else apply(reverse(patch), original)


def _differs(before: State | None, patch: FilePatch) -> bool:
    return before is not None and bool(patch.old_blob) and not is_blob(before.content, patch.old_blob)


def _merged(patch: FilePatch, current: bytes, base: bytes | None) -> bytes | None:
    if base is None:  # lines that only moved can be found without it
        try:
            return apply(patch, current, anywhere=True)
        except PatchError as error:
            raise PatchError(f"{patch.path}: {CHANGED}, and {str(error).removeprefix(f'{patch.path}: ')}") from None
    found = merged(base, patch, current)
    if isinstance(found, int):
        raise PatchError(f"{patch.path}: {CHANGED}, and both changes meet (at line {found} of what it was then)")
    return found


def _is_link_mode(mode: int) -> bool:
    return stat.S_IFMT(mode) == stat.S_IFMT(SYMLINK)


@dataclass(slots=True)
class _Tree:
    """The files below `root` as they are, with what the patches have made of them so far."""

    root: int
    found: dict[str, State | None] = field(default_factory=dict)
    made: dict[str, tuple[bytes | None, int | None]] = field(default_factory=dict)

    def touched(self, path: str) -> bool:
        return path in self.made

    def at(self, path: str) -> State | None:
        if path in self.made:
            content, mode = self.made[path]
            if content is None:
                return None
            return State(content, mode is not None and _is_link_mode(mode), bool(mode and mode & 0o111))
        if path not in self.found:
            self.found[path] = None if self._under_removed(path) else standing(self.root, path)
        return self.found[path]

    def put(self, path: str, content: bytes | None, mode: int | None = None) -> None:
        self.at(path)  # what stood there first is what must stand there when it is written
        self.made[path] = content, mode

    def _under_removed(self, path: str) -> bool:
        """Whether a folder of the path was a file, which a patch has removed."""
        return any(self.made.get(folder, (b"", None))[0] is None for folder in _folders(path))

    def writes(self) -> Iterator[Write]:
        for path, (content, mode) in self.made.items():
            before = self.found[path]
            if content is not None or before is not None:
                yield Write(path, content, mode, before)

    # What no content tells

    def obstacles(self, writes: Sequence[Write]) -> dict[str, str]:
        """Paths that cannot be written because of what stands around them, each with the reason."""
        found = ((write.path, self._obstacle(write)) for write in writes)
        return {path: why for path, why in found if why}

    def _obstacle(self, write: Write) -> str:
        if any(self._is_gits(folder) for folder in ("", *_folders(write.path))):
            return OF_GIT
        if write.content is None:
            return ""
        if any(self._is_file(folder) for folder in _folders(write.path)):
            return "a file stands where its folder was"
        if is_folder(self.root, write.path) and any(map(self._stays, files_below(self.root, write.path))):
            return "there is a folder of this name now"
        return ""

    def _is_gits(self, folder: str) -> bool:
        """Whether git takes a folder for its own (setup.c, is_git_directory), once the patches are applied."""
        return all(self._exists(f"{folder}/{name}".lstrip("/")) for name in ("HEAD", "objects", "refs"))

    def _exists(self, path: str) -> bool:
        if any(
            name == path or name.startswith(f"{path}/") for name, (new, _) in self.made.items() if new is not None
        ):
            return True
        return _mode(self.root, path) is not None

    def _is_file(self, path: str) -> bool:
        mode = _mode(self.root, path)
        return mode is not None and not stat.S_ISDIR(mode) and self._stays(path)

    def _stays(self, path: str) -> bool:
        return self.made.get(path, (b"", None))[0] is not None


def _folders(path: str) -> list[str]:
    """The folders that a path runs through, the outermost first."""
    parts = path.split("/")[:-1]
    return ["/".join(parts[:end]) for end in range(1, len(parts) + 1)]


def standing(root: int, path: str) -> State | None:
    """What stands at a path below `root`; None for nothing, and for a folder, which git does not know.

    Raises NotBeneath for what is neither file nor link and for a path over a link, or another OSError.
    """
    if any(stat.S_ISREG(_mode(root, folder) or 0) for folder in _folders(path)):
        return None
    found = stat_beneath(root, path)
    if found is None or stat.S_ISDIR(found.st_mode):
        return None
    if stat.S_ISLNK(found.st_mode):
        with opened_parent(root, path) as (folder, name):
            return State(os.fsencode(os.readlink(name, dir_fd=folder)), link=True)
    content = read_beneath(root, path, MAX_FILE)
    return None if content is None else State(content, executable=bool(found.st_mode & 0o100))


def _mode(root: int, path: str) -> int | None:
    """The type and permissions of what stands at a path; None when there is nothing, or no way to it."""
    try:
        found = stat_beneath(root, path)
    except (NotBeneath, PermissionError):
        return None
    return None if found is None else found.st_mode


def is_folder(root: int, path: str) -> bool:
    return stat.S_ISDIR(_mode(root, path) or 0)


def files_below(root: int, path: str) -> Iterator[str]:
    """Everything in a folder, and in those beneath it, that is no folder itself."""
    with opened_parent(root, path) as (parent, name):
        folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=parent)
    try:
        with os.scandir(folder) as entries:
            names = [(entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries]
    finally:
        os.close(folder)
    for inner, deeper in names:
        if deeper:
            yield from files_below(root, f"{path}/{inner}")
        else:
            yield f"{path}/{inner}"
