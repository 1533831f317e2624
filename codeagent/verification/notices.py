"""Lines of a change that ask to be looked at: they could end the check that judges the change, or speak for it.

No proof of anything: such lines have their honest uses, and deceit has other ways. They are shown beside the verdict,
which they do not change.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence

from codeagent.patches import FilePatch

_MOST = 10
_WIDTH = 100
_SUSPICIONS = (
    (
        re.compile(
            r"\bos\._exit\(|\bsys\.exit\((?:0?\)|None)|\braise SystemExit(?:\(0?\))?\s*$"
            r"|\bprocess\.(?:exit|reallyExit)\(|\bSystem\.exit\(0\)|\.halt\(0\)|\bos\.Exit\(0\)|\bprocess::exit\(0\)|\b_?[eE]xit\((?:0|EXIT_SUCCESS)\)"
            r"|\bEnvironment\.Exit\(0\)"
        ),
        "ends the process with success",
    ),
    (re.compile(r"\batexit\b|\baddShutdownHook\b|\bprocess\.on\(['\"]exit"), "runs when the process ends"),
    (
        re.compile(
            r"\b\d+ (?:passed|passing)\b|\bRan \d+ tests?\b|\btest result: ok\b|\bTests run: \d|# (?:pass|tests) \d"
            r"|\bTests: +\d+ (?:passed|failed)"
        ),
        "holds what a test runner prints at its end",
    ),
    (
        re.compile(
            r"#\s*(?:noqa|nosec|type:\s*ignore|pylint:\s*disable|rubocop:disable|pragma: no cover)\b"
            r"|eslint-disable|@ts-(?:ignore|nocheck|expect-error)|\bnolint\b|\bNOLINT|@SuppressWarnings\b|#!?\[allow\(|\bpytest\.(?:skip|xfail|importorskip)\("
            r"|\bSkipTest\b|\bexit\(77\)"
        ),
        "silences a check, or skips a test",
    ),
    (
        re.compile(
            r"\b(?:import|from|require\(['\"]|use)\s*(?:_pytest|pytest|unittest|nose|node:test|mocha|jest|vitest|chai|org\.junit"
            r"|org\.mockito)\b|\bPYTEST_\w+|\bsys\.(?:modules|settrace|setprofile|meta_path)\b"
        ),
        "reaches for the test runner",
    ),
)


def notices(patches: Sequence[FilePatch]) -> list[str]:
    """`path:line says what: text` for the first such lines that the patches add."""
    found = []
    for patch in patches:
        for number, line in _added(patch):
            what = next((said for pattern, said in _SUSPICIONS if pattern.search(line)), None)
            if what is not None:
                found.append(f"{patch.path}:{number} {what}: {line.strip()[:_WIDTH]}")
    return found[:_MOST]


def _added(patch: FilePatch) -> Iterator[tuple[int, str]]:
    """The lines that were not there before, with their numbers in the new file."""
    for hunk in patch.hunks:
        old = Counter(hunk.old)
        for number, line in enumerate(hunk.new, hunk.new_start):
            if old[line]:
                old[line] -= 1
            else:
                yield number, line.decode("utf-8", "replace")
