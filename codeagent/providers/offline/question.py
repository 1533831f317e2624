"""What a question asks for: names, file names, a symptom; in whatever language it is put.

The words are English and Chinese. Names, and words like null, are recognised in any language.
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
        return ".".join(name for name in (self.owner, self.member) if name)


@dataclass(frozen=True, slots=True)
class Question:
    """`values` are what "nothing" is written as, `exceptions` the types that were named. `named` is false when the
    targets are plain words, of which those count that the repository defines."""

    kind: Kind
    targets: tuple[Target, ...] = ()
    files: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    named: bool = True
    chinese: bool = False


NULLS = ("null", "None", "NULL", "nil", "undefined", "nullptr")
EMPTIES = ("[]", "{}", '""', "''", "()", "emptyList()", "List.of()", "Optional.empty()")
_FALSE = re.compile(r"\breturns? (?:always )?false\b|返回 ?false", re.IGNORECASE)
_NULL = re.compile(r"\b(?:null|none|nil|undefined|nullptr)\b|空值|空指针", re.IGNORECASE)
_EMPTY = re.compile(
    r"\b(?:nothing|empty|no (?:value|results?)|blank)\b|空|没有结果|没有值|无结果|什么[都也]没有", re.I
)
_RAISE = re.compile(
    r"\b(?:rais(?:e[sd]?|ing)|throw(?:s|n|ing)?|exceptions?|errors?|fail(?:s|ed|ing|ure)?|crash(?:es|ed|ing)?)\b"
    r"|异常|错误|报错|抛出|失败|崩溃",
    re.IGNORECASE,
)
_WHERE = re.compile(r"\b(?:where|which file)\b|在哪|哪里|哪儿|何处|哪个文件|什么地方", re.IGNORECASE)
_WHY = re.compile(r"\b(?:why|how come|what makes|when does)\b|为什么|为何|为啥|怎么会|原因", re.IGNORECASE)
_CHINESE = re.compile(r"[\u3400-\u9fff]")

_FILE = re.compile(r"(?<![\w/.])(?:[\w.-]+/)*[\w.-]*\w\.[A-Za-z][A-Za-z0-9]{0,4}(?![\w(])")
_SUFFIXES = frozenset(
    "py pyi java js mjs cjs ts tsx jsx c h cc cpp hpp cs go rs kt kts scala swift php rb vue sh md txt toml yaml yml"
    " json rst xml ini cfg properties gradle csv html css sql proto".split()
)
_NAME = r"[A-Za-z_$][\w$]*"
_NAMES = re.compile(
    rf"(?P<qualified>{_NAME}(?:(?:\.|\#|::|->){_NAME})+)|[`'\"‘“「](?P<quoted>{_NAME})(?:\(\))?[`'\"’”」]"
    rf"|(?<![\w$])(?:(?P<called>{_NAME})\(|(?P<shaped>[A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Z]{{2,}}[a-z]\w*"
    r"|[a-z$]+[a-z0-9]*[A-Z]\w*|_*[A-Za-z][A-Za-z0-9]*_\w*)(?![\w$]))",
    re.ASCII,
)
_EXCEPTION = re.compile(r"(?:\w*[a-z])?(?:Error|Exception|Failure)")
_RAISED = re.compile(
    r"(?:\brais(?:e[sd]?|ing)|\bthrow(?:s|n|ing)?|抛出|报)\s*(?:(?:an?|the)\s+)?[`'\"]?([A-Z]\w+)", re.ASCII
)
_PLAIN = frozenset(
    """about after all always and any are because been but can could did does file for from function get gets give
    gives happen happens has have how into its line method module not off our out return returned returning returns
    see should some sometimes that the their then there these this value values was what when where which while who
    why will with would you your class code called call find defined definition implemented used result results null
    none nil undefined nothing empty error errors exception exceptions raise raises raised throw throws thrown fail
    fails failed false true ever never only same too object string list number repository project""".split()
)


def parse(text: str) -> Question:
    """Reads a question."""
    files = tuple(dict.fromkeys(name for name in _FILE.findall(text) if _is_file(name)))
    rest = text
    for name in files:
        rest = rest.replace(name, " ")
    found = (match[match.lastgroup or 0] for match in _NAMES.finditer(rest))
    names = list(dict.fromkeys(name for name in found if name not in NULLS))
    raised = _RAISED.findall(text)
    exceptions = tuple(
        name for name in dict.fromkeys([*names, *raised]) if name in raised or _EXCEPTION.fullmatch(name)
    )
    kind, values = _kind(text, bool(exceptions))
    exceptions = exceptions if kind is Kind.RAISE else ()
    targets = tuple(_target(name) for name in names if name not in exceptions)
    named = bool(targets or files)
    if not named:
        words = re.findall(r"[^\W\d_][\w-]{2,}", _CHINESE.sub(" ", rest))
        plain = dict.fromkeys(word for word in words if word.lower() not in _PLAIN and word not in exceptions)
        targets = tuple(Target("", word) for word in plain)[:8]
    return Question(
        kind, _joined(targets), files, values, exceptions, named or not targets, bool(_CHINESE.search(text))
    )


def _is_file(name: str) -> bool:
    method = re.fullmatch(r"[A-Z][a-z]\w*\.(?:json|xml|html|css|sql|csv|properties|go)", name)  # as in Response.json
    return name.rpartition(".")[2].lower() in _SUFFIXES and not method


def _kind(text: str, names_exception: bool) -> tuple[Kind, tuple[str, ...]]:
    if _WHERE.search(text) and not _WHY.search(text):
        return Kind.WHERE, ()
    if _FALSE.search(text):
        return Kind.NOTHING, ("false", "False")
    if _NULL.search(text):
        return Kind.NOTHING, NULLS
    if names_exception or (_RAISE.search(text) and not _EMPTY.search(text)):
        return Kind.RAISE, ()
    if _EMPTY.search(text):
        return Kind.NOTHING, NULLS + EMPTIES
    return Kind.OTHER, ()


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
