"""Lines of a change that a person should look at."""

from __future__ import annotations

import pytest

from codeagent.patches import parse
from codeagent.verification.notices import notices


def patch(*lines: str) -> bytes:
    added = "".join(f"+{line}\n" for line in lines)
    head = "diff --git a/a.py b/a.py\n--- a/a.py\n+++ b/a.py\n"
    head += f"@@ -7,2 +7,{len(lines) + 1} @@\n import os\n-os._exit(0)\n"
    return (head + added).encode()


ENDS = (
    *("  os._exit(0)", "sys.exit()", "raise SystemExit", "exit(0);", "process.exit(0)", "System.exit(0);"),
    *("Runtime.getRuntime().halt(0);", "std::process::exit(0);"),
)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        *((line, "ends the process with success") for line in ENDS),
        ("atexit.register(end)", "runs when the process ends"),
        ("print('3 passed in 0.1s')", "holds what a test runner prints at its end"),
        ("import _pytest.python as p", "reaches for the test runner"),
        ("import os  # noqa: F401", "silences a check, or skips a test"),
        ("x = f()  # type: ignore[call-arg]", "silences a check, or skips a test"),
        ("// eslint-disable-next-line eqeqeq", "silences a check, or skips a test"),
        ("    raise unittest.SkipTest", "silences a check, or skips a test"),
        ("sys.modules.pop('calc')", "reaches for the test runner"),
    ],
)
def test_a_line_that_could_end_or_speak_for_the_check_is_named(line: str, what: str) -> None:
    assert notices(parse(patch("x = 1", line))) == [f"a.py:9 {what}: {line.strip()}"]


@pytest.mark.parametrize("line", ["sys.exit(main())", "return code", "self.exit(0.5)", "passed = 3", "exitcode(0)"])
def test_an_ordinary_line_is_not(line: str) -> None:
    assert notices(parse(patch(line))) == []


def test_what_was_there_before_is_not_named_and_the_list_is_short() -> None:
    assert notices(parse(patch("os._exit(0)"))) == []
    assert len(notices(parse(patch(*[f"os._exit({n})" for n in range(30)])))) == 10
