"""Tests that stand in the file that they test: Rust's test modules and examples, Zig's, D's, Python's doctests.

A change to such a file is taken with the tests as they were: found by their form, as formatters write it, not by a
parser of the language. What is written in another form is not found.
"""

from __future__ import annotations

import re
from collections.abc import Callable

# To the end of the text where nothing closes it, so that each text is gone through once.
_BODY = r"\{[ \t]*\n(?:.*?^\1\}[ \t]*\n?|.*\Z)"
_RUST = r"#\[(?:cfg\((?:all\()?test\b|(?:\w+::)?test\b)[^\n]*\n(?:\1#\[[^\n]*\n){0,20}"
_BLOCKS = {
    ending: re.compile(rf"^([ \t]*){head}{_BODY}", re.MULTILINE | re.DOTALL)
    for ending, head in (
        (".rs", rf"{_RUST}\1(?:pub(?:\([^)\n]*\))? )?(?:mod \w+ |(?:\w+ ){{0,3}}fn \w+[^\n]*)"),
        (".zig", r'test (?:"[^"\n]*" |\w+ )?'),
        (".d", r"(?:@\w+ ){0,9}unittest\s{0,9}"),
    )
}
"""Whole items: each may stand anywhere in its file."""
_EXAMPLES = {
    ".rs": re.compile(r"^[ \t]*//[/!] ?```[^\n]*\n.*?^[ \t]*//[/!] ?```[ \t]*$", re.MULTILINE | re.DOTALL),
    ".py": re.compile(r"^[ \t]*>>> .*?(?=^[ \t]*$|\"\"\"|'''|\Z)", re.MULTILINE | re.DOTALL),
}
"""Parts of comments: each belongs where it stands."""

_CONFIGURATIONS = ("pytest.ini", "pyproject.toml", "setup.cfg", "tox.ini", "Makefile", "package.json")


def runs_doctests(command: str, read: Callable[[str], str | None]) -> bool:
    """Whether a check runs the examples in Python's docstrings, as far as its text and the configuration tell."""
    return "doctest" in command or any("doctest" in (read(name) or "") for name in _CONFIGURATIONS)


def with_old_tests(path: str, old: str, new: str, *, doctests: bool) -> str:
    """The new text of a file with the tests in it as they were in the old one."""
    ending = path[path.rfind(".") :]
    if pattern := _BLOCKS.get(ending):
        new = _restored(pattern, old, new) or _moved(pattern, old, new)
    if (pattern := _EXAMPLES.get(ending)) and (ending != ".py" or doctests):
        # With other examples than before, nobody can tell which of the code they belong to.
        new = _restored(pattern, old, new) or old
    return new


def _restored(pattern: re.Pattern[str], old: str, new: str) -> str | None:
    """Each test in its place; None when there are not as many as before."""
    were = [match.group() for match in pattern.finditer(old)]
    if len(pattern.findall(new)) != len(were):
        return None
    waiting = iter(were)
    return pattern.sub(lambda _: next(waiting), new)


def _moved(pattern: re.Pattern[str], old: str, new: str) -> str:
    """The new text without its tests, and the old tests behind it."""
    were = "\n".join(match.group() for match in pattern.finditer(old))
    code = pattern.sub("", new)
    return f"{code.rstrip()}\n\n{were}" if were else code
