"""The repository as the file operations see it: its root, its git directory, what is ignored and protected.

What is read from the tree for that (ignore files, the index) is kept as long as the file's stat stays the same.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from functools import partial
from threading import Lock

from guest import gitindex
from guest.gitindex import NOTHING, Tracked, read_below
from guest.ignore import MAX_IGNORE_FILE, Chain, Rules, ignored
from guest.places import FOLDER_FLAGS, decoded, locate
from guest.protection import Protection

Stamp = tuple[int, int, int, int, int]
NO_RULES = Rules(b"")
KEPT_RULES = 4_096


def stamp(found: os.stat_result) -> Stamp:
    """Changes whenever the file does, in all but contrived cases (ctime cannot be set back)."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


@dataclass(frozen=True, slots=True)
class Git:
    """Where git keeps its things. `prefix` is the root's own path in the work tree, `above` the ignore files
    of the folders above it (their path relative to the work tree, and their text)."""

    folder: int | None = None
    prefix: bytes = b""
    above: tuple[tuple[bytes, bytes], ...] = ()


@dataclass(slots=True)
class Tree:
    """One view of the repository. Used from several threads."""

    root: int
    git: Git = field(default_factory=Git)
    protection: Protection = field(default_factory=Protection)
    _rules: dict[Stamp, Rules] = field(default_factory=dict)
    _tracked: dict[bytes, tuple[Stamp, Tracked]] = field(default_factory=dict)
    _parsing: Lock = field(default_factory=Lock)

    def ignored(self, path: bytes, is_folder: bool) -> bool:
        """Whether git ignores this entry: it or a folder above it matches, and it is not tracked."""
        walk = Level.of_root(self)
        names = path.split(b"/")
        try:
            for depth, name in enumerate(names):
                last = depth == len(names) - 1
                if walk.ignores(name, not last or is_folder) and not walk.is_tracked(name, not last or is_folder):
                    return True
                if not last:
                    walk = walk.enter(name)
        except OSError:
            return False
        finally:
            walk.close()
        return False

    def tracks(self, path: bytes) -> bool:
        """Whether git tracks this file."""
        *folders, name = path.split(b"/")
        level = Level.of_root(self)
        try:
            for folder in folders:
                level = level.enter(folder)
            return level.is_tracked(name, False)
        except OSError:
            return False
        finally:
            level.close()

    def rules_in(self, folder: int, name: bytes = b".gitignore") -> Rules:
        """The rules of an ignore file below `folder`; git does not follow a link in its place."""
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except OSError:
            return NO_RULES
        if not stat.S_ISREG(found.st_mode) or not found.st_size:
            return NO_RULES
        key = stamp(found)
        rules = self._rules.get(key)
        if rules is None:
            if len(self._rules) >= KEPT_RULES:
                self._rules.clear()
            rules = Rules(read_below(folder, name, MAX_IGNORE_FILE) or b"")
            self._rules[key] = rules
        return rules

    def tracked_by(self, git_folder: int, key: bytes) -> Tracked:
        """What the index in `git_folder` lists; nothing when there is none or it cannot be read."""
        try:
            now = stamp(os.stat(b"index", dir_fd=git_folder, follow_symlinks=False))
        except OSError:
            return NOTHING
        with self._parsing:
            kept = self._tracked.get(key)
            if kept is not None and kept[0] == now:
                return kept[1]
            tracked = _read_index(git_folder)
            self._tracked[key] = (now, tracked)
            return tracked

    def git_folder(self, folder: int, path: bytes) -> int | None:
        """A descriptor of the git directory of the work tree whose top is `folder`, when there is one."""
        if path == b"" and self.git.folder is not None:
            return os.dup(self.git.folder)
        try:
            return os.open(b".git", FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=folder)
        except NotADirectoryError:
            return self._by_git_file(folder, path)
        except OSError:
            return None

    def _by_git_file(self, folder: int, path: bytes) -> int | None:
        text = read_below(folder, b".git", 4096) or b""
        match = re.match(rb"gitdir: (.+?)\s*\Z", text, re.DOTALL)
        if match is None:
            return None
        target = match[1] if match[1].startswith(b"/") else b"/".join(filter(None, [path, match[1]]))
        try:
            with locate(self.root, decoded(target)) as place:
                return os.open(place.name, FOLDER_FLAGS, dir_fd=place.folder) if place.is_folder else None
        except Exception:  # a git file may hold anything; then there is no index to go by
            return None


def _read_index(git_folder: int) -> Tracked:
    content = read_below(git_folder, b"index")
    if content is None:
        return NOTHING
    base = gitindex.shared_name(content)
    shared = read_below(git_folder, base) if base else None
    try:
        return gitindex.parse(content, shared or b"")
    except gitindex.BadIndex:
        return NOTHING


class Level:
    """One folder on the way down, with the ignore rules that hold in it.

    `top` is the path of the work tree that it belongs to: a repository inside the repository has rules and an
    index of its own. The descriptor belongs to the level; `enter` gives up the one it is called on.
    """

    __slots__ = ("_index", "chain", "fd", "only_tracked", "outer", "path", "top", "tree")

    def __init__(self, tree: Tree, fd: int, path: bytes, top: bytes, chain: Chain, index: partial[Tracked]) -> None:
        self.tree = tree
        self.fd = fd
        self.path = path
        self.top = top
        self.chain = chain
        self._index = index
        self.outer: Chain = ()
        """At the top of a work tree: the rules that do not come from files in it."""
        self.only_tracked = False
        """The folder is ignored and yet holds tracked files: whatever else is in it, git ignores."""

    @classmethod
    def of_root(cls, tree: Tree) -> Level:
        fd = os.open(b".", FOLDER_FLAGS, dir_fd=tree.root)
        return cls.of_top(tree, fd, b"")

    @classmethod
    def of_top(cls, tree: Tree, fd: int, path: bytes) -> Level:
        """The top of a work tree."""
        top = path + b"/" if path else b""
        prefix = tree.git.prefix if not path else b""
        above = [(base, Rules(text)) for base, text in tree.git.above] if not path else []
        git_folder = tree.git_folder(fd, path)
        exclude = NO_RULES
        if git_folder is not None:
            exclude = _excludes(tree, git_folder)
            os.close(git_folder)
        outer = [(base, rules) for base, rules in [*above, (b"", exclude)] if rules]
        own = tree.rules_in(fd)
        level = cls(tree, fd, path, top, [(prefix, own), *outer] if own else outer, partial(_tracked, tree, path))
        level.outer = outer
        return level

    def below(self, name: bytes) -> Level:
        """The level of a folder here; this one stays open. Raises OSError."""
        fd = os.open(name, FOLDER_FLAGS | os.O_NOFOLLOW, dir_fd=self.fd)
        path = self.path + b"/" + name if self.path else name
        if _has_git(fd):
            return Level.of_top(self.tree, fd, path)
        rules = self.tree.rules_in(fd)
        chain = [(self.in_work_tree(name) + b"/", rules), *self.chain] if rules else self.chain
        level = Level(self.tree, fd, path, self.top, chain, self._index)
        level.only_tracked = self.only_tracked or self.ignores(name, True)
        return level

    def enter(self, name: bytes) -> Level:
        """The level of a folder here, in place of this one. Raises OSError (and leaves this one open)."""
        below = self.below(name)
        self.close()
        return below

    def close(self) -> None:
        os.close(self.fd)

    def in_work_tree(self, name: bytes) -> bytes:
        """The path of an entry here, relative to its work tree."""
        path = self.path + b"/" + name if self.path else name
        return self.tree.git.prefix + path if not self.top else path[len(self.top) :]

    def ignores(self, name: bytes, is_folder: bool) -> bool:
        """Whether the rules match this entry, tracked or not."""
        return self.only_tracked or (bool(self.chain) and ignored(self.chain, self.in_work_tree(name), is_folder))

    def is_tracked(self, name: bytes, is_folder: bool) -> bool:
        """Whether the entry is tracked, or a folder that holds something tracked."""
        tracked = self._index()
        return self.in_work_tree(name) in (tracked.folders if is_folder else tracked.files)


def _has_git(fd: int) -> bool:
    try:
        os.stat(b".git", dir_fd=fd, follow_symlinks=False)
    except OSError:
        return False
    return True


def _excludes(tree: Tree, git_folder: int) -> Rules:
    """`info/exclude`; a linked worktree has it in the common directory."""
    folder = git_folder
    common = read_below(git_folder, b"commondir", 4096)
    try:
        if common:
            folder = os.open(common.strip(), FOLDER_FLAGS, dir_fd=git_folder)
        info = os.open(b"info", FOLDER_FLAGS, dir_fd=folder)
    except OSError:
        return NO_RULES
    finally:
        if folder != git_folder:
            os.close(folder)
    try:
        return tree.rules_in(info, b"exclude")
    finally:
        os.close(info)


def _tracked(tree: Tree, path: bytes) -> Tracked:
    """The index of the work tree whose top is `path`."""
    try:
        with locate(tree.root, decoded(path) or ".") as place:
            top = os.open(place.name, FOLDER_FLAGS, dir_fd=place.folder)
    except Exception:  # the folder went away meanwhile
        return NOTHING
    try:
        git_folder = tree.git_folder(top, path)
    finally:
        os.close(top)
    if git_folder is None:
        return NOTHING
    try:
        return tree.tracked_by(git_folder, path)
    finally:
        os.close(git_folder)
