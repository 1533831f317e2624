"""Which part a file has in a check, read in the texts that use it, whatever the file is called.

`reach` follows what a command starts; here each file of a change is asked for: which tests read it or take fixtures
from it, and whether the program uses it, too. What the program uses may be what a fix is in, and so may any module
that tests import: of those it is told why the check may rest on them, and they count as changed.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from posixpath import basename, dirname, splitext

from codeagent.verification.names import in_sources, is_code, is_configuration, is_test
from codeagent.verification.tree import Tree

Text = tuple[str, str]
"""A path and the text of its file."""

_MOST_TESTS, _MOST_FILES, _MOST_PATTERNS = 200, 400, 500
_MOST_CHARACTERS = 200_000
_LITERAL = re.compile(r"(?=[\"'`]([^\"'`\n]{1,200})[\"'`])")
_UNKNOWN = re.compile(r"[$#]?\{[^{}]{0,100}\}|%\(\w+\)[sd]|%[sd]|\$\(\w+\)|\$\w+")
_PATH = re.compile(r"(?:[\w.-]+/)*[\w-]+\.[A-Za-z]\w{0,7}")
_NAME = re.compile(r"[\w.*?\[\]/@+-]+")
_LISTING = re.compile(r"\b(?:listdir|iterdir|scandir|readdir(?:Sync)?|ReadDir|listFiles)\b")
_DEEP = re.compile(r"\b(?:rglob|walk|WalkDir)\b|\*\*/")
_TAKEN = re.compile(r"^from[ \t]+\.*([\w.]+)[ \t]+import[ \t]+(\*|\([^)]{0,2000}\)|[^\n#]{1,500})", re.M)
_FIXTURE = re.compile(r"@(?:\w+\.)?fixture\b")
_FRAMEWORK = re.compile(
    r"^[ \t]*(?:import|from)[ \t]+(?:pytest|unittest|hypothesis|nose2?)\b|^import (?:static )?org\.junit"
    r"|^[ \t]*(?:import )?\"testing\"$"
    r"|\b(?:require\(|from )[\"'](?:node:test|vitest|chai|@jest/globals|mocha)"
    r"|^[ \t]*#[ \t]*include[ \t]+[<\"](?:gtest|gmock|catch2?|cmocka|unity)\b",
    re.M,
)
_MACRO = re.compile(r"^[ \t]*#[ \t]*define[ \t]+(\w{0,40}(?:assert|check|expect|require)\w{0,40})\(", re.M | re.I)
_FUNCTION = re.compile(
    r"^[ \t]*(?:export |static |inline |pub |async ){0,3}(?:def|function|func|fn|void|int|bool)[ \t]+"
    r"(\w{0,40}(?:assert|check|expect|verify|ensure|should|must|eq)\w{0,40})[ \t]*\("
    r"|^(\w{0,40}(?:assert|check|expect|eq)\w{0,40})[ \t]*\(\)[ \t]*\{",  # in shell
    re.M | re.I,
)
_THROWING = re.compile(
    r"\b(?:function |const |exports\.)(assert\w{0,40}|check|expect|equals?|eq|same)\b[^;]{0,200}?\bthrow\b"
)
"""Named for no more than to compare: a `checkAccess` that throws is a program's."""
_FAILS = re.compile(
    r"\bassert\b|\bAssertionError\b|\bfail\w*(?:\+\+|\(| ?\+= ?1)|\babort\(|\breturn 1\b"
    r"|\bexit[ (](?:1|EXIT_FAILURE)\b"
)
_BEHAVIOUR = re.compile(r"\b(?:def|class|function|func|fn|lambda|struct|impl)\b|=>|\)\s*[{;]")
"""What a file of values alone has none of."""
_IDENTIFIER = re.compile(r"\w+")
_HELPERS = frozenset("assert asserts assertion assertions expect expectations expected fixture fixtures".split())
_LONGEST_BODY = 400


class Named:
    """The files that a text names: whole, by a pattern, or as what is in a folder that it names and lists."""

    def __init__(self, words: Iterable[str], text: str) -> None:
        spelt = {re.sub(r"^(?:\.{0,2}/)+", "", _UNKNOWN.sub("*", word)) for word in words}
        spelt = {word for word in spelt if _NAME.fullmatch(word)}
        self._paths = {word for word in spelt if "*" not in word}
        self._folders = {part for word in self._paths for part in word.split("/")}
        patterns = sorted(word for word in spelt if "*" in word)[:_MOST_PATTERNS]
        self._patterns = {word for word in patterns if dirname(word).strip("*./")}
        self._endings = {basename(word) for word in {*patterns} - self._patterns if basename(word).strip("*")}
        # The ending alone, where a name is put together: `name + ".json"`.
        self._endings |= {f"*{word}" for word in self._paths if re.fullmatch(r"\.\w{1,8}", word)}
        self._lists = _LISTING.search(text) is not None
        self._deep = _DEEP.search(text) is not None

    def __contains__(self, path: str) -> bool:
        parts = path.split("/")
        ends = ["/".join(parts[at:]) for at in range(len(parts))]
        # Node takes `require("./cases")` for it.
        ends += [end.removesuffix(".json") for end in ends if end.endswith(".json")]
        if not self._paths.isdisjoint(ends):
            return True
        if any(fnmatchcase(end, pattern) for end in ends for pattern in self._patterns):
            return True
        if self._lists and not self._folders.isdisjoint(parts[-2:-1]):
            return True
        above = parts[:-1] if self._deep else parts[-2:-1]
        return not self._folders.isdisjoint(above) and any(fnmatchcase(parts[-1], each) for each in self._endings)


@dataclass
class Roles:
    """Asks the untouched tree. `decides` tells what the check is known to load, `scripts` are its texts in shell."""

    read: Callable[[str], str | None]
    tree: Tree
    decides: Callable[[str], bool]
    scripts: Collection[str] = ()
    _identifiers: dict[str, set[str]] = field(default_factory=dict)

    def is_of_the_check(self, path: str) -> bool:
        """Data that a test of the program reads and the program does not, and fixtures that a `conftest.py` takes."""
        if is_code(path):
            return path.endswith(".py") and self._gives_fixtures(path)
        if in_sources(path) or any(path in named for named in self._program_names):
            return False
        readers = [test for test, named in self._tests_names.items() if path in named]
        # A test that has nothing of the program in it is a test of that data.
        return any(self._uses(test, program) for test in readers for program in self._program)

    def doubt(self, path: str) -> str:
        """How the check rests on a file that counts as changed, as a clause; empty where it does not."""
        if not is_code(path):
            reader = next((test for test, named in self._tests_names.items() if path in named), "")
            if not reader and any(path in Named(_words(text), "") for text in self.scripts):
                reader = "what the command runs"
            return f"{reader} names it" if reader else ""
        users = {test: text for test, text in self._tests.items() if self._uses(test, path)}
        return self._doubt_of_code(path, self._text(path), users) if users else ""

    def _doubt_of_code(self, path: str, text: str, users: Mapping[str, str]) -> str:
        """`users` are the tests, with their texts, in which the file's name stands."""
        first = next(iter(users))
        if _FRAMEWORK.search(text):
            return f"{first} uses it, and it uses a test framework"
        if not _HELPERS.isdisjoint(re.split(r"[-_.]", _stem(path).lower())):
            return f"{first} uses it, and it is named as a check's"
        for name in _assertions(text):
            called = re.compile(rf"(?:^|[;{{:])[ \t]*(?:\w+\.)?{name}(?:\(|[ \t]+[\"'$\w])", re.M)
            if user := next((test for test, text in users.items() if called.search(text)), ""):
                return f"{user} asserts with its {name}"
        if not _BEHAVIOUR.search(text) and len(self._program) > 1 and not self._program_uses(path):
            return f"{first} uses it, and the program does not"
        return ""

    def _program_uses(self, path: str) -> bool:
        others = (other for other in self._program[:_MOST_FILES] if other != path)
        return any(self._uses(other, path) for other in others)

    def _uses(self, user: str, path: str) -> bool:
        """Whether all that a file's name is made of (`check-eq`) stands in the text of another."""
        if user not in self._identifiers:
            self._identifiers[user] = set(_IDENTIFIER.findall(self._text(user)))
        return self._identifiers[user].issuperset(_IDENTIFIER.findall(_stem(path)))

    @cached_property
    def _tests(self) -> dict[str, str]:
        tests = sorted(path for path in self.tree.files if is_code(path) and self._checks(path))
        return {path: self._text(path) for path in tests[:_MOST_TESTS]}

    def _checks(self, path: str) -> bool:
        return is_test(path) or (self.decides(path) and not is_configuration(path))

    @cached_property
    def _tests_names(self) -> dict[str, Named]:
        # A script of the project's, which makes a release or its documents, may list folders of the program.
        return {path: _named(text, lists=is_test(path)) for path, text in self._tests.items()}

    @cached_property
    def _program(self) -> list[str]:
        others = (path for path in self.tree.files if is_code(path) and not (is_test(path) or is_configuration(path)))
        return sorted(path for path in others if not self.decides(path))

    @cached_property
    def _program_names(self) -> list[Named]:
        return [_named(self._text(path)) for path in self._program[:_MOST_FILES]]

    def _gives_fixtures(self, path: str) -> bool:
        """A `conftest.py` takes names from it that it does not use: for pytest, which finds fixtures that way."""
        if not _FIXTURE.search(self._text(path)):
            return False
        return any(
            basename(test) == "conftest.py" and _is_module(path, module)
            for test, text in self._tests.items()
            for module in _unused(text)
        )

    def _text(self, path: str) -> str:
        return (self.read(path) or "")[:_MOST_CHARACTERS]


def _named(text: str, *, lists: bool = True) -> Named:
    """What the literals of a program's text name; of several words in one, as in a command, those like paths."""
    literals = (literal.split() for literal in _LITERAL.findall(text))
    return Named(
        {word for words in literals for word in words if len(words) == 1 or _PATH.fullmatch(word)},
        text if lists else "",
    )


def _words(script: str) -> list[str]:
    return re.findall(r"[\w.@+*?$/-]+", script)


def _stem(path: str) -> str:
    """The name that a module or a header is imported by."""
    stem = splitext(basename(path))[0]
    return basename(dirname(path)) if stem in ("__init__", "index", "mod") else stem


def _unused(text: str) -> Iterator[str]:
    """The modules from which names are imported that stand nowhere else in a text."""
    counts = Counter(_IDENTIFIER.findall(text))
    for module, names in _TAKEN.findall(text):
        last = [name.split()[-1] for name in names.strip("()\n ").split(",") if name.strip()]
        if any(name == "*" or counts[name] == 1 for name in last):
            yield module


def _is_module(path: str, module: str) -> bool:
    name = splitext(path)[0].removesuffix("/__init__")
    return f"/{name}".endswith(f"/{module.replace('.', '/')}")


def _assertions(text: str) -> Iterator[str]:
    """The names of macros and functions which are named as assertions, and can fail."""
    yield from _MACRO.findall(text)
    yield from _THROWING.findall(text)
    for found in _FUNCTION.finditer(text):
        following = _FUNCTION.search(text, found.end(), found.end() + _LONGEST_BODY)
        body = text[found.end() : following.start() if following else found.end() + _LONGEST_BODY]
        if _FAILS.search(body):
            yield found[1] or found[2]
