"""Which prefix of a command a person may allow for the session, and what such a prefix covers."""

from __future__ import annotations

import posixpath
import re

from codeagent.approval.classify import require_plain_redirects
from codeagent.approval.flags import Refused
from codeagent.approval.grammar import Command, Unclear
from codeagent.approval.readonly import require_read_only
from codeagent.approval.shell import parse
from codeagent.approval.wrappers import SHELLS, WRAPPERS

Prefix = tuple[str, ...]

# A prefix of these says nothing about what runs: interpreters, shells, programs that run what they are given,
# editors and pagers, programs that destroy.
_NEVER = (
    SHELLS
    | WRAPPERS.keys()
    | frozenset(
        "python pypy node nodejs deno bun ts-node tsx ruby irb perl php lua luajit tclsh wish expect R Rscript julia "
        "java jshell scala kotlin groovy clojure ghci runghc runhaskell ocaml erl elixir iex awk gawk mawk nawk sed "
        "ed ex vi vim nvim view emacs nano pico less more most man info su script eval source . trap alias function "
        "find fd fdfind rg ag ack tar bsdtar cpio zip unzip rsync ssh scp sftp telnet nc ncat socat curl wget docker "
        "podman nerdctl kubectl mvn mvnd gradle ant sbt bazel buck "
        "make gmake bmake ninja cmake meson scons rake invoke just task tox nox npx pnpx bunx "
        "uvx pipx crontab at batch rm rmdir dd shred truncate kill pkill killall git-shell dotnet mono wine qemu "
        "m4 bc dc sqlite3 psql mysql redis-cli mongo".split()
    )
)
_VERSIONED = re.compile(r"(python|pypy|perl|ruby|php|lua|node)[\d.]+(-.*)?")
_WORD = re.compile(r"[a-z][a-z0-9_-]*")
_RUNS_SCRIPT = ("npm", "yarn", "pnpm", "poetry", "pdm", "hatch", "uv", "pipenv", "bundle", "go", "cargo", "git")
_RUNNING = frozenset("run exec x dlx rebase bisect submodule config filter-branch difftool mergetool help -c".split())
# Programs whose first operand is a file and no sub-command.
_FILE_PROGRAMS = frozenset("mkdir touch cp mv ln chmod chown install patch tee".split())
_NAMES_PROGRAM = re.compile(
    r"-{1,2}[\w-]*(exec|command|program|pager|editor|hook|config|script|plugin|shell|pack|rcfile|textconv|ext-diff|"
    r"output|agent|init|eval|env|wrapper)[\w-]*(=.*)?",
    re.DOTALL,
)


def offered_prefix(script: str) -> Prefix:
    """The prefix that may be offered for `script`; empty when none is safe to offer."""
    asking = _asking(script)
    if len(asking) != 1:
        return ()
    argv = asking[0].argv
    name = argv[0]
    if not asking[0].words[0].bare or "/" in name or name in _NEVER or _VERSIONED.fullmatch(name):
        return ()
    if any(_NAMES_PROGRAM.fullmatch(word) for word in argv):
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
        and not any(_NAMES_PROGRAM.fullmatch(word) for word in command.argv[len(prefix) :])
        for command in asking
    )


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

    Generous on purpose: a path that is not a file costs one look, a file that is missed could change unseen.
    """
    words = {piece for piece in re.split(r"[\s'\"|&;<>()$`{}]+", script) if piece}
    bases = {workdir}
    try:
        for command in parse(script).commands:
            words.update(command.argv)
            if command.argv[0] == "cd" and len(command.argv) > 1:
                bases.update([posixpath.join(base, command.argv[-1]) for base in bases])
    except Unclear:
        pass
    words |= {part for word in words for part in re.split(r"[=:,]", word)}
    paths = (posixpath.normpath(posixpath.join("/workspace", base, word)) for base in bases for word in words if word)
    return tuple(sorted({path[len("/workspace/") :] for path in paths if path.startswith("/workspace/")}))
