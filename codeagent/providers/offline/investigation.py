"""Follows a question through the code.

`investigate` begins anew for each inference and goes as far as the transcript reaches; what it misses becomes the
next calls. It walks by levels: all functions that are reached by the same number of calls are looked at together, so
that one search and one round of reading serve them all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace

from codeagent.providers.offline import analysis
from codeagent.providers.offline.analysis import SELF, Call, Place
from codeagent.providers.offline.question import Kind, Question, Target
from codeagent.providers.offline.source import Function, Source, is_python, is_source, is_test, scan
from codeagent.providers.offline.transcript import Hit, Transcript

MAX_LEVELS = 6
MAX_FUNCTIONS = 60
MAX_NAMES = 40
MAX_FILES = 6
"""Files that are read for one name."""
FEW = 3
"""Files that are few enough for following a call by its name alone; functions for what decides a condition."""

_BUILT_IN = frozenset(name for kind in (str, bytes, dict, list, set, re.Pattern, re.Match) for name in dir(kind))
"""Methods of built-in types: a receiver of unknown type has them without any definition in the repository."""


@dataclass(frozen=True, slots=True)
class Visit:
    """A function that was reached, and how: by `call` of the function before it. `root` numbers the functions of the
    question."""

    function: Function
    root: int
    before: Visit | None = None
    call: Call | None = None
    guessed: bool = False

    @property
    def decides(self) -> bool:
        return self.call is not None and self.call.decides


@dataclass(slots=True)
class Report:
    """What was found so far. `question` has only those plain words as targets that the repository defines. `mentions`
    are definitions and other uses of each name, `files` the paths of the files that were named, empty for a missing
    one. `unconnected`: no way from the target to the places was found. `not_followed` are calls by name, with the
    place of each."""

    question: Question
    roots: list[Function] = field(default_factory=list)
    findings: list[tuple[Visit, list[Place]]] = field(default_factory=list)
    mentions: dict[str, tuple[list[Hit], list[Hit]]] = field(default_factory=dict)
    files: dict[str, str] = field(default_factory=dict)
    unconnected: bool = False
    not_followed: dict[str, str] = field(default_factory=dict)


# What single lines say. The search finds candidates for these and need not be exact.

_TYPES = "class|interface|enum|record|struct|union|trait|object|type"
_NO_HEAD = re.compile(r"\b(?:return|new|throw|else|await|case|in|and|or|not)\b|[.,]\s*$")


def _pattern(names: Iterable[str]) -> str:
    """Finds heads of types and functions of these names, and of types that build on them."""
    name = f"({'|'.join(names)})"
    head = f"({_TYPES}|extends|implements)[[:space:]](.*[^[:alnum:]_])?{name}([^[:alnum:]_]|$)"
    before = r"^([]\[[:alnum:]_<>,.?*&:~@()[:space:]]*[[:space:]*&:])?"
    return rf"{head}|{before}{name}[[:space:]]*(\([^;{{]*(\{{.*)?$|[:=][[:space:]]*(async|function|\())"


def _declares(name: str, hit: Hit) -> bool:
    return name in hit.text and re.search(rf"(?<![\w.])(?:{_TYPES})\s+{name}\b(?!.*;\s*$)", hit.text) is not None


def _builds_on(name: str, hit: Hit) -> bool:
    pattern = rf"\b(?:{_TYPES}|extends|implements)\b.*[\s(:,<.]{name}\b"
    return name in hit.text and re.search(pattern, hit.text) is not None


def _defines(name: str, hit: Hit) -> bool:
    if name not in hit.text or is_python(hit.path):
        return re.search(rf"\bdef\s+{name}\b", hit.text) is not None
    if re.search(rf"\b{name}\s*[:=]\s*(?:async\s*)?(?:function\b|\(.*=>|\w+\s*=>)", hit.text):
        return True
    match = re.search(rf"(?<![\w.>]){name}\s*\(", hit.text)
    before, after = (hit.text[: match.start()], hit.text[match.end() :]) if match else ("=", "")
    return (
        re.fullmatch(r"[\w<>\[\],.?*&@:()\s]*", before) is not None
        and not _NO_HEAD.search(before)
        and re.search(r"\{|(?:[,()]|\)\s*(?:const|throws\b.*|:.*))\s*$|^\s*$", after) is not None
    )


def _sets(name: str, hit: Hit) -> bool:
    return (
        re.match(rf"[\w<>\[\], ]*?(?:\b(?:self|this)\.)?\b{re.escape(name)}\s*(?::[^=]+)?=(?!=)", hit.text)
        is not None
    )


def _type_names(head: str) -> list[str]:
    return re.findall(r"\b[A-Z]\w+", head)


def _plain(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def investigate(question: Question, transcript: Transcript) -> Report:
    """Goes as far as the transcript reaches; what is missing is in `transcript.wanted`."""
    walk = _Walk(question, transcript)
    walk.run()
    return walk.report


class _Walk:
    def __init__(self, question: Question, transcript: Transcript) -> None:
        self._known = transcript
        self._question = question if question.named else self._with_known_names(question)
        self.report = Report(self._question)
        self._exceptions = list(question.exceptions)

    def run(self) -> None:
        listing, question, report = self._known.listing(), self._question, self.report
        sources = list[Source]()
        for name in question.files:
            path = next((path for path in listing if f"/{path}".endswith(f"/{name}")), name)
            source = self._source(path)
            sources += [source] if source else []
            report.files[name] = source.path if source else ""
        if follows := question.kind in (Kind.NOTHING, Kind.RAISE):
            self._add_subtypes()
            report.roots = [function for target in question.targets for function in self._functions_of(target)]
            if not question.targets and not question.exceptions:
                report.roots = [function for source in sources for function in source.functions]
            self._follow([Visit(function, number) for number, function in enumerate(report.roots)])
            report.findings.sort(key=lambda finding: finding[0].root)
            if question.exceptions and not report.findings and not self._known.wanted:
                self._find_raised()
        if not report.roots and not report.findings and (not self._known.wanted or not follows):
            self._find_mentions()

    # Definitions

    def _source(self, path: str, line: int = 1) -> Source | None:
        """The file, once the part around `line` was read."""
        found = self._known.text(path, line)
        return scan(*found) if found else None

    def _definitions(self, names: Iterable[str]) -> list[Hit]:
        """Lines that may define the names or build on them, those of tests last; none until all are known."""
        plain = sorted({name for name in names if re.fullmatch(r"\w+", name)})
        chunks = [plain[at : at + MAX_NAMES] for at in range(0, len(plain), MAX_NAMES)]
        found = [self._known.search(_pattern(chunk)) for chunk in chunks]
        hits = {hit: None for hits in found for hit in hits or () if is_source(hit.path)}
        return [] if None in found else sorted(hits, key=lambda hit: (is_test(hit.path), hit.path, hit.line))

    def _with_known_names(self, question: Question) -> Question:
        """A question in plain words, about those that the repository defines; `named` when it defines all of them."""
        hits = self._definitions(word.member for word in question.targets)
        defined = {
            one for one in question.targets for hit in hits if _declares(one.member, hit) or _defines(one.member, hit)
        }
        known = tuple(one for one in question.targets if one in defined)
        return replace(question, targets=known, named=known == question.targets)

    def _add_subtypes(self) -> None:
        for name in self._question.exceptions:
            hits = [hit for hit in self._definitions([name]) if _builds_on(name, hit)]
            self._exceptions += [match.group(1) for hit in hits if (match := re.search(r"\bclass\s+(\w+)", hit.text))]

    def _functions_of(self, target: Target) -> list[Function]:
        """The functions that the question means."""
        name, types = target.member or target.owner, [target.owner]
        hits = self._definitions([target.owner, target.member])
        if not (target.owner and target.member) and (heads := [hit for hit in hits if _declares(name, hit)]):
            heads = [hit for hit in heads if not is_test(hit.path)] or heads
            sources = [source for hit in heads[:MAX_FILES] if (source := self._source(hit.path, hit.line))]
            return [function for source in sources for function in source.functions if function.owner == name]
        for _ in range(FEW if target.owner else 0):  # the type, then its supertypes
            heads = [hit for hit in hits for one in types if _declares(one, hit)]
            found = self._functions(name, [hit for hit in hits if hit.path in {head.path for head in heads}])
            if owned := [function for function in found if function.owner in types]:
                return owned
            types = [one for hit in heads for one in _type_names(hit.text) if one not in types]
            hits = self._definitions([target.owner, *types, name])
        if target.owner and (found := self._methods(name, [target.owner], hits)):
            return found
        named = [hit for hit in hits if _defines(name, hit)]
        in_files = [hit for hit in named if any(hit.path.endswith(file) for file in self._question.files)]
        return self._functions(name, in_files or [hit for hit in named if not is_test(hit.path)] or named)

    def _functions(self, name: str, hits: Iterable[Hit]) -> list[Function]:
        """The functions of this name at the places that a search has found."""
        lines: dict[str, list[int]] = {}
        for hit in hits:
            if _defines(name, hit):
                lines.setdefault(hit.path, []).append(hit.line)
        sources = [self._source(path, max(found)) for path, found in list(lines.items())[:MAX_FILES]]
        functions = [
            function for source in sources if source for function in source.functions if function.name == name
        ]
        return [one for one in functions if any(abs(one.line - line) <= FEW for line in lines[one.path])]

    def _methods(self, name: str, types: list[str], hits: list[Hit]) -> list[Function]:
        """The functions of this name that belong to one of the types, or to one that builds on it."""
        paths = {hit.path for hit in hits for one in types if _declares(one, hit) or _builds_on(one, hit)}
        found = self._functions(name, [hit for hit in hits if hit.path in paths])
        return [one for one in found if {one.owner, *_supertypes(one)} & {*types}] or found

    # The walk itself

    def _follow(self, level: list[Visit]) -> None:
        seen, in_test = set[tuple[str, int]](), any(is_test(visit.function.path) for visit in level)
        for _ in range(MAX_LEVELS if self._question.kind is Kind.NOTHING else MAX_LEVELS - 2):
            calls: list[tuple[Visit, Call, list[str]]] = []
            for visit in level:
                place = (visit.function.path, visit.function.line)
                if place not in seen and len(seen) < MAX_FUNCTIONS:
                    seen.add(place)
                    calls += [(visit, call, _types_of(call, visit.function)) for call in self._look_at(visit)]
            hits = self._definitions({name for _, call, types in calls for name in (call.name, *types)})
            hits = [hit for hit in hits if in_test or not is_test(hit.path)]
            level = [reached for visit, call, types in calls for reached in self._resolve(visit, call, types, hits)]
            if not level or self._known.wanted:
                return

    def _look_at(self, visit: Visit) -> list[Call]:
        """Notes what a function says, and gives the calls that decide it."""
        function, calls = visit.function, list[Call]()
        if self._question.kind is Kind.RAISE:
            places, calls = analysis.raising_places(function, self._exceptions), analysis.all_calls(function)
        elif visit.decides:
            places = analysis.answers(function)[: 2 * FEW]
        else:
            places = analysis.nothing_places(function, self._question.values)
            calls = analysis.calls_behind(function, places)
        self.report.findings += [(visit, places)] if places else []
        return calls

    def _resolve(self, visit: Visit, call: Call, types: list[str], hits: list[Hit]) -> list[Visit]:
        """The functions of the repository that a call may mean."""
        wanted = len(self._known.wanted)
        for functions, guessed in self._choices(visit.function, call, types, hits):
            found = [one for one in functions if one is not visit.function]
            found = [one for one in found if analysis.argument_count(one.header) == call.arguments] or found
            if len(self._known.wanted) > wanted or (call.decides and len(found) > FEW):
                return []
            if found:
                return [Visit(one, visit.root, visit, call, guessed or visit.guessed) for one in found]
        if self._question.kind is Kind.NOTHING and not types and any(_defines(call.name, hit) for hit in hits):
            self.report.not_followed.setdefault(call.name, f"{visit.function.path}:{call.line}")
        return []

    def _choices(
        self, function: Function, call: Call, types: list[str], hits: list[Hit]
    ) -> Iterator[tuple[list[Function], bool]]:
        """What a call may mean, the likeliest first, and whether that is a guess."""
        path, own, word = function.path, call.receiver in SELF, _plain(call.receiver)
        if own:
            here = self._functions(call.name, [hit for hit in hits if hit.path == path])
            owners = _supertypes(function) if call.receiver == "super" else [function.owner]
            yield [one for one in here if one.owner in owners] or here, False
            module = analysis.imported_from(function.source, call.name)
            imported = [hit for hit in hits if module and analysis.is_module(hit.path, module)]
            yield self._functions(call.name, imported), False
            yield self._methods(call.name, types, hits), False
            near = [hit for hit in hits if hit.path.rpartition("/")[0] == path.rpartition("/")[0]]
            yield self._functions(call.name, [] if is_python(path) else near), False
        elif types:
            yield self._methods(call.name, types, [hit for hit in hits if hit.path == path]), False
            yield self._methods(call.name, types, hits), False
        else:
            alike = [hit for hit in hits if word and word in _plain(hit.path.rpartition("/")[2])]
            yield self._functions(call.name, alike), False
        files = {hit.path for hit in hits if _defines(call.name, hit)}
        likely = call.name not in _BUILT_IN and self._question.kind is Kind.NOTHING and len(files) <= FEW
        if likely and (not is_python(path) if own else not types):
            yield self._functions(call.name, hits), True

    # Other questions

    def _find_raised(self) -> None:
        """The places that raise what was asked for, wherever they are."""
        names = "|".join(self._exceptions[:MAX_NAMES])
        hits = self._known.search(rf"(raise|throw|return|new)[[:space:](]+([[:alnum:]_.]*\.)?({names})") or ()
        for hit in sorted(hits, key=lambda hit: (is_test(hit.path), hit.path, hit.line))[: 2 * MAX_FILES]:
            source = self._source(hit.path, hit.line)
            for function in source.functions if source else ():
                places = analysis.raising_places(function, self._exceptions)
                places = [one for one in places if one.statement.line <= hit.line <= one.statement.last_line]
                self.report.findings += [(Visit(function, 0), places)] if places else []
        self.report.unconnected = bool(self._question.targets and self.report.findings)

    def _find_mentions(self) -> None:
        """Where the names are defined, and where else they stand."""
        for target in (*self._question.targets, *(Target(name, "") for name in self._question.exceptions)):
            name = target.member or target.owner
            hits = self._definitions([target.owner, target.member])
            mentions = self._known.search(re.escape(name), "-w") or []
            mentions.sort(key=lambda hit: (is_test(hit.path), not is_source(hit.path), hit.path))
            defined = [hit for hit in hits if _declares(name, hit)] or [hit for hit in hits if _defines(name, hit)]
            defined = defined or [hit for hit in mentions if _sets(name, hit)]
            heads = {hit.path for hit in hits if target.owner and target.member and _declares(target.owner, hit)}
            defined = [hit for hit in defined if hit.path in heads] or defined
            places = {(hit.path, hit.line) for hit in defined}
            uses = [hit for hit in mentions if (hit.path, hit.line) not in places]
            self.report.mentions[target.title] = defined, uses


def _supertypes(function: Function) -> list[str]:
    header = function.source.types.get(function.owner, "")
    return [name for name in _type_names(header) if name != function.owner]


def _types_of(call: Call, function: Function) -> list[str]:
    """The types that a call's receiver may have; of a call without one, the supertypes of the function's own."""
    if call.receiver in SELF:
        return _supertypes(function)
    return [call.receiver] if call.receiver[:1].isupper() else analysis.declared_types(function.source, call.receiver)
