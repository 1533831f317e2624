"""How git works in a container without ever seeing the repository's own configuration.

A repository's configuration can name programs that even reading commands run (filters, textconv, fsmonitor, gpg, a
promisor remote's transport; git-config(1)), and there are many ways to lead git to one. So commands that only read
are told where the configuration is: `GIT_COMMON_DIR` names a folder of ours, out of the repository's reach, with a
generated configuration that can name no program, and links to the objects and references. Whatever `.git` is or
becomes, it is data. The one way to another configuration is that git starts itself in a submodule, without these
variables; it finds itself by `GIT_EXEC_PATH`, where a program of ours lies that answers nothing there.

Commands that may write find repositories by looking, so that programs under test can have their own. In a private
copy no git directory keeps its configuration. git is never run on the host.
"""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from codeagent.sandbox.generated import empty_folder, written, written_folder
from codeagent.sandbox.hardening import WORKSPACE, Mount

BESIDE = "/workspace.git"
"""Where a git directory that lies outside of the repository's mount is seen, read-only."""
COMMON = "/codeagent-baseline/git"
"""Where git finds what all work trees of a repository share: links to it, and a configuration of ours."""
NOWHERE = "/codeagent-nowhere"
MAX_CONFIG = 1 << 20

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

_GIT_DIRECTORY = re.compile(r"\.(git|bare)(/(worktrees/[^/]+/)?modules/.+)?$")
"""What git directories are called: `.git`, `NAME.git`, `.bare`, and a submodule's below `modules` in one."""
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
    """Looks upward from `repo` for a `.git`, as git does; reads four small files at most."""
    for top in (repo, *repo.parents):
        entry = top / ".git"
        if os.path.lexists(entry):
            prefix = "" if top == repo else f"{repo.relative_to(top).as_posix()}/"
            try:
                return _at(entry, prefix, repo)
            except ValueError:  # what should be a path holds a null byte
                return Repository()
    return Repository()


def _at(entry: Path, prefix: str, repo: Path) -> Repository:
    """The repository of a `.git`; none where it leads to what is not to be seen.

    A directory elsewhere must name this work tree as its own: otherwise a repository could have any other one of the
    user's mounted beside it.
    """
    folder = entry if _is_folder(entry) else _target(entry)
    if folder is None or not os.path.lexists(folder / "HEAD"):
        return Repository()
    if folder != entry:
        folder = folder.resolve()
        if not _belongs(folder, entry):
            return Repository()
    common = _common(folder)
    if common is None:
        return Repository()
    found = Repository(entry.parent, folder, common, prefix)
    return found if found.inside or _may_be_beside(common, entry, repo) else Repository()


def _may_be_beside(common: Path, entry: Path, repo: Path) -> bool:
    """Whether it is a git directory that may be mounted beside `repo`: neither around it nor in its work tree.

    An archive can plant the few names by which git knows one in any folder: then that is a folder of the user's, or
    the repository itself, whose masks do not hold there.
    """
    here, there = common.resolve(), repo.resolve()
    return (
        _GIT_DIRECTORY.search(here.as_posix()) is not None
        and all(_is_folder(here / name) for name in ("objects", "refs"))
        and all(map(_can_be_masked, (here, *_folders(here / "worktrees"))))
        and (common == entry or not here.is_relative_to(entry.parent.resolve()))
        and not there.is_relative_to(here)
        and here.stat().st_uid in {there.stat().st_uid, os.getuid(), 0}
    )


def _can_be_masked(folder: Path) -> bool:
    """Whether what lies in it can be listed, and has names that an engine can mount over."""
    try:
        "".join(path.name for path in folder.iterdir()).encode()
    except (OSError, UnicodeEncodeError):
        return False
    return True


def _target(entry: Path) -> Path | None:
    """What a `.git` file points to."""
    match = re.fullmatch(r"gitdir: (.+?)\s*", _read(entry, 4096), re.DOTALL) if not entry.is_symlink() else None
    return Path(os.path.normpath(entry.parent / match[1])) if match else None


def _belongs(folder: Path, entry: Path) -> bool:
    back = _read(folder / "gitdir", 4096).strip()  # a linked worktree's
    if back and os.path.realpath(folder / back) == os.path.realpath(entry):
        return True
    trees = [
        value for section, _, name, value in _variables(_read(folder / "config")) if (section, name) == _WORK_TREE
    ]
    return bool(trees) and os.path.realpath(folder / trees[-1]) == os.path.realpath(entry.parent)


def _common(folder: Path) -> Path | None:
    """The directory that a git directory shares with others: only a linked work tree's lies in one, and is no `.git`.

    It is mounted as well. What a repository made up could name any folder above, the user's home among them.
    """
    text = _read(folder / "commondir", 4096).strip()
    if not text:
        return folder
    common = Path(os.path.normpath(folder / text))
    is_one = os.path.lexists(common / "HEAD") and folder.parent == common / "worktrees"
    return common if is_one and folder.name != ".git" else None


def _read(path: Path, limit: int = MAX_CONFIG) -> str:
    try:
        if not path.is_file():  # a FIFO would hold us
            return ""
        with path.open("rb") as file:
            return os.fsdecode(file.read(limit))
    except OSError:
        return ""


# --- what git may know -----------------------------------------------------------------------------------


def sanitised(config: str, *, module: bool = False, copy: bool = False) -> str:
    """A configuration with the facts of `config` that cannot name a program, and nothing else.

    `module` keeps a submodule's work tree, `copy` is for a copied tree.
    """
    kept = (*_KEPT, _MODULE_WORK_TREE) if module else _KEPT
    lines = ["# Generated by codeagent: the repository's own configuration is not used in the sandbox."]
    for section, subsection, name, value in _variables(config):
        key = ".".join(filter(None, [section, subsection, name]))
        if any(re.fullmatch(pattern, key) and re.fullmatch(allowed, value) for pattern, allowed in kept):
            heading = f'[{section} "{subsection}"]' if subsection else f"[{section}]"
            lines += [heading, f"\t{name} = {value}"]
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


SHARED = ("HEAD", "objects", "refs", "packed-refs", "reftable", "logs", "info", "shallow", "worktrees")
_GITS_OWN = re.compile(
    rf"({'|'.join(SHARED)}|index|sharedindex\.\w+|config(\.worktree)?|hooks|commondir|gitdir|locked|description|branches"
    r"|[A-Z_]*_HEAD|AUTO_MERGE|(COMMIT_EDIT|MERGE_|SQUASH_|TAG_EDIT)MSG|MERGE_(MODE|RR|AUTOSTASH)|BISECT_[A-Z_]+"
    r"|rebase-(merge|apply)|sequencer|rr-cache|gc\.(pid|log))(\.lock)?"
)
"""Names in a git directory. What is called otherwise there is not git's, or not needed: submodules, large files."""
_ITSELF = f"""\
#!/bin/sh
# git starts itself by this program. In a submodule, whose configuration is its own, it has taken this variable away.
[ "$GIT_COMMON_DIR" = {COMMON} ] || exit 0
PATH=${{PATH#"${{0%/*}}":}} exec git "$@"
"""


def common_folder(repository: Repository, *, copy: bool = False) -> tuple[dict[str, str], dict[str, str]]:
    """What lies at COMMON, by path: texts, and the targets of links."""
    config = sanitised(_read(repository.common / "config") if repository.common else "", copy=copy)
    there = f"{WORKSPACE}/.git" if repository.folder is None or repository.inside else BESIDE
    return {"config": config, "exec/git": _ITSELF}, {name: f"{there}/{name}" for name in SHARED}


def mount_common(repository: Repository, generated: Path) -> Mount:
    return Mount("bind", COMMON, str(written_folder(generated, *common_folder(repository))))


def replacements(repository: Repository, repo: Path, gits: Iterable[str]) -> dict[str, str]:
    """Configurations below the mount, and the text that stands in for each, so that nobody reads tokens in them.

    `gits` are the `.git` entries found inside, relative to `repo`; submodules' own ones among them.
    """
    texts: dict[str, str] = {}
    if repository.folder is not None and not repository.prefix and not repository.inside:
        texts[".git"] = f"gitdir: {beside(repository)}\n"
    for entry in gits:
        for path in _configs(repo / entry):
            texts[path.relative_to(repo).as_posix()] = sanitised(_read(path), module=path.parent != repo / entry)
    return texts


def replacements_in_copy(repository: Repository, repo: Path, gits: Sequence[str]) -> dict[str, str]:
    """The same for a private copy, in which git looks for repositories: it finds no other configuration there.

    What leads git to a directory that is not known, and so not replaced, leads nowhere.
    """
    texts = replacements(repository, repo, gits)
    directories = {path: repo / entry for entry in gits for path in _directories(repo / entry)}
    for path, top in directories.items():
        inside = path.relative_to(repo).as_posix()
        for name in ("config", "config.worktree"):
            if os.path.lexists(path / name):
                texts[f"{inside}/{name}"] = sanitised(_read(path / name), module=path != top, copy=True)
        if os.path.lexists(path / "commondir"):
            texts[f"{inside}/commondir"] = "../..\n" if path.parent == top / "worktrees" else ".\n"
    for entry in gits:
        if entry not in texts and repo / entry not in directories and _target(repo / entry) not in directories:
            texts[entry] = f"gitdir: {NOWHERE}\n"
    return texts


def _directories(folder: Path) -> Iterator[Path]:
    """A git directory, those of its linked work trees, and those of its submodules; no links are followed."""
    waiting = [(folder, True)] if _is_folder(folder) else []
    while waiting:
        here, is_git = waiting.pop()
        if is_git:
            yield here
            waiting += [(path, True) for path in _folders(here / "worktrees")]
            here /= "modules"
        # A submodule's name may hold slashes: its git directory lies as deep.
        waiting += [(path, os.path.lexists(path / "HEAD")) for path in _folders(here)]


def _folders(folder: Path) -> list[Path]:
    return [path for path in _listed(folder) if _is_folder(path)] if _is_folder(folder) else []


def _listed(folder: Path) -> list[Path]:
    try:
        return sorted(folder.iterdir())
    except OSError:
        return []  # gone, or closed to us, and so to the container


def _is_folder(path: Path) -> bool:
    return _kind(path) == stat.S_IFDIR


def _kind(path: Path) -> int:
    """What it is itself, links not followed; 0 where nothing can be seen."""
    try:
        return stat.S_IFMT(path.lstat().st_mode)
    except OSError:
        return 0


def _configs(folder: Path) -> Iterator[Path]:
    """The configuration files in a git directory: its own, per-worktree ones, those of its submodules."""
    for here in _directories(folder):
        for name in ("config", "config.worktree"):
            if _kind(here / name) == stat.S_IFREG:
                yield here / name


def hooks(repo: Path, gits: Iterable[str]) -> list[str]:
    """The hooks folders of the git directories inside, relative to `repo`."""
    found = (path / "hooks" for entry in gits for path in _directories(repo / entry))
    return sorted(path.relative_to(repo).as_posix() for path in found if _is_folder(path))


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
    texts, folders = parts_beside(repository)
    return [
        Mount("bind", BESIDE, str(repository.common)),
        *(Mount("bind", f"{BESIDE}/{path}", str(written(generated, text))) for path, text in texts.items()),
        *(Mount("bind", f"{BESIDE}/{path}", str(empty_folder(generated))) for path in folders),
    ]


def parts_beside(repository: Repository) -> tuple[dict[str, str], list[str]]:
    """Of a git directory that lies outside of the mount, what is not seen as it is.

    Texts in place of its configurations and of files that are not git's, and folders that are empty: hooks and what
    is not git's.
    """
    common = repository.common
    if common is None:
        return {}, []
    texts: dict[str, str] = {}
    folders: list[str] = []
    waiting = [common, *_folders(common / "worktrees")]
    for path in (path for here in waiting for path in _listed(here)):
        inside, kind = path.relative_to(common).as_posix(), _kind(path)
        if path.name in ("config", "config.worktree") and kind == stat.S_IFREG:
            texts[inside] = sanitised(_read(path))
        elif path.name == "hooks" or not _GITS_OWN.fullmatch(path.name):
            if kind == stat.S_IFDIR:
                folders.append(inside)
            elif kind not in (stat.S_IFLNK, 0):  # where a link leads is looked at there
                texts[inside] = ""
    return texts, folders


def beside(repository: Repository) -> str:
    if repository.folder is None or repository.common is None or repository.folder == repository.common:
        return BESIDE
    return f"{BESIDE}/{repository.folder.relative_to(repository.common).as_posix()}"


def environment(repository: Repository) -> dict[str, str]:
    """Where git finds a repository that does not come with the mount; any other it finds by looking."""
    if repository.folder is None or repository.inside:
        return {}
    # Without its work tree there is nothing that git could compare the index with.
    tree = {"GIT_IMPLICIT_WORK_TREE": "0"} if repository.prefix else {"GIT_WORK_TREE": WORKSPACE}
    return {"GIT_DIR": beside(repository), "GIT_COMMON_DIR": COMMON, **tree}


def reading(repository: Repository) -> dict[str, str]:
    """The same for commands that only read, and what keeps them to our configuration.

    Told outright, git neither looks for a repository nor asks who owns it.
    """
    told = environment(repository) or {"GIT_DIR": f"{WORKSPACE}/.git", "GIT_WORK_TREE": WORKSPACE}
    return {**told, "GIT_COMMON_DIR": COMMON, "GIT_EXEC_PATH": f"{COMMON}/exec"}


def ignore_files_above(repository: Repository) -> list[tuple[str, str]]:
    """(folder, text) of the ignore files between a mounted sub-folder and the top of its work tree, nearest first."""
    if repository.top is None or not repository.prefix:
        return []
    names = repository.prefix.rstrip("/").split("/")
    found: list[tuple[str, str]] = []
    for depth in range(len(names) - 1, -1, -1):
        folder = "".join(f"{name}/" for name in names[:depth])
        path = repository.top / folder / ".gitignore"
        if _kind(path) == stat.S_IFREG:
            found.append((folder, _read(path)))
    return found
