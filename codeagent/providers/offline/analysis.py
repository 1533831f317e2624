"""What one function says: where it gives nothing back or raises, under which condition, and whom it asks."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

from codeagent.providers.offline.question import EMPTIES, NULLS
from codeagent.providers.offline.source import Function, Guard, Source, Statement


@dataclass(frozen=True, slots=True)
class Exit:
    """A place where a function ends with nothing, or raises.

    `conditions` are what stands around it. `passed` are the earlier ways out that were not taken, for a place
    that has no condition of its own. `sets` gave the variables in those conditions their values. `origin` is the
    line that gave a returned variable its empty value.
    """

    line: int
    last_line: int
    shown: str
    conditions: tuple[Guard, ...] = ()
    passed: tuple[Guard, ...] = ()
    sets: tuple[Statement, ...] = ()
    origin: int = 0
    maybe: bool = False
    falls_off: bool = False


@dataclass(frozen=True, slots=True)
class Call:
    """`receiver` is the last name before the dot, empty for none; `decides` when only a condition depends on it."""

    name: str
    receiver: str
    line: int
    decides: bool = False


_RETURN = re.compile(r"^(?:return|yield)\b\s*(.*)$", re.DOTALL)
_COMPARISON = re.compile(r"(?:[!=]==?|\bis(?:\s+not)?)\s*(?:null|None|NULL|nil|undefined|nullptr)\b")
_CALL = re.compile(r"(?:([\w$]+)(?:\([^()]*\))?\s*(?:\?\.|!\.|\.|->|::)\s*)?([A-Za-z_$][\w$]*)\s*(?:<[\w<>, ]*>)?\(")
_NAME = re.compile(r"[A-Za-z_$][\w$]*")
_ASSIGNED = re.compile(r"(?:[\w<>\[\],.*&?\s]*[\s*&])?([A-Za-z_$][\w$]*)\s*(?::[^=]+)?:?=(?!=)\s*(.+)$", re.DOTALL)
_NEW = re.compile(r"\bnew\s+$")
_KEYWORDS = frozenset(
    "if elif for while switch catch return new throw raise not and or in is await yield sizeof typeof assert del with"
    " print function lambda super defined isinstance len str int bool list dict tuple set".split()
)
_LAST_RESORT = re.compile(
    r"\b(?:orElse|next|getattr|pop|get|getOrDefault|unwrap_or|find|first)\s*\([^()]*\b(?:null|None|nil|undefined)\s*\)$"
)
_RAISE = re.compile(r"^(?:raise|throw|panic!?|die)\b\s*(?:new\s+)?\(?([\w.]*)")
_PYTHON_END = re.compile(r"^(?:return|raise|(?:sys\.)?exit|os\._exit)\b")


def exits(function: Function, source: Source, values: tuple[str, ...]) -> list[Exit]:
    """Every place where the function can give one of `values` back."""
    found = []
    for index, statement in enumerate(function.statements):
        if any(guard.kind == "lambda" for guard in statement.guards):
            continue
        match = _RETURN.match(statement.text)
        if match is None:
            continue
        found += _exit(function, source, index, match.group(1).strip().rstrip(";"), values)
    return found + _falling_off(function, source, values)


def _exit(function: Function, source: Source, index: int, value: str, values: tuple[str, ...]) -> list[Exit]:
    if _is_nothing(value, values, source):
        return [_at(function, index)]
    if source.language == "python" and "None" in values and re.search(r"\.get\(([^(),]|\([^()]*\))*\)$", value):
        return [_at(function, index, maybe=True)]
    if source.language == "java" and _asks_map(value, source):
        return [_at(function, index, maybe=True)]
    if re.fullmatch(r"\w+", value):
        origin = _emptied(function.statements[:index], value, values)
        if origin:
            return [replace(_at(function, index), passed=(), origin=origin.line)]
    return []


def _at(function: Function, index: int, maybe: bool = False) -> Exit:
    statement = function.statements[index]
    conditions = _conditions(statement)
    passed = () if conditions else _passed(function.statements[:index])
    sets = _sets(function.statements[:index], (*conditions, *passed))
    return Exit(statement.line, statement.last_line, statement.shown, conditions, passed, sets, maybe=maybe)


def _conditions(statement: Statement) -> tuple[Guard, ...]:
    return tuple(guard for guard in statement.guards if guard.kind in ("if", "elif", "else", "case", "except"))


def _passed(before: tuple[Statement, ...]) -> tuple[Guard, ...]:
    """The conditions of earlier ways out and of skipped rounds of loops, each once."""
    guards = [
        guard
        for statement in before
        if re.match(r"(?:return|continue|break|raise|throw|yield)\b", statement.text)
        for guard in _conditions(statement)[-1:]
    ]
    return tuple(dict.fromkeys(guards))


def _sets(before: tuple[Statement, ...], guards: tuple[Guard, ...]) -> tuple[Statement, ...]:
    """The assignments, from calls, of variables that the conditions test; the last one of each."""
    names = set(_NAME.findall(" ".join(guard.text for guard in guards)))
    found = {
        match.group(1): statement
        for statement in before
        if (match := _ASSIGNED.match(statement.text)) and match.group(1) in names and "(" in match.group(2)
    }
    return tuple(sorted(found.values(), key=lambda statement: statement.line))


def _is_nothing(value: str, values: tuple[str, ...], source: Source) -> bool:
    if not value:
        return source.language in ("python", "js") and bool({"None", "undefined"} & set(values))
    value = _bare(value)
    plain = _COMPARISON.sub("", value)
    outside = _outside_brackets(plain)
    if value in values:
        return True
    words = [word for word in values if word in (*NULLS, "false", "False")]
    branch = r"(?:\?|:|\belse\b|\?\?|\|\||\bor\b|\breturn\b)\s*\(?\s*"
    if any(re.search(rf"{branch}{re.escape(word)}(?!\w|\s*[.=!<>])", outside) for word in words):
        return True
    if any(re.match(rf"{re.escape(word)}\s+if\b", outside) for word in words):
        return True
    if "null" in words and _LAST_RESORT.search(plain):
        return True
    return any(empty in values and value.endswith(empty) and "." in value for empty in EMPTIES if empty[0].isalpha())


def _bare(value: str) -> str:
    while value.startswith("(") and value.endswith(")") and value.count("(") == value.count(")"):
        inner = value[1:-1].strip()
        if not inner or not _balanced(inner):
            break
        value = inner
    return value


def _balanced(text: str) -> bool:
    depth = 0
    for char in text:
        depth += (char == "(") - (char == ")")
        if depth < 0:
            return False
    return depth == 0


def _outside_brackets(text: str) -> str:
    """`text` without what stands in brackets."""
    kept, depth = [], 0
    for char in text:
        if char in ")]}":
            depth = max(0, depth - 1)
        if depth == 0:
            kept.append(char)
        if char in "([{":
            depth += 1
    return "".join(kept)


def _asks_map(value: str, source: Source) -> bool:
    match = re.fullmatch(r"(?:this\.)?(\w+)\.(?:get|remove|put|getProperty)\(.*\)", value, re.DOTALL)
    return match is not None and any(
        name.endswith(("Map", "Properties")) for name in declared_types(source, match[1])
    )


def _emptied(before: tuple[Statement, ...], name: str, values: tuple[str, ...]) -> Statement | None:
    """The statement that gave a variable its empty value, when one did."""
    pattern = re.compile(rf"(?:^|[\s*]){re.escape(name)}\s*(?::[^=]+)?=\s*(.+)$", re.DOTALL)
    for statement in before:
        match = pattern.search(statement.text)
        if match and match.group(1).strip() in values and match.group(1).strip() in NULLS:
            return statement
    return None


def _falling_off(function: Function, source: Source, values: tuple[str, ...]) -> list[Exit]:
    """A Python function that returns a value somewhere and can reach its end without one."""
    if source.language != "python" or "None" not in values or not function.statements:
        return []
    returns = [s for s in function.statements if re.match(r"return\s+(?!None\b)\S", s.text)]
    last = function.statements[-1]
    if not returns or any(re.match(r"yield\b|.*=\s*yield\b", s.text) for s in function.statements):
        return []
    if _ends(list(function.statements), 0):
        return []
    passed = tuple(dict.fromkeys(guard for s in returns for guard in _conditions(s)[-1:]))
    return [Exit(last.line, last.last_line, last.shown, (), passed, falls_off=True)]


def _ends(statements: list[Statement], depth: int) -> bool:
    """Whether what follows these statements cannot be reached; `depth` guards stand around all of them."""
    groups: list[tuple[Guard | None, list[Statement]]] = []
    for statement in statements:
        guard = statement.guards[depth] if len(statement.guards) > depth else None
        if not groups or groups[-1][0] != guard:
            groups.append((guard, []))
        groups[-1][1].append(statement)
    final = groups[-1][0]
    if final is not None and (final.kind in ("if", "elif") or (final.kind == "case" and final.text != "_")):
        return False
    for guard, group in reversed(groups):
        if guard is None:  # what stands alone, or the body of a `try` before its `except`
            return _PYTHON_END.match(group[-1].text) is not None or (final is not None and final.kind == "case")
        if guard.kind == "loop":
            return guard is not final or guard.text == "while True"
        if not _ends(group, depth + 1):
            return False
        if guard.kind == "if":
            return True
    return True


def raises(function: Function, exceptions: tuple[str, ...]) -> list[Exit]:
    """Every place where the function raises; only of the named types when there are some."""
    found = []
    for index, statement in enumerate(function.statements):
        match = _RAISE.match(statement.text)
        if match is None:
            continue
        name = match.group(1).rpartition(".")[2]
        if not exceptions or name in exceptions:
            found.append(_at(function, index))
    return found


def decisions(function: Function) -> list[Exit]:
    """Every place where a function that answers yes or no gives its answer, for at most a few of them."""
    found = [
        _at(function, index)
        for index, statement in enumerate(function.statements)
        if _RETURN.match(statement.text) and not any(guard.kind == "lambda" for guard in statement.guards)
    ]
    return found if len(found) <= 6 else []


def calls_behind(function: Function, found: list[Exit]) -> list[Call]:
    """The calls that decide what the function gives back: returned ones, ones whose result is returned or
    tested, and those in the conditions of `found`."""
    returned = [s for s in function.statements if _RETURN.match(s.text)]
    conditions = [guard for exit_ in found for guard in (*exit_.conditions, *exit_.passed)]
    names = set(_NAME.findall(" ".join(guard.text for guard in conditions)))
    names |= {match.group(1) for s in returned if (match := re.match(r"return\s+\(?(\w+)", s.text))}
    result: list[Call] = []
    for statement in returned:
        if not re.search(r"[!=]=|\bis\b", statement.text):
            result += calls_in(statement.text, statement.line)
    for statement in function.statements:
        match = _ASSIGNED.match(statement.text)
        if match and match.group(1) in names:
            result += calls_in(match.group(2), statement.line)
    for guard in conditions:
        result += [Call(c.name, c.receiver, c.line, True) for c in calls_in(guard.text, guard.line)]
    unique: dict[tuple[str, str, bool], Call] = {}
    for call in result:
        unique.setdefault((call.name, call.receiver, call.decides), call)
    return [call for key, call in unique.items() if not call.decides or (key[0], key[1], False) not in unique]


def all_calls(function: Function) -> list[Call]:
    """Every call of a function, for what passes through it unseen: an exception."""
    unique: dict[tuple[str, str], Call] = {}
    for statement in function.statements:
        for call in calls_in(statement.text, statement.line):
            unique.setdefault((call.name, call.receiver), call)
        for guard in statement.guards:
            for call in calls_in(guard.text, guard.line):
                unique.setdefault((call.name, call.receiver), call)
    return list(unique.values())


def calls_in(text: str, line: int) -> list[Call]:
    """The calls of one expression."""
    return [
        Call(match.group(2), match.group(1) or "", line)
        for match in _CALL.finditer(text)
        if match.group(2) not in _KEYWORDS and not _NEW.search(text, 0, match.start())
    ]


def declared_types(source: Source, name: str) -> list[str]:
    """The types that a variable, field or parameter of this name is declared with, as written in the file."""
    word = re.escape(name)
    patterns = (
        rf"\b([A-Z]\w*)(?:<[^;(){{}}]*>)?(?:\[\])?\s+[*&]?{word}\b\s*[;=,):]",
        rf"\b{word}\s*\??:\s*(?:Optional\[|readonly\s+)?['\"]?([A-Z]\w*)",
        rf"\b{word}\s*:?=\s*(?:await\s+)?(?:new\s+|&)?([A-Z]\w*)\s*[({{<]",
        rf"\bstruct\s+(\w+)\s*\*?\s*{word}\b",
        rf"\b{word}\s+\*?([A-Z]\w*)\s*[\n,)]",
    )
    return list(dict.fromkeys(match for pattern in patterns for match in re.findall(pattern, source.clean)))


def changes(source: Source, function: Function, receiver: str) -> list[Statement]:
    """Statements of the same type that do something to a field by a call, those of `function` included."""
    if not receiver or receiver in ("this", "self", "super"):
        return []
    pattern = re.compile(rf"(?:this\.|self\.)?{re.escape(receiver)}(?:\.|->)\w+\s*\(")
    return sorted(
        (
            statement
            for other in source.functions
            if other.owner == function.owner and (other.owner or other is function)
            for statement in other.statements
            if pattern.match(statement.text)
        ),
        key=lambda statement: statement.line,
    )
