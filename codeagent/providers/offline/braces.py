"""A scanner for languages whose blocks stand in braces: Java, JavaScript, TypeScript, C, Go and their kin."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from codeagent.providers.offline.source import (
    Function,
    Guard,
    GuardKind,
    Scan,
    Statement,
    TypeDeclaration,
    closing,
    one_line,
    unwrapped,
    with_statements,
)

_CONTROL = re.compile(
    r"(else\s+if|if|else|for|foreach|while|do|switch|match|when|select|try|catch|finally|synchronized|with|using|"
    r"lock|unsafe|loop|defer|go|static|default|case)\b"
)
_TYPE = re.compile(r"(?:^|[\s(])(class|interface|@interface|enum|record|trait|object|impl|namespace|module)\s+(\w+)")
_C_TYPE = re.compile(r"(?:^|\s)(?:class|struct|union|enum|namespace)\s+(\w+)\s*(?::[^(){}]*)?$")
_GO_TYPE = re.compile(r"^type\s+(\w+)")
_ARROW = re.compile(
    r"([\w$]+)\s*(?::[^=]+)?=\s*(?:async\s*)?(?:function\b.*|(?:\([^{}]*\)|[\w$]+)\s*(?::[^=]+)?=>\s*)$"
)
_ARROW_VALUE = re.compile(r"([\w$]+)\s*=\s*(?:async\s*)?(?:\([^{}]*?\)|[\w$]+)\s*=>\s*(?=[^\s{])", re.DOTALL)
_PROPERTY = re.compile(r"([\w$]+)\s*:\s*(?:async\s*)?(?:function\b.*|\([^{}]*\)\s*=>\s*)$")
_GO_METHOD = re.compile(r"^func\s+\(\s*\w*\s*\*?(\w+)[^)]*\)\s*(\w+)\s*[(\[]")
_CALLED = re.compile(r"((?:[\w$]+\s*::\s*)?~?[\w$]+)\s*(?:<[^()]*>)?\s*\(")
_PREFIX_CONDITION = re.compile(r"(else\s+)?(if|while|for)\s*\(|else\b")
_NO_FUNCTION = frozenset(
    "if for while switch catch return new throw synchronized function sizeof else do await typeof".split()
)
_OPENS_BLOCK = re.compile(r"(?:\)|->|=>)\s*\Z")
_LINE_ENDS_STATEMENT = frozenset(("js", "go", "other"))
_CONTINUES = re.compile(r"(?:[-+*/%&|^=<>?:,.([{!~]|\b(?:return|else|in|of|extends|implements|new|throw))\s*$")
_CONTINUED = re.compile(r"\s*(?:[.?:&|+*/%=<>,)\]]|-[^-]|\{|else\b|catch\b|finally\b|instanceof\b)")


@dataclass(slots=True)
class _Block:
    kind: str
    parens: int
    guard: Guard | None = None
    name: str = ""
    function: Function | None = None
    statements: list[Statement] = field(default_factory=list)
    condition: str = ""
    """Of the last `if` in this block, for the `else` that may follow."""
    literals: list[int] = field(default_factory=list)
    """Bracket depths around the object literals and patterns that are open in this block."""


def scan(path: str, language: str, text: str, clean: str) -> Scan:
    """All functions and types of a file."""
    reader = _Reader(path, language, text, clean)
    reader.read()
    return reader.found


class _Reader:
    def __init__(self, path: str, language: str, text: str, clean: str) -> None:
        self.found = Scan()
        self._path = path
        self._language = language
        self._text = text
        self._clean = clean
        self._blocks = [_Block("file", 0)]
        self._line_starts = [0] + [match.end() for match in re.finditer("\n", text)]

    def read(self) -> None:
        start = parens = 0
        for match in re.finditer(r"[(){}\[\];:\n]", self._clean):
            at, mark = match.start(), match.group()
            if mark in "([":
                parens += 1
            elif mark in ")]":
                parens = max(0, parens - 1)
            elif mark == "{" and parens and not _OPENS_BLOCK.search(self._clean, start, at):
                self._blocks[-1].literals.append(parens)
                parens += 1
            elif mark == "}" and self._blocks[-1].literals:
                parens = self._blocks[-1].literals.pop()
            elif mark == "{":
                self._open(start, at, parens)
                start, parens = at + 1, 0
            elif mark == "}":
                self._statement(start, at)
                parens = self._close(at)
                start = at + 1
            elif parens == 0 and self._ends_statement(mark, start, at):
                self._statement(start, at)
                start = at + 1
        self._statement(start, len(self._clean))
        while len(self._blocks) > 1:
            self._close(len(self._clean) - 1)

    def _ends_statement(self, mark: str, start: int, at: int) -> bool:
        piece = self._clean[start:at]
        if mark == ";":
            return not (self._language == "go" and re.match(r"\s*(?:if|for|switch)\b", piece))
        if mark == ":":
            label = re.match(r"\s*(?:case\b[^?]*|default\s*)$", piece)
            if label:
                self._case(start, at)
            return label is not None
        return (
            self._language in _LINE_ENDS_STATEMENT
            and bool(piece.strip())
            and not _CONTINUES.search(piece)
            and not _CONTINUED.match(self._clean, at + 1)
            and not re.match(r"\s*(?:@|(?:else\s+)?(?:if|for|while)\b[^\n]*\)$)", piece)
        )

    def _line(self, offset: int) -> int:
        low, high = 0, len(self._line_starts)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (middle, high) if self._line_starts[middle] <= offset else (low, middle)
        return low + 1

    def _shown(self, start: int, end: int) -> str:
        return one_line(self._text[start:end])

    def _trimmed(self, start: int, end: int) -> tuple[int, int]:
        piece = self._clean[start:end]
        lead = len(piece) - len(piece.lstrip())
        return (start + lead, start + len(piece.rstrip())) if piece.strip() else (end, end)

    def _open(self, start: int, at: int, parens: int) -> None:
        """Takes `clean[start:at]` as the header of the block that opens at `at`."""
        start, end = self._trimmed(start, at)
        header = self._clean[start:end]
        line = self._line(start)
        block = _Block("block", parens)
        control = _CONTROL.match(header)
        if control and not (control.group(1) in ("static", "default") and len(header) > len(control.group(1))):
            block.kind = control.group(1)
            block.guard = self._guard(control.group(1), start, end)
        elif (type_name := self._type_name(header)) and parens == 0:
            block.kind, block.name = "type", type_name
            self.found.types.append(TypeDeclaration(type_name, self._path, line, one_line(header)))
        elif (named := self._function_name(header)) and (parens == 0 or named[2]):
            block.kind, block.name = "function", named[1]
            shown = self._shown(start, end)
            block.function = Function(
                named[1], named[0] or self._owner(), self._path, self._name_line(start, end), line, shown
            )
        elif parens or header.endswith(("->", "=>")) or re.search(r"\bfunction\b[^()]*\([^()]*\)$", header):
            block.kind, block.guard = "lambda", Guard("lambda", line, self._shown(start, end))
            if parens and header:
                self._record(line, self._line(max(start, end - 1)), header, self._shown(start, end))
        elif header:
            self._record(line, self._line(max(start, end - 1)), header, self._shown(start, end))
        self._blocks.append(block)

    def _name_line(self, start: int, end: int) -> int:
        """The line of the function's name: annotations and return types may stand above it."""
        match = _CALLED.search(
            re.sub(r"@[\w.]+(?:\([^()]*\))?", lambda m: " " * len(m.group()), self._clean[start:end])
        )
        return self._line(start + match.start(1)) if match else self._line(start)

    def _close(self, at: int) -> int:
        """Ends the innermost block; the bracket depth around it."""
        if len(self._blocks) == 1:
            return 0
        block = self._blocks.pop()
        if block.function is not None:
            self.found.functions.append(with_statements(block.function, block.statements, self._line(at)))
        return block.parens

    def _type_name(self, header: str) -> str:
        if self._language == "c":
            match = _C_TYPE.search(header)
            return match.group(1) if match else ""
        if self._language == "go":
            match = _GO_TYPE.match(header)
            return match.group(1) if match else ""
        if re.search(r"\)\s*$|=\s*$|=>\s*$|\bnew\b", header) and not re.search(r"\brecord\b|\bclass\b", header):
            return ""
        match = _TYPE.search(header)
        if match is None and self._language == "other":
            match = re.search(r"(?:^|\s)(struct|protocol|extension)\s+(\w+)", header)
        return match.group(2) if match else ""

    def _function_name(self, header: str) -> tuple[str, str, bool] | None:
        """Owner (when the header names it), name, and whether a bracket may be open around it."""
        for pattern in (_ARROW, _PROPERTY):
            if self._language in ("js", "other") and (match := pattern.search(header)):
                prototype = re.search(r"(\w+)\.prototype\.\w+\s*=", header)
                return (prototype.group(1) if prototype else "", match.group(1), True)
        if match := _GO_METHOD.match(header):
            return (match.group(1), match.group(2), False)
        plain = re.sub(r"@[\w.]+(?:\([^()]*\))?", " ", header)
        match = _CALLED.search(plain)
        if match is None or re.search(r"=\s*$|\breturn\b|\bnew\s+[\w.<>]*$", plain[: match.start()]):
            return None
        owner, _, name = match.group(1).replace(" ", "").rpartition("::")
        before = plain[: match.start()].rstrip()
        if name in _NO_FUNCTION or before.endswith((".", "=", "(", ",", "->")) or re.search(r"\bnew\b", before):
            return None
        return (owner, name, False)

    def _owner(self) -> str:
        return next((block.name for block in reversed(self._blocks) if block.kind == "type"), "")

    def _guard(self, word: str, start: int, end: int) -> Guard | None:
        word = " ".join(word.split())
        kinds: dict[str, GuardKind] = {
            "if": "if", "else if": "elif", "else": "else", "for": "loop", "foreach": "loop", "while": "loop",
            "loop": "loop", "catch": "except", "case": "case",
        }  # fmt: skip
        if word not in kinds:
            return None
        shown = self._shown(start, end)
        condition = unwrapped(re.sub(r"^(else\s+)?\w+\s*", "", shown))
        if word == "else":
            return Guard("else", self._line(start), self._blocks[-1].condition)
        if kinds[word] in ("if", "elif"):
            self._blocks[-1].condition = condition
        text = shown if kinds[word] in ("loop", "except") else condition
        return Guard(kinds[word], self._line(start), text)

    def _case(self, start: int, at: int) -> None:
        start, end = self._trimmed(start, at)
        self._blocks[-1].guard = Guard("case", self._line(start), self._shown(start, end))

    def _statement(self, start: int, end: int) -> None:
        start, end = self._trimmed(start, end)
        guards: list[Guard] = []
        while (match := _PREFIX_CONDITION.match(self._clean, start, end)) and len(guards) < 8:
            stop = match.end() if match.group() == "else" else closing(self._clean, match.end() - 1, end)
            word = match.group().rstrip("( ")
            guard = self._guard(word, start, stop)
            if guard is not None:
                guards.append(guard)
            start, _ = self._trimmed(stop, end)
        if start >= end:
            return
        text = self._clean[start:end]
        line, last = self._line(start), self._line(end - 1)
        if self._language == "js" and (match := _ARROW_VALUE.search(text)):
            value = f"return {text[match.end() :]}"
            shown = f"return {self._shown(start + match.end(), end)}"
            statement = Statement(line, last, one_line(value), shown)
            header = self._shown(start, start + match.end())
            self.found.functions.append(
                Function(match.group(1), self._owner(), self._path, line, last, header, (statement,))
            )
        self._record(line, last, text, self._shown(start, end), guards)

    def _record(self, line: int, last: int, text: str, shown: str, inner: list[Guard] | None = None) -> None:
        guards = list(reversed(inner or []))
        for block in reversed(self._blocks):
            if block.kind in ("type", "file"):
                return
            if block.function is not None:
                block.statements.append(Statement(line, last, one_line(text), shown, tuple(reversed(guards))))
                return
            if block.guard is not None:
                guards.append(block.guard)
