"""A grammar of commands around the border of the read-only table, and a tree of canaries to try them on.

Every path is relative and stays in the tree, so that a command that gets through harms nothing else.
"""

from __future__ import annotations

import os
import stat
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hypothesis import strategies as st

# Files whose names are options: what a pattern may become.
TRAPS = ["-rf", "-onew", "--output=new", "--pre=.", "-delete", "-i", "@opts", "%n", "src/--output=new"]
NAMES = [
    "a.txt",
    "b.txt",
    "src/c.py",
    "src",
    "x",
    "-rf",
    "new",
    "sub/new",
    "HEAD",
    "./x",
    "a.gz",
    "a.json",
    ".git/config",
]
CANARIES = [
    "x",
    "bin/less",
    "bin/pr",
    "bin/gpg",
    "bin/gpgsm",
    "bin/ssh-keygen",
    "bin/xz",
    "bin/x",
    "bin/sh",
    "bin/gzip",
    "bin/vi",
    "bin/evil",
    "bin/git-x",
]
HARMFUL = [
    "-o new",
    "-onew",
    "--output=new",
    "--output new",
    "--outp=new",
    "-i",
    "-i.bak",
    "--in-place",
    "-ni",
    "-O./x",
    "-O ./x",
    "--pre=./x",
    "--pre ./x",
    "--hostname-bin=./x",
    "-z",
    "--compress-program=./x",
    "-S1b",
    "-T .",
    "--ext-diff",
    "--textconv",
    "--filters",
    "--show-signature",
    "--format=%+G?",
    "--format='% GK'",
    "--pretty=format:%-GG",
    "--group=format:%G?",
    "--sort=signature",
    "--diff-merges=remerge",
    "--diff-merges=r",
    "--remerge-d",
    "--textc",
    "--open-files-in-pager=./x",
    "-exec ./x {} \\;",
    "-exec ./x {} +",
    "-execdir ./x \\;",
    "-ok ./x \\;",
    "-delete",
    "-fprint new",
    "-fls new",
    "-fprintf new x",
    "-fprint0 new",
    "-r",
    "-R",
    "-C",
    "-l",
    "--paginate",
    "-p",
    "-d",
    "-D",
    "-m",
    "-f",
    "-c x=y",
    "-c core.pager=./x",
    "--exec-path=.",
    "-Lo 2",
    "-w",
    "-v PATH",
    "'%n' PATH",
    "'w new'",
    "'1w new'",
    "'s/a/b/w new'",
    "'1e ./x'",
    "'s/a/.\\/x/e'",
    "-e 'w new'",
    "-n '/a/w new'",
    "-s",
    "--edit",
    "--add a.b c",
    "--unset a",
    "-a",
    "-u",
    "--set-upstream-to=x",
    "expire --all",
    "@opts",
    "--plugin=./x",
    "--files0-from=a.txt",
    "--dirty",
    "--",
    "-",
    "+1",
    "-1",
    "--stdin",
    "--help",
    "-h",
]
HARMLESS = [
    "-n",
    "-l",
    "-a",
    "-la",
    "-c",
    "-r",
    "-n 1",
    "-n1",
    "-5",
    "-u",
    "-e a",
    "-E",
    "-i",
    "-L 1",
    "-s",
    "--stat",
    "--oneline",
    "--list",
    "-v",
    "-type f",
    "-name '*.py'",
    "-maxdepth 1",
    "1p",
    "'1,2p'",
    "'/a/p'",
    ".",
    "'.a'",
    "-b",
    "-t x1",
    "-w",
    "--all",
    "--format=%h",
    "--color=never",
    "-print",
    "'%s\\n'",
    "-d,",
    "-f1",
    "-k1",
    "-x",
    "-A1",
    "--include='*.py'",
    "-rn",
]
PROGRAMS = [
    "ls",
    "cat",
    "head",
    "tail",
    "wc",
    "nl",
    "stat",
    "file",
    "find",
    "find .",
    "grep a",
    "grep",
    "rg a",
    "rg",
    "sed -n",
    "sed",
    "sort",
    "uniq",
    "cut",
    "tr",
    "diff",
    "cmp",
    "comm",
    "paste",
    "column",
    "od",
    "xxd",
    "strings",
    "du",
    "tree",
    "basename",
    "dirname",
    "realpath",
    "md5sum",
    "sha256sum",
    "cksum",
    "test",
    "[",
    "echo",
    "printf",
    "true",
    "cd",
    "pwd",
    "jq .",
    "jq",
    "expr",
    "nm",
    "objdump",
    "readelf",
    "size",
    "fold",
    "tac",
    "rev",
    "fmt",
    "join",
    "hexdump",
    "base64",
    "seq",
    "type",
    "git log",
    "git show",
    "git diff",
    "git blame",
    "git status",
    "git ls-files",
    "git grep a",
    "git rev-parse",
    "git branch",
    "git tag",
    "git describe",
    "git shortlog HEAD",
    "git cat-file",
    "git reflog",
    "git stash",
    "git remote",
    "git config",
    "git worktree",
    "git notes",
    "git",
    "tee",
    "cp",
    "mv",
    "rm",
    "touch",
    "mkdir",
    "ln",
    "xargs",
    "sh -c",
    "env",
    "awk",
    "tar",
    "./x",
    "x",
    "eval",
    "command",
    "exec",
    "time",
    "zcat",
    "which",
    "date -r",
    "id",
    "less",
    "sh",
    "python3 -c",
]
WORDS = [
    "$(./x)",
    "`./x`",
    '"$(./x)"',
    "<(./x)",
    ">(./x)",
    "${a:-$(./x)}",
    "$x",
    "*",
    "-- *",
    "-- *",
    "-- ?*",
    "src/*",
    "./*",
    "{a,b}",
    "~",
    "$'new'",
    "'a b'",
    '"a"',
    "a\\ b",
    "''",
    "> new",
    ">> a.txt",
    "2> new",
    ">| a.txt",
    "&> new",
    "<> new",
    "< a.txt",
    "2>&1",
    ">/dev/null",
    "2>/dev/null",
    "<<< a",
    "| ./x",
    "| sh",
    "| tee new",
    "; rm a.txt",
    "&& rm a.txt",
    "& rm a.txt",
    "\nrm a.txt",
    "\r",
    "\\\n",
    "# c",
    "|& ./x",
    "]",
    ")",
    "}",
    "!",
    "x=1",
    "PATH=.",
]

_argument = st.sampled_from([*NAMES, *NAMES, *HARMFUL, *HARMLESS, *HARMLESS, *WORDS])
_command = st.tuples(st.sampled_from(PROGRAMS), st.lists(_argument, max_size=4)).map(
    lambda parts: " ".join([parts[0], *parts[1]])
)
SCRIPTS = st.recursive(
    _command,
    lambda inner: st.one_of(
        st.tuples(inner, st.sampled_from([" | ", " && ", " || ", "; ", "\n", " & "]), inner).map("".join),
        inner.map(lambda script: f"({script})"),
        inner.map(lambda script: f"{{ {script}; }}"),
        inner.map(lambda script: f"if {script}; then ls; fi"),
        inner.map(lambda script: f"PATH=bin {script}"),
    ),
    max_leaves=3,
)


def plant(root: Path, seen_as: str = "") -> None:
    """A small repository with files worth harming and programs that leave a mark when anything starts them.

    `seen_as` is the tree's path where the commands will run, when it is not `root`.
    """
    (root / "src").mkdir(parents=True)
    (root / "bin").mkdir()
    for name in ("a.txt", "b.txt", "src/c.py", *TRAPS, "opts"):
        (root / name).write_text("a b\n1 2\nid\n")
    (root / "a.json").write_text('{"a": 1}\n')
    (root / "opts").write_text("--plugin=./x\n")
    for name in CANARIES:
        canary = root / name
        canary.write_text(f"#!/bin/sh\n: > '{seen_as or root}/ran-{canary.name}'\n")
        canary.chmod(0o755)
    _git(root, "init", "-q", "-b", "main")
    _git(root, "add", "a.txt", "src")
    _git(root, "commit", "-q", "-m", "one")
    _plant_signatures(root)


def _plant_signatures(root: Path) -> None:
    """A signed commit that merges what does not merge by itself, a signed tag, a stash and a history of HEAD."""
    _git(root, "fast-import", "--quiet", given=_SIDES)
    parents = "".join(f"parent {_git(root, 'rev-parse', side)}" for side in ("ours", "theirs"))
    tree, author, *_ = _git(root, "cat-file", "commit", "HEAD").splitlines(keepends=True)
    committer = author.replace("author", "committer", 1)
    signed = f"{tree}{parents}{author}{committer}gpgsig {_SIGNATURE.replace(chr(10), chr(10) + ' ')}\n\ntwo\n"
    commit = _git(root, "hash-object", "-t", "commit", "-w", "--stdin", given=signed).strip()
    tagger = author.replace("author", "tagger", 1)
    tag = f"object {commit}\ntype commit\ntag signed\n{tagger}\nthree\n{_SIGNATURE}\n"
    _git(root, "update-ref", "refs/tags/signed", _git(root, "mktag", given=tag).strip())
    _git(root, "update-ref", "--create-reflog", "-m", "four", "refs/stash", commit)
    _git(root, "update-ref", "HEAD", commit)


_SIGNATURE = "-----BEGIN PGP SIGNATURE-----\n\niQEzBAABCAAdFiEE\n=abcd\n-----END PGP SIGNATURE-----"
_SIDES = "".join(
    f"commit refs/heads/{side}\ncommitter a <a@b> 1 +0000\ndata 4\n{side[:4]}\nfrom refs/heads/main^0\n"
    f"M 100644 inline a.txt\ndata 4\n{side[:4]}\n\n"
    for side in ("ours", "theirs")
)


def _git(root: Path, *words: str, given: str = "") -> str:
    environ = {"PATH": os.environ["PATH"], "HOME": "/nonexistent", "GIT_CONFIG_NOSYSTEM": "1"}
    argv = ["git", "-C", str(root), "-c", "user.name=a", "-c", "user.email=a@b", *words]
    return subprocess.run(argv, check=True, env=environ, input=given, capture_output=True, text=True).stdout


def snapshot(root: Path) -> Mapping[str, tuple[object, ...]]:
    """Everything about the tree that a command could change: names, kinds, modes, contents, times."""
    seen: dict[str, tuple[object, ...]] = {}
    for folder, folders, files in os.walk(root):
        for name in [*folders, *files]:
            path = Path(folder) / name
            status = path.lstat()
            content = path.read_bytes() if stat.S_ISREG(status.st_mode) else b""
            seen[str(path.relative_to(root))] = (status.st_mode, status.st_mtime_ns, content)
    return seen
