"""Which commands have run tests that passed, as far as their text and their exit code say.

The script is split as a shell does, no more: what is not understood is no run. A wrong "no" marks a true claim for
a second look; a wrong "yes" would let a false one pass.
"""

from __future__ import annotations

import itertools
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Run:
    """A command that was carried out, and what it printed. `exit_code` is None when it did not come to an end."""

    call_id: str
    command: str
    exit_code: int | None
    output: str = ""


def passing(run: Run) -> bool:
    """Whether a command ran tests, and its exit code, which is theirs, was 0."""
    if run.exit_code != 0 or (_NONE_RAN.search(run.output) and not _SOME_RAN.search(run.output)):
        return False
    return any(map(_runs_tests, vouched(run.command)))


def exit_code(text: str) -> int | None:
    """The exit code that the first line of a command's output states; None when it states none."""
    match = re.search(r"\bexit(?:ed)?(?: with)?(?: code| status)?:? (-?\d+)\b", text.partition("\n")[0])
    return int(match.group(1)) if match else None


_NONE_RAN = re.compile(
    r"\bRan 0 tests\b|\bno tests? (?:ran|found|to run|collected|were)|\btests? collected\b|^ *0 passing"
    r"|\[no test files\]|^[#ℹ] tests 0\b|\brunning 0 tests|\bTests: +0 total|\bTests run: 0\b|\bskipped=\d"
    r"|\b\d+ (?:skipped|deselected)\b|^make: (?:Nothing to be done|.* is up to date)",
    re.IGNORECASE | re.MULTILINE,
)
_SOME_RAN = re.compile(
    r"\b[1-9]\d* (?:passed|passing)\b|\bRan [1-9]\d* tests?\b|^ok +\t?\S+\s+(?:[\d.]+s|\(cached\))|^[#ℹ] pass [1-9]"
    r"|\brunning [1-9]\d* tests?\b|\bTests run: [1-9]",
    re.IGNORECASE | re.MULTILINE,
)

# Splitting

_HERE_DOCUMENT = re.compile(r"<<-?[ ]*(['\"]?)(\w+)\1([^\n]*)\n(?:.*?\n)?\t*\2(?=\n|$)", re.DOTALL)
_PIECE = re.compile(
    r"(?<![^\s;&|()])#[^\n]*|\n|&&|\|\||[<>]+&?|[;&|()]"
    r"|(?:[^\s'\"\\;&|()<>]|\\.|'[^']*+'|\"(?:[^\"\\]|\\.)*+\")++|\S",
    re.DOTALL,
)
_LONGEST_SCRIPT = 10_000


def vouched(script: str) -> list[list[str]]:
    """The simple commands, as words, that have all succeeded when the script exits with 0: its last chain of `&&`.

    None of a pipeline, a negation, a background job, an `||`, or what is not understood.
    """
    script = _HERE_DOCUMENT.sub(r"\3", script.strip().rstrip(";").replace("\\\n", " ")[:_LONGEST_SCRIPT])
    if "<<" in script:
        return []
    chain: list[list[str]] = [[]]
    lost = target = False
    for piece in _PIECE.findall(script):
        if target and piece != "\n":
            target = False
        elif piece in ("\n", ";"):
            chain, lost, target = [[]], False, False
        elif piece == "&&":
            chain.append([])
        elif piece[0] in "<>":
            target = True
        elif piece.startswith("#") or piece == ")" or (piece == "(" and not chain[-1]):
            continue  # a subshell's exit code is that of its last command
        elif piece in ("|", "||", "&", "(", "!", "'", '"', "\\") or "`" in piece:
            lost = True
        else:
            chain[-1] += shlex.split(piece)
    return [] if lost else chain


# Recognising

_NAMED_TEST = re.compile(r"(?:^|[/_.:-])(?:run)?(?:tests?|checks?|specs?)(?:[/_.:-]|$)", re.IGNORECASE)
_RUNNERS = frozenset(
    """
    pytest py.test unittest tox nox nosetests nose2 jest vitest mocha ava karma ctest rspec phpunit prove bats
    """.split()
)
_FIRST_WORD = frozenset("go cargo dotnet mix swift zig flutter dart stack cabal lein bun deno composer".split())
_TARGETS = frozenset(
    "npm yarn pnpm make gmake just task rake invoke inv bazel sbt mvn mvnw gradle gradlew hatch pdm".split()
)
_TARGET = {
    "npm": re.compile(r"t|tst"),
    "mvn": re.compile(r"(?:integration-)?test|verify|package|install"),
    "gradle": re.compile(r"(?:.*:)?(?:test\w*|check|build)"),
    "sbt": re.compile(r"test\w*(?: .*)?"),
}
_NOT_RUN = re.compile(
    r"--(?:version|help|collect-only|co|fixtures|markers|setup-plan|list\w*|list-tests|no-run|dry-run|just-print|show-only"
    r"|if-present|passWithNoTests)(?:=.*)?|-h|-D(?:skipTests|maven\.test\.skip)(?:=true)?"
)
_MAKE_DRY = re.compile(r"-[a-zA-Z]*[nqt][a-zA-Z]*")
_VALUED = frozenset(["-C", "-f", "--prefix", "--cwd", "--dir", "--directory", "--file", "-w", "-x"])
_BEFORE = frozenset("env time nice command exec nohup stdbuf timeout xvfb-run npx bunx".split())
_BEFORE_TWO = frozenset(
    [(tool, "run") for tool in ("poetry", "uv", "pipenv", "pdm", "hatch", "rye", "coverage")]
    + [("bundle", "exec"), ("pnpm", "exec"), ("yarn", "exec"), ("npm", "exec")]
)
_PYTHON = re.compile(r"(?:python|pypy)[\d.]*")
_SHELLS = frozenset(["sh", "bash", "dash", "zsh"])
_INTERPRETERS = _SHELLS | {"node", "ruby", "perl", "php"}


def _runs_tests(words: list[str]) -> bool:
    words = _bare(words)
    if not words or any(map(_NOT_RUN.fullmatch, words)):
        return False
    name, rest = words[0].rpartition("/")[2], words[1:]
    if name in _SHELLS and rest and re.fullmatch(r"-\w*c", rest[0]):
        return any(map(_runs_tests, vouched("".join(rest[1:2]))))
    if name in _RUNNERS:
        return not (name == "ctest" and "-N" in rest)
    plain = list(_plain(rest))
    if name in _FIRST_WORD:
        return plain[:1] in (["test"], ["nextest"])
    if name in _TARGETS:
        return _names_target(name.removesuffix("w"), rest, plain)
    if _PYTHON.fullmatch(name) or name in _INTERPRETERS:
        return _is_test_script(rest)
    return "/" in words[0] and _NAMED_TEST.search(words[0]) is not None


def _bare(words: list[str]) -> list[str]:
    """The words without assignments and without what only starts another program; `python -m x` is `x`."""
    while words:
        name = words[0].rpartition("/")[2]
        if re.match(r"\w+=", words[0]):
            words = words[1:]
        elif name in _BEFORE or tuple(words[:2]) in _BEFORE_TWO:
            words = words[1 if name in _BEFORE else 2 :]
            while words and re.fullmatch(r"-.*|[\d.]+[smhd]?", words[0]):
                words = words[1:]
        elif _PYTHON.fullmatch(name) and "-m" in words[:6] and "-c" not in words[: words.index("-m")]:
            words = words[words.index("-m") + 1 :]
        else:
            break
    return words


def _plain(words: list[str]) -> Iterator[str]:
    """Words that are no options, nor the values of some."""
    before = ""
    for word in words:
        if not word.startswith(("-", "+")) and before not in _VALUED:
            yield word
        before = word


def _names_target(name: str, rest: list[str], plain: list[str]) -> bool:
    if name in ("make", "gmake") and any(map(_MAKE_DRY.fullmatch, rest)):
        return False
    if name in ("npm", "yarn", "pnpm"):
        plain = [word for word in plain if word not in ("run", "run-script")][:1]
        name = "npm"
    usual = _TARGET.get(name)
    if name in ("mvn", "gradle", "sbt") and usual:
        return any(map(usual.fullmatch, plain))
    return any(_NAMED_TEST.search(word) or (usual and usual.fullmatch(word)) for word in plain)


def _is_test_script(rest: list[str]) -> bool:
    """`node --test`, `sh run_tests.sh`, `python tests/test_a.py`, `python manage.py test`."""
    if "--test" in rest:
        return True
    options = list(itertools.takewhile(lambda word: word.startswith("-"), rest))
    plain = list(_plain(rest))
    if not plain or any(option in ("-c", "-e", "-p", "-n") for option in options):
        return False
    return _NAMED_TEST.search(plain[0]) is not None or (
        plain[0].rpartition("/")[2] in ("manage.py", "setup.py") and plain[1:2] == ["test"]
    )
