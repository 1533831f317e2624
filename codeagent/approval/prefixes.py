"""Which prefix of a command a person may allow for the session, and what such a prefix covers."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress

from codeagent.approval import git
from codeagent.approval.classify import require_plain_redirects
from codeagent.approval.flags import Refused
from codeagent.approval.grammar import Command, Unclear
from codeagent.approval.readonly import known_programs, require_read_only
from codeagent.approval.shell import parse
from codeagent.approval.wrappers import SHELLS, WRAPPERS

Prefix = tuple[str, ...]

# A prefix of these says nothing about what runs: interpreters, shells, programs that run what they are given,
# editors and pagers, programs that destroy. Nor does one of a program that is known to read: what is asked for is
# then a flag, and the flags that write or run something have too many spellings.
_NEVER = (
    SHELLS
    | WRAPPERS.keys()
    | (known_programs() - {"git"})
    | frozenset(
        "python pypy node nodejs deno bun ts-node tsx ruby irb perl php lua luajit tclsh wish expect R Rscript julia "
        "java jshell scala kotlin groovy clojure ghci runghc runhaskell ocaml erl elixir iex awk gawk mawk nawk sed "
        "ed ex vi vim nvim view emacs nano pico less more most man info su script eval source . trap alias function "
        "find fd fdfind rg ag ack tar bsdtar cpio zip unzip rsync ssh scp sftp telnet nc ncat socat curl wget docker "
        "podman nerdctl kubectl mvn mvnd gradle ant sbt bazel buck "
        "make gmake bmake ninja cmake meson scons rake invoke just task tox nox npx pnpx bunx "
        "uvx pipx crontab at batch rm rmdir dd shred truncate kill pkill killall git-shell dotnet mono wine qemu "
        "m4 bc dc sqlite3 psql mysql redis-cli mongo pwsh powershell xonsh nu elvish ipython bpython guile sbcl "
        "clisp racket octave swift dart crystal nim zig jrunscript jjs jshell lein bb ghc lldb rlwrap "
        "script expect start-stop-daemon xvfb-run dbus-run-session eatmydata proot fakechroot chpst chronic "
        "run-parts".split()
    )
)
_VERSIONED = re.compile(r"(python|pypy|perl|ruby|php|lua|node)[\d.]+(-.*)?")
_WORD = re.compile(r"[a-z][a-z0-9_-]*")
_RUNS_SCRIPT = ("npm", "yarn", "pnpm", "poetry", "pdm", "hatch", "uv", "pipenv", "bundle", "go", "cargo", "git")
_RUNNING = frozenset("run exec x dlx rebase bisect submodule config filter-branch difftool mergetool help -c".split())
_READING_GIT = frozenset(name.split()[0] for name in git.COMMANDS)
# Programs whose first operand is a file and no sub-command.
_FILE_PROGRAMS = frozenset("mkdir touch cp mv ln chmod chown install patch tee".split())
_NAMED = (
    "exec command program pager editor hook config script plugin shell pack rcfile textconv ext-diff output outdir "
    "outfile agent init eval env wrapper tool"
).split()
_SHORTEST_BEGINNING = 3

WORKSPACE = "/workspace"
_BETWEEN_WORDS = r"[\s'\"|&;<>()$`{}]+"
_CHANGES_FOLDER = r"(?:\bcd|\bpushd|-C|--chdir|--directory)(?:\s+--)?[\s=]+['\"]?([^\s'\"|&;<>()$`{}]+)"
_MOST_FOLDERS = 16


def offered_prefix(script: str) -> Prefix:
    """The prefix that may be offered for `script`; empty when none is safe to offer."""
    asking = _asking(script)
    if len(asking) != 1:
        return ()
    argv = asking[0].argv
    name = argv[0]
    if not asking[0].words[0].bare or "/" in name or name in _NEVER or _VERSIONED.fullmatch(name):
        return ()
    if any(_names_program(name, word) for word in argv):
        return ()
    if name == "git" and argv[1:2] and argv[1] in _READING_GIT:
        return ()
    if name in _RUNS_SCRIPT and (len(argv) < 2 or argv[1] in _RUNNING or not _WORD.fullmatch(argv[1])):
        return ()
    if name not in _FILE_PROGRAMS and len(argv) > 1 and _WORD.fullmatch(argv[1]):
        return argv[:2]
    return argv[:1]


def covered(prefix: Prefix, script: str) -> bool:
    """Whether every command of `script` that does not only read begins with `prefix`, and nothing else happens."""
    asking = _asking(script)
    return bool(asking) and all(
        command.argv[: len(prefix)] == prefix
        and not any(_names_program(prefix[0], word) for word in command.argv[len(prefix) :])
        for command in asking
    )


def _names_program(program: str, word: str) -> bool:
    """Whether a word is an option that names a program, a configuration or an output, or a file of such options.

    Most programs take an abbreviation (`--outp=x`) for the option.
    """
    if word.startswith("@"):
        return program not in _RUNS_SCRIPT  # where it is the name of a package
    if not word.startswith("-"):
        return False
    name = word.partition("=")[0].lstrip("-").lower()
    if any(named in name for named in _NAMED):
        return True
    last = re.split("[-_]", name)[-1]
    if len(last) >= _SHORTEST_BEGINNING and any(named.startswith(last) for named in _NAMED):
        return True
    return not word.startswith("--") and (name.startswith("o") or name == "c")


def _asking(script: str) -> list[Command]:
    """The commands that are not known to only read; empty also when the script is not plain."""
    try:
        understood = parse(script)
        require_plain_redirects(understood)
    except (Unclear, Refused):
        return []
    asking = [command for command in understood.commands if not _reads(command)]
    return [] if any(word.glob is not None for command in asking for word in command.words) else asking


def _reads(command: Command) -> bool:
    try:
        require_read_only(command)
    except Refused:
        return False
    return True


def named_files(script: str, workdir: str) -> tuple[str, ...]:
    """Paths, relative to the repository's root, that words of `script` may name when it runs in `workdir`.

    Generous on purpose: a path that is not a file costs one look, a file that is missed could change unseen. So each
    word is taken from every folder that the script may change to, and with `..` as it stands as well as shortened:
    after a link, the two lead to different files.
    """
    words = set(re.split(_BETWEEN_WORDS, script))
    targets = re.findall(_CHANGES_FOLDER, script)
    with suppress(Unclear):
        for command in parse(script).commands:
            words.update(command.argv)
            if command.argv[0] == "cd":
                targets += command.argv[1:]
    words |= {part for word in words for part in re.split(r"[=:,]", word)}
    paths = [
        posixpath.join(WORKSPACE, folder, word) for folder in _folders(workdir, targets) for word in words if word
    ]
    return tuple(sorted({inside for path in paths for inside in _inside(path)}))


def _folders(workdir: str, targets: Sequence[str]) -> set[str]:
    """Where a script may be after changing folder once, or again and again."""
    here, folders = workdir, {workdir}
    for target in targets[:_MOST_FOLDERS]:
        here = posixpath.join(here, target)
        folders |= {here, posixpath.join(workdir, target)}
    return folders


def _inside(path: str) -> Iterator[str]:
    """A path below the repository's root, relative to it: shortened, and as it stands where it holds `..`."""
    for spelled in (posixpath.normpath(path), path) if ".." in path else (posixpath.normpath(path),):
        if spelled.startswith(f"{WORKSPACE}/"):
            yield spelled[len(WORKSPACE) + 1 :]
