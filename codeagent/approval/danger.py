"""What never runs, found in any script, also in those that are not understood.

Here the reading is lenient: every simple command and every redirection that tree-sitter finds is looked at,
wherever it stands, and so are the scripts inside `sh -c '…'`, `eval` and the like, and the commands that
wrappers (`sudo`, `env`, `timeout`, `xargs`, …) would run.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from tree_sitter import Node

from codeagent.approval.shell import nodes, text_of, tree, value

Argv = tuple[str, ...]

_NAMES = frozenset("mount umount nsenter unshare chroot pivot_root mkswap swapon insmod modprobe kexec".split())
_BLOCK_DEVICE = (
    r"/dev/(?:[shv]d[a-z]+\d*|xvd[a-z]+\d*|nvme\d.*|mmcblk\d.*|loop\d+.*|dm-\d+|md\d.*|sr\d+|scd\d+|zram\d+|ram\d+|"
    r"nbd\d.*|pmem\d.*|bcache\d.*|drbd\d.*|mtdblock\d+|vblk.*|rbd\d.*|zd\d.*|fd\d+|cdrom|dvd|root|"
    r"(?:mapper|disk|block|md|zvol)/.+)"
)
SHELLS = frozenset("sh bash dash ash zsh ksh mksh ksh93 fish csh tcsh rbash busybox-sh".split())
_MAX_NESTING = 20
_MAX_UNWRAPPED = 1000
_FORK_BOMB = r"([^\s(){};|&]+)\s*\(\)\s*[{(][^})]*(?<![^\s;|&({])\1\s*\|\s*\1(?![^\s;|&)}])"
_FORK_BOMB_LIMIT = 4096
"""Characters up to which a script that is no whole grammar is searched for one by pattern."""
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*="


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


def commands_within(script: str, depth: int = 0) -> Iterator[Argv]:
    """Every argv that can be found in `script`, wrappers before what they run; words that expand as written."""
    root = tree(script.encode(errors="surrogatepass"))
    for node in nodes(root):
        if node.type in ("command", "declaration_command", "unset_command"):
            for argv in _braced(_words(node)):
                yield from _unwrapped(argv, depth, _input_of(node))
        elif node.is_error:
            for argv in _pieces(text_of(node)):
                yield from _unwrapped(argv, depth)


def forbidden(script: str, found: Sequence[Argv]) -> str:
    """Why `script`, in which `found` are the commands, never runs; empty when nothing forbids it."""
    for argv in found:
        if reason := _forbidden_command(argv):
            return reason
    return _forbidden_shape(script, 0)


def _forbidden_command(argv: Argv) -> str:
    name = posixpath.basename(argv[0])
    if name in _NAMES or name.startswith("mkfs"):
        return f"{name} never runs"
    if name == "rm" and _recursive(argv):
        for operand in argv[1:]:
            if _is_root(operand):
                return f"rm -r of {operand} never runs"
    if name == "dd":
        for word in argv[1:]:
            if word.startswith("of=") and _is_kernel_path(word[3:]):
                return f"dd writing to {word[3:]} never runs"
    return ""


def _recursive(argv: Argv) -> bool:
    for word in argv[1:]:
        if word == "--":
            return False
        if word.startswith("--"):
            if len(word) > 3 and "--recursive".startswith(word):
                return True
        elif word.startswith("-") and ("r" in word or "R" in word):
            return True
    return False


def _is_root(operand: str) -> bool:
    """`/`, however written, or a pattern that stands for everything in it."""
    if not operand.startswith("/"):
        return False
    path = posixpath.normpath(operand).lstrip("/")
    return not path or not path.strip("*?.[]!")


def _is_kernel_path(target: str) -> bool:
    if not target.startswith("/"):
        return False
    path = "/" + posixpath.normpath(target).lstrip("/")
    return (
        path in ("/proc", "/sys") or path.startswith(("/proc/", "/sys/")) or bool(re.fullmatch(_BLOCK_DEVICE, path))
    )


# Shapes: redirections and functions


def _forbidden_shape(script: str, depth: int) -> str:
    root = tree(script.encode(errors="surrogatepass"))
    for node in nodes(root):
        if node.type == "file_redirect":
            operator, target = _redirect(node)
            if operator not in ("<", "<&") and _is_kernel_path(target):
                return f"a redirection to {target} never runs"
        elif node.type == "function_definition" and _pipes_itself(node):
            return "a function that pipes itself into itself never runs"
    if root.has_error and len(script) < _FORK_BOMB_LIMIT and re.search(_FORK_BOMB, script):
        return "a function that pipes itself into itself never runs"
    if depth < _MAX_NESTING:
        for inner in _inner_scripts(root):
            if reason := _forbidden_shape(inner, depth + 1):
                return reason
    return ""


def _redirect(node: Node) -> tuple[str, str]:
    operator, target = "", ""
    for child in node.children:
        if child.type == "file_descriptor":
            continue
        if child.is_named:
            target += _lenient(child)
        elif not operator:
            operator = text_of(child)
    return operator, target


def _pipes_itself(function: Node) -> bool:
    name = next((text_of(child) for child in function.children if child.type == "word"), "")
    for node in nodes(function):
        if node.type == "pipeline":
            names = [text_of(part) for part in nodes(node) if part.type == "command_name"]
            if names.count(name) > 1:
                return True
    return False


def _inner_scripts(root: Node) -> Iterator[str]:
    for node in nodes(root):
        if node.type == "command":
            for argv in _braced(_words(node)):
                for inner in _unwrapped(argv, _MAX_NESTING):
                    yield from _scripts(inner, _input_of(node))


# Words


def _words(command: Node) -> list[str]:
    words: list[str] = []
    for child in command.children:
        if not words and child.type in ("export", "declare", "typeset", "readonly", "local", "unset", "unsetenv"):
            words.append(child.type)
        elif child.type == "command_name":
            words.append("".join(map(_lenient, child.children)) or text_of(child))
        elif child.is_named and child.type not in ("variable_assignment", "file_redirect", "herestring_redirect"):
            words.append(_lenient(child))
    return words


def _lenient(word: Node) -> str:
    if word.type == "ansi_c_string":
        return _ansi(text_of(word)[2:-1])
    if word.type == "translated_string":
        return "".join(map(_lenient, word.children))
    if word.type == "concatenation":
        return "".join(map(_lenient, word.children))
    return value(word)


def _ansi(text: str) -> str:
    try:
        return text.encode("latin-1", "backslashreplace").decode("unicode_escape")
    except UnicodeDecodeError:
        return text


def _braced(words: list[str]) -> Iterator[Argv]:
    """The argv; where its first word is `{a,b}`, as bash expands it."""
    if not words:
        return
    yield tuple(words)
    name = words[0]
    if name.startswith("{") and name.endswith("}") and "," in name:
        yield (*name[1:-1].split(","), *words[1:])


def _pieces(text: str) -> Iterator[Argv]:
    """Commands in a part that is not grammar: split where any shell would, quotes taken away."""
    for piece in re.split(r"[;&|\n(){}]+", text):
        words = [word.replace("'", "").replace('"', "").replace("\\", "") for word in piece.split()]
        while words and re.match(_ASSIGNMENT, words[0]):
            words.pop(0)
        if words and words[0]:
            yield tuple(words)


# Wrappers and scripts in arguments


def _unwrapped(argv: Argv, depth: int, fed: str = "") -> Iterator[Argv]:
    """`argv`, then what it runs in turn."""
    waiting, seen = [argv], 0
    while waiting and seen < _MAX_UNWRAPPED:
        current = waiting.pop(0)
        seen += 1
        yield current
        waiting.extend(_wrapped(current))
        if depth < _MAX_NESTING:
            for script in _scripts(current, fed):
                yield from commands_within(script, depth + 1)


def _wrapped(argv: Argv) -> Iterator[Argv]:
    name = posixpath.basename(argv[0])
    if name == "find":
        for at, word in enumerate(argv[:-1]):
            if word in ("-exec", "-execdir", "-ok", "-okdir"):
                yield argv[at + 1 :]
    if name == "command" and len(argv) > 1 and argv[1] in ("-v", "-V"):
        return
    wrapper = WRAPPERS.get(name)
    if wrapper is None:
        return
    words, before = list(argv[1:]), wrapper.before
    while words:
        word = words[0]
        if word == "--":
            words.pop(0)
            before = min(before, wrapper.before)
        elif word in wrapper.valued:
            del words[:2]
        elif (word.startswith("-") and len(word) > 1) or re.match(_ASSIGNMENT, word):
            words.pop(0)
        elif before:
            before -= 1
            words.pop(0)
        else:
            break
    if words:
        yield tuple(words)


def _scripts(argv: Argv, fed: str) -> Iterator[str]:
    """Scripts that a command is given as an argument, or on its input (`fed`)."""
    name = posixpath.basename(argv[0])
    if name in SHELLS or name in ("su", "script", "runuser", "sg", "flock", "watch", "newgrp"):
        for at, word in enumerate(argv[1:], 1):
            if re.fullmatch(r"-[A-Za-z]*c|--command|--session-command", word) and at + 1 < len(argv):
                yield from argv[at + 1 :]
                break
            if word.startswith("--command="):
                yield word.partition("=")[2]
        if name in SHELLS and fed:
            yield fed
        if name == "watch":
            yield " ".join(word for word in argv[1:] if not word.startswith("-"))
    elif name == "eval":
        yield " ".join(argv[1:])
    elif name == "trap" and len(argv) > 1:
        yield argv[1]
    elif name == "alias":
        for word in argv[1:]:
            yield word.partition("=")[2]
    elif name == "env":
        for at, word in enumerate(argv[1:], 1):
            if word in ("-S", "--split-string") and at + 1 < len(argv):
                yield argv[at + 1]
            elif match := re.match(r"(?:-[i0v]*S|--split-string=)(.+)", word, re.DOTALL):
                yield match.group(1)


def _input_of(command: Node) -> str:
    """The text of a here-document or here-string of `command`."""
    around = command.parent
    holders = [command, *([around] if around is not None and around.type == "redirected_statement" else [])]
    texts: list[str] = []
    for holder in holders:
        for child in holder.children:
            if child.type == "herestring_redirect":
                texts.extend(_lenient(part) for part in child.children if part.is_named)
            elif child.type == "heredoc_redirect":
                texts.extend(text_of(part) for part in child.children if part.type == "heredoc_body")
    return "\n".join(texts)
