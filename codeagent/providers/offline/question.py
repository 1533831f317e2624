"""What a question asks for: names, file names, a symptom; in whatever language it is put.

Only the words of a few languages are known. Names are recognised by their shape, so they are found in any.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum


class Kind(StrEnum):
    """What is asked about the names."""

    NOTHING = "nothing"  # why is null, None or something empty returned
    RAISE = "raise"  # why is an error raised
    WHERE = "where"  # where is it
    OTHER = "other"  # something that rules cannot answer


@dataclass(frozen=True, slots=True)
class Target:
    """A name that the question is about: a type, a function, or a function of a type."""

    owner: str
    member: str

    @property
    def title(self) -> str:
        return f"{self.owner}.{self.member}" if self.owner and self.member else self.owner or self.member


@dataclass(frozen=True, slots=True)
class Question:
    """`values` are what "nothing" is written as, `exceptions` the types that were named, `words` plain words
    to search for when there is no name."""

    kind: Kind
    targets: tuple[Target, ...] = ()
    files: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    chinese: bool = False


NULLS = ("null", "None", "NULL", "nil", "undefined", "nullptr")
EMPTIES = ("[]", "{}", '""', "''", "()", "emptyList()", "List.of()", "Optional.empty()")
_NULL_WORDS = re.compile(r"\b(?:null|none|nil|undefined|nullptr|nulo|nul)\b|空值|空指针", re.IGNORECASE)
_EMPTY_WORDS = re.compile(
    r"\b(?:nothing|empty|no (?:value|result|results)|blank|nichts|leer\w*|rien|vide|nada|vac[íi]o)\b"
    r"|空|没有结果|没有值|无结果|什么都没有|什么也没有",
    re.IGNORECASE,
)
_RAISE_WORDS = re.compile(
    r"\b(?:raise[sd]?|raising|throw(?:s|n|ing)?|exceptions?|errors?|fail(?:s|ed|ing|ure)?|crash(?:es|ed|ing)?|panics?"
    r"|ausnahmen?|fehler|wirft|exception|erreurs?|lève|lance|excepci[óo]n(?:es)?|lanza|falla)\b"
    r"|异常|错误|报错|抛出|失败|崩溃",
    re.IGNORECASE,
)
_WHERE_WORDS = re.compile(
    r"\b(?:where|which file|wo|où|d[óo]nde)\b|在哪|哪里|哪儿|何处|哪个文件|什么地方", re.IGNORECASE
)
_WHY_WORDS = re.compile(
    r"\b(?:why|how come|what makes|when does|warum|wieso|weshalb|pourquoi|por ?qu[ée])\b"
    r"|为什么|为何|为啥|怎么会|原因",
    re.IGNORECASE,
)
_FALSE = re.compile(r"\breturns? (?:always )?false\b|返回 ?false", re.IGNORECASE)
_CHINESE = re.compile(r"[\u3400-\u9fff]")

_NAME = r"[A-Za-z_$][\w$]*"
_FILE = re.compile(r"(?<![\w/.])(?:[\w.-]+/)*[\w.-]*\w\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w(])")
_QUALIFIED = re.compile(rf"{_NAME}(?:(?:\.|#|::|->){_NAME})+", re.ASCII)
_CALL = re.compile(rf"(?<![\w$])({_NAME})\(", re.ASCII)
_QUOTED = re.compile(rf"[`'\"‘“「]({_NAME})(?:\(\))?[`'\"’”」]", re.ASCII)
_SHAPED = re.compile(
    r"(?<![\w$])(?:[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Z]{2,}[a-z]\w*|[a-z$]+[a-z0-9]*[A-Z]\w*|_*[A-Za-z][A-Za-z0-9]*_\w*)(?![\w$])",
    re.ASCII,
)
_EXCEPTION = re.compile(r"^(?:\w*[a-z])?(?:Error|Exception|Panic|Failure)$")
_RAISED = re.compile(
    r"(?:\braise[sd]?|\braising|\bthrow(?:s|n|ing)?|\bwirft|\blève|\blanza|抛出|报)\s*(?:(?:an?|the|une?|eine?n?)\s+)?"
    r"[`'\"]?([A-Z]\w+)",
    re.ASCII,
)
_SOURCE_SUFFIXES = frozenset(
    "py pyi java js mjs cjs ts tsx jsx c h cc cpp hpp cs go rs kt kts scala swift php rb vue m sh md txt toml yaml"
    " yml json xml ini cfg properties gradle csv html css sql proto".split()
)
_STOP_WORDS = frozenset(
    """a about after all always an and any are at be because been but by can could did do does file for from function
    get gets getting give gives happen has have here how i if in into is it its line me method module my no not of on
    or our out return returned returning returns returning see should so some sometimes the that their them then there
    these they this to up value was we what when where which while who why will with would you your class code come
    comes called call find defined definition implemented used happens result results value values null none nil
    undefined nothing empty error errors exception exceptions raise raises raised throw throws thrown fail fails
    failed false true still ever never only same too very object string list number repository project
    warum wieso gibt der die das ein eine zurück wird wo ist nichts leer fehler pourquoi renvoie retourne où est la le
    les un une rien vide erreur donde dónde está por qué devuelve el los nada error""".split()
)


def parse(text: str) -> Question:
    """Reads a question."""
    files = tuple(dict.fromkeys(match.group() for match in _FILE.finditer(text) if _is_file(match.group())))
    rest = text
    for name in files:
        rest = rest.replace(name, " ")
    names = _names(rest)
    raised = {match.group(1) for match in _RAISED.finditer(text)}
    exceptions = tuple(name for name in names if name in raised or _EXCEPTION.match(name))
    kind, values = _kind(text, bool(exceptions))
    if kind is not Kind.RAISE:
        exceptions = ()
    targets = tuple(_target(name) for name in names if name not in exceptions)
    words = () if targets or files else tuple(word for word in _plain_words(rest) if word not in exceptions)
    return Question(kind, _joined(targets), files, values, exceptions, words, bool(_CHINESE.search(text)))


def _is_file(text: str) -> bool:
    return text.rpartition(".")[2].lower() in _SOURCE_SUFFIXES and not text.startswith(("http", "www."))


def _kind(text: str, names_exception: bool) -> tuple[Kind, tuple[str, ...]]:
    where, why = _WHERE_WORDS.search(text), _WHY_WORDS.search(text)
    if where and not why:
        return Kind.WHERE, ()
    if _FALSE.search(text):
        return Kind.NOTHING, ("false", "False")
    if _NULL_WORDS.search(text):
        return Kind.NOTHING, NULLS
    if names_exception or (_RAISE_WORDS.search(text) and not _EMPTY_WORDS.search(text)):
        return Kind.RAISE, ()
    if _EMPTY_WORDS.search(text):
        return Kind.NOTHING, NULLS + EMPTIES
    return (Kind.OTHER if why else Kind.WHERE), ()


def _names(text: str) -> list[str]:
    """Everything that looks like a name of the program, in the order of the text."""
    found: dict[int, str] = {}
    taken: list[tuple[int, int]] = []
    for pattern, group in ((_QUALIFIED, 0), (_QUOTED, 1), (_CALL, 1), (_SHAPED, 0)):
        for match in pattern.finditer(text):
            start, end = match.span(group)
            if not any(start < other_end and other_start < end for other_start, other_end in taken):
                taken.append((start, end))
                found[start] = match.group(group)
    nulls = {word.lower() for word in NULLS}
    return list(dict.fromkeys(name for _, name in sorted(found.items()) if name.lower() not in nulls))


def _target(name: str) -> Target:
    parts = [part for part in re.split(r"\.|#|::|->", name) if part not in ("self", "this")]
    if len(parts) > 1:
        return Target(parts[-2], parts[-1])
    return Target(parts[0], "") if parts[0][:1].isupper() else Target("", parts[0])


def _joined(targets: tuple[Target, ...]) -> tuple[Target, ...]:
    """`findById in UserService` is one target, as `UserService.findById` is."""
    owners = [target for target in targets if target.owner and not target.member]
    members = [target for target in targets if target.member and not target.owner]
    if len(owners) == 1 and members and len(owners) + len(members) == len(targets):
        return tuple(Target(owners[0].owner, member.member) for member in members)
    return targets


def _plain_words(text: str) -> tuple[str, ...]:
    words = re.findall(r"[^\W\d_][\w-]{2,}", re.sub(_CHINESE, " ", text))
    return tuple(dict.fromkeys(word for word in words if word.lower() not in _STOP_WORDS))[:4]
