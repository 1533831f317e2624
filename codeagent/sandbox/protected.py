"""Protected files: which they are, where they lie, and the mounts that make them empty for everything in a container.

A mask is a mount over the file or folder. What it cannot cover is in docs/security.md: the history that git keeps of
a file that was ever committed, a file that a command makes itself, a hard link that is made while a command runs.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from codeagent.errors import UsageError
from codeagent.sandbox.hardening import WORKSPACE, Mount

PATTERNS = (
    ".env",
    ".env.*",
    "!.env.example",
    "!.env.sample",
    "!.env.template",
    "!.env.dist",
    ".envrc",
    "*.pem",
    "*.key",
    "id_rsa*",
    "id_ed25519*",
    "*.p12",
    "*.pfx",
    "*.jks",
    ".netrc",
    ".npmrc",
    ".pypirc",
    ".aws/",
    ".ssh/",
    "**/.docker/config.json",
    "credentials.json",
)
"""In gitignore syntax, matched without regard to letter case, in every folder."""

MAX_ENTRIES = 5_000_000
SEARCH_SECONDS = 60.0
MAX_LINKS = 40
"""Links that lead to links; the kernel's own bound."""
MAX_LINKED_INSIDE = 1_000
"""A protected folder with more files of several names holds no secrets: it is an environment called `.env`, whose
packages an installer has linked from its cache into all others."""

Regex = tuple[str, bool]
"""A regular expression for a path from the root (folders end in a slash), and whether it protects or exempts."""


def regexes(extra: Sequence[str] = ()) -> tuple[Regex, ...]:
    """The built-in patterns and the user's, in order: the last that matches decides. UsageError for a bad one."""
    return (*compiled(PATTERNS, "protect"), *compiled(extra, "protect"))


def compiled(patterns: Sequence[str], setting: str) -> tuple[Regex, ...]:
    """Patterns in gitignore syntax as regular expressions. UsageError names the setting that holds a bad one."""
    from pathspec.patterns.gitignore import GitIgnorePatternError
    from pathspec.patterns.gitignore.spec import GitIgnoreSpecPattern

    found: list[Regex] = []
    for pattern in patterns:
        try:
            regex, matches = GitIgnoreSpecPattern.pattern_to_regex(pattern)
        except GitIgnorePatternError as error:
            raise UsageError(
                f"The pattern {pattern!r} under [sandbox] {setting} cannot be read: {error}.",
                "It takes the syntax of a .gitignore line.",
            ) from None
        if regex is not None and matches is not None:
            found.append((re.sub(r"\(\?P<\w+>", "(?:", str(regex)), matches))
    return tuple(found)


ANYWHERE = "^(?:.+/)?"
"""How a pattern begins that is about the last name of a path alone."""


def matcher(patterns: Sequence[Regex]) -> Callable[[str, bool], bool]:
    """Whether an entry itself is protected: `matches(path, is_folder)`. Its folders are asked about before it."""
    each = [(re.compile(regex, re.IGNORECASE), protects) for regex, protects in reversed(patterns)]
    by_name, by_path = _together([regex for regex, protects in patterns if protects])

    def matches(path: str, is_folder: bool) -> bool:
        text = path + "/" if is_folder else path
        # Nearly every entry is settled by one look at its name.
        if by_name.match(text[path.rfind("/") + 1 :]) is None and by_path.match(text) is None:
            return False
        return next((protects for regex, protects in each if regex.match(text)), False)

    return matches


def _together(regexes: Sequence[str]) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """All patterns as two expressions: those about a name (to be matched with it), and the others."""
    names = [regex.removeprefix(ANYWHERE) for regex in regexes if is_about_a_name(regex)]
    paths = [f"(?:{regex})" for regex in regexes if not is_about_a_name(regex)]
    return re.compile("|".join(names) or "(?!)", re.IGNORECASE), re.compile("|".join(paths) or "(?!)", re.IGNORECASE)


def is_about_a_name(regex: str) -> bool:
    """Whether a pattern's expression asks for nothing but the last name of a path (and that it is a folder)."""
    rest = regex.removeprefix(ANYWHERE)
    return rest != regex and "/" not in rest.replace("(?:(?:/)|$)", "").replace("(?:/)", "").replace("[^/]", "")


@dataclass(frozen=True, slots=True)
class Found:
    """What is to be masked, as paths relative to the repository, and what else a walk through it came upon.

    `links` are protected names that are links (what they lead to is among the others), `gits` the git directories
    inside, the repository's own `.git` among them, `unmaskable` protected things whose name is not text, which no
    engine can mount over. `complete` is false when the walk was cut short: there may be more.
    """

    files: tuple[str, ...] = ()
    folders: tuple[str, ...] = ()
    links: tuple[str, ...] = ()
    gits: tuple[str, ...] = ()
    unmaskable: tuple[str, ...] = ()
    complete: bool = True

    @property
    def masks(self) -> tuple[str, ...]:
        return (*self.files, *self.folders)

    @property
    def names(self) -> frozenset[str]:
        """Every protected name that was found."""
        return frozenset((*self.files, *self.folders, *self.links, *self.unmaskable))


def find(repo: Path, patterns: Sequence[Regex], seconds: float = SEARCH_SECONDS) -> Found:
    """Walks the repository on the host. Bounded by time and by number; links are not followed."""
    search = _Search(repo, matcher(patterns), time.monotonic() + seconds)
    search.walk()
    search.add_hard_links()
    return Found(
        files=tuple(sorted(search.files - search.unmaskable)),
        folders=tuple(sorted(search.folders - search.unmaskable)),
        links=tuple(sorted(search.links)),
        gits=tuple(sorted(search.gits)),
        unmaskable=tuple(sorted(search.unmaskable)),
        complete=search.complete,
    )


@dataclass(slots=True)
class _Search:
    repo: Path
    matches: Callable[[str, bool], bool]
    deadline: float
    files: set[str] = field(default_factory=set)
    folders: set[str] = field(default_factory=set)
    links: set[str] = field(default_factory=set)
    gits: set[str] = field(default_factory=set)
    unmaskable: set[str] = field(default_factory=set)
    linked: set[int] = field(default_factory=set)
    """Inodes of protected files that have more than one name."""
    complete: bool = True

    def walk(self) -> None:
        for entry, path in self._entries():
            is_folder = entry.is_dir(follow_symlinks=False)
            if entry.name == ".git":
                self.gits.add(path)
            # A pattern for folders means what a link leads to, too: `.ssh` is often one.
            elif self.matches(path, is_folder) or (entry.is_symlink() and self.matches(path, True)):
                self._protect(entry, path, is_folder)

    def add_hard_links(self) -> None:
        """Further names of a protected file are masked too."""
        for folder in list(self.folders):
            inside = {inode for entry, _ in self._entries(f"{folder}/") if (inode := _of_many_names(entry))}
            if len(inside) <= MAX_LINKED_INSIDE:
                self.linked |= inside
        if self.linked:
            for entry, path in self._entries():
                if entry.inode() in self.linked and entry.is_file(follow_symlinks=False):
                    self._add_file(path)

    def _entries(self, top: str = "") -> Iterator[tuple[os.DirEntry[str], str]]:
        """Everything below `top` but what lies in git directories and in protected folders further down."""
        waiting, seen = [top], 0
        while waiting:
            below = waiting.pop()
            try:
                with os.scandir(f"{self.repo}/{below}") as entries:
                    for entry in entries:
                        path = below + entry.name
                        yield entry, path
                        seen += 1
                        if entry.name != ".git" and path not in self.folders and entry.is_dir(follow_symlinks=False):
                            waiting.append(path + "/")
            except OSError:
                continue  # gone, or closed to this user: the owner's rights are all that the container has
            if seen > MAX_ENTRIES or time.monotonic() > self.deadline:
                self.complete = False
                return

    def _protect(self, entry: os.DirEntry[str], path: str, is_folder: bool) -> None:
        if is_folder:
            self._add_folder(path)
        elif entry.is_symlink():
            self.links.add(path)
            for target in {_on_the_host(self.repo, path), _in_the_container(self.repo, path)}:
                self._protect_target(target)
        elif entry.is_file(follow_symlinks=False):
            self._add_file(path)
            if inode := _of_many_names(entry):
                self.linked.add(inode)

    def _protect_target(self, inside: str) -> None:
        """A mount cannot stand on a link; what the link leads to is masked. What git has there is taken care of."""
        if not inside or ".git" in inside.split("/"):
            return
        target = self.repo / inside
        if target.is_dir():
            self._add_folder(inside)
        elif target.is_file():
            self._add_file(inside)
            if inode := _of_many_names(target):
                self.linked.add(inode)

    def _add_file(self, path: str) -> None:
        self.files.add(path)
        if not _is_text(path):
            self.unmaskable.add(path)

    def _add_folder(self, path: str) -> None:
        self.folders.add(path)
        if not _is_text(path):
            self.unmaskable.add(path)


def _of_many_names(file: os.DirEntry[str] | Path) -> int:
    """The inode of a file that has further names, else 0."""
    try:
        found = file.stat(follow_symlinks=False)
    except OSError:
        return 0  # gone meanwhile
    return found.st_ino if stat.S_ISREG(found.st_mode) and found.st_nlink > 1 else 0


def _on_the_host(repo: Path, path: str) -> str:
    """Where a link leads here, relative to the repository; empty when that is outside, or the repository itself."""
    top, target = Path(os.path.realpath(repo)), Path(os.path.realpath(repo / path))
    return target.relative_to(top).as_posix() if target != top and target.is_relative_to(top) else ""


def _in_the_container(repo: Path, path: str) -> str:
    """Where it leads with the repository at /workspace; the guest looks in the same way (see its `places`)."""
    waiting, here, links = path.split("/")[::-1], list[str](), 0
    while waiting:
        name = waiting.pop()
        if name == "..":
            if not here:
                return ""
            here.pop()
        elif name not in ("", "."):
            here.append(name)
            target = _link(repo / "/".join(here))
            if target is None:
                continue
            links += 1
            here.pop()
            if links > MAX_LINKS or (target.startswith("/") and not f"{target}/".startswith(f"{WORKSPACE}/")):
                return ""
            if target.startswith("/"):
                here, target = [], target[len(WORKSPACE) :]
            waiting += target.split("/")[::-1]
    return "/".join(here)


def _link(path: Path) -> str | None:
    try:
        return os.fspath(path.readlink())
    except OSError:
        return None


def _is_text(path: str) -> bool:
    try:
        path.encode("utf-8")
    except UnicodeEncodeError:
        return False
    return True


def mounts(found: Found, file: Path, folder: Path, top: str = WORKSPACE) -> list[Mount]:
    """An empty file over each file, an empty folder over each folder; both are seen by the engine.

    A tmpfs would not do: Podman copies what it covers into it.
    """
    covered = tuple(folder + "/" for folder in found.folders)
    files = [path for path in found.files if not path.startswith(covered)]
    folders = [path for path in found.folders if not path.startswith(covered)]
    return [
        *(Mount("bind", f"{top}/{path}", str(folder)) for path in folders),
        *(Mount("bind", f"{top}/{path}", str(file)) for path in files),
    ]
