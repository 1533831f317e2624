"""Programs that run what they are given: the command behind a wrapper, the script inside an argument."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator
from itertools import islice
from typing import NamedTuple

Argv = tuple[str, ...]

SHELLS = frozenset("sh bash dash ash zsh ksh mksh ksh93 fish csh tcsh rbash".split())
_TAKE_SCRIPTS = SHELLS | frozenset("su script runuser sg flock watch".split())
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*="
_MOST_ACTIONS = 16
"""Commands of one `find` that are looked at; each is a further copy of the rest of its words."""


class Wrapper(NamedTuple):
    """A program that runs the command in its operands: flags with a value in the next word, operands before it."""

    valued: frozenset[str] = frozenset()
    before: int = 0


def _wrapper(valued: str = "", before: int = 0) -> Wrapper:
    return Wrapper(frozenset(valued.split()), before)


WRAPPERS = {
    "sudo": _wrapper(
        "-u -g -h -p -C -c -T -t -r -U -D -R -a --user --group --host --prompt --chdir --chroot --type --role"
    ),
    "doas": _wrapper("-u -C -a"),
    "env": _wrapper("-u -C --unset --chdir"),
    "nice": _wrapper("-n --adjustment"),
    "ionice": _wrapper("-c -n -p -P -u --class --classdata"),
    "timeout": _wrapper("-k -s --kill-after --signal", before=1),
    "stdbuf": _wrapper("-i -o -e --input --output --error"),
    "nohup": _wrapper(),
    "setsid": _wrapper(),
    "time": _wrapper("-f -o --format --output"),
    "command": _wrapper(),
    "builtin": _wrapper(),
    "exec": _wrapper("-a"),
    "coproc": _wrapper(),
    "xargs": _wrapper(
        "-I -n -P -L -l -d -a -E -s --replace --max-args --max-procs --max-lines --delimiter --arg-file --max-chars"
    ),
    "parallel": _wrapper("-j -I -a --jobs --arg-file"),
    "chrt": _wrapper("-T -P -D", before=1),
    "taskset": _wrapper("", before=1),
    "numactl": _wrapper("-m -N -C -p"),
    "flock": _wrapper("-w -E --timeout --conflict-exit-code", before=1),
    "watch": _wrapper("-n -q --interval"),
    "strace": _wrapper("-e -o -p -s -u -E -P -O -a -b -I -S"),
    "ltrace": _wrapper("-e -o -p -s -u -n -a -l"),
    "gdb": _wrapper("-ex -x -p"),
    "valgrind": _wrapper(),
    "busybox": _wrapper(),
    "toybox": _wrapper(),
    "setarch": _wrapper(),
    "linux32": _wrapper(),
    "linux64": _wrapper(),
    "setpriv": _wrapper("--reuid --regid --groups --inh-caps --ambient-caps --bounding-set --securebits"),
    "prlimit": _wrapper("-p --pid"),
    "capsh": _wrapper(),
    "gosu": _wrapper("", before=1),
    "su-exec": _wrapper("", before=1),
    "runuser": _wrapper("-u -g -G --user --group"),
    "systemd-run": _wrapper("-p -u -M -H -E --unit --property --uid --gid --slice"),
    "pkexec": _wrapper("--user"),
    "fakeroot": _wrapper("-l -s -i -u"),
    "faketime": _wrapper("-f", before=1),
    "unbuffer": _wrapper(),
    "dumb-init": _wrapper(),
    "tini": _wrapper("-p"),
    "caffeinate": _wrapper("-t -w"),
    "firejail": _wrapper(),
    "bwrap": _wrapper(),
    "winpty": _wrapper(),
    "entr": _wrapper(),
    "trickle": _wrapper("-d -u"),
    "cgexec": _wrapper("-g"),
}


def wrapped(argv: Argv) -> Iterator[Argv]:
    """What `argv` runs as a command of its own: nothing unless it is a wrapper."""
    name = posixpath.basename(argv[0])
    if name == "find":
        acting = (at for at, word in enumerate(argv[:-1]) if word in ("-exec", "-execdir", "-ok", "-okdir"))
        for at in islice(acting, _MOST_ACTIONS):
            yield argv[at + 1 :]
    if name == "command" and len(argv) > 1 and argv[1] in ("-v", "-V"):
        return
    if name == "coproc" and "{" in argv:
        yield argv[argv.index("{") + 1 :]
    wrapper = WRAPPERS.get(name)
    if wrapper is not None:
        start = _start(wrapper, argv)
        if start < len(argv):
            yield argv[start:]


def _start(wrapper: Wrapper, argv: Argv) -> int:
    """Where the command behind a wrapper's own flags, assignments and operands begins."""
    at, before = 1, wrapper.before
    while at < len(argv):
        word = argv[at]
        if _awaits_value(wrapper, word):
            at += 1
        elif word.startswith("-") or re.match(_ASSIGNMENT, word):
            pass
        elif before:
            before -= 1
        else:
            break
        at += 1
    return at


def _awaits_value(wrapper: Wrapper, word: str) -> bool:
    """Whether the next word is a flag's value: `-u`, or `-nu`, in which only the last letter takes one."""
    if word in wrapper.valued:
        return True
    if not re.fullmatch(r"-[A-Za-z]{2,}", word):
        return False
    first = next((at for at, letter in enumerate(word) if f"-{letter}" in wrapper.valued), -1)
    return first == len(word) - 1


def scripts(argv: Argv) -> Iterator[str]:
    """The scripts among the arguments of `argv`."""
    name = posixpath.basename(argv[0])
    if name in _TAKE_SCRIPTS:
        yield from islice(_after_c(argv), 1)
        if name == "watch":
            yield " ".join(word for word in argv[1:] if not word.startswith("-"))
    elif name == "eval":
        yield " ".join(argv[1:])
    elif name == "trap" and len(argv) > 1:
        yield argv[1]
    elif name == "env":
        yield from islice(_split_strings(argv), 1)


def _after_c(argv: Argv) -> Iterator[str]:
    for at, word in enumerate(argv[1:], 1):
        if re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*|--command|--session-command", word):
            yield from (later for later in argv[at + 1 : at + 3] if later != "--")
        elif word.startswith("--command="):
            yield word.partition("=")[2]


def _split_strings(argv: Argv) -> Iterator[str]:
    for at, word in enumerate(argv[1:], 1):
        if re.fullmatch(r"-[i0v]*S|--split-string", word) and at + 1 < len(argv):
            yield " ".join(argv[at + 1 :])
        elif match := re.match(r"(?:-[i0v]*S|--split-string=)(.+)", word, re.DOTALL):
            yield " ".join((match.group(1), *argv[at + 1 :]))
