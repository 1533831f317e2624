"""Follows a question through the code.

An investigation begins anew for each inference and goes as far as the transcript reaches; what it misses becomes the
next calls. It walks by levels: one search and one round of reading serve all functions that as many calls lead to.
"""

from __future__ import annotations

import builtins
import re
from collections.abc import Iterable
from typing import NamedTuple

from codeagent.providers.offline.question import Question
from codeagent.providers.offline.source import LANGUAGES, Call, Function, Place, calls_in, functions_of, types_of
from codeagent.providers.offline.transcript import Hit, Transcript

MAX_LEVELS, MAX_FUNCTIONS, MAX_NAMES = 6, 60, 40
MAX_FILES, MAX_CALLED = 20, 6  # that are read for one name, of the question and of a call
FEW = 3  # files for following a call by its name alone, steps to inherit from
_SELF = ("", "this", "self", "cls", "super")
_BUILT_IN = frozenset(name for kind in (str, bytes, dict, list, set, re.Pattern, re.Match) for name in dir(kind))
_TEST = re.compile(r"(?:^|/)(?:_*tests?_*|testing|specs?)/|(?:^|/)test_[^/]*$|(?:[_.](?:test|spec)|Tests?)\.\w+$")
_ENDINGS = tuple(f".{one}" for one in LANGUAGES)
# By type: files that a positive glob names would be read where they are ignored, too.
_CODE = f"--type-add 'code:*.{{{','.join(LANGUAGES)}}}' -t code -g '!.*'"
_NO_TESTS = " -g '!{test,tests,testing,spec,specs}'"
_TYPES = "class|interface|enum|record|struct|trait|object|type"
_LINES = {  # what a line that was found may say of a name
    "declares": rf"(?<![\w.])(?:{_TYPES})\s+NAME\b(?!.*;\s*$)",
    "builds on": rf"\b(?:{_TYPES}|extends|implements)\b.*[\s(:,<.]NAME\b",
    "defines": r"^(?!.*\b(?:return|new|throw|else|await|case)\b.*NAME)[^=]*(?<![\w.>])NAME\s*[(:=]",
    "sets": r"^[\w<>\[\], ]*?(?:\b(?:self|this)\.)?\bNAME\s*(?::[^=]+)?=(?!=)",
}


class Visit(NamedTuple):
    """A function that was reached by `call` of the function before it; `guessed` when only its name led here."""

    function: Function
    before: Visit | None = None
    call: Call | None = None
    guessed: bool = False


class Investigation:
    """What was found: places or, without any, the definitions and other uses of each name. `names` are in question,
    `roots` their functions, `others` what is shown for one not found; `apart`: no way from roots to places."""

    def __init__(self, question: Question, transcript: Transcript) -> None:
        self.question, self._known, self.exceptions = question, transcript, list(question.exceptions)
        self.places: list[tuple[Visit, Place]] = []
        self.mentions: dict[str, tuple[list[Hit], list[Hit]]] = {}
        self.apart, self.others = False, dict[str, str]()
        listing, heads = transcript.listing(), [] if question.named else self._definitions(question.names)
        plain = {name for name in question.names for hit in heads for way in _LINES if _says(way, name, hit)}
        self.names = [name for name in question.names if question.named or name in plain]
        for name in question.files if not self.names else ():
            path = next((path for path in listing if f"/{path}".endswith(f"/{name}")), name)
            self.mentions[name] = [Hit(a, 1, b.split("\n")[0]) for a, b in filter(None, [transcript.text(path)])], []
        follows = question.kind in ("nothing", "raise")
        self.roots = self._roots() if follows else []
        self._follow([Visit(one) for one in self.roots])
        if follows and question.exceptions and not self.places and not transcript.wanted:
            self._find_raised()
        if not self.roots and not self.places and not (follows and transcript.wanted):
            self._find_mentions()

    def _read(self, hits: Iterable[Hit], most: int = MAX_FILES) -> list[Function]:
        """The functions of the files where something was found."""
        paths = list(dict.fromkeys(hit.path for hit in hits))
        self._known.leave_out("unread", *paths[most:])
        # Whole: in a file that is cut, nobody knows which type a function belongs to.
        texts = [self._known.text(path) for path in paths[:most]]
        return [function for text in texts if text for function in functions_of(*text)]

    def _definitions(self, names: Iterable[str], tests: bool = True) -> list[Hit]:
        """Lines that may define the names or build on them, those of tests last; none until all are known."""
        plain = sorted({name for name in names if re.fullmatch(r"\w+", name)})
        some, flags = range(0, len(plain), MAX_NAMES), _CODE + ("" if tests else _NO_TESTS)
        found = [self._known.search(_pattern(plain[at : at + MAX_NAMES]), "", flags) for at in some]
        hits = {hit for one in found for hit in one or () if hit.path.endswith(_ENDINGS)}
        kept = [hit for hit in hits if tests or not _is_test(hit.path)]
        return [] if None in found else sorted(kept, key=lambda hit: (_is_test(hit.path), hit))

    def _functions(self, name: str, hits: Iterable[Hit], most: int = MAX_FILES) -> list[Function]:
        defined = [hit for hit in hits if _says("defines", name, hit)]
        return [one for one in self._read(defined, most) if one.name == name]

    def _roots(self) -> list[Function]:
        """The functions that the question means; where it names files alone, all of these."""
        heads = [hit for one in self.exceptions for hit in self._definitions([one]) if _says("builds on", one, hit)]
        self.exceptions += re.findall(r"\bclass\s+(\w+)", "\n".join(hit.text for hit in heads))
        files = self._read(hit for hits, _ in self.mentions.values() for hit in hits)
        return [*files, *(function for name in self.names for function in self._named(name))]

    def _named(self, title: str) -> list[Function]:
        """The functions of a name: of a type all, or its own, inherited ones, those of what builds on it."""
        owner, _, name = title.rpartition(".")
        hits, types = self._definitions([owner, name]), [owner] if owner else []
        heads = [hit for hit in hits if not owner and _says("declares", name, hit)]
        if found := [one for one in self._read(_not_tests(heads)) if one.owner == name]:
            return found
        for _ in range(FEW if owner else 0):
            heads = [hit for hit in hits if any(_says("declares", one, hit) for one in types)]
            found = self._functions(name, [hit for hit in hits if hit.path in {head.path for head in heads}])
            if owned := [one for one in found if one.owner in types]:
                return owned
            types += re.findall(r"\b[A-Z]\w+", " ".join(head.text for head in heads))
            hits = self._definitions([*types, name])
        paths = {hit.path for hit in hits if owner and _says("builds on", owner, hit)}
        paths |= {hit.path for hit in hits if any(hit.path.endswith(file) for file in self.question.files)}
        found = self._functions(name, [hit for hit in hits if hit.path in paths])
        others = found or self._functions(name, _not_tests(hits))
        found = found or [one for one in others if _means(owner, one.path, one.owner)]
        self.others |= {title: name} if others and not found else {}
        return found or others

    def _follow(self, level: list[Visit]) -> None:
        seen, in_test = set[Function](), any(_is_test(one.path) for one in self.roots)
        deepest = MAX_LEVELS if self.question.kind == "nothing" else MAX_LEVELS - 2
        for depth in range(deepest + 1):
            calls = list[tuple[Visit, Call, list[str]]]()
            for visit in (one for one in level if one.function not in seen):
                if depth == deepest or len(seen) == MAX_FUNCTIONS:
                    self._known.leave_out("unfollowed", visit.function.title)
                    continue
                seen.add(visit.function)
                calls += [(visit, call, _types(call, visit.function)) for call in self._look_at(visit)]
            hits = self._definitions({name for _, call, types in calls for name in (call.name, *types)}, in_test)
            level = [reached for one in calls for reached in self._resolve(*one, hits)]
            if not level or self._known.wanted:
                return

    def _look_at(self, visit: Visit) -> list[Call]:
        """Notes what a function says, and gives the calls that decide it."""
        function, calls = visit.function, list[Call]()
        if self.question.kind == "raise":
            places, calls = function.raising(self.exceptions), list(calls_in(function.node))
        elif visit.call and visit.call.decides:
            returns = [at for at, one in enumerate(function.statements) if one.kind == "return"]
            places = [function.place("decides", at) for at in returns]
        else:
            places = function.nothing(self.question.values)
            calls = function.calls_behind(places)
        self.places += [(visit, place) for place in places]
        calls = [call for call in calls if not _is_built_in(call, function)]
        return list({(call.name, call.receiver): call for call in reversed(calls)}.values())[::-1]

    def _resolve(self, visit: Visit, call: Call, types: list[str], hits: list[Hit]) -> list[Visit]:
        """The functions of the repository that a call may mean: those in the likeliest files that hold any."""
        defined, wanted = [hit for hit in hits if _says("defines", call.name, hit)], len(self._known.wanted)
        typed = {hit.path for hit in hits if any(_says("builds on", one, hit) for one in types)}
        likely = {hit: _likelihood(hit.path, visit.function, call, types, typed) for hit in defined}
        guess = call.name not in _BUILT_IN and len({hit.path for hit in defined}) <= FEW
        guess &= self.question.kind == "nothing" and (not types or call.receiver in _SELF)
        for score in sorted({*likely.values()} - {0} | ({0} if guess else set()), reverse=True):
            found = self._functions(call.name, [hit for hit in defined if likely[hit] == score], MAX_CALLED)
            found = [one for one in found if {one.owner, *one.bases} & {*types}] or found
            found = [one for one in found if one.parameters == call.arguments] or found
            if len(self._known.wanted) > wanted:
                return []
            if found:
                return [Visit(one, visit, call, not score or visit.guessed) for one in found]
        return []

    def _find_raised(self) -> None:
        """The places that raise what was asked for, wherever they are."""
        names = "|".join(self.exceptions[:MAX_NAMES])
        hits = self._known.search(rf"(raise|throw|return|new)[[:space:](]+([[:alnum:]_.]*\.)?({names})") or []
        functions = self._read(sorted(hits, key=lambda hit: (_is_test(hit.path), hit)))
        self.places = [(Visit(one), place) for one in functions for place in one.raising(self.exceptions)]
        self.apart = bool(self.names)

    def _find_mentions(self) -> None:
        """Where the names are defined, and where else they stand."""
        for title in (*self.names, *self.question.exceptions):
            owner, _, name = title.rpartition(".")
            hits, uses = self._definitions([owner, name]), self._known.search(re.escape(name), "-w") or []
            ways = (("declares", hits), ("defines", hits), ("sets", uses))
            found = next(filter(None, ([hit for hit in some if _says(way, name, hit)] for way, some in ways)), [])
            kin = ("declares", "builds on") if owner else ()
            heads = [{hit.path for hit in hits if _says(way, owner, hit)} for way in kin]
            owned = next(filter(None, ([hit for hit in found if hit.path in paths] for paths in heads)), [])
            owned = owned or [hit for hit in found if _means(owner, *hit[::2])]
            uses = [hit for hit in uses if hit[:2] not in {other[:2] for other in owned or found}]
            uses.sort(key=lambda hit: (_is_test(hit.path), not hit.path.endswith(_ENDINGS), hit.path))
            self.others |= {title: name} if owner and (found or uses) and not owned else {}
            self.mentions[self.others.get(title, title)] = owned or found, uses


def _means(owner: str, *texts: str) -> bool:
    """Whether the type, module or variable of a name is one of the words of these texts."""
    return not owner or owner.lower().replace("_", "") in re.split(r"\W", " ".join(texts).lower().replace("_", ""))


def _likelihood(path: str, function: Function, call: Call, types: list[str], typed: set[str]) -> int:
    """How likely the function that a call means is in a file; 0 when only the name speaks for it."""
    *folders, file = re.sub(r"(/__init__|/index)?\.\w+$", "", path).split("/")
    if call.receiver in _SELF:
        imported = any({call.name, file} <= {*re.findall(r"\w+", line)} for line in function.imports)
        near = folders == function.path.split("/")[:-1] and not path.endswith(".py")
        return 8 * (path == function.path) + 4 * imported + 2 * (path in typed) + near
    word, file = call.receiver.lower().replace("_", ""), file.lower().replace("_", "")
    return int(path in typed if types else word and word in file)


def _pattern(names: Iterable[str]) -> str:
    """Finds heads of types and functions of these names, and of types that build on them; it need not be exact."""
    name = f"({'|'.join(names)})"
    head = rf"^[[:space:]]*([[:alnum:]_@()]+[[:space:]]+)*({_TYPES}|extends|implements)[[:space:]]"
    before = r"^([]\[[:alnum:]_<>,.?*&:~@()[:space:]]*[[:space:]*&:])?"
    after = r"\(([^;{)]|\)+([^].,:;{)]|:.))*\)*[[:space:]]*(\{.*)?$"  # what follows most calls is none of these
    type_ = rf"{head}(.*[^[:alnum:]_])?{name}([^[:alnum:]_]|$)"
    return rf"{type_}|def[[:space:]]+{name}\(|{before}{name}[[:space:]]*({after}|[:=][[:space:]]*(async|function|\())"


def _says(way: str, name: str, hit: Hit) -> bool:
    """Whether a line says this of `_LINES`."""
    if name not in hit.text or (way == "defines" and hit.path.endswith(".py") and "def " not in hit.text):
        return False
    return re.search(_LINES[way].replace("NAME", re.escape(name)), hit.text) is not None


def _is_built_in(call: Call, function: Function) -> bool:
    """Whether a call means a function of Python itself."""
    if call.receiver or call.name not in dir(builtins) or not function.path.endswith(".py"):
        return False
    return not re.search(rf"\b{call.name}\b", " ".join([*function.imports, *(one.name for one in function.others)]))


def _is_test(path: str) -> bool:
    return _TEST.search(path) is not None


def _not_tests(hits: list[Hit]) -> list[Hit]:
    return [hit for hit in hits if not _is_test(hit.path)] or hits


def _types(call: Call, function: Function) -> list[str]:
    """The types that a call's receiver may have; of a call without one, the function's own and those it builds on."""
    if call.receiver in _SELF:
        return [*function.bases, *([function.owner] if function.owner and call.receiver != "super" else [])]
    return [call.receiver] if call.receiver[:1].isupper() else types_of(function.text, call.receiver)
