"""The words that the parser finds are the words that dash, bash and busybox really pass."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st

from codeagent.approval.classify import require_plain_redirects
from codeagent.approval.flags import Refused
from codeagent.approval.grammar import Unclear
from codeagent.approval.shell import parse

SHELLS = (("dash",), ("bash",), ("bash", "--posix"), ("busybox", "ash"))
# Says what it was passed on descriptor 9, which no understood script can redirect; fed to it, nothing is read.
PROBE = "probe() { printf '%s\\0' \"$@\" '<end>' >&9; }\nPATH=/nonexistent\n"

# Each atom is a piece of a word or of an operator; together they make most of what is tricky, and much that is wrong.
PLAIN = "a b - -- = ~ : , . @ + 0 1 2 12 % ^ ! é 你 a#b if then fi do a\\ b".split()
EXPANDING = "$x ${x} $( ) ` $ * ? [ ] { } $'b' [[".split()
QUOTES = [
    *'\' " \\ \'\' "" "\\$" "$" "a$|" \\\' \\" \\\\ \\* \\; \\& \\#'.split(),
    "'a b'",
    '"a b"',
    "'a\"b'",
    '"a\'b"',
]
OPERATORS = "( ) ; & | && || ;; |& < > >> >/dev/null 2>/dev/null 2>&1 >&2 </dev/null <<E <<< #".split()
BLANKS = [" ", " ", " ", " ", " ", "\t", "\n", "\\\n", "# c\n", "'\n'", '"\n"', "\\\t"]
ATOMS = st.sampled_from([*PLAIN, *EXPANDING, *QUOTES, *OPERATORS, *BLANKS])
SCRIPTS = st.lists(st.one_of(st.just("probe "), ATOMS, ATOMS, ATOMS), max_size=12).map(
    lambda atoms: "probe " + "".join(atoms)
)

WORDS = st.lists(
    st.sampled_from(
        [
            "a",
            "-b",
            "c=d",
            "%e",
            "x^",
            "y@z",
            "'q r'",
            '"s t"',
            "\\ ",
            "\\'",
            '\\"',
            "''",
            '"\\$"',
            "a#b",
            '"e$"',
            "f,g",
            "!",
        ]
    ),
    min_size=1,
    max_size=4,
).map("".join)
COMMANDS = st.lists(WORDS, max_size=4).map(lambda words: " ".join(["probe", *words]))
LISTS = st.recursive(
    COMMANDS,
    lambda inner: st.one_of(
        st.tuples(
            inner, st.sampled_from([";", " ; ", "\n", "|", " | ", " && ", "||", " &&\n", " # c\n", "|\n"]), inner
        ).map("".join),
        inner.map(lambda script: f"({script})"),
        inner.map(lambda script: f"{{ {script}; }}"),
        inner.map(lambda script: f"! {script}"),
        inner.map(lambda script: f"if {script}; then probe t; else probe e; fi"),
        st.tuples(inner, st.sampled_from([" 2>&1", " >/dev/null", " </dev/null", "\t2>/dev/null"])).map("".join),
    ),
    max_leaves=5,
)


def passed(shell: tuple[str, ...], script: str, folder: Path) -> list[tuple[str, ...]]:
    """What each probe that ran was given, in order."""
    record = folder.parent / "record"
    record.write_bytes(b"")
    descriptor = os.open(record, os.O_WRONLY | os.O_APPEND)
    try:
        os.dup2(descriptor, 9)
        subprocess.run(
            [*shell, "-c", PROBE + script],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            pass_fds=(9,),
            timeout=20,
        )
    finally:
        os.close(descriptor)
    given_words: list[tuple[str, ...]] = []
    words: list[str] = []
    for word in record.read_bytes().decode().split("\0")[:-1]:
        if word == "<end>":
            given_words.append(tuple(words))
            words = []
        else:
            words.append(word)
    return given_words


def compare(script: str, folder: Path) -> None:
    try:
        understood = parse(script)
        require_plain_redirects(understood)
    except (Unclear, Refused):
        event("not understood")
        assume(False)
    assume(all(command.argv[0] == "probe" for command in understood.commands))
    # A file that is not there would keep the command from running.
    assume(all(redirect.operator != "<" or redirect.target.text == "/dev/null" for redirect in understood.redirects))
    expected = [command.argv[1:] for command in understood.commands]
    for shell in SHELLS:
        found = passed(shell, script, folder)
        assert found, f"{shell[0]} ran nothing of {script!r}"
        if not any(mark in script for mark in ("|", "&&", "if", "!")):
            assert found == expected, shell
        else:
            assert Counter(found) <= Counter(expected), shell
    assert list(folder.iterdir()) == []


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shells") / "empty"
    folder.mkdir()
    return folder


@pytest.mark.slow
@settings(max_examples=150, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=SCRIPTS)
def test_what_is_understood_of_arbitrary_text_is_what_every_shell_passes(script: str, empty: Path) -> None:
    compare(script, empty)


@pytest.mark.slow
@settings(max_examples=100, deadline=None, suppress_health_check=list(HealthCheck))
@given(script=LISTS)
def test_lists_groups_and_quotes_are_read_as_every_shell_reads_them(script: str, empty: Path) -> None:
    compare(script, empty)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("probe a'b'\"c\"d\\e f\\ g", ("abcde", "f g")),
        # tree-sitter ends the word before the backslash, so this is not understood.
        ('probe "a"\\b', None),
        ('probe "a\\\nb" "\\$x" "\\a" "$" "e$|f"', ("ab", "$x", "\\a", "$", "e$|f")),
        ("probe a#b '#' \\# # c", ("a#b", "#", "#")),
        ("probe \\\n  a \\\n\t'b\nc'", ("a", "b\nc")),
        ("probe '' \"\" a= =b --c=d", ("", "", "a=", "=b", "--c=d")),
        ("probe HEAD^ HEAD~1 a:b x@y %z + , ! ]", ("HEAD^", "HEAD~1", "a:b", "x@y", "%z", "+", ",", "!", "]")),
        ("probe if then { 2>/dev/null", None),
        ("probe a2>/dev/null", ("a2",)),
        ("probe 'é' 你好", ("é", "你好")),
        ("probe x*y q?", ("x*y", "q?")),
    ],
)
def test_words_that_every_shell_passes(script: str, words: tuple[str, ...] | None, empty: Path) -> None:
    if words is None:
        with pytest.raises(Unclear):
            parse(script)
        return
    assert [command.argv[1:] for command in parse(script).commands] == [words]
    for shell in SHELLS:
        assert passed(shell, script, empty) == [words]
