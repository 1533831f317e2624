"""What never runs, found in any script, also in those that are not understood.

Here the reading is lenient: every simple command and every redirection that tree-sitter finds is looked at,
wherever it stands, and so are the scripts inside `sh -c '…'`, `eval` and the like, and the commands that
wrappers (`sudo`, `env`, `timeout`, `xargs`, …) would run.
"""

from __future__ import annotations

import posixpath
import re
from collections.abc import Iterator

from tree_sitter import Node

from codeagent.approval.shell import nodes, text_of, tree, value
from codeagent.approval.wrappers import SHELLS, Argv, scripts, wrapped

_NAMES = frozenset("mount umount nsenter unshare chroot pivot_root mkswap swapon insmod modprobe kexec".split())
_BLOCK_DEVICE = (
    r"/dev/(?:[shv]d[a-z]+\d*|xvd[a-z]+\d*|nvme\d.*|mmcblk\d.*|loop\d+.*|dm-\d+|md\d.*|sr\d+|scd\d+|zram\d+|ram\d+|"
    r"nbd\d.*|pmem\d.*|bcache\d.*|drbd\d.*|mtdblock\d+|vblk.*|rbd\d.*|zd\d.*|fd\d+|cdrom|dvd|root|"
    r"(?:mapper|disk|block|md|zvol)/.+)"
)
# A function that pipes itself, where tree-sitter finds no whole grammar; and any redirection there.
_FORK_BOMB = r"([^\s(){};|&]+)\s*\(\)\s*[{(][^})]*(?<![^\s;|&({])\1\s*\|\s*\1(?![^\s;|&)}])"
_FORK_BOMB_LIMIT = 4096
_ANY_REDIRECT = r"(?:>[>|&]?|<>)[ \t]*['\"]?(/[^\s'\";|&<>]+)"
_ASSIGNMENT = r"[A-Za-z_][A-Za-z0-9_]*="
_DECLARING = ("export", "declare", "typeset", "readonly", "local", "unset", "unsetenv")

MAX_CHARACTERS = 128 * 1024
"""No kernel passes a longer argument to `sh -c`."""

PARSE_SECONDS = 2.0
"""tree-sitter needs milliseconds for what anybody writes, and minutes for 100 KB of `<`; then we look without it."""

_MAX_DEPTH = 8
_MAX_WRAPPERS = 64
_MAX_READ = 2 * MAX_CHARACTERS
"""Characters of scripts inside scripts that are read in all; wrappers in wrappers would multiply without end."""


class Search:
    """`commands` are all argv found, wrappers before what they run, words that expand as written; `never` says why
    the script never runs, and is empty when nothing forbids it."""

    def __init__(self, script: str) -> None:
        self.commands: list[Argv] = []
        self.never = ""
        self._left = _MAX_READ
        # Nor can an argument hold a NUL, on which tree-sitter loses its way.
        self._script(script[:MAX_CHARACTERS].replace("\0", "\n"), 0)

    def _forbid(self, what: str) -> None:
        self.never = self.never or f"{what} never runs"

    def _script(self, script: str, depth: int) -> None:
        self._left -= len(script)
        if depth > _MAX_DEPTH or self._left < 0:
            return
        try:
            root = tree(script.encode(errors="surrogatepass"), PARSE_SECONDS)
        except TimeoutError:
            self._broken(script, depth)
            return
        inputs: dict[int, str] = {}
        for node in nodes(root):
            if node.type in ("command", "declaration_command", "unset_command"):
                self._command(tuple(_words(node)), inputs.get(node.id, "") or _input_of(node), depth)
            elif node.type == "redirected_statement" and (fed := _input_of(node)):
                inputs[node.children[0].id] = fed
            elif node.type == "file_redirect":
                operator, target = _redirect(node)
                if operator not in ("<", "<&") and _is_kernel_path(target):
                    self._forbid(f"a redirection to {target}")
            elif node.type == "function_definition" and not self.never and _pipes_itself(node):
                self._forbid("a function that pipes itself into itself")
        if root.has_error:
            self._broken(script, depth)

    def _broken(self, script: str, depth: int) -> None:
        """A script that is no grammar to tree-sitter may still be one to a shell (`<>`, `{fd}>`, `!(a)`)."""
        for words in _pieces(script):
            self._command(words, "", depth)
        for match in re.finditer(_ANY_REDIRECT, script):
            if _is_kernel_path(match.group(1)):
                self._forbid(f"a redirection to {match.group(1)}")
        if len(script) < _FORK_BOMB_LIMIT and re.search(_FORK_BOMB, script):
            self._forbid("a function that pipes itself into itself")

    def _command(self, words: Argv, fed: str, depth: int) -> None:
        """One command, what it runs in turn, and the scripts that it is given; `fed` is its here-document."""
        if not words:
            return
        waiting = [words, *_braced(words)]
        for argv in waiting:
            self.commands.append(argv)
            if what := _forbidden_command(argv):
                self._forbid(what)
            if len(waiting) < _MAX_WRAPPERS:
                waiting.extend(wrapped(argv))
            for script in scripts(argv):
                self._script(script, depth + 1)
            if fed and posixpath.basename(argv[0]) in SHELLS:
                self._script(fed, depth + 1)


def _forbidden_command(argv: Argv) -> str:
    name = posixpath.basename(argv[0])
    if name in _NAMES or name.startswith("mkfs"):
        return name
    if name == "rm" and _recursive(argv):
        for operand in argv[1:]:
            if _is_root(operand):
                return f"rm -r of {operand}"
    if name == "dd":
        for word in argv[1:]:
            if word.startswith("of=") and _is_kernel_path(word[3:]):
                return f"dd writing to {word[3:]}"
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


def _words(command: Node) -> list[str]:
    words: list[str] = []
    for child in command.children:
        if not words and child.type in _DECLARING:
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


def _braced(words: Argv) -> list[Argv]:
    """The argv as bash expands a first word of the form `{a,b}`."""
    name = words[0]
    if name.startswith("{") and name.endswith("}") and "," in name:
        return [(*name[1:-1].split(","), *words[1:])]
    return []


def _pieces(text: str) -> Iterator[Argv]:
    """Commands in a part that is not grammar: split where any shell would, quotes taken away."""
    for piece in re.split(r"[;&|\n(){}]+", text):
        words = [word.replace("'", "").replace('"', "").replace("\\", "") for word in piece.split()]
        while words and re.match(_ASSIGNMENT, words[0]):
            words.pop(0)
        if words and words[0]:
            yield tuple(words)
            if "," in words[0]:  # what stood in braces
                yield (*words[0].split(","), *words[1:])


def _input_of(node: Node) -> str:
    """The text of the here-documents and here-strings that stand directly in `node`."""
    texts: list[str] = []
    for child in node.children:
        if child.type == "herestring_redirect":
            texts.extend(_lenient(part) for part in child.children if part.is_named)
        elif child.type == "heredoc_redirect":
            texts.extend(text_of(part) for part in child.children if part.type == "heredoc_body")
    return "\n".join(texts)
