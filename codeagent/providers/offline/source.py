"""What a source file says: its functions, where they give nothing back or raise, and under which conditions.

The grammars of tree-sitter name alike what is alike in all languages: one table of kinds serves them all.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, cached_property, lru_cache
from importlib import import_module
from itertools import islice
from typing import NamedTuple

from tree_sitter import Language, Node, Parser

MAX_SECONDS = 2.0  # for parsing one file; honest ones take a hundredth of that
MAX_NODES = 200_000
MAX_DEPTH = 40
MAX_STATEMENTS = 400
STACK = 256 << 20  # bytes; the parser recurses, and a hostile file is nested as deeply as it is long
LANGUAGES = {"py": "python", "pyi": "python", "java": "java", "c": "c", "h": "c", "go": "go"}
LANGUAGES |= dict.fromkeys(("js", "mjs", "cjs", "jsx"), "javascript") | dict.fromkeys(("ts", "tsx"), "typescript")
_ROLES = {
    "type": r"(abstract_)?(class|interface|enum|record)_(definition|declaration)|type_spec",
    "function": r"(generator_)?(function|method|constructor)_(definition|declaration|expression)|arrow_function",
    "closed": r"lambda|lambda_expression|func_literal|object_creation_expression",
    "return": r"return_statement",
    "raise": r"(raise|throw)_statement",
    "leave": r"(break|continue)_statement",
    "plain": r"(expression|assignment|assert|pass)_statement|(\w+_)?declaration",
    "case": r"(case|except|catch)_clause|case_statement|switch_(case|default|rule|block_statement_group)|\w+_case",
    "call": r"call|call_expression|method_invocation",
    "choice": r"ternary_expression|conditional_expression",
    "wrapper": r"parenthesized_expression|await|(await|cast|as|non_null)_expression",
}
_CALLEE = re.compile(r"(?:(\w+)(?:\([^()]*\))?\s*(?:[?!]?\.|->|::)\s*)?(\w+)\s*(?:<[^()]*>)?\s*$")
_DEFAULT = re.compile(r"(?:.*\.)?(?:get|pop|next|getattr|orElse|getOrDefault)\(.*\b(?:None|null)\)")
_TARGET = re.compile(r"(?:(?:this|self)(?:\.|->))?[*&]*(\w+)(?:,.*)?")
part = Node.child_by_field_name


class Code(NamedTuple):
    """A statement of the role `kind`, and what it returns or sets `target` to; or a note on one, of that phrase."""

    kind: str
    node: Node
    text: str
    target: str = ""
    value: Node | None = None

    @property
    def line(self) -> int:
        return self.node.start_point.row + 1


class Place(NamedTuple):
    """Where a function ends with nothing, or raises; `kind` is a phrase of the answer."""

    kind: str
    code: Code
    notes: list[Code]


class Call(NamedTuple):
    """`receiver` is the last name before the dot, empty for none; `decides` when only a condition depends on it."""

    name: str
    receiver: str
    arguments: int
    line: int
    decides: bool = False


@dataclass(frozen=True, eq=False)
class Function:
    """`owner` is the type it belongs to, empty for none; `bases` are the types that one builds on; `text`, `others`
    and `imports` the text, all functions and the imports of its file."""

    path: str
    text: str
    imports: list[str]
    others: list[Function]
    node: Node
    body: Node
    name: str
    owner: str
    bases: list[str]

    @property
    def title(self) -> str:
        return f"{self.owner}.{self.name}" if self.owner else self.name

    @property
    def parameters(self) -> int:
        return len((part(self.node, "parameters") or self.node).named_children)

    @cached_property
    def statements(self) -> list[Code]:
        """In the order of the text, without those of functions inside. An expression that is all is returned."""
        if not re.search("block|body|compound", self.body.type):
            return [Code("return", self.body, text_of(self.body), "", self.body)]
        inside = walk(self.body, ("type", "function", "closed"))
        found = (_statement(one) for one in inside if role(one.type) in ("return", "raise", "leave", "plain"))
        return list(islice(found, MAX_STATEMENTS))

    def nothing(self, values: Sequence[str]) -> list[Place]:
        """Every place where it can give one of `values` back."""
        found, returns = list[Place](), [(at, one) for at, one in enumerate(self.statements) if one.kind == "return"]
        for at, one in returns:
            field, name = re.subn(r"^(?:self|this)(?:\.|->)", "", text_of(one.value) or "None")[::-1]
            alike = [other for other in self.others if field and other.owner == self.owner]
            before = [*self.statements[:at], *(code for other in alike for code in other.statements)]
            sets = [other._replace(kind="set") for other in before if other.value and other.target == name]
            emptied = [other for other in sets if self._gives(other.value, values)][:1]
            if kind := self._gives(one.value, values) or "place" * len(emptied):
                found.append(self.place(kind, at, emptied))
        full = any(text_of(one.value) not in ("", "None") for _, one in returns)
        if full and "None" in values and self.path.endswith(".py") and _falls_off(self.body):
            found.append(self.place("falls_off", len(self.statements)))
        return found

    def raising(self, names: Sequence[str]) -> list[Place]:
        """Every place where it raises one of the names, or anything; also again, or by making it for the caller."""
        named, found = re.compile(rf"\b(?:{'|'.join(names)})\b"), list[Place]()
        for at, one in enumerate(self.statements):
            made, given, _ = one.text.partition(" ")[2].partition("(")
            caught = _conditions(self.body, one.node) if one.kind == "raise" and re.fullmatch(r"\w*", made) else []
            if one.kind == "raise" or (one.kind == "return" and given and names):
                texts = [made, *(condition.text for condition in caught)]
                found += [self.place("place", at)] if not names or any(map(named.search, texts)) else []
        return found

    def calls_behind(self, places: Sequence[Place]) -> list[Call]:
        """The calls whose results are returned, or set to what is returned or tested, and those in conditions."""
        tests = [note for place in places for note in place.notes if note.kind != "set"]
        words = " ".join(text_of(one.value).partition(".")[0] for one in self.statements if one.kind == "return")
        names, calls = {*re.findall(r"\w+", " ".join([words, *(test.text for test in tests)]))}, list[Call]()
        for one in self.statements:
            if one.target in names or (one.kind == "return" and not re.search(r"[!=]=|\bis\b", one.text)):
                calls += calls_in(one.node)
        return [*calls, *(call._replace(decides=True) for test in tests for call in calls_in(test.node))]

    def place(self, kind: str, at: int, notes: Sequence[Code] = ()) -> Place:
        """A place at a statement, or behind the last one."""
        before, one = self.statements[:at], self.statements[min(at, len(self.statements) - 1)]
        if not (tests := _conditions(self.body, one.node) if kind != "falls_off" else []):
            ways = [way for way in before if way.kind != "plain"]
            passed = {test: way.kind for way in ways for test in _conditions(self.body, way.node)[-1:]}
            kinds = {"leave": "leaves", "when": "passed"}
            tests = [one._replace(kind=kinds.get(way) or kinds.get(one.kind, "when")) for one, way in passed.items()]
        words = {*re.findall(r"\w+", " ".join(test.text for test in tests))}
        sets = [other._replace(kind="set") for other in before if other.target in words and "(" in other.text]
        return Place(kind, one, [*tests, *notes, *sets])

    def _gives(self, node: Node | None, values: Sequence[str], depth: int = MAX_DEPTH) -> str:
        """The kind of place that a returned expression makes; empty when it is not seen to be nothing."""
        text, kind = text_of(node) or "None", role(node.type) if node else ""
        if text in values or (kind == "call" and "None" in values and _DEFAULT.fullmatch(text)):
            return "place"
        parts = node.named_children if node and depth else []
        if node and kind == "call" and "None" in values and (call := next(calls_in(node), None)):
            types, python = types_of(self.text, call.receiver), self.path.endswith(".py")
            maps = python or any(one.endswith(("Map", "Properties")) for one in types)
            names = ("get",) if python else ("get", "remove", "getProperty")
            return "maybe" if maps and call.name in names and call.arguments == 1 else ""
        if node and kind == "choice":
            parts = parts[1:] if part(node, "condition") else parts[::2]
        elif node and (kind == "wrapper" or any(one.type in ("or", "||", "??") for one in node.children)):
            parts = parts[-1:]
        else:
            parts = parts[:1] if node and node.type == "expression_list" else []
        return max((self._gives(one, values, depth - 1) for one in parts), default="")  # a place before a maybe


@lru_cache(maxsize=256)
def functions_of(path: str, text: str) -> list[Function]:
    """All functions of a file; none where its language is not known or reading it takes too long."""
    if not (language := LANGUAGES.get(path.rpartition(".")[2])):
        return []
    usual = threading.stack_size(STACK)
    try:
        with ThreadPoolExecutor(1) as thread:
            root = thread.submit(_parsed, language, text.encode(errors="replace")).result()
    finally:
        threading.stack_size(usual)
    nodes = list(islice(walk(root), MAX_NODES)) if root else []
    imports = [text_of(node) for node in nodes if node.type.startswith(("import", "lexical"))]
    found = list[Function]()
    for node in nodes:
        if role(node.type) == "function" and (body := part(node, "body")) and (name := _name(node)):
            found.append(Function(path, text, imports, found, node, body, name, *_owner(node)))
    return found


def _parsed(language: str, content: bytes) -> Node | None:
    """None when it takes too long. A parser needs much stack, most when it ends early: it lives here alone."""
    module = import_module(f"tree_sitter_{language}")
    parser = Parser(Language((module.language if hasattr(module, "language") else module.language_tsx)()))
    end = time.monotonic() + MAX_SECONDS
    late, read = (lambda *_: time.monotonic() > end), (lambda at, _: content[at : at + 65_536])
    try:
        return parser.parse(read, progress_callback=late).root_node
    except ValueError:
        return None


@cache
def role(kind: str) -> str:
    """The first of `_ROLES` that fits a kind of node, or nothing."""
    return next((role for role, kinds in _ROLES.items() if re.fullmatch(kinds, kind)), "")


def text_of(node: Node | None, end: int | None = None) -> str:
    """The text of a node on one line, as far as the byte `end` of the file, without brackets around all of it."""
    text = (node.text or b"")[: end and end - node.start_byte] if node else b""
    line = " ".join(text.decode(errors="replace").split()).rstrip(";")
    return line[1:-1] if node and node.type == "parenthesized_expression" else line


def walk(node: Node, closed: Sequence[str] = ()) -> Iterator[Node]:
    """A node and all below it in the order of the text, but nothing inside those of the closed roles."""
    waiting = [node]
    while waiting:
        yield (node := waiting.pop())
        if role(node.type) not in closed:
            waiting += reversed(node.named_children)


def calls_in(node: Node) -> Iterator[Call]:
    """All calls in a node, in the order of the text."""
    for one in walk(node):
        given = part(one, "arguments") if role(one.type) == "call" else None
        if given and (match := _CALLEE.search(text_of(one, given.start_byte)[-200:])):
            yield Call(match[2], match[1] or "", given.named_child_count, one.start_point.row + 1)


@lru_cache(maxsize=4_096)
def types_of(text: str, name: str) -> list[str]:
    """The types that a variable, field or parameter of this name is declared with, as written in the file."""
    found = re.findall(
        rf"\b([A-Z]\w*)(?:<[^;(){{}}]{{0,80}}>)?(?:\[\])?[\s*&]+{name}\b\s*[;=,():]"
        rf"|\b{name}(?:\([^()\n]*\)\s*->|\s*\??:|\s*:?=)\s*(?:(?:await|new|readonly)\s+|&|\w+\.|Optional\[|['\"])*"
        r"([A-Z]\w*)",
        text,
    )
    return list(dict.fromkeys(one or other for one, other in found))


def _statement(node: Node) -> Code:
    kind, text = role(node.type), text_of(node)
    if kind == "return":
        return Code(kind, node, text, "", next(iter(node.named_children), None))
    for one in (node, *node.named_children):
        for target, value in (("left", "right"), ("name", "value"), ("declarator", "value")):
            if (to := part(one, value)) and (name := _TARGET.fullmatch(text_of(part(one, target)))):
                return Code(kind, node, text, name[1], to)
    return Code(kind, node, text)


@lru_cache(maxsize=4_096)
def _conditions(body: Node, node: Node) -> tuple[Code, ...]:
    """What must hold in a function for reaching a statement, the outermost first."""
    found = list[Code]()
    while node != body and (around := node.parent) and len(found) < MAX_DEPTH:
        if role(node.type) == "case":
            head = re.split(r":(?:\s|$)|->|\{", text_of(node))[0].strip()
            found.append(Code("when", (node.named_children or [node])[0], head))
        if own := part(around, "condition"):
            at = around.children.index(node)
            tests = [own, *(part(one, "condition") for one in around.children[:at] if one.type == "elif_clause")]
            kind = {"consequence": "when", "alternative": "otherwise"}.get(around.field_name_for_child(at) or "")
            found += [Code(kind, one, text_of(one)) for one in reversed(tests) if one and kind]
        node = around
    return tuple(found[::-1])


def _name(node: Node) -> str:
    """The name of a type or function; of an anonymous function, that of what it is given to."""
    given = ((node.parent, one) for one in ("name", "key", "left", "property"))
    places = ((node, "name"), (node, "declarator"), *given)
    found = next((name for holder, one in places if holder and (name := part(holder, one))), None)
    while found and (inner := part(found, "declarator")):
        found = inner
    return text_of(found).rpartition(".")[2]


def _owner(node: Node) -> tuple[str, list[str]]:
    """The type that a function belongs to, and the types that this builds on."""
    if receiver := part(node, "receiver"):
        return re.findall(r"\w+", text_of(receiver).partition("[")[0])[-1], []
    around = node.parent
    while around and role(around.type) not in ("type", "function", "closed"):
        around = around.parent
    body = part(around, "body") if around and role(around.type) == "type" else None
    head = text_of(around, body.start_byte).partition(_name(around)) if around and body else ("", "", "")
    return head[1], re.findall(r"\b[A-Z]\w+", head[2])


def _falls_off(node: Node, depth: int = MAX_DEPTH) -> bool:
    """Whether the end of a block or clause of Python can be reached."""
    while node.named_children and (node.type in ("block", "with_statement") or node.type.endswith("_clause")):
        node = [one for one in node.named_children if one.type != "comment" or len(node.named_children) == 1][-1]
    inner = [one for one in node.named_children if one.type == "block" or one.type.endswith("_clause")]
    if role(node.type) in ("return", "raise", "leave") or text_of(node).startswith("while True:"):
        return False
    if node.type == "match_statement" and "case _:" in text_of(node):
        inner = [one for one in inner[-1].named_children if one.type == "case_clause"]
    elif node.type == "try_statement":
        inner = [one for one in inner[any(o.type == "else_clause" for o in inner) :] if one.type != "finally_clause"]
    elif node.type != "if_statement" or inner[-1].type != "else_clause":
        return True
    return not depth or any(_falls_off(one, depth - 1) for one in inner)
