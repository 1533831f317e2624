"""How git works in a container without ever seeing the repository's own configuration.

A repository's configuration can name programs that even reading commands run (filters, textconv, fsmonitor, gpg, a
promisor remote's transport; git-config(1)). So a generated file, which can name none, stands in the place of every
one that git would read, hooks are masked, and git is told where the repository is instead of looking for it. git
is never run on the host.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codeagent.sandbox.generated import empty_folder, written
from codeagent.sandbox.hardening import WORKSPACE, Mount

BESIDE = "/workspace.git"
"""Where a git directory that lies outside of the repository's mount is seen, read-only."""
MAX_CONFIG = 1 << 20
MAX_MODULES = 1_000

_BOOLEAN = r"(?i:true|false|yes|no|on|off|0|1|)"
_NAME = r"[A-Za-z0-9_][A-Za-z0-9_./+@-]{0,200}"
_KEPT: Sequence[tuple[str, str]] = (
    (r"core\.repositoryformatversion", r"[01]"),
    (r"core\.(bare|filemode|ignorecase|symlinks|precomposeunicode|sparsecheckout|sparsecheckoutcone)", _BOOLEAN),
    (r"core\.autocrlf", rf"{_BOOLEAN}|(?i:input)"),
    (r"core\.eol", r"(?i:lf|crlf|native)"),
    (r"extensions\.objectformat", r"(?i:sha1|sha256)"),
    (r"extensions\.refstorage", r"(?i:files|reftable)"),
    (rf"branch\.{_NAME}\.remote", _NAME + r"|\."),
    (rf"branch\.{_NAME}\.merge", rf"refs/heads/{_NAME}"),
    (rf"remote\.{_NAME}\.fetch", rf"\+?refs/{_NAME}(/\*)?:refs/{_NAME}(/\*)?"),
)
"""What is carried over: facts about the repository, each with the values it may have. None names a program."""
_MODULE_WORK_TREE = (r"core\.worktree", r"(\.\./)+[A-Za-z0-9_./+@ -]{1,300}")

_WORK_TREE = ("core", "worktree")
_SECTION = re.compile(r'\[\s*([A-Za-z0-9.-]+)\s*(?:"((?:[^"\\]|\\.)*)")?\s*\]')
_VARIABLE = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*(.*))?$")


@dataclass(frozen=True, slots=True)
class Repository:
    """Where git keeps a repository's things, as host paths. All None when it is not under git.

    `folder` is the git directory of this work tree, `common` the one that it shares with linked worktrees, `prefix`
    the path of what is mounted below the top of the work tree (empty, or ending in a slash).
    """

    top: Path | None = None
    folder: Path | None = None
    common: Path | None = None
    prefix: str = ""

    @property
    def inside(self) -> bool:
        """Whether the git directory comes with the mount."""
        return self.folder is not None and self.folder == self.common and self.folder == _own(self.top, self.prefix)


def _own(top: Path | None, prefix: str) -> Path | None:
    return top / ".git" if top is not None and not prefix else None


def find(repo: Path) -> Repository:
    """Looks upward from `repo` for a `.git`, as git does; reads two small files at most."""
    for top in (repo, *repo.parents):
        entry = top / ".git"
        if not os.path.lexists(entry):
            continue
        folder = _git_folder(entry)
        common = _common(folder) if folder else None
        if folder is None or common is None or not folder.is_relative_to(common):
            return Repository()
        prefix = "" if top == repo else f"{repo.relative_to(top).as_posix()}/"
        return Repository(top, folder, common, prefix)
    return Repository()


def _git_folder(entry: Path) -> Path | None:
    """The directory that a `.git` is or points to.

    A directory elsewhere must name this work tree as its own: otherwise a repository could have any other one of the
    user's mounted beside it.
    """
    if entry.is_dir() and not entry.is_symlink():
        return entry if (entry / "HEAD").exists() else None
    match = re.fullmatch(r"gitdir: (.+?)\s*", _read(entry, 4096), re.DOTALL) if not entry.is_symlink() else None
    if match is None:
        return None
    folder = Path(os.path.normpath(entry.parent / match[1]))
    return folder if (folder / "HEAD").exists() and _belongs(folder, entry) else None


def _belongs(folder: Path, entry: Path) -> bool:
    back = _read(folder / "gitdir", 4096).strip()  # a linked worktree's
    if back and (folder / back).resolve() == entry.resolve():
        return True
    trees = [
        value for section, _, name, value in _variables(_read(folder / "config")) if (section, name) == _WORK_TREE
    ]
    return bool(trees) and (folder / trees[-1]).resolve() == entry.parent.resolve()


def _common(folder: Path) -> Path:
    text = _read(folder / "commondir", 4096).strip()
    return Path(os.path.normpath(folder / text)) if text else folder


def _read(path: Path, limit: int = MAX_CONFIG) -> str:
    try:
        with path.open("rb") as file:
            return os.fsdecode(file.read(limit))
    except OSError:
        return ""


# --- what git may know -----------------------------------------------------------------------------------


def sanitised(config: str, *, module: bool = False, bare: bool | None = None, copy: bool = False) -> str:
    """A configuration with the facts of `config` that cannot name a program, and nothing else.

    `module` keeps a submodule's work tree, `bare` overrides what the file says, `copy` is for a copied tree.
    """
    kept = (*_KEPT, _MODULE_WORK_TREE) if module else _KEPT
    lines = ["# Generated by codeagent: the repository's own configuration is not used in the sandbox."]
    for section, subsection, name, value in _variables(config):
        key = ".".join(filter(None, [section, subsection, name]))
        if any(re.fullmatch(pattern, key) and re.fullmatch(allowed, value) for pattern, allowed in kept):
            heading = f'[{section} "{subsection}"]' if subsection else f"[{section}]"
            lines += [heading, f"\t{name} = {value}"]
    if bare is not None:
        lines += ["[core]", f"\tbare = {str(bare).lower()}"]
    if copy:  # inode and ctime of a copied file are not those in the index
        lines += ["[core]", "\tcheckStat = minimal", "\ttrustctime = false"]
    return "\n".join(lines) + "\n"


def _variables(config: str) -> Iterator[tuple[str, str, str, str]]:
    """(section, subsection, name, value) for every variable; what cannot be read is left out."""
    section = subsection = ""
    for line in config.replace("\\\r\n", "").replace("\\\n", "").splitlines():
        line = line.strip()
        if match := _SECTION.match(line):
            section, subsection = match[1].lower(), re.sub(r"\\(.)", r"\1", match[2] or "")
            line = line[match.end() :].strip()
        if match := _VARIABLE.match(line):
            yield section, subsection, match[1].lower(), "true" if match[2] is None else _value(match[2])


def _value(text: str) -> str:
    return re.sub(r"\s*[#;].*$", "", text).strip().strip('"')


def object_format(repository: Repository) -> str:
    """`sha1` or `sha256`."""
    config = _read(repository.common / "config") if repository.common else ""
    found = {(section, name): value for section, _, name, value in _variables(config)}
    return "sha256" if found.get(("extensions", "objectformat"), "").lower() == "sha256" else "sha1"


# --- what a container sees -------------------------------------------------------------------------------


def replacements(repository: Repository, repo: Path, gits: Iterable[str], *, copy: bool = False) -> dict[str, str]:
    """Files below the mount that git would read as configuration, and the text that stands in for each.

    `gits` are the `.git` entries found inside, relative to `repo`; submodules' own ones among them.
    """
    texts: dict[str, str] = {}
    if repository.folder is not None and not repository.prefix and not repository.inside:
        texts[".git"] = f"gitdir: {beside(repository)}\n"
    for entry in gits:
        folder = repo / entry
        if folder.is_dir() and not folder.is_symlink():
            for path in _configs(folder):
                inside = path.relative_to(repo).as_posix()
                texts[inside] = sanitised(_read(path), module=path.parent != folder, copy=copy)
    return texts


def _configs(folder: Path) -> Iterator[Path]:
    """The configuration files in a git directory: its own, per-worktree ones, those of its submodules."""
    waiting, seen = [folder], 0
    while waiting and seen < MAX_MODULES:
        here = waiting.pop()
        seen += 1
        for name in ("config", "config.worktree"):
            if (here / name).is_file() and not (here / name).is_symlink():
                yield here / name
        if here == folder and (here / "worktrees").is_dir():
            waiting += [path for path in (here / "worktrees").iterdir() if path.is_dir()]
        if (here / "modules").is_dir():
            # A submodule's name may hold slashes: its git directory lies as deep.
            waiting += [path.parent for path in (here / "modules").rglob("HEAD") if (path.parent / "config").exists()]


def hooks(repo: Path, gits: Iterable[str]) -> list[str]:
    """The hooks folders of the git directories inside, relative to `repo`."""
    found: list[str] = []
    for entry in gits:
        folder = repo / entry
        if folder.is_dir() and not folder.is_symlink():
            found += [
                path.parent.joinpath("hooks").relative_to(repo).as_posix()
                for path in _configs(folder)
                if path.parent.joinpath("hooks").is_dir() and not path.parent.joinpath("hooks").is_symlink()
            ]
    return sorted(set(found))


def mounts_inside(texts: Mapping[str, str], hooks: Iterable[str], generated: Path) -> list[Mount]:
    """The replacements, written below `generated` (a folder that the engine sees), as mounts over the originals."""
    files = [
        Mount("bind", f"{WORKSPACE}/{path}", str(written(generated, text))) for path, text in sorted(texts.items())
    ]
    empty = str(empty_folder(generated))
    return [*(Mount("bind", f"{WORKSPACE}/{path}", empty) for path in hooks), *files]


def mounts_beside(repository: Repository, generated: Path) -> list[Mount]:
    """The git directory that lies outside of the mount, with a configuration of ours; none when there is none."""
    if repository.common is None or repository.inside:
        return []
    texts, hooks = parts_beside(repository)
    return [
        Mount("bind", BESIDE, str(repository.common)),
        *(Mount("bind", f"{BESIDE}/{path}", str(written(generated, text))) for path, text in texts.items()),
        *(Mount("bind", f"{BESIDE}/{path}", str(empty_folder(generated))) for path in hooks),
    ]


def parts_beside(repository: Repository) -> tuple[dict[str, str], list[str]]:
    """Of a git directory that lies outside of the mount: texts in place of its configurations, and hooks folders."""
    common = repository.common
    if common is None:
        return {}, []
    # Without its work tree there is nothing that git could compare the index with.
    bare = True if repository.prefix else None
    texts: dict[str, str] = {}
    hooks: list[str] = []
    for path in _configs(common):
        own = path.parent == common
        texts[path.relative_to(common).as_posix()] = sanitised(
            _read(path), module=not own, bare=bare if own else None
        )
        if (folder := path.parent / "hooks").is_dir() and not folder.is_symlink():
            hooks.append(folder.relative_to(common).as_posix())
    return texts, sorted(set(hooks))


def beside(repository: Repository) -> str:
    if repository.folder is None or repository.common is None or repository.folder == repository.common:
        return BESIDE
    return f"{BESIDE}/{repository.folder.relative_to(repository.common).as_posix()}"


def environment(repository: Repository, *, writable: bool) -> dict[str, str]:
    """Where git finds the repository. Told outright, it neither looks for one nor asks who owns it.

    A command that may write finds the copy's own `.git` by looking, so that programs under test can have
    repositories of their own.
    """
    if repository.prefix:
        return {"GIT_DIR": beside(repository)}
    if repository.folder is not None and not repository.inside:
        return {"GIT_DIR": beside(repository), "GIT_COMMON_DIR": BESIDE, "GIT_WORK_TREE": WORKSPACE}
    return {} if writable else {"GIT_DIR": f"{WORKSPACE}/.git", "GIT_WORK_TREE": WORKSPACE}


def ignore_files_above(repository: Repository) -> list[tuple[str, str]]:
    """(folder, text) of the ignore files between a mounted sub-folder and the top of its work tree, nearest first."""
    if repository.top is None or not repository.prefix:
        return []
    names = repository.prefix.rstrip("/").split("/")
    found: list[tuple[str, str]] = []
    for depth in range(len(names) - 1, -1, -1):
        folder = "".join(f"{name}/" for name in names[:depth])
        path = repository.top / folder / ".gitignore"
        if path.is_file() and not path.is_symlink():
            found.append((folder, _read(path)))
    return found
