"""Which part a file has in a check, read in the texts that use it, whatever the file is called.

`reach` follows what a command starts; here each file of a change is asked for: which tests read it or take fixtures
from it, and whether the program uses it, too. What the program uses is the program, and so is what a
test uses alone: a fix may be in it. Of other modules that tests import it is told why the check may rest on them.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator
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
    r"(\w{0,40}(?:assert|check|expect|should)\w{0,40}|(?:\w{0,40}_)?eq(?:ual)?s?)[ \t]*\("
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
_BEHAVIOUR = re.compile(
    r"\b(?:def|class|function|func|fn|lambda|struct|impl)\b|=>|\)\s*\{|\b(?!new\b)\w+[ \t*]+\w+\([^()]*\)\s*;"
)
"""What a file of values alone has none of; a declaration (`int add(int, int);`) is none, `new Map();` is one."""
_NO_CODE = re.compile(
    r"(?P<of>\b(?:require\(|import\(?|from|include)\s*)?"
    r"(?:\"\"\".*?(?:\"\"\"|\Z)|\'\'\'.*?(?:\'\'\'|\Z)|\"(?:[^\"\\\n]|\\.)*\"|\'(?:[^\'\\\n]|\\.)*\'|`[^`]*`)"
    r"|//[^\n]*|/\*.*?(?:\*/|\Z)|\#(?![ \t]*(?:include|define|if|\[))[^\n]*",
    re.S,
)
"""Texts and comments, but for what is imported."""
_KINDS = (
    {".py", ".pyi", ".pyx"},
    {".js", ".jsx", ".mjs", ".cjs", ".ts", ".tsx", ".mts", ".cts", ".vue", ".svelte", ".coffee"},
    {".c", ".h", ".cc", ".cpp", ".cxx", ".hh", ".hpp", ".hxx", ".inl", ".m", ".mm"},
)
"""Languages of one kind load each other's files; any other, its own."""
_READS = re.compile(r"\b(?:open|read\w*|ReadFile|File|slurp|file_get_contents)\b")
_STARTS = re.compile(
    r"\b(?:subprocess|popen|system|spawn\w*|exec\w*|eval|runpy|import_module|spec_from_file_location|runIn\w+|jsdom)\b",
    re.I,
)
"""What a text runs, or shows in a browser, is the program."""
_IDENTIFIER = re.compile(r"\w+")
_HELPERS = frozenset("assert asserts assertion assertions expect expectations expected fixture fixtures".split())
_LONGEST_BODY = 400


class Named:
    """The files that a text names: whole, by a pattern, or as what is in a folder that it names and lists."""

    def __init__(self, words: Iterable[str], text: str) -> None:
        spelt = {re.sub(r"^(?:\.{0,2}/)+", "", _UNKNOWN.sub("*", word)) for word in words}
        spelt = {word for word in spelt if _NAME.fullmatch(word)}
        self.parts = {part for word in spelt for part in word.split("/")}
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
    """Asks the untouched tree. `decides` tells what the check is known to load, `compares` what it compares an output
    with, `scripts` are its texts in shell."""

    read: Callable[[str], str | None]
    tree: Tree
    decides: Callable[[str], bool]
    scripts: Collection[str] = ()
    compares: Callable[[str], bool] = lambda _path: False
    _identifiers: dict[str, set[str]] = field(default_factory=dict)

    def is_of_the_check(self, path: str) -> bool:
        """Data, whatever its ending, that the check compares with or a test of the program reads, and the program
        does not; and fixtures that a `conftest.py` takes."""
        if path.endswith(".py") and self._gives_fixtures(path):
            return True
        if in_sources(path) or (is_code(path) and not self.compares(path) and not self._is_opened(path)):
            return False
        if self._program_names_it(path):
            return False
        if is_code(path):
            return not self._is_loaded(path)
        readers = [test for test, named in self._tests_names.items() if path in named]
        # A test that has nothing of the program in it is a test of that data.
        return any(self._uses(test, program) for test in readers for program in self._program)

    def doubt(self, path: str, *, without_code: bool = False) -> str:
        """How the check rests on a file that counts as changed, as a clause; empty where it does not. Whether there
        is no code in all of the change."""
        if is_code(path):
            clause = self._doubt_of_code(path, self._text(path))
            return "" if clause and self._program_names_it(path) else clause
        if self._program_names_it(path):
            return ""
        reader = next((test for test, named in self._tests_names.items() if path in named), "")
        if not reader and any(path in Named(_words(text), "") for text in self.scripts):
            reader = "what the command runs"
        return f"{reader} names it" if reader else "it is no code, and the change has none" * without_code

    def _doubt_of_code(self, path: str, text: str) -> str:
        if any(self._uses(other, path) for other in self._others(path)):
            return ""
        tests = [test for test in self._tests if self._uses(test, path)]
        users = {test: self._tests[test] for test in tests if self._tests_another(test, path)}
        if not users:
            return ""
        first = next(iter(users))
        if _FRAMEWORK.search(text):
            return f"{first} uses it, and it uses a test framework"
        if not _HELPERS.isdisjoint(re.split(r"[-_.]", _stem(path).lower())):
            return f"{first} uses it, and it is named as a check's"
        for name in _assertions(text):
            called = re.compile(rf"(?:^|[;{{:])[ \t]*(?:\w+\.)?{name}(?:\(|[ \t]+[\"'$\w])", re.M)
            if user := next((test for test, text in users.items() if called.search(text)), ""):
                return f"{user} asserts with its {name}"
        return "" if _BEHAVIOUR.search(_bare(text)) else f"{first} uses it, and the program does not"

    def _others(self, path: str) -> list[str]:
        return [other for other in self._program[:_MOST_FILES] if other != path]

    def _tests_another(self, test: str, path: str) -> bool:
        """Whether a test uses anything else of the program, so that it may be a test of that. Neither the header of a
        file nor the package that it lies in is anything else."""
        stem, above = _stem(path), set(dirname(path).split("/"))
        others = (other for other in self._others(path) if _stem(other) not in {stem, *above})
        # What gives fixtures to tests is no test itself: then it is theirs.
        tests = [test] if is_test(basename(test)) and basename(test) != "conftest.py" else [*self._tests]
        return any(self._uses(each, other) for other in others for each in tests)

    def _program_names_it(self, path: str) -> bool:
        return any(path in named for named in self._program_names)

    def _is_opened(self, path: str) -> bool:
        """Whether a test that starts nothing reads a file as data, or one beside it that has the same name up to the
        first dot. Its folder must be named as well, for a test may write a `main.py` of its own."""
        folder = basename(dirname(path))
        name = path[: -len(basename(path))] + basename(path).partition(".")[0]
        beside = [each for each in self.tree.files if each.startswith(f"{name}.")]
        named = [test for test, names in self._tests_names.items() if folder and folder in names.parts]
        readers = (
            test for test in named if _READS.search(self._tests[test]) and not _STARTS.search(self._tests[test])
        )
        return any(each in self._tests_names[test] for test in readers for each in (path, *beside))

    def _is_loaded(self, path: str) -> bool:
        """Whether a file, or other code in its folder, is used by a text elsewhere that may import or compile it."""
        folder = dirname(path)
        beside = (each for each in self.tree.files if folder and dirname(each) == folder and is_code(each))
        return any(self._is_imported(each, folder) for each in {path, *beside})

    def _is_imported(self, path: str, folder: str) -> bool:
        kind = next((kind for kind in _KINDS if splitext(path)[1] in kind), {splitext(path)[1]})
        users = (each for each in self._program[:_MOST_FILES] if splitext(each)[1] in kind and each != path)
        if any(self._uses(each, path) for each in users if not folder or dirname(each) != folder):
            return True
        # A script's words are its commands', which `compares` knows.
        tests = [test for test in self._tests if splitext(test)[1] in kind and not test.endswith("sh")]
        return any(self._bare_words[test].issuperset(_IDENTIFIER.findall(_stem(path))) for test in tests)

    def _uses(self, user: str, path: str) -> bool:
        """Whether all that a file's name is made of (`check-eq`) stands in the text of another."""
        if user not in self._identifiers:
            self._identifiers[user] = set(_IDENTIFIER.findall(self._text(user)))
        return self._identifiers[user].issuperset(_IDENTIFIER.findall(_stem(path)))

    @cached_property
    def _tests(self) -> dict[str, str]:
        tests = sorted(path for path in self.tree.files if is_code(path) and self._checks(path))
        return {path: self._text(path) for path in tests[:_MOST_TESTS]}

    @cached_property
    def _bare_words(self) -> dict[str, set[str]]:
        return {path: set(_IDENTIFIER.findall(_bare(text))) for path, text in self._tests.items()}

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


def _bare(text: str) -> str:
    """A text without its comments and literals, but for those that are imported."""
    return _NO_CODE.sub(lambda found: found[0] if found["of"] else " ", text)


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
