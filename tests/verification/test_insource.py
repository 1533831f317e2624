"""A change to a source file is judged with the tests that stood in it."""

from __future__ import annotations

import pytest

from codeagent.verification.insource import runs_doctests, with_old_tests
from tests.clocks import processor_time_below

RUST = """\
/// Halves.
///
/// ```
/// assert_eq!(half(4), 2);
/// ```
pub fn half(n: u32) -> u32 {
    n / 3
}

#[cfg(test)]
#[allow(unused)]
mod tests {
    use super::*;

    #[test]
    fn halves() {
        assert_eq!(half(4), 2);
    }
}
"""
FIXED = RUST.replace("n / 3", "n / 2")
PYTHON = '''\
def half(n):
    """Halves.

    >>> half(4)
    2

    >>> [half(n)
    ...  for n in (0, 2)]
    [0, 1]
    """
    return n // 3
'''


def rust(new: str) -> str:
    return with_old_tests("src/lib.rs", RUST, new, doctests=False)


def test_the_code_changes_and_weakened_tests_do_not() -> None:
    assert rust(FIXED) == FIXED
    assert rust(FIXED.replace("        assert_eq!(half(4), 2)", "        assert!(true)")) == FIXED
    assert rust(FIXED.replace("/// assert_eq!(half(4), 2)", "/// assert!(true)")) == FIXED


def test_a_test_that_stands_alone_is_as_before_too() -> None:
    alone = "#[test]\n#[should_panic]\nfn halves() {\n    assert_eq!(half(4), 2);\n}\n"
    old = f"pub fn half(n: u32) -> u32 {{\n    n / 3\n}}\n\n{alone}"
    fixed = old.replace("n / 3", "n / 2")
    assert with_old_tests("a.rs", old, fixed, doctests=False) == fixed
    assert with_old_tests("a.rs", old, fixed.replace("(4), 2", "(4), 1"), doctests=False) == fixed


def test_tests_that_were_removed_or_added_are_as_before() -> None:
    module = RUST[RUST.index("#[cfg(test)]") :]
    assert rust(FIXED.replace(module, "")) == FIXED
    assert rust(FIXED + module.replace("mod tests", "mod more")) == FIXED
    other = "pub fn half(n: u32) -> u32 {\n    n / 2\n}\n"
    assert with_old_tests("a.rs", other.replace("2", "3"), other + "\n" + module, doctests=False) == other + "\n"


def test_examples_that_do_not_match_leave_the_whole_file_as_it_was() -> None:
    assert rust(FIXED.replace("/// assert_eq!(half(4), 2);\n", "/// ```\n/// ```\n")) == RUST


def test_the_examples_of_docstrings_count_where_they_are_run() -> None:
    fixed = PYTHON.replace("// 3", "// 2")
    weak = fixed.replace("    2\n", "    1\n").replace("[0, 1]", "[0, 0]")
    assert with_old_tests("calc.py", PYTHON, weak, doctests=True) == fixed
    assert with_old_tests("calc.py", PYTHON, weak, doctests=False) == weak
    assert with_old_tests("calc.py", PYTHON, fixed.replace("    >>> half(4)\n    2\n\n", ""), doctests=True) == PYTHON


def test_the_tests_of_zig_and_d() -> None:
    zig = 'fn half(n: u32) u32 {\n    return n / 3;\n}\n\ntest "half" {\n    try expect(half(4) == 2);\n}\n'
    weak = zig.replace("/ 3", "/ 2").replace("half(4) == 2", "true")
    assert with_old_tests("a.zig", zig, weak, doctests=False) == zig.replace("/ 3", "/ 2")
    d = "int half(int n) { return n / 3; }\n\nunittest\n{\n    assert(half(4) == 2);\n}\n"
    assert with_old_tests("a.d", d, d.replace("/ 3", "/ 2").replace("half(4) == 2", "true"), doctests=False) == (
        d.replace("/ 3", "/ 2")
    )


def test_a_file_without_tests_is_left_alone() -> None:
    assert with_old_tests("a.c", "x", "y", doctests=True) == "y"
    assert with_old_tests("a.rs", "fn a() {}\n", "fn b() {}\n", doctests=True) == "fn b() {}\n"


def test_whether_doctests_run_is_told_by_the_command_or_a_configuration() -> None:
    files = {"pytest.ini": "[pytest]\naddopts = --doctest-modules\n"}
    assert runs_doctests("pytest", files.get) and runs_doctests("python -m doctest a.py", lambda _: None)
    assert not runs_doctests("pytest", lambda _: None)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ending", "part"),
    [
        *(
            (".rs", part)
            for part in ("#[cfg(test)]\n", "#[cfg(test)]\nmod a {\n", "#[test]\nfn a() {\n", "/// ```\n")
        ),
        (".zig", "test {\n"),
        (".d", "unittest {\n"),
        (".py", ">>> x\n"),
    ],
)
def test_tests_that_nothing_ends_take_no_long(ending: str, part: str) -> None:
    text = part * (400_000 // len(part))
    with processor_time_below(5):
        with_old_tests(f"a{ending}", text, f"{text}x", doctests=True)
