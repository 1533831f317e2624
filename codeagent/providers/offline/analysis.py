"""What one function says: where it gives nothing back or raises, under which condition, and whom it asks."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache

from codeagent.providers.offline.source import Function, Guard, Source, Statement, is_python, unwrapped


@dataclass(frozen=True, slots=True)
class Place:
    """A place where a function ends with nothing, or raises.

    `kind` is `place`, `maybe` (a look-up, which gives nothing for a missing key) or `falls_off` (the end is reached
    without a return). `conditions` stand around it; `passed` are the ways out before it that were not taken, where it
    has no condition of its own. `origin` gave a returned variable its empty value. `related` are the statements that
    set or use what the conditions test.
    """

    statement: Statement
    kind: str = "place"
    conditions: tuple[Guard, ...] = ()
    passed: tuple[Guard, ...] = ()
    origin: Statement | None = None
    related: tuple[Statement, ...] = ()

    @property
    def tests(self) -> tuple[Guard, ...]:
        return (*self.conditions, *self.passed)


@dataclass(frozen=True, slots=True)
class Call:
    """`receiver` is the last name before the dot, empty for none; `decides` when only a condition depends on it."""

    name: str
    receiver: str
    arguments: int
    line: int
    decides: bool = False


SELF = frozenset(("", "this", "self", "cls", "super"))
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_RETURN = re.compile(r"return\b\s*(.*)")
_WAY_OUT = re.compile(r"(?:return|continue|break|raise|throw|(?:sys\.)?exit)\b")
_SET = re.compile(
    r"(?:[\w<>\[\],.*&?]+[\s*&]+)*(?:(?:this|self)(?:\.|->))?([A-Za-z_$][\w$]*)\s*(?::[^=]+)?:?=(?!=)\s*(.+)"
)
_CALL = re.compile(
    r"(?<![\w$])(?:([\w$]+)(?:\([^()]*\))?\s*(?:[?!]?\.|->|::)\s*)?([A-Za-z_$][\w$]*)\s*(?:<[\w<>, ]*>)?\("
)
_NO_CALL = frozenset(
    "if elif for while switch catch except return new throw raise not and or in is await yield sizeof typeof assert"
    " del with print function lambda super isinstance len str int bool list dict tuple set".split()
)
_COMPARISON = re.compile(r"(?:[!=]==?|\bis(?:\s+not)?)\s*(?:null|None|NULL|nil|undefined|nullptr)\b")
_OPERAND = re.compile(r"\?\?|[?:]|\|\||\b(?:or|if|else)\b")
_DEFAULT = re.compile(r"\b(?:orElse|next|getattr|pop|get|getOrDefault)\s*\(.*\b(?:null|None)\)$")


def nothing_places(function: Function, values: Sequence[str]) -> list[Place]:
    """Every place where the function can give one of `values` back."""
    places = []
    for at, statement in enumerate(function.statements):
        match = _RETURN.match(statement.text)
        if match is None or any(guard.kind == "lambda" for guard in statement.guards):
            continue
        value = match.group(1).rstrip(";")
        if kind := _nothing(value, function.source, values) or ("place" if not value and "None" in values else ""):
            places.append(_place(function, at, kind))
        elif origin := _emptied(function, at, value, values):
            places.append(Place(statement, "place", _conditions(statement), origin=origin))
    return places + _falling_off(function, values)


def raising_places(function: Function, exceptions: Iterable[str]) -> list[Place]:
    """Every place where the function raises; only of the named types when there are some: also where one is made for
    the caller to raise, and where one that was caught is raised again."""
    names = "|".join(map(re.escape, exceptions))
    made = rf"(?:raise|throw)\s+(?:new\s+)?[\w.]*(?:{names})\b|return\s+(?:new\s+)?[\w.]*(?:{names})\s*\("
    again = re.compile(r"(?:raise|throw)\s*(?:\b[a-z_]\w*)?;?$")
    return [
        _place(function, at)
        for at, one in enumerate(function.statements)
        if re.match(made if names else r"(?:raise|throw)\b", one.text)
        or (
            names
            and again.match(one.text)
            and any(g.kind == "except" and re.search(names, g.text) for g in one.guards)
        )
    ]


def answers(function: Function) -> list[Place]:
    """Every place where a function that decides a condition gives its answer."""
    return [_place(function, at) for at, one in enumerate(function.statements) if _RETURN.match(one.text)]


def _nothing(value: str, source: Source, values: Sequence[str]) -> str:
    """The kind of place that an expression makes; empty when it is not seen to be nothing."""
    value = unwrapped(_COMPARISON.sub("", value))
    flat = _shallow(value)
    operands = [part.strip() for part in _OPERAND.split(flat)]
    calls = tuple(one for one in values if one[0].isalpha() and one.endswith(")"))
    if any(one in values or one.endswith(calls) for one in operands) or ("None" in values and _DEFAULT.search(value)):
        return "place"
    looked_up = re.search(r"(\w+)\.(get|remove|getProperty)\(_\)$", flat)
    if looked_up is None or "None" not in values:
        return ""
    is_map = any(name.endswith(("Map", "Properties")) for name in declared_types(source, looked_up.group(1)))
    return "maybe" if is_map or (is_python(source.path) and looked_up.group(2) == "get") else ""


def _shallow(text: str) -> str:
    """A text with `_` for each argument or element that stands in brackets."""
    kept, depth = list[str](), 0
    for piece in re.findall(r"[()\[\]{},]|[^()\[\]{},]+", text):
        depth -= piece in ")]}"
        if depth <= 0 or (depth == 1 and piece == ","):
            kept.append(piece)
        elif kept[-1:] != ["_"]:
            kept.append("_")
        depth += piece in "([{"
    return "".join(kept)


def _emptied(function: Function, at: int, value: str, values: Sequence[str]) -> Statement | None:
    """The statement that gives a returned variable or field its empty value, when one does."""
    match = re.fullmatch(r"((?:self|this)(?:\.|->))?(\w+)", value)
    field, name = match.groups() if match else ("", "")
    before = function.statements[:at]
    local = not field and (name in _NAME.findall(function.header) or any(_set(one)[0] == name for one in before))
    siblings = () if local or not function.owner else function.source.functions
    statements = [*before, *(one for other in siblings if other.owner == function.owner for one in other.statements)]
    emptied = (one for one in statements if _set(one)[0] == name and _nothing(_set(one)[1], function.source, values))
    return next(emptied, None) if match else None


def _set(statement: Statement) -> tuple[str, str]:
    """The variable or field that a statement sets, and to what; empty when it sets none."""
    match = _SET.fullmatch(statement.text)
    return (match.group(1), match.group(2)) if match else ("", "")


def _place(function: Function, at: int, kind: str = "place") -> Place:
    statement = function.statements[at]
    conditions = _conditions(statement)
    ways_out = () if conditions else (one for one in function.statements[:at] if _WAY_OUT.match(one.text))
    passed = tuple(dict.fromkeys(guard for one in ways_out for guard in _conditions(one)[-1:]))
    return Place(statement, kind, conditions, passed, related=_related(function, at, (*conditions, *passed)))


def _conditions(statement: Statement) -> tuple[Guard, ...]:
    return tuple(guard for guard in statement.guards if guard.kind in ("if", "elif", "else", "case", "except"))


def _related(function: Function, at: int, tests: Sequence[Guard]) -> tuple[Statement, ...]:
    """What set the variables that are tested, and what else the type does to the fields that are asked."""
    text = " ".join(guard.text for guard in tests)
    names = set(_NAME.findall(text))
    found = {name: one for one in function.statements[:at] if (name := _set(one)[0]) in names and "(" in one.text}
    local = {*found, *_NAME.findall(function.header), *SELF}
    for field in {name: None for name in re.findall(r"\b(\w+)(?:\.|->)\w+\s*\(", text) if name not in local}:
        uses = re.compile(rf"(?:this\.|self\.)?{field}(?:\.|->)\w+\s*\(")
        for other in function.source.functions if function.owner else ():
            if other.owner == function.owner:
                found |= {f"{field}:{one.line}": one for one in other.statements if uses.match(one.text)}
    return tuple(sorted(found.values(), key=lambda one: one.line))


def _falling_off(function: Function, values: Sequence[str]) -> list[Place]:
    """The end of a Python function that returns a value elsewhere and whose end can be reached."""
    statements = function.statements
    returned = [one for one in statements if re.match(r"return\s+(?!None\b)\S", one.text)]
    if not is_python(function.path) or "None" not in values or not returned:
        return []
    if any(re.search(r"\byield\b", one.text) for one in statements) or _ends(statements, 0):
        return []
    passed = tuple(dict.fromkeys(guard for one in returned for guard in _conditions(one)[-1:]))
    related = _related(function, len(statements), passed)
    return [Place(statements[-1], "falls_off", passed=passed, related=related)]


def _ends(statements: Sequence[Statement], depth: int) -> bool:
    """Whether what follows these statements cannot be reached; `depth` guards stand around all of them."""
    branches: dict[tuple[Guard, ...], Statement] = {}  # each with its last statement, in the order of these
    for one in statements:
        branches.pop(one.guards[depth : depth + 1], None)
        branches[one.guards[depth : depth + 1]] = one
    final = statements[-1].guards[depth : depth + 1]
    for branch, last in reversed(branches.items()):
        if not branch:  # what stands alone, or the body of a `try` before its `except`
            return _WAY_OUT.match(last.text) is not None or bool(final and final[0].kind == "case")
        if branch[0].kind == "loop":
            return branch != final or branch[0].text == "while True"
        exhaustive = branch[0].kind in ("else", "except") or branch[0].text == "case _"
        inside = [one for one in statements if one.guards[depth : depth + 1] == branch]
        if (branch == final and not exhaustive) or not _ends(inside, depth + 1):
            return False
        if branch[0].kind == "if":
            return True
    return True


def calls_behind(function: Function, places: Sequence[Place]) -> list[Call]:
    """The calls whose results are returned, or are set to a variable that is returned or tested, and those that
    only decide the conditions of `places`."""
    tests = {guard: None for place in places for guard in place.tests}
    returned = [match.group(1) for one in function.statements if (match := _RETURN.match(one.text))]
    names = {name for guard in tests for name in _NAME.findall(guard.text)}
    names |= {match.group(1) for one in returned if (match := re.match(r"\(?(\w+)", one))}
    calls: list[Call] = []
    for one in function.statements:
        if (_RETURN.match(one.text) and not re.search(r"[!=]=|\bis\b", one.text)) or _set(one)[0] in names:
            calls += _calls_in(one.text, one.line)
    known = {(call.name, call.receiver) for call in calls}
    decide = [call for guard in tests for call in _calls_in(guard.text, guard.line, decides=True)]
    return list(dict.fromkeys([*calls, *(call for call in decide if (call.name, call.receiver) not in known)]))


def all_calls(function: Function) -> list[Call]:
    """The first call of each kind: what passes through unseen, as exceptions do, may come from any."""
    texts = [(one.line, one.text) for one in function.statements]
    texts += [(guard.line, guard.text) for one in function.statements for guard in one.guards]
    calls = [call for line, text in texts for call in _calls_in(text, line)]
    return list({(call.name, call.receiver): call for call in reversed(calls)}.values())[::-1]


def _calls_in(text: str, line: int, decides: bool = False) -> list[Call]:
    return [
        Call(match.group(2), match.group(1) or "", argument_count(text[match.end() - 1 :]), line, decides)
        for match in _CALL.finditer(text)
        if match.group(2) not in _NO_CALL and not text.endswith("new ", 0, match.start())
    ]


def argument_count(text: str) -> int:
    """How many arguments or parameters stand in the first brackets of a text."""
    match = re.search(r"\(([_,]+)\)", _shallow(text[:400]))
    return match.group(1).count(",") + 1 if match else 0


@lru_cache(maxsize=4_096)
def declared_types(source: Source, name: str) -> list[str]:
    """The types that a variable, field or parameter of this name is declared with, as written in the file."""
    word = re.escape(name)
    patterns = (
        rf"\b([A-Z]\w*)(?:<[^;(){{}}]{{0,200}}>)?(?:\[\])?\s+[*&]?{word}\b\s*[;=,():]",
        rf"\b{word}\s*\??:\s*(?:\w+\.)*(?:Optional\[|readonly\s+)?['\"]?([A-Z]\w*)",
        rf"\b{word}\s*:?=\s*(?:await\s+)?(?:new\s+|&)?([A-Z]\w*)\s*[({{<]",
        rf"\bstruct\s+(\w+)\s*\*?\s*{word}\b",
        rf"\bdef\s+{word}\([^()]*\)\s*->\s*['\"]?([A-Z]\w*)",
    )
    return list(dict.fromkeys(match for pattern in patterns for match in re.findall(pattern, source.clean)))


def imported_from(source: Source, name: str) -> str:
    """The module that a file imports a name from, as a path without suffix; empty when it does not."""
    word = re.escape(name)
    for pattern in (
        rf"from\s+([.\w]+)\s+import\s+(?:\([^()]{{0,2000}}?|[^()\n]{{0,500}}?)(?<![\w.]){word}\b",
        rf"import\s+static\s+([\w.]+)\.{word}\s*;",
        rf"\{{[^{{}}]{{0,2000}}?\b{word}\b[^{{}}]{{0,2000}}\}}\s*(?:from|=\s*require\()\s*['\"]([^'\"]+)['\"]",
    ):
        if match := re.search(pattern, source.text):
            module = match.group(1)
            return re.sub(r"\.[cm]?[jt]sx?$", "", module) if "/" in module else module.replace(".", "/")
    return ""


def is_module(path: str, module: str) -> bool:
    stem, module = "/" + path.rpartition(".")[0], "/" + module.lstrip("./")
    return any(stem.endswith(module + suffix) for suffix in ("", "/__init__", "/index"))
