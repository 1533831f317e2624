"""What test runners say at their end: how many tests ran, and whether anything ran at all.

A runner is recognised by the command and by the summary that it prints. Code under test shares the
runner's process and could print such a line itself: the count guards against mistakes, not against deceit.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from codeagent.verification.record import TestCount

_ESCAPES = re.compile(r"\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Runner:
    """`command` matches a command line that starts it; `unusable` are exit codes that mean that no test failed."""

    name: str
    command: re.Pattern[str]
    count: Callable[[str], TestCount | None]
    unusable: frozenset[int] = frozenset()


def known_runner(command: str) -> Runner | None:
    """The runner that a command line names, or None."""
    return next((runner for runner in RUNNERS if runner.command.search(command)), None)


def count_tests(output: str, runner: Runner | None) -> TestCount | None:
    """The summary in an output: the named runner's, or whichever is found when the command names none."""
    text = _ESCAPES.sub("", output).replace("\r\n", "\n")
    if runner is not None:
        return runner.count(text)
    return next((found for each in RUNNERS if (found := each.count(text)) is not None), None)


def unusable(exit_code: int | None, output: str, runner: Runner | None) -> str:
    """Why a failing run says nothing about the code, or an empty text when it does say something."""
    if exit_code == 127:
        return "the command was not found in the image"
    if exit_code == 126:
        return "the command could not be executed"
    for pattern, reason in _BROKEN:
        if match := pattern.search(output):
            return reason.format(*match.groups())
    if runner is not None and exit_code in runner.unusable:
        return f"{runner.name} exited {exit_code}, which is not a test failure"
    return ""


_BROKEN = (
    (re.compile(r"No module named '?(pytest|unittest|nose2?|tox|nox)\b"), "the test runner {0} is not installed"),
    (re.compile(r"^npm (?:ERR!|error) Missing script: \"?([^\"\n]+)", re.M), "package.json has no script {0}"),
    (re.compile(r"^make(?:\[\d+\])?: \*\*\* No rule to make target '([^'\n]+)'", re.M), "make has no target {0}"),
    (re.compile(r"^make: \*\*\* No targets specified and no makefile found", re.M), "there is no makefile"),
    (re.compile(r"can't open file '([^'\n]+)': \[Errno 2\]"), "python found no file {0}"),
    (
        re.compile(r"^(?:sh|bash|dash): (?:\d+: |line \d+: )?([^:\n]+): not found$", re.M),
        "{0} was not found in the image",
    ),
    (
        re.compile(r"^make(?:\[\d+\])?: ([^:\n]+): (?:No such file or directory|Command not found)$", re.M),
        "{0} was not found in the image",
    ),
    (re.compile(r"Error: Could not find or load main class (\S+)"), "java found no class {0}"),
    (re.compile(r"Error: Cannot find module '(/[^'\n]+)'"), "node found no module {0}"),
)


# --- one function a summary --------------------------------------------------------------------------------


def _last(pattern: str, text: str) -> re.Match[str] | None:
    found = list(re.finditer(pattern, text, re.MULTILINE))
    return found[-1] if found else None


def _numbers(text: str) -> dict[str, int]:
    """`3 failed, 2 passed` as a mapping from word to number."""
    return {word: int(number) for number, word in re.findall(r"(\d+) ([a-z]+)", text)}


def _pytest(text: str) -> TestCount | None:
    summary = r"^=* ?((?:\d+ [a-z]+(?:, )?)+|no tests ran) in [\d.]+s?(?: \([\d:]+\))? ?=*$"
    counts = Counter[str]()
    found = re.findall(summary, text, re.MULTILINE)
    for words in found:
        counts.update(_numbers(words))
    if not found:
        return None
    # An expected failure is not counted as run: the code under test can turn itself into one.
    run = counts["failed"] + counts["passed"] + counts["xpassed"]
    failed = counts["failed"] + counts["error"] + counts["errors"]
    return TestCount("pytest", run, failed, counts["skipped"], run == 0)


def _unittest(text: str) -> TestCount | None:
    summary = r"^Ran (\d+) tests? in [\d.]+s$\n+^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$"
    found = re.findall(summary, text, re.MULTILINE)
    if not found:
        return None
    ran = sum(int(number) for number, _ in found)
    counts = Counter[str]()
    for _, words in found:
        counts.update({word.strip(): int(number) for word, number in re.findall(r"([a-z ]+)=(\d+)", words)})
    run = ran - counts["skipped"]
    return TestCount("unittest", run, counts["failures"] + counts["errors"], counts["skipped"], run <= 0)


def _jest(text: str) -> TestCount | None:
    line = _last(r"^Tests: +(.*\b\d+ total)$", text)
    if line is None:
        return _nothing("jest", text, r"^No tests found")
    counts = _numbers(line[1])
    run = counts.get("passed", 0) + counts.get("failed", 0)
    return TestCount("jest", run, counts.get("failed", 0), counts.get("skipped", 0) + counts.get("todo", 0), run == 0)


def _vitest(text: str) -> TestCount | None:
    line = _last(r"^ *Tests +((?:\d+ [a-z]+(?: \| )?)+) \(\d+\)$", text)
    if line is None:
        return _nothing("vitest", text, r"^No test files found")
    counts = _numbers(line[1])
    run = counts.get("passed", 0) + counts.get("failed", 0)
    return TestCount("vitest", run, counts.get("failed", 0), counts.get("skipped", 0), run == 0)


def _mocha(text: str) -> TestCount | None:
    passing = _last(r"^ +(\d+) passing(?: \([^)]*\))?$", text)
    if passing is None:
        return None
    failing, pending = _last(r"^ +(\d+) failing$", text), _last(r"^ +(\d+) pending$", text)
    failed = int(failing[1]) if failing else 0
    run = int(passing[1]) + failed
    return TestCount("mocha", run, failed, int(pending[1]) if pending else 0, run == 0)


def _node(text: str) -> TestCount | None:
    counts = {
        name: int(n)
        for name, n in re.findall(r"^(?:#|ℹ) (tests|pass|fail|skipped|todo|cancelled) (\d+)$", text, re.M)
    }
    if not {"tests", "pass", "fail"} <= counts.keys():
        return None
    run = counts["pass"] + counts["fail"] + counts.get("cancelled", 0)
    return TestCount("node --test", run, counts["fail"], counts.get("skipped", 0), run == 0)


def _go(text: str) -> TestCount | None:
    packages = re.findall(r"^(ok|FAIL)\s+(\S+)\s+(?:[\d.]+s|\(cached\)|\[[^\]\n]+\])(.*)$", text, re.M)
    if not packages:
        return _nothing("go test", text, r"\[no test files\]$")
    passed, failed = len(re.findall(r"^ *--- PASS: ", text, re.M)), len(re.findall(r"^ *--- FAIL: ", text, re.M))
    verbose = passed > 0 or "=== RUN" in text
    nothing = all(word == "ok" and "[no tests to run]" in rest for word, _, rest in packages)
    skipped = len(re.findall(r"^ *--- SKIP: ", text, re.M))
    run = passed + failed if verbose else None
    return TestCount("go test", run, failed, skipped, nothing or run == 0)


def _cargo(text: str) -> TestCount | None:
    results = re.findall(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", text, re.M)
    if not results:
        return None
    passed, failed, ignored = (sum(int(result[n]) for result in results) for n in range(3))
    return TestCount("cargo test", passed + failed, failed, ignored, passed + failed == 0)


def _surefire(text: str) -> TestCount | None:
    line = _last(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)\s*$", text)
    if line is None:
        return _nothing("maven", text, r"No tests (?:to run|were executed)")
    run, failures, errors, skipped = (int(line[n]) for n in range(1, 5))
    return TestCount("maven", run - skipped, failures + errors, skipped, run - skipped <= 0)


def _junit(text: str) -> TestCount | None:
    counts = {
        word: int(n)
        for n, word in re.findall(r"^\[ +(\d+) tests (started|successful|failed|skipped) +\]$", text, re.M)
    }
    if "started" in counts:
        run = counts["started"]
        return TestCount("junit", run, counts.get("failed", 0), counts.get("skipped", 0), run == 0)
    four = _last(r"^(?:OK \((\d+) tests?\)|Tests run: (\d+), +Failures: (\d+))$", text)
    if four is None:
        return None
    run = int(four[1] or four[2])
    return TestCount("junit", run, int(four[3] or 0), 0, run == 0)


def _ctest(text: str) -> TestCount | None:
    line = _last(r"^\d+% tests passed, (\d+) tests failed out of (\d+)$", text)
    if line is None:
        return _nothing("ctest", text, r"^No tests were found!!!$")
    return TestCount("ctest", int(line[2]), int(line[1]), 0, int(line[2]) == 0)


def _nothing(name: str, text: str, pattern: str) -> TestCount | None:
    """A runner's own word that it found no test."""
    return TestCount(name, 0, 0, 0, True) if re.search(pattern, text, re.MULTILINE) else None


def _command(words: str) -> re.Pattern[str]:
    return re.compile(rf"(?:^|[\s;&|(/])(?:{words})(?=\s|$|[;&|)])")


RUNNERS: tuple[Runner, ...] = (
    Runner("pytest", _command(r"pytest|py\.test|python[\d.]* (?:-\S+ )*-m pytest"), _pytest, frozenset({2, 3, 4, 5})),
    Runner("unittest", _command(r"python[\d.]* (?:-\S+ )*-m unittest"), _unittest, frozenset({5})),
    Runner("vitest", _command(r"vitest"), _vitest),
    Runner("jest", _command(r"jest"), _jest),
    Runner("mocha", _command(r"mocha"), _mocha),
    Runner("node --test", _command(r"node (?:-\S+ )*--test"), _node),
    Runner("go test", _command(r"go test"), _go, frozenset({2})),
    Runner("cargo test", _command(r"cargo (?:\+\S+ )?(?:test|t)"), _cargo),
    Runner("maven", _command(r"(?:mvn|mvnw) .*(?:test|verify|install|package)"), _surefire),
    Runner("ctest", _command(r"ctest"), _ctest),
    Runner("junit", _command(r"java .*(?:junit|ConsoleLauncher)\S*.*"), _junit),
)
