"""What a question asks for: names, file names, a symptom; in whatever language it is put.

The words are English and Chinese. Names, and words like null, are recognised in any language.
"""

from __future__ import annotations

import re
from typing import NamedTuple


class Question(NamedTuple):
    """`kind` is `nothing`, `raise`, `where` or `other`. `names` are as `Type.method`; when not `named`, plain words,
    of which those count that the repository defines. `values` are what "nothing" is written as."""

    kind: str
    names: tuple[str, ...] = ()
    files: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    exceptions: tuple[str, ...] = ()
    named: bool = True
    chinese: bool = False


NULLS = ("null", "None", "NULL", "nil", "undefined", "nullptr")
EMPTIES = (
    *("[]", "{}", '""', "''", "()", "dict()", "list()", "set()", "tuple()", "Optional.empty()", "new ArrayList<>()"),
    *("Collections.emptyList()", "Collections.emptyMap()", "List.of()", "Map.of()", "Set.of()"),
)
_WHY = r"(?!.*(?:\b(?:why|how come)\b|为什么|为何|为啥|原因))"
_SYMPTOMS = (  # the first that is found counts
    ("where", (), rf"^{_WHY}.*(?:\b(?:where|which file)\b|在哪|哪里|哪儿|何处|哪个文件)"),
    ("nothing", ("false", "False"), r"\breturns? (?:always )?false\b|返回 ?false"),
    ("nothing", NULLS, r"\b(?:null|none|nil|undefined|nullptr)\b|空值|空指针"),
    ("raise", (), r"\brais(?:es?|ed|ing)\b|\bthrow(?:s|n|ing)?\b|抛出|\w(?:Error|Exception)\b"),
    ("nothing", NULLS + EMPTIES, r"\b(?:nothing|empty|blank|no (?:value|results?))\b|空|没有(?:结果|值)|什么都没"),
    ("raise", (), r"\b(?:exceptions?|errors?|fail(?:s|ed|ing|ure)?|crash(?:es|ed|ing)?)\b|异常|错误|报错|失败|崩溃"),
    ("other", (), ""),
)
_FILE = re.compile(
    r"(?<![\w/.])(?:[\w.-]+/)*(?:[\w.-]*\w\.(?:pyi?|java|[mc]?[jt]s|[jt]sx|c|h|cc|cpp|hpp|cs|rs|kts?|swift|php|rb|sh|md"
    r"|rst|txt|toml|ya?ml|ini|cfg|gradle)|(?![A-Z]\w*\.)[\w.-]*\w\.(?:go|json|xml|html|css|sql|csv|properties)"
    r"|\b(?:Make|Docker|Jenkins|Vagrant|Rake|Gem|Proc)file)(?![\w(])"
)
_NAME = r"[A-Za-z_$][\w$]*"
_NAMES = re.compile(
    rf"({_NAME}(?:(?:\.|\#|::|->){_NAME})+)|[`'\"‘“「]({_NAME})(?:\(\))?[`'\"’”」]|(?<![\w$])(?:({_NAME})\("
    r"|([A-Z][a-z0-9]+(?:[A-Z][a-z0-9]*)+|[A-Z]{2,}[a-z]\w*|[a-z$]+[a-z0-9]*[A-Z]\w*|_+[A-Za-z]\w*"
    r"|[A-Za-z][A-Za-z0-9]*_\w*)(?![\w$]))",
    re.ASCII,
)
_SUBJECT = re.compile(  # where only a name can stand
    rf"here is ({_NAME})(?: \w+)?\W*$|hy does ({_NAME}) (?:\w+ )?(?:return|give|raise|throw)\b"
    rf"|({_NAME})\s*(?:为什么|为何|为啥)?(?:总?是?会?(?:返回|抛出)|在哪)",
    re.ASCII,
)
_RAISED = re.compile(
    r"(?:\brais(?:es?|ed|ing)|\bthrow(?:s|n|ing)?|抛出|报)\s*(?:(?:(?:an?|the|exception)\s|了|异常|错误?)\s*)*[`'\"]?(?:\w+\.)*"
    r"([A-Z]\w+)|\b([A-Z]\w+)[`'\"]?\s*(?:\b(?:gets?|is|was|being)\s+)*(?:\b(?:raised|thrown)\b|(?:为什么)?会?被抛出)"
    r"|((?<![\w.])(?:\w*[a-z])?(?:Error|Exception|Failure)\b)",
    re.ASCII,
)
_PLAIN = frozenset(
    """about after all and any anything are because but can class code could did does empty error everything fail
    false file find for from function get gets give gives happen has have how into it its line list method module none
    not nothing null only object out raise raised raises result return returns see should something string than that
    the then there they this throw thrown true type undefined value was what when where which while who why will with
    would you your""".split()
)


def parse(text: str) -> Question:
    """Reads a question."""
    rest, files = _FILE.sub(" ", text), tuple(dict.fromkeys(_FILE.findall(text)))
    kind, values = next((kind, values) for kind, values, words in _SYMPTOMS if re.search(words, text, re.I | re.S))
    exceptions = tuple(dict.fromkeys(map("".join, _RAISED.findall(text)))) if kind == "raise" else ()
    found = [one for one in map("".join, _NAMES.findall(rest)) if one not in (*NULLS, *exceptions)]
    subjects = [one for one in map("".join, _SUBJECT.findall(rest)) if one.lower() not in _PLAIN]
    found = found or [one for one in subjects if one not in exceptions]
    parts = [[one for one in re.split(r"\.|#|::|->", name) if one not in ("self", "this")] for name in found]
    names = list(dict.fromkeys(".".join(one[-2:]) for one in parts))
    types = [name for name in names if name[:1].isupper() and "." not in name]
    if len(types) == 1 < len(names) and "." not in "".join(names):  # `findById in UserService`
        names = [f"{types[0]}.{name}" for name in names if name not in types]
    words = [] if names or files else re.findall(r"[A-Za-z][\w-]{2,}", rest, re.ASCII)
    plain = [word for word in dict.fromkeys(words) if word.lower() not in _PLAIN and word not in exceptions][:8]
    chinese = re.search(r"[\u3400-\u9fff]", text) is not None
    return Question(kind, tuple(names or plain), files, values, exceptions, not plain, chinese)
