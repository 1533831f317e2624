"""Follows a question through the code that has been seen, and says what has to be seen next.

`investigate` starts from nothing each time and walks as far as the transcript reaches: where a definition was
not looked for yet, or a file not read, it notes the need and goes on elsewhere. With all needs met, or no
budget left, what was found is the answer.
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from functools import lru_cache

from codeagent.providers.offline.analysis import (
    Call,
    Exit,
    all_calls,
    calls_behind,
    changes,
    decisions,
    declared_types,
    exits,
    raises,
)
from codeagent.providers.offline.declarations import (
    builds_on,
    declares_type,
    defines_function,
    imported_from,
    is_library_type,
    is_module,
)
from codeagent.providers.offline.question import Kind, Question, Target
from codeagent.providers.offline.source import (
    Function,
    Source,
    Statement,
    TypeDeclaration,
    is_test,
    language_of,
    scan,
)
from codeagent.providers.offline.transcript import File, Hit, Transcript

MAX_DEPTH = 6
MAX_RAISE_DEPTH = 4
MAX_FUNCTIONS = 60
MAX_ROOT_FILES = 6
MAX_GUESSED_FILES = 3
FIRST_PAGE = 1_500
AROUND = (150, 350)
"""Lines read before and after a place that lies behind the first page."""

_BUILT_IN = frozenset(name for kind in (str, bytes, dict, list, set, re.Pattern, re.Match) for name in dir(kind))
"""Methods of built-in types: a receiver of unknown type has them without any definition in the repository."""
_SELF = frozenset(("", "this", "self", "cls", "super", "$this"))


@dataclass(frozen=True, slots=True)
class Visit:
    """A function that was reached, and how: from the call at `line` of the function before it."""

    function: Function
    source: Source
    depth: int = 0
    before: Visit | None = None
    line: int = 0
    decides: bool = False
    guessed: bool = False


@dataclass(frozen=True, slots=True)
class Finding:
    """Places of one function, how it was reached, and for each condition where its subject is changed."""

    visit: Visit
    places: tuple[Exit, ...]
    changed: tuple[tuple[str, tuple[Statement, ...]], ...] = ()


@dataclass(slots=True)
class Needs:
    """What has to be asked before the walk can go on."""

    names: dict[str, None] = field(default_factory=dict)
    texts: dict[str, None] = field(default_factory=dict)
    exceptions: dict[str, None] = field(default_factory=dict)
    reads: dict[tuple[str, int | None, int | None], None] = field(default_factory=dict)

    def __bool__(self) -> bool:
        return bool(self.names or self.texts or self.exceptions or self.reads)


@dataclass(slots=True)
class Report:
    """What was found so far."""

    roots: list[Visit] = field(default_factory=list)
    findings: list[Finding] = field(default_factory=list)
    definitions: list[Hit] = field(default_factory=list)
    uses: list[Hit] = field(default_factory=list)
    unconnected: bool = False
    """The places raise what was asked for, but no way from the target to them was found."""
    not_followed: dict[str, str] = field(default_factory=dict)
    """Calls by their place, `path:line`."""
    needs: Needs = field(default_factory=Needs)


def investigate(question: Question, transcript: Transcript) -> Report:
    """Walks as far as the transcript reaches."""
    walk = _Walk(question, transcript)
    walk.run()
    return walk.report


@lru_cache(maxsize=128)
def _scanned(path: str, lines: tuple[tuple[int, str], ...]) -> Source:
    # The walk starts anew for each inference; the files that it reads stay the same.
    return scan(path, dict(lines))


class _Walk:
    def __init__(self, question: Question, transcript: Transcript) -> None:
        self.report = Report()
        self._question = question
        self._known = transcript
        self._needs = self.report.needs
        self._sources: dict[str, Source] = {}

    def run(self) -> None:
        for path in self._question.files:
            self._file(path)
        targets = self._question.targets or tuple(Target("", word) for word in self._question.words)
        if self._question.kind in (Kind.WHERE, Kind.OTHER):
            for target in targets:
                self._where(target)
            return
        functions = [visit for target in targets for visit in self._roots(target)]
        if not targets and not self._question.exceptions:
            functions = [visit for path in self._question.files for visit in self._all_of(self._file(path))]
        self.report.roots = functions
        self._follow(functions)
        if self._question.exceptions and not self.report.findings:
            self._raised_anywhere()
        if not self.report.findings and not self._needs:
            for target in targets:
                self._where(target)

    # Files

    def _file(self, path: str) -> str | None:
        """The path that a name of the question stands for, once it is read."""
        path = path.removeprefix("./")
        for _ in range(3):
            if path in self._known.files:
                return path
            if path in self._known.missing:
                matches = [match for match in self._known.missing[path] if match not in self._known.missing]
                if not matches:
                    return None
                path = matches[0]
                continue
            break
        if path not in self._known.unreadable:
            self._needs.reads[(path, None, None)] = None
        return None

    def _source(self, path: str, line: int) -> Source | None:
        """The file, once the part around `line` was read."""
        if path in self._known.unreadable or path in self._known.missing:
            return None
        file = self._known.files.get(path)
        if file is None or not self._reaches(file, line):
            around = (max(1, line - AROUND[0]), line + AROUND[1])
            first = file is None and line <= FIRST_PAGE
            self._needs.reads[(path, *((None, None) if first else around))] = None
            return None
        if path not in self._sources:
            self._sources[path] = _scanned(path, tuple(file.lines.items()))
        return self._sources[path]

    @staticmethod
    def _reaches(file: File, line: int) -> bool:
        return file.has(line) or line > file.total > 0

    # Definitions

    def _searched(self, *names: str) -> bool:
        """Whether definitions of all names were looked for; those that were not become a need."""
        for name in names:
            if name not in self._known.searched:
                self._needs.names[name] = None
        return all(name in self._known.searched for name in names)

    def _hits(self, name: str, test: Callable[[str, str], bool]) -> list[Hit]:
        found = [hit for hit in self._known.hits if name in hit.text and test(name, hit.text)]
        return sorted(found, key=lambda hit: (is_test(hit.path), hit.path, hit.line))

    def _type_paths(self, name: str) -> list[str]:
        """Files that declare the type, then those that declare types built on it."""
        declared = [hit.path for hit in self._hits(name, declares_type)]
        built_on = [hit.path for hit in self._hits(name, builds_on)]
        return list(dict.fromkeys(declared + built_on))

    def _roots(self, target: Target) -> list[Visit]:
        names = [name for name in (target.owner, target.member) if name]
        if not self._searched(*names):
            return []
        if not target.member or (not target.owner and self._hits(target.member, declares_type)):
            return self._functions_of_type(target.owner or target.member)
        hits = self._hits(target.member, defines_function)
        if target.owner:
            paths = self._type_paths(target.owner)
            owned = [hit for hit in hits if hit.path in paths] or [
                hit for hit in hits if _stem(hit.path) == _plain(target.owner)
            ]
            hits = owned or hits
        preferred = [hit for hit in hits if any(hit.path.endswith(name) for name in self._question.files)]
        hits = preferred or [hit for hit in hits if not is_test(hit.path)] or hits
        functions = self._functions(hits[: 4 * MAX_ROOT_FILES], target.member, MAX_ROOT_FILES)
        owned_functions = [visit for visit in functions if target.owner in (visit.function.owner, "")]
        return owned_functions or functions

    def _functions_of_type(self, name: str) -> list[Visit]:
        hits = self._hits(name, declares_type)
        hits = [hit for hit in hits if not is_test(hit.path)] or hits
        result = []
        for hit in hits[:MAX_ROOT_FILES]:
            source = self._source(hit.path, hit.line)
            result += [Visit(f, source) for f in source.functions if f.owner == name] if source else []
        return result

    def _all_of(self, path: str | None) -> list[Visit]:
        source = self._source(path, 1) if path else None
        return [Visit(function, source) for function in source.functions] if source else []

    def _functions(self, hits: Iterable[Hit], name: str, limit: int) -> list[Visit]:
        """The functions of this name at the places that a search has found."""
        result: dict[tuple[str, int], Visit] = {}
        paths: set[str] = set()
        for hit in hits:
            paths.add(hit.path)
            source = self._source(hit.path, hit.line) if len(paths) <= limit else None
            for function in source.functions if source else ():
                near = function.line - 3 <= hit.line <= max(function.line + 3, function.line)
                if source and function.name == name and near:
                    result.setdefault((function.path, function.line), Visit(function, source))
        return list(result.values())

    # The walk itself

    def _follow(self, roots: list[Visit]) -> None:
        seen: set[tuple[str, int]] = set()
        for root in roots:
            queue = deque([root])
            while queue and len(seen) < MAX_FUNCTIONS:
                visit = queue.popleft()
                place = (visit.function.path, visit.function.line)
                if place in seen:
                    continue
                seen.add(place)
                queue.extend(self._step(visit))

    def _step(self, visit: Visit) -> list[Visit]:
        """Notes what a function says, and gives the functions that decide it."""
        function, source = visit.function, visit.source
        if self._question.kind is Kind.RAISE:
            found = raises(function, self._question.exceptions)
            calls = all_calls(function)
        elif visit.decides:
            found, calls = decisions(function), []
        else:
            found = exits(function, source, self._question.values)
            calls = calls_behind(function, found)
        if found:
            self.report.findings.append(Finding(visit, tuple(found), self._changed(visit, found)))
        if visit.depth >= (MAX_RAISE_DEPTH if self._question.kind is Kind.RAISE else MAX_DEPTH):
            return []
        return [reached for call in calls for reached in self._resolve(call, visit)]

    @staticmethod
    def _changed(visit: Visit, found: list[Exit]) -> tuple[tuple[str, tuple[Statement, ...]], ...]:
        subjects = {
            match.group(1): None
            for exit_ in found
            for guard in (*exit_.conditions, *exit_.passed)
            for match in re.finditer(r"\b(\w+)(?:\.|->)\w+\s*\(", guard.text)
        }
        lines = ((subject, tuple(changes(visit.source, visit.function, subject))) for subject in subjects)
        return tuple((subject, found_lines) for subject, found_lines in lines if found_lines)

    def _resolve(self, call: Call, visit: Visit) -> list[Visit]:
        """The functions of the repository that a call may mean."""
        function, source = visit.function, visit.source
        if call.receiver in _SELF:
            owners = self._owners(call, visit)
            own = [f for f in source.functions if f.name == call.name and f.owner in owners and f != function]
            if own:
                return [self._reached(Visit(f, source), call, visit) for f in own]
        types = self._types_of(call, visit)
        if types and all(is_library_type(source, name) for name in types):
            return []
        if not self._searched(call.name, *types):
            return []
        hits = [
            hit for hit in self._hits(call.name, defines_function) if not is_test(hit.path) or is_test(function.path)
        ]
        chosen, guessed = self._chosen(call, visit, types, hits)
        if not chosen:
            if hits and not types and call.name not in _BUILT_IN:
                self.report.not_followed.setdefault(call.name, f"{function.path}:{call.line}")
            return []
        found = self._functions(chosen, call.name, MAX_ROOT_FILES)
        found = [one for one in found if one.function != function]
        owned = [one for one in found if self._fits(one, types)] if types else found
        return [self._reached(one, call, visit, guessed) for one in owned or found]

    @staticmethod
    def _owners(call: Call, visit: Visit) -> tuple[str, ...]:
        """The types whose functions a call without a receiver of its own can mean, in the same file."""
        if call.receiver:
            return (visit.function.owner,)
        if visit.source.language in ("java", "other") or visit.source.path.endswith(("pp", "cc", "cxx", "hh")):
            return (visit.function.owner, "")
        return ("",)

    def _types_of(self, call: Call, visit: Visit) -> list[str]:
        if call.receiver in _SELF:
            if not call.receiver and visit.source.language in ("python", "js", "go"):
                return []
            header = next((t.header for t in visit.source.types if t.name == visit.function.owner), "")
            return [name for name in re.findall(r"\b[A-Z]\w+", header) if name != visit.function.owner]
        if call.receiver[:1].isupper():
            return [call.receiver]
        return declared_types(visit.source, call.receiver)

    def _chosen(self, call: Call, visit: Visit, types: list[str], hits: list[Hit]) -> tuple[list[Hit], bool]:
        """The hits that fit the receiver, and whether that is a guess."""
        if types and call.receiver not in _SELF:
            paths = [path for name in types for path in self._type_paths(name)]
            if paths:
                return [hit for hit in hits if hit.path in paths], False
            if visit.source.language in ("java", "c", "go"):
                return [], False  # a type of a library
        if not call.receiver and (module := imported_from(visit.source, call.name)):
            return [hit for hit in hits if is_module(hit.path, module)], False
        if call.receiver in _SELF:
            return self._nearest(hits, visit.function.path), False
        word = _plain(call.receiver)
        alike = [hit for hit in hits if word and word in _stem(hit.path)]
        if alike:
            return alike, False
        few = len({hit.path for hit in hits}) <= MAX_GUESSED_FILES
        guess = few and call.name not in _BUILT_IN and self._question.kind is not Kind.RAISE
        return (hits, True) if guess else ([], False)

    @staticmethod
    def _nearest(hits: list[Hit], path: str) -> list[Hit]:
        """Hits of the folder that a call stands in, else all when they are few."""
        folder = path.rpartition("/")[0]
        near = [hit for hit in hits if hit.path.rpartition("/")[0] == folder]
        if near:
            return near
        return hits if len({hit.path for hit in hits}) <= MAX_GUESSED_FILES else []

    def _fits(self, visit: Visit, types: list[str]) -> bool:
        owner = visit.function.owner
        declared: Iterable[TypeDeclaration] = visit.source.types
        return owner in types or any(t.name == owner and t.extends(name) for t in declared for name in types)

    @staticmethod
    def _reached(found: Visit, call: Call, before: Visit, guessed: bool = False) -> Visit:
        return Visit(
            found.function, found.source, before.depth + 1, before, call.line, call.decides, guessed or before.guessed
        )

    # Other questions

    def _raised_anywhere(self) -> None:
        """The places that raise what was asked for, wherever they are."""
        for exception in self._question.exceptions:
            if exception not in self._known.sought:
                self._needs.exceptions[exception] = None
                continue
            hits = [
                hit for hit in self._known.hits if exception in hit.text and re.search(r"raise|throw|panic", hit.text)
            ]
            for hit in sorted(hits, key=lambda hit: (is_test(hit.path), hit.path, hit.line))[:12]:
                self._raised_at(hit)
        self.report.unconnected = bool(self._question.targets and self.report.findings)

    def _raised_at(self, hit: Hit) -> None:
        source = self._source(hit.path, hit.line)
        for function in source.functions if source else ():
            found = [exit_ for exit_ in raises(function, self._question.exceptions) if exit_.line == hit.line]
            if source and found:
                self.report.findings.append(Finding(Visit(function, source), tuple(found)))

    def _where(self, target: Target) -> None:
        name = target.member or target.owner
        searched = self._searched(*(part for part in (target.owner, target.member) if part))
        if name not in self._known.sought:
            self._needs.texts[name] = None
        if not searched or name not in self._known.sought:
            return
        defined = self._hits(name, declares_type) or self._hits(name, defines_function)
        if target.owner and target.member:
            paths = self._type_paths(target.owner)
            defined = [hit for hit in defined if hit.path in paths] or defined
        places = {(hit.path, hit.line) for hit in defined}
        word = re.compile(rf"(?<![\w$]){re.escape(name)}(?![\w$])", re.IGNORECASE)
        self.report.definitions += defined
        uses = [hit for hit in self._known.hits if word.search(hit.text) and (hit.path, hit.line) not in places]
        self.report.uses += sorted(
            uses, key=lambda hit: (is_test(hit.path), not language_of(hit.path), hit.path, hit.line)
        )


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _stem(path: str) -> str:
    return _plain(path.rpartition("/")[2].partition(".")[0])
