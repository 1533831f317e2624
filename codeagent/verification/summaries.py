"""What test runners print at their end, one function a form: how many tests ran, and whether anything ran at all.

Each takes text without escapes and returns None when the form is not in it. A form that stands there more than once
(two runs in one command, one a package) is added up.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

from codeagent.verification.record import TestCount

Count = Callable[[str], TestCount | None]


_PYTEST = re.compile(
    r"^=* ?((?:\d+ [a-z]+(?:, )?)+|no tests ran) in [\d.]+s?(?: \([\d:]+\))? ?=*$|^=+ test session starts =+$",
    re.MULTILINE,
)


def _pytests_own(text: str) -> list[str]:
    """The summaries, but for those of runs within a run: what tests of a plugin print is shown when they fail."""
    found, depth = [], 0
    for match in _PYTEST.finditer(text):
        if match[1] is None:
            depth += 1
            continue
        if depth < 2:
            found.append(match[1])
        depth = max(depth - 1, 0)
    return found


def pytest(text: str) -> TestCount | None:
    if not (found := _pytests_own(text)):
        return _nothing("pytest", text, r"^ImportError while loading conftest ", unloaded=1)
    counts = _words(found)
    # An expected failure is counted as skipped: the code under test can turn itself into one.
    run, skipped = _run_and_skipped(counts)
    errors = counts["error"] + counts["errors"]
    # The other errors are those of a test's set-up and tear-down.
    collecting = max(
        len(_lines(r"^_+ ERROR collecting ", text)),
        sum(map(int, _lines(r"^!+ Interrupted: (\d+) errors? during collection !+$", text))),
    )
    unloaded = min(collecting, errors)
    failed = counts["failed"] + errors - unloaded
    # Of a test that ran, the tear-down may fail as well.
    unset = min(len(_lines(r"^_+ ERROR at setup of ", text)), errors - unloaded)
    collected = run + unset + skipped + counts["deselected"]
    each = tuple(_run_and_skipped(_words([one])) for one in found)
    return TestCount("pytest", run, failed, skipped, run == 0, collected, unloaded, unset, len(found), each=each)


def _run_and_skipped(counts: Counter[str]) -> tuple[int, int]:
    return counts["failed"] + counts["passed"] + counts["xpassed"], counts["skipped"] + counts["xfailed"]


def unittest(text: str) -> TestCount | None:
    found = _lines(r"^Ran (\d+) tests? in [\d.]+s$\n+^(?:OK|FAILED|NO TESTS RAN)(?: \((.*)\))?$", text)
    if not found:
        return None
    ran = sum(int(number) for number, _ in found)
    counts, each = Counter[str](), []
    for number, words in found:
        one = Counter({word.strip(): int(count) for word, count in re.findall(r"([a-z ]+)=(\d+)", words)})
        left = one["skipped"] + one["expected failures"]
        each.append((max(int(number) - left, 0), left))
        counts += one
    # A module that cannot be imported is reported as a test, and none of its tests ran.
    unloaded = len(_lines(r"^ERROR: \S+ \(unittest\.loader\._FailedTest\b", text))
    # An expected failure is counted as skipped, as it is with pytest.
    expected = counts["expected failures"]
    run = ran - counts["skipped"] - expected - unloaded
    if run <= 0 and counts["skipped"]:
        run = _beside_skipped(text, ran, counts)
    failed = counts["failures"] + counts["errors"] + counts["unexpected successes"] - unloaded
    failed, skipped = max(failed, 0), counts["skipped"] + expected
    times = len(found)
    return TestCount("unittest", run, failed, skipped, run <= 0, ran, unloaded, summaries=times, each=tuple(each))


_MARKS = {"ok": ".", "FAIL": "F", "ERROR": "E", "skipped": "s", "expected failure": "x", "unexpected success": "u"}


def _beside_skipped(text: str, ran: int, counts: Counter[str]) -> int:
    """How many of unittest's tests ran where as many were skipped as it counts.

    `Ran` leaves out what the set-up of a class or a module skips; the number of skipped ones has it. The progress
    tells the one from the other, unless something was printed into it.
    """
    wrong = set(_lines(r"^(?:FAIL|ERROR): (\w+ \([^)\n]+\))", text))
    wrong = {each for each in wrong if not re.search(r"^(?:setUp|tearDown)(?:Class|Module) |\._FailedTest\b", each)}
    words = _lines(rf"(?:^|\.\.\. )({'|'.join(_MARKS)})(?=$| ['\"])", text)
    wanted = {"F": counts["failures"], "E": counts["errors"], "s": counts["skipped"]}
    for marks in ("".join(_lines(r"^[.FEsxu]+$", text)), "".join(_MARKS[word] for word in words)):
        passed = sum(marks.count(mark) for mark in ".u")
        if passed <= ran and all(marks.count(mark) == number for mark, number in wanted.items()):
            return passed + len(wrong)
    return len(wrong)


def jest(text: str) -> TestCount | None:
    found = _lines(r"^Tests: +(.*\b\d+ total)$", text)
    if not found:
        return _nothing("jest", text, r"^No tests found")
    counts = _words(found)
    run = counts["passed"] + counts["failed"]
    skipped = counts["skipped"] + counts["todo"]
    unloaded = len(_lines(r"^ *● Test suite failed to run$", text))
    collected, times = counts["total"], len(found)
    return TestCount("jest", run, counts["failed"], skipped, run == 0, collected, unloaded, summaries=times)


def vitest(text: str) -> TestCount | None:
    found = _lines(r"^ *Tests +((?:\d+ [a-z]+(?: \| )?)+) \((\d+)\)$", text)
    if not found:
        unloaded = sum(map(int, _lines(r"^ *Test Files +(\d+) failed", text)))
        return _nothing("vitest", text, r"^No test files found|^ *Tests +no tests$", unloaded=unloaded)
    counts = _words(words for words, _ in found)
    run = counts["passed"] + counts["failed"]
    collected = sum(int(total) for _, total in found)
    skipped = counts["skipped"] + counts["todo"]
    return TestCount("vitest", run, counts["failed"], skipped, run == 0, collected, summaries=len(found))


def mocha(text: str) -> TestCount | None:
    passing, failing, pending = (
        [int(number) for number in _lines(rf"^ +(\d+) {word}(?: \([^)]*\))?$", text)]
        for word in ("passing", "failing", "pending")
    )
    if not passing:
        return None
    run = sum(passing) + sum(failing)
    collected = run + sum(pending)
    return TestCount("mocha", run, sum(failing), sum(pending), run == 0, collected, summaries=len(passing))


def node(text: str) -> TestCount | None:
    counts, times = Counter[str](), 0
    for name, number in _lines(r"^(?:#|ℹ) (tests|pass|fail|skipped|todo|cancelled) (\d+)$", text):
        counts.update({name: int(number)})
        times += name == "tests"
    if not {"tests", "pass", "fail"} <= counts.keys():
        return None
    # A file whose process fails by itself is reported as a test. The readable form tells all failures a second time.
    once = text.partition("\n✖ failing tests:\n")[0]
    ended = r"^  (?:exitCode: [^\n]+\n(?:  signal: [^\n]+\n)?  error: )?'test failed'$"
    unloaded = min(len(_lines(ended, once)), counts["fail"])
    run = counts["pass"] + counts["fail"] + counts["cancelled"] - unloaded
    failed = counts["fail"] + counts["cancelled"] - unloaded
    # Code that throws when it is loaded has failed by running: a run of such files alone is not nothing.
    nothing = run == 0 and not unloaded
    skipped = counts["skipped"]
    return TestCount("node --test", run, failed, skipped, nothing, counts["tests"], unloaded, summaries=times)


def go(text: str) -> TestCount | None:
    packages = _lines(r"^(ok|FAIL)[ \t]+(\S+)[ \t]+(?:[\d.]+s|\(cached\)|(\[[^\]\n]+\]))(.*)$", text)
    if not packages:
        return _nothing("go test", text, r"\[no test files\]$")
    passed, failed, skipped = (len(_lines(rf"^ *--- {word}: ", text)) for word in ("PASS", "FAIL", "SKIP"))
    verbose = passed > 0 or "=== RUN" in text
    ran = any(not failure and "[no tests to run]" not in rest for _, _, failure, rest in packages)
    run = passed + failed if verbose else None
    unloaded = sum(failure in ("[build failed]", "[setup failed]") for _, _, failure, _ in packages)
    collected = None if run is None else run + skipped
    nothing = not ran or run == 0
    return TestCount("go test", run, failed, skipped, nothing, collected, unloaded, summaries=len(packages))


def cargo(text: str) -> TestCount | None:
    results = _lines(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored;", text)
    if not results:
        return None
    passed, failed, ignored = (sum(int(result[at]) for result in results) for at in range(3))
    run = passed + failed
    return TestCount("cargo test", run, failed, ignored, run == 0, run + ignored, summaries=len(results))


def surefire(text: str) -> TestCount | None:
    # The lines of single classes end with their time; those of whole modules do not.
    found = _lines(r"Tests run: (\d+), Failures: (\d+), Errors: (\d+), Skipped: (\d+)\s*$", text)
    if not found:
        return _nothing("maven", text, r"No tests (?:to run|were executed)")
    collected, failures, errors, skipped = (sum(int(result[at]) for result in found) for at in range(4))
    run = collected - skipped
    return TestCount("maven", run, failures + errors, skipped, run <= 0, collected, summaries=len(found))


def gradle(text: str) -> TestCount | None:
    """Gradle counts only when tests fail; its reports tell the rest (see `reports`)."""
    if not _lines(r"^(?:BUILD (?:SUCCESSFUL|FAILED) in|FAILURE: Build )", text):
        return None
    failing = _lines(r"^(\d+) tests? completed, (\d+) failed(?:, (\d+) skipped)?$", text)
    if not failing:
        return TestCount("gradle", None)
    collected, failed, skipped = (sum(int(result[at] or 0) for result in failing) for at in range(3))
    return TestCount("gradle", collected - skipped, failed, skipped, collected == skipped, collected)


def junit(text: str) -> TestCount | None:
    """The console of JUnit 5, or the text runner of JUnit 4."""
    counts = Counter[str]()
    for number, word in _lines(r"^\[ +(\d+) tests (found|started|aborted|failed|skipped) +\]$", text):
        counts.update({word: int(number)})
    if "started" in counts:
        # A test is aborted that begins and finds that something it assumes does not hold.
        run, skipped = counts["started"] - counts["aborted"], counts["skipped"] + counts["aborted"]
        return TestCount("junit", run, counts["failed"], skipped, run == 0, counts["found"])
    four = _lines(r"^(?:OK \((\d+) tests?\)|Tests run: (\d+), +Failures: (\d+))$", text)
    if not four:
        return None
    run = sum(int(passed or ran) for passed, ran, _ in four)
    failed = sum(int(failed or 0) for _, _, failed in four)
    return TestCount("junit", run, failed, 0, run == 0, run, summaries=len(four))


def ctest(text: str) -> TestCount | None:
    found = _lines(r"^\d+% tests passed, (\d+) tests? failed out of (\d+)$", text)
    if not found:
        return _nothing("ctest", text, r"^No tests were found!!!$")
    failed, collected = (sum(int(result[at]) for result in found) for at in range(2))
    skipped = len(_lines(r"^ *\d+/\d+ Test +#\d+: .*\*\*\*Skipped\b", text))  # ctest counts them as passed
    run = collected - skipped
    return TestCount("ctest", run, failed, skipped, run <= 0, collected, summaries=len(found))


def dotnet(text: str) -> TestCount | None:
    found = _lines(r"^\w+! +- Failed: +(\d+), Passed: +(\d+), Skipped: +(\d+), Total: +(\d+)", text)
    if not found:
        return None
    failed, passed, skipped, total = (sum(int(result[at]) for result in found) for at in range(4))
    run = failed + passed
    return TestCount("dotnet test", run, failed, skipped, run == 0, total, summaries=len(found))


def automake(text: str) -> TestCount | None:
    """The harness of automake's `make check`: a program may call itself skipped, by exit code 77."""
    if "# TOTAL:" not in text:
        return None
    found = _lines(r"^# (TOTAL|PASS|SKIP|XFAIL|FAIL|XPASS|ERROR): +(\d+)$", text)
    if not {"TOTAL", "PASS", "SKIP"} <= {word for word, _ in found}:
        return None
    counts, times = _added(found), sum(word == "TOTAL" for word, _ in found)
    failed, skipped = counts["FAIL"] + counts["ERROR"] + counts["XPASS"], counts["SKIP"] + counts["XFAIL"]
    run = counts["PASS"] + failed
    return TestCount("automake", run, failed, skipped, run == 0, counts["TOTAL"], summaries=times)


def meson(text: str) -> TestCount | None:
    """Exit code 77 means skipped here, too."""
    if "Ok: " not in text:
        return None
    form = r"^(Ok|Expected Fail|Fail|Unexpected Pass|Skipped|Timeout): +(\d+) *$"
    found = _lines(form, text)
    if not {"Ok", "Fail"} <= {word for word, _ in found}:
        return None
    counts, times = _added(found), sum(word == "Ok" for word, _ in found)
    failed, skipped = counts["Fail"] + counts["Unexpected Pass"] + counts["Timeout"], counts["Skipped"]
    skipped += counts["Expected Fail"]
    run = counts["Ok"] + failed
    return TestCount("meson test", run, failed, skipped, run == 0, run + skipped, summaries=times)


def phpunit(text: str) -> TestCount | None:
    if "ssertions" not in text and "No tests executed!" not in text:
        return None
    found = _lines(
        r"^(?:OK \((\d+) tests?, \d+ assertions?\)|Tests: (\d+), Assertions: \d+((?:, [\w ]+: \d+)*)\.)$", text
    )
    if not found:
        return _nothing("phpunit", text, r"^No tests executed!$")
    collected = sum(int(passed or ran) for passed, ran, _ in found)
    counts = _added(pair for _, _, rest in found for pair in re.findall(r"([\w ]+): (\d+)", rest))
    counts = Counter({word.strip(): number for word, number in counts.items()})
    failed, skipped = counts["Failures"] + counts["Errors"], counts["Skipped"] + counts["Incomplete"]
    run = collected - skipped
    return TestCount("phpunit", run, failed, skipped, run <= 0, collected, summaries=len(found))


def googletest(text: str) -> TestCount | None:
    if "[==========]" not in text:
        return None
    times = len(_lines(r"^\[==========\] \d+ tests? from \d+ test (?:suite|case)s? ran\.", text))
    if not times:
        return None
    listed = _lines(r"^\[  (PASSED|FAILED|SKIPPED) +\] (\d+) tests?(?:\.|, listed below:)$", text)
    counts = _added(listed)
    run = counts["PASSED"] + counts["FAILED"]
    collected = run + counts["SKIPPED"]
    return TestCount("googletest", run, counts["FAILED"], counts["SKIPPED"], run == 0, collected, summaries=times)


def catch(text: str) -> TestCount | None:
    """Catch2 and doctest, which count test cases."""
    if "test case" not in text:
        return None
    whole = [
        int(number) for number in _lines(r"^All tests passed \((?:\d+ assertions? in )?(\d+) test cases?\)$", text)
    ]
    parts = _lines(r"^(?:\[doctest\] )?test cases: +\d+ \|(.*)$", text)
    if not whole and not parts:
        return None
    counts = _words(re.sub(r"\s+", " ", line) for line in parts)
    run, skipped = sum(whole) + counts["passed"] + counts["failed"], counts["skipped"]
    return TestCount(
        "catch", run, counts["failed"], skipped, run == 0, run + skipped, summaries=len(whole) + len(parts)
    )


def tap(text: str) -> TestCount | None:
    """The Test Anything Protocol, version 13: a plan, and one line a test."""
    if not (plans := _lines(r"^1\.\.(\d+)(?: .*)?$", text)):
        return None
    results = _lines(r"^(not )?ok\b(?: \d+)?(.*)$", text)
    skipped = sum(bool(re.search(r"# *skip", rest, re.I)) for _, rest in results)
    failed = sum(bool(wrong) and not re.search(r"# *todo", rest, re.I) for wrong, rest in results)
    run = len(results) - skipped
    return TestCount("tap", run, failed, skipped, run == 0, sum(map(int, plans)), summaries=len(plans))


def junit_xml(text: str) -> TestCount | None:
    """A report in the form that JUnit's Ant task made common: one `testcase` element a test."""
    if "<testsuite" not in text or "</testsuite" not in text:
        return None
    bare = re.sub(r"<!\[CDATA\[.*?\]\]>|<!--.*?-->", "", text, flags=re.DOTALL)
    cases = len(re.findall(r"<testcase[\s>/]", bare))
    wrong = len(re.findall(r"<testcase[\s>](?:(?!<testcase|</testcase).)*?<(?:failure|error)[\s>/]", bare, re.DOTALL))
    skipped = len(re.findall(r"<skipped[\s>/]", bare))
    return TestCount("JUnit XML", cases - skipped, wrong, skipped, cases - skipped <= 0, cases)


_THINGS = r"(?:tests?|checks?|examples?|specs?|assertions?|cases?|scenarios?|runs)"


def plain(text: str) -> TestCount | None:
    """The sentences of runners without a form of their own: `12 checks, 1 failed`, `3 passed, 0 failed`."""
    form = (
        rf"^\W*((?:(?P<ran>\d+) {_THINGS}, (?:[^\n]{{0,60}}\W)?\d+ (?:failed|failures?|errors?)\b"
        rf"|\d+ (?:{_THINGS} )?passed,? (?:and )?\d+ (?:{_THINGS} )?failed\b"
        rf"|(?:[Aa]ll )?(?P<all>\d+) {_THINGS} (?:passed|succeeded|ok)\b)[^\n]{{0,60}})"
    )
    if not (found := list(re.finditer(form, text, re.MULTILINE))):
        return None
    run = failed = skipped = 0
    for match in found:
        counts = _words([re.sub(rf" {_THINGS} (?=passed|failed)", " ", match[1])])
        wrong = sum(counts[word] for word in ("failed", "failure", "failures", "error", "errors"))
        left = sum(counts[word] for word in ("skipped", "skips", "skip", "pending", "ignored", "todo"))
        whole = match["ran"] or match["all"]
        run += int(whole) - left if match["ran"] else int(whole or counts["passed"] + wrong)
        failed, skipped = failed + wrong, skipped + left
    return TestCount("summary", run, failed, skipped, run == 0, run + skipped, summaries=len(found))


def _lines(pattern: str, text: str) -> list[Any]:
    """Every match: its groups, as `re.findall` gives them (one as a text, several as a tuple)."""
    return re.findall(pattern, text, re.MULTILINE)


def _added(pairs: Iterable[tuple[str, str]]) -> Counter[str]:
    """Numbers by their words, added up where a word stands more than once."""
    counts = Counter[str]()
    for word, number in pairs:
        counts[word] += int(number)
    return counts


def _words(summaries: Iterable[object]) -> Counter[str]:
    """`3 failed, 2 passed` as a count of words, added up."""
    counts = Counter[str]()
    for summary in summaries:
        for number, word in re.findall(r"(\d+) ([a-z]+)", str(summary)):
            counts[word] += int(number)
    return counts


def _nothing(name: str, text: str, pattern: str, *, unloaded: int = 0) -> TestCount | None:
    """A runner's own word that it found no test, or could load none."""
    return TestCount(name, 0, 0, 0, True, 0, unloaded) if _lines(pattern, text) else None
