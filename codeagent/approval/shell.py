"""From a script to its simple commands, by tree-sitter's grammar of bash and our own strict one.

tree-sitter knows the whole language but is lenient: it takes carriage returns and Unicode spaces for blanks,
and accepts what bash refuses. `grammar` is strict but knows little. Only a script in which every node is of a
known harmless kind, and in which both find the same words, is understood.
"""

from __future__ import annotations

import re
import time
from collections.abc import Iterator

import tree_sitter_bash
from tree_sitter import Language, Node, Parser

from codeagent.approval.grammar import Script, Unclear, read

MAX_BYTES = 16 * 1024
"""Longer scripts are not judged; no honest reading command comes near."""

_PIECE = 4096

# Control characters but newline and tab, every space but the plain one, everything that shows nothing or turns
# the direction of text, surrogates (undecodable bytes), private and unassigned planes.
_REFUSED = (
    "[\x00-\x08\x0b-\x1f\x7f-\xa0\u00ad\u034f\u0600-\u0605\u061c\u06dd\u070f\u0890\u0891\u08e2\u115f\u1160\u1680"
    "\u17b4\u17b5\u180b-\u180f\u2000-\u200f\u2028-\u202f\u205f-\u206f\u2800\u3000\u3164\ud800-\uf8ff\ufe00-\ufe0f"
    "\ufeff\uffa0\ufff0-\ufffb\ufffe\uffff\U000110bd\U000110cd\U00013430-\U0001345f\U0001bca0-\U0001bca3"
    "\U0001d173-\U0001d17a\U000e0000-\U0010ffff]"
)

_PLAIN_KINDS = frozenset(
    "program list pipeline command command_name word number string string_content raw_string concatenation "
    "redirected_statement file_redirect file_descriptor subshell compound_statement if_statement elif_clause "
    "else_clause negated_command comment test_command unary_expression binary_expression test_operator "
    "extglob_pattern regex".split()
)
_REASONS = {
    "simple_expansion": "a variable expands",
    "expansion": "a variable expands",
    "command_substitution": "a command substitution",
    "process_substitution": "a process substitution",
    "arithmetic_expansion": "arithmetic expands",
    "ansi_c_string": "$'…' hides what is passed",
    "translated_string": '$"…" hides what is passed',
    "brace_expression": "braces expand",
    "variable_assignment": "a variable is set",
    "variable_assignments": "a variable is set",
    "declaration_command": "a variable is declared",
    "unset_command": "a variable is unset",
    "function_definition": "a function is defined",
    "heredoc_redirect": "a here-document",
    "herestring_redirect": "a here-string",
    "for_statement": "a loop",
    "c_style_for_statement": "a loop",
    "while_statement": "a loop",
    "case_statement": "a case statement",
}
_WORDS = frozenset("word number string raw_string concatenation extglob_pattern regex test_operator".split())
_UNESCAPE = r"(?s)\\(\n|.)"
_UNESCAPE_QUOTED = r'\\(\n|["\\$`])'


def parse(script: str) -> Script:
    """The simple commands of `script`, in the order written. Raises Unclear, whose message says why."""
    if refused := _refused(script):
        raise Unclear(f"the character U+{ord(refused.group()):04X} is not plain text")
    encoded = script.encode()
    if len(encoded) > MAX_BYTES:
        raise Unclear(f"it is longer than {MAX_BYTES} bytes")
    root = tree(encoded)
    commands, found_redirects = _plain_nodes(root)
    understood = read(script)
    if [list(command.argv) for command in understood.commands] != [_argv(node) for node in commands]:
        raise Unclear("two parsers read it differently")
    redirects = [(redirect.operator, redirect.fd, redirect.target.text) for redirect in understood.redirects]
    if sorted(redirects) != sorted(map(_redirect, found_redirects)):
        raise Unclear("two parsers read its redirections differently")
    return understood


def _refused(script: str) -> re.Match[str] | None:
    # Most scripts are plain ASCII; compiling the pattern would be a good part of a short run.
    if script.isascii() and script.replace("\n", "").replace("\t", "").isprintable():
        return None
    return re.search(_REFUSED, script)


def tree(script: bytes, seconds: float | None = None) -> Node:
    """tree-sitter's view of a script, errors included. Raises TimeoutError when it takes longer than `seconds`."""
    parser = Parser(Language(tree_sitter_bash.language()))
    if seconds is None:
        return parser.parse(script).root_node
    end = time.monotonic() + seconds
    try:
        return parser.parse(
            lambda at, _point: script[at : at + _PIECE], progress_callback=lambda _at, _failed: time.monotonic() > end
        ).root_node
    except ValueError:
        raise TimeoutError from None


def nodes(root: Node) -> Iterator[Node]:
    """Every node below and with `root`, in the order of the text."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        yield node
        waiting.extend(reversed(node.children))


def text_of(node: Node) -> str:
    return (node.text or b"").decode(errors="replace")


def _plain_nodes(root: Node) -> tuple[list[Node], list[Node]]:
    """The commands and the redirections. Raises Unclear when anything is not of a kind that is surely read alike."""
    unclear, commands, redirects = "", [], []
    for node in nodes(root):
        if node.is_error or node.is_missing:
            unclear = unclear or "it is not complete shell grammar"
        elif node.is_named and node.type not in _PLAIN_KINDS:
            raise Unclear(_REASONS.get(node.type, f"it holds a {node.type.replace('_', ' ')}"))
        elif node.type == "[[":
            raise Unclear("[[ is not POSIX")
        elif node.type in ("&>", "&>>", "|&", ">&-", "<&-"):
            raise Unclear(f"{node.type} is not POSIX")
        elif node.type == "&":
            raise Unclear("it runs in the background")
        elif node.type in ("command", "test_command"):
            commands.append(node)
        elif node.type == "file_redirect":
            redirects.append(node)
    if unclear:
        raise Unclear(unclear)
    return commands, redirects


def _argv(command: Node) -> list[str]:
    if command.type == "test_command":
        return list(_test_words(command))
    words = (child.children[0] if child.type == "command_name" else child for child in command.children)
    return [value(word) for word in words if word.type in _WORDS]


def _test_words(test: Node) -> Iterator[str]:
    """The words of `[ … ]`, which tree-sitter reads as an expression: leaves that touch are one word."""
    text, end = "", -1
    for leaf in _leaves(test):
        if leaf.start_byte != end and end >= 0:
            yield text
            text = ""
        text, end = text + value(leaf), leaf.end_byte
    yield text


def _leaves(root: Node) -> Iterator[Node]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        if node.type in _WORDS or not node.children:
            yield node
        else:
            waiting.extend(reversed(node.children))


def _redirect(node: Node) -> tuple[str, str, str]:
    operator, fd, target = "", "", ""
    for child in node.children:
        if child.type == "file_descriptor":
            fd = text_of(child)
        elif child.type in _WORDS:
            target += value(child)
        else:
            operator = text_of(child)
    return operator, fd, target


def value(word: Node) -> str:
    """What a word passes when nothing in it expands; parts that expand are left as written."""
    text = text_of(word)
    if word.type == "raw_string":
        return text[1:-1]
    if word.type == "string":
        return re.sub(_UNESCAPE_QUOTED, _escaped, text[1:-1])
    if word.type == "concatenation":
        return "".join(map(value, word.children))
    return re.sub(_UNESCAPE, _escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return "" if match.group(1) == "\n" else match.group(1)
