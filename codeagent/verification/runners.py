"""Which test runner a command starts, what that one says at its end, and when a failing run says nothing.

A runner is recognised by the command and by the summary that it prints. Code under test shares the runner's process
and could print such a line itself: the count guards against mistakes, not against deceit.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from codeagent.verification import summaries
from codeagent.verification.lacking import lacked
from codeagent.verification.record import TestCount
from codeagent.verification.summaries import Count

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")
HEAD_CHARACTERS, TAIL_CHARACTERS = 1 << 20, 4 << 20
LONGEST_LINE = 600
"""Summaries are short lines near the end. What is longer, or in the middle of a flood, is not searched."""


@dataclass(frozen=True, slots=True)
class Runner:
    """`command` matches a command line that starts it; `unusable` are exit codes that mean that no test failed."""

    name: str
    command: re.Pattern[str]
    count: Count
    unusable: frozenset[int] = frozenset()


def named_runners(command: str) -> tuple[Runner, ...]:
    """The runners that a command line names, in the order of `RUNNERS`."""
    return tuple(runner for runner in RUNNERS if runner.command.search(command))


def runner_called(name: str) -> tuple[Runner, ...]:
    """The runners of a name that `TestCount.runner` holds."""
    return tuple(runner for runner in RUNNERS if runner.name in name.split(", "))


def count_tests(output: str, runners: Sequence[Runner]) -> TestCount | None:
    """What the given runners say in an output, added up; without any, what all say that are found in it."""
    text = readable(output)
    if not runners:
        inner = _without_shown(text)
        counts = [each.count(text if each.name in _SHOWING else inner) for each in RUNNERS]
    else:
        counts = [each.count(text) for each in runners]
    found = [count for count in counts if count is not None]
    if not runners:
        # What is written in a form that others use, too, has been counted by then.
        found = [count for count in found if count.runner not in _COMMON_FORMS] or found[:1]
    return added(found) or summaries.junit_xml(output)


def _without_shown(text: str) -> str:
    """An output without what runners show in it of tests that failed."""
    kept, at = [], 0
    while begin := _BEGINS.search(text, at):
        end = _ENDS.get(begin[0][:4], _ENDS["===="]).search(text, begin.end())
        if end is None:
            break
        kept.append(text[at : begin.start()])
        at = end.start()
    return "".join([*kept, text[at:]])


def silent(output: str, runners: Sequence[Runner]) -> tuple[str, ...]:
    """The names of those that printed no summary, nor a report in its place."""
    text = readable(output)
    if len(runners) == 1 and summaries.junit_xml(output):
        return ()
    return tuple(runner.name for runner in runners if runner.count(text) is None)


def readable(output: str) -> str:
    """The lines in which a summary can stand, without colours."""
    if len(output) > HEAD_CHARACTERS + TAIL_CHARACTERS:
        output = f"{output[:HEAD_CHARACTERS]}\n{output[-TAIL_CHARACTERS:]}"
    text = _ESCAPES.sub("", output).replace("\r\n", "\n")
    return (
        "\n".join(line for line in text.split("\n") if len(line) <= LONGEST_LINE)
        if len(text) > LONGEST_LINE
        else text
    )


def added(counts: Sequence[TestCount]) -> TestCount | None:
    """Several counts as one. A number that one of them does not know is not known."""
    if len(counts) < 2:
        return counts[0] if counts else None
    names = ", ".join(dict.fromkeys(count.runner for count in counts))

    def total(numbers: list[int | None]) -> int | None:
        known = [number for number in numbers if number is not None]
        return sum(known) if len(known) == len(numbers) else None

    return TestCount(
        names,
        total([count.run for count in counts]),
        total([count.failed for count in counts]),
        total([count.skipped for count in counts]),
        all(count.nothing for count in counts),
        total([count.collected for count in counts]),
        sum(count.unloaded for count in counts),
        sum(count.errors for count in counts),
        sum(count.summaries for count in counts),
        tuple(counts) if len({count.runner for count in counts}) > 1 else (),
    )


def with_report(count: TestCount | None, report: TestCount | None) -> TestCount | None:
    """A runner's summary together with the report that it wrote, which counts more exactly, unless the summary is of
    other tests as well."""
    if count is None or report is None:
        return count or report
    if count.run is not None and (report.run or 0) < count.run:
        return count
    return replace(report, runner=count.runner, unloaded=count.unloaded)


TRY_IT = "Try the command with `codeagent sandbox shell`, which opens the same container."
_IN_THE_IMAGE = (
    "Name an image that has it with --image, or another command with --verify; no network is there to get it."
)
_INSTALLED = (
    "Name an image in which it is installed with --image; no network is there to get it. "
    "If it is the repository's own, give a command that finds it."
)
SELECT = "Select tests that exist and run."


@dataclass(frozen=True, slots=True)
class Unusable:
    """Why a failing run says nothing about the code, as a clause, and what to do about it."""

    reason: str
    remedy: str = TRY_IT


def unusable(
    exit_code: int | None, output: str, runners: Sequence[Runner], tests: TestCount | None
) -> Unusable | None:
    """None when the run does say something."""
    if exit_code == 127:
        return Unusable("the command was not found in the image", _IN_THE_IMAGE)
    if exit_code == 126:
        return Unusable("the command could not be executed")
    if tests is not None and tests.run:
        return None  # tests ran, whatever else is printed
    text = readable(output)
    crashed = exit_code is not None and exit_code >= 128
    if not crashed and _ran_no_test(runners, tests) and (lack := lacked(text)):
        return Unusable(f"{tests.runner if tests else runners[0].name} ran no test: {lack}", _INSTALLED)
    for pattern, reason, remedy in _BROKEN:
        if match := pattern.search(text):
            return Unusable(reason.format(*match.groups()), remedy)
    if tests is not None and tests.nothing:
        if tests.unloaded:
            errors = f"{tests.unloaded} error{'s' * (tests.unloaded > 1)}"
            return Unusable(f"{tests.runner} could not load its tests ({errors})")
        return Unusable(f"{tests.runner} executed no test", SELECT)
    for runner in runners:
        if exit_code in runner.unusable:
            return Unusable(f"{runner.name} exited {exit_code}, which is not a test failure")
    return None


def _ran_no_test(runners: Sequence[Runner], tests: TestCount | None) -> bool:
    """Of a run that failed: whether a runner was at work that came to no test."""
    if tests is None:
        return bool(runners)
    return tests.nothing or not (tests.run or tests.failed)


_BROKEN = (
    (
        re.compile(r"No module named '?(pytest|unittest|nose2?|tox|nox)\b"),
        "the test runner {0} is not installed",
        _IN_THE_IMAGE,
    ),
    (
        re.compile(r"^(?:ModuleNotFound|Import)Error: No module named '([^'.\n]+)'\s*\Z", re.M),
        "python found no module {0}",
        _IN_THE_IMAGE,
    ),
    (
        re.compile(r"^npm (?:ERR!|error) Missing script: \"?([^\"\n]+)", re.M),
        "package.json has no script {0}",
        TRY_IT,
    ),
    (
        re.compile(r"^make(?:\[\d+\])?: \*\*\* No rule to make target '([^'\n]+)'", re.M),
        "make has no target {0}",
        TRY_IT,
    ),
    (re.compile(r"^make: \*\*\* No targets specified and no makefile found", re.M), "there is no makefile", TRY_IT),
    (re.compile(r"can't open file '([^'\n]+)': \[Errno 2\]"), "python found no file {0}", TRY_IT),
    (re.compile(r"^(?:sh|bash|dash|ash): .*[Ss]yntax error", re.M), "the shell could not read the command", TRY_IT),
    (
        # A command that is missing, and that make ends on: 127 is the shell's code for it.
        re.compile(
            r"^(?:(?:/bin/)?(?:sh|bash|dash|ash): (?:\d+: |line \d+: )?|make(?:\[\d+\])?: )([^:\n]+): "
            r"(?:not found|command not found|No such file or directory|Command not found)$"
            r"(?=[\s\S]*^make.* Error 127\b)",
            re.M,
        ),
        "{0} was not found in the image",
        _IN_THE_IMAGE,
    ),
    (re.compile(r"Error: Could not find or load main class (\S+)"), "java found no class {0}", TRY_IT),
    (
        re.compile(r"Error: Cannot find (?:module|package) '(/[^'\n]+(?='$)|[^./'\n][^'\n]*)'"),
        "node found no module {0}",
        _IN_THE_IMAGE,
    ),
    (re.compile(r"^error: no such (?:sub)?command: `([^`\n]+)`", re.M), "cargo has no command {0}", TRY_IT),
)


def _command(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\s;&|(/'\"])(?:{words})(?=\s|$|[;&|)'\"])")


_NEVER = re.compile(r"(?!)")

_COMMON_FORMS = ("tap", "summary")

_BEGINS = re.compile(r"^Test project |^=+ (?:FAILURES|ERRORS) =+$", re.MULTILINE)
_ENDS = {
    "Test": re.compile(r"^\d+% tests passed", re.MULTILINE),
    "====": re.compile(r"^=+ short test summary info =+$", re.MULTILINE),
}
_SHOWING = ("pytest", "ctest")
"""These show the output of tests that failed. A summary in it is that of no runner of the check, and is not there
when the test passes."""

RUNNERS: tuple[Runner, ...] = (
    Runner(
        "pytest",
        _command(r"pytest|py\.test|python[\d.]* (?:-\S+ )*-m pytest"),
        summaries.pytest,
        frozenset({2, 3, 4, 5}),
    ),
    Runner("unittest", _command(r"python[\d.]* (?:-\S+ )*-m unittest"), summaries.unittest, frozenset({5})),
    Runner("vitest", _command(r"vitest"), summaries.vitest),
    Runner("jest", _command(r"jest"), summaries.jest),
    Runner("mocha", _command(r"mocha"), summaries.mocha),
    Runner("node --test", _command(r"node (?:-\S+ )*--test"), summaries.node),
    Runner("go test", _command(r"go test"), summaries.go, frozenset({2})),
    Runner("cargo test", _command(r"cargo (?:\+\S+ )?(?:test|t)"), summaries.cargo),
    Runner("maven", _command(r"mvnw? .*(?:test|verify|install|package)"), summaries.surefire),
    Runner("gradle", _command(r"gradlew? .*(?:test|check|build)"), summaries.gradle),
    Runner("ctest", _command(r"ctest"), summaries.ctest),
    Runner("junit", _command(r"java .*(?:junit|ConsoleLauncher)\S*.*"), summaries.junit),
    Runner("dotnet test", _command(r"dotnet test"), summaries.dotnet),
    Runner("automake", _NEVER, summaries.automake),
    Runner("meson test", _command(r"meson test"), summaries.meson),
    Runner("phpunit", _command(r"phpunit"), summaries.phpunit),
    Runner("googletest", _NEVER, summaries.googletest),
    Runner("catch", _NEVER, summaries.catch),
    Runner("tap", _command(r"bats"), summaries.tap),
    Runner("summary", _NEVER, summaries.plain),
)
"""Those whose form is most their own come first: an output is counted by the first that finds its own in it."""
