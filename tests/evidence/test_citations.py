"""What counts as a citation in an answer, and what does not."""

from __future__ import annotations

import string

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from codeagent.evidence.citations import looks_like_file, mentions
from tests.clocks import processor_time_below


def places(text: str) -> list[tuple[str, int, int]]:
    return [(mention.paths[0], mention.start_line, mention.end_line) for mention in mentions(text)]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("see `src/a.py:10`.", [("src/a.py", 10, 10)]),
        ("src/a.py:10-20, 25 and 30", [("src/a.py", 10, 20), ("src/a.py", 25, 25), ("src/a.py", 30, 30)]),
        ("(a.py:3, 7)", [("a.py", 3, 3), ("a.py", 7, 7)]),
        ("a.py:3, 7 tests failed", [("a.py", 3, 3)]),
        ("a.py:10–12 and a.py:L5-L9", [("a.py", 10, 12), ("a.py", 5, 9)]),
        ("src/a.py#L3, src/b.py#L10-L20", [("src/a.py", 3, 3), ("src/b.py", 10, 20)]),
        ("[here](src/a.py#L10-L20)", [("src/a.py", 10, 20)]),
        ("[src/a.py:10](src/a.py#L10)", [("src/a.py", 10, 10)]),
        ("`src/a.py`:10 and **src/b.py:5**", [("src/a.py", 10, 10), ("src/b.py", 5, 5)]),
        ("src/a.py:5:9: error: no", [("src/a.py", 5, 5)]),
        ("a.py line 12; `b.py` (lines 12-15); c.py, line 4", [("a.py", 12, 12), ("b.py", 12, 15), ("c.py", 4, 4)]),
        ("`a.py` 第 12-15 行，b.java第3行", [("a.py", 12, 15), ("b.java", 3, 3)]),
        ("（b.java:7-9）。「c.go：4」", [("b.java", 7, 9), ("c.go", 4, 4)]),
        ("UserService.java:19-21、26。", [("UserService.java", 19, 21), ("UserService.java", 26, 26)]),
        ("`docs/my file.md:3`", [("docs/my file.md", 3, 3)]),
        ("src/[id]/page.tsx:4 app/(group)/x.tsx:9", [("src/[id]/page.tsx", 4, 4), ("app/(group)/x.tsx", 9, 9)]),
        (r"src\main\A.java:10", [("src/main/A.java", 10, 10)]),
        ("/workspace/src/a.py:4 ./b.py:5", [("src/a.py", 4, 4), ("b.py", 5, 5)]),
        ("Makefile:3", [("Makefile", 3, 3)]),
        (
            "__init__.py:2, `_compat.py:7`, **__main__.py:4**",
            [("__init__.py", 2, 2), ("_compat.py", 7, 7), ("__main__.py", 4, 4)],
        ),
        ("__src/a.py__:3 and *a.py*:4", [("src/a.py", 3, 3), ("a.py", 4, 4)]),
        ("a.py:0 and b.py:20-10", [("a.py", 0, 0), ("b.py", 20, 10)]),
        ("a.py:3\n\n- a.py:3 again", [("a.py", 3, 3)]),
        ("http://x.org/a.py:3 and https://github.com/o/r/blob/main/src/a.py#L10-L20", []),
        ("a.py:1.5 took 3.2.1:4 of 10.0.0.1:8080 and ::1", []),
        ("at 10:30, 16:9, 1:1", []),
        ("a.py: 3", [("a.py", 3, 3)]),
        ("1. src/User\x1b[31mService.java:28,", [("src/User\x1b[31mService.java", 28, 28)]),
        (
            "`src/User\x1b]0;pwn\x07Serv\x9b1mice\x7f.java:3`",
            [("src/User\x1b]0;pwn\x07Serv\x9b1mice\x7f.java", 3, 3)],
        ),
        ("src/a\x1b(B.py:4 and \x1b[1mb.py:5", [("src/a\x1b(B.py", 4, 4), ("\x1b[1mb.py", 5, 5)]),
        ("a.py:3%", []),
        ("", []),
    ],
)
def test_places(text: str, expected: list[tuple[str, int, int]]) -> None:
    assert places(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "2024-01-02T10:30:00",
        "example.org:80",
        "localhost:8080",
        "example.com:443",
        "key:10",
        "std::vector:3",
        "v1.2:3",
        "and/or:3",
        "user@host.org:22",
    ],
)
def test_names_that_are_no_files_do_not_count_unless_they_are_there(text: str) -> None:
    assert [path for mention in mentions(text) for path in mention.paths if looks_like_file(path)] == []


def test_a_name_may_begin_inside_a_text_without_spaces() -> None:
    (mention,) = mentions("见src/a.py:3处")
    assert mention.paths == ("见src/a.py", "src/a.py")
    (mention,) = mentions("文档/说明.md：5")
    assert mention.paths == ("文档/说明.md",)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("`a.py:19`: `return null` because", "return null"),
        ('a.py:19 "return null"', "return null"),
        ("a.py:19 — “return null”", "return null"),
        ("a.py:19：「return null」", "return null"),
        ("`a.py:19` calls `other()`", ""),
        ("a.py:19, 20: `x = 1`", ""),
        ("a.py:19 in `f`", ""),
        ("when `a` (a.py:19), `b` (a.py:20)", ""),
        ("when `a` (a.py:19) or `b` (a.py:20)", ""),
        ("`a` (a.py:19) `b` (a.py:20)", ""),
        ("(a.py:19): `return null`", "return null"),
    ],
)
def test_a_quote_stands_right_behind_its_place(text: str, quote: str) -> None:
    assert mentions(text)[0].quote == quote


SEGMENT = st.text(string.ascii_letters + string.digits + "_-", min_size=1, max_size=8).filter(
    lambda text: text[0].isalpha() and text[-1].isalnum()
)
PATHS = st.builds(
    lambda folders, stem, suffix: "/".join([*folders, f"{stem}.{suffix}"]),
    st.lists(SEGMENT, max_size=4),
    SEGMENT,
    st.sampled_from(["py", "java", "go", "tsx", "c", "md", "toml"]),
)
LINES = st.integers(1, 9_999).flatmap(lambda start: st.tuples(st.just(start), st.integers(start, 9_999)))
FORMS = st.sampled_from(
    ["{p}:{a}-{b}", "`{p}:{a}-{b}`", "({p}:{a}-{b})", "**{p}:{a}–{b}**,", "{p}#L{a}-L{b}", "`{p}` lines {a}-{b}.",
     "[{p}:{a}-{b}]", "「{p}:{a}-{b}」", "：{p}:{a}-{b}。", "[x]({p}#L{a}-L{b})"]
)  # fmt: skip


@given(
    PATHS,
    LINES,
    FORMS,
    st.sampled_from(["", "see ", "原因在 ", "- "]),
    st.sampled_from(["", " which", "，因为", "\n"]),
)
@example("L0.py", (1, 1), "{p}:{a}-{b}", "see ", "")
@example("L0/a.py", (1, 1), "{p}:{a}-{b}", "see ", "")
@example("L0-a.py", (1, 1), "{p}:{a}-{b}", "see ", "")
@example("a.py", (1, 2), "{p} L{a}-L{b}", "see ", "")
def test_a_place_is_found_in_every_form(
    path: str, lines: tuple[int, int], form: str, before: str, after: str
) -> None:
    text = before + form.format(p=path, a=lines[0], b=lines[1]) + after
    (mention,) = mentions(text)
    assert path in mention.paths
    assert (mention.start_line, mention.end_line) == lines
    assert looks_like_file(path)


@given(st.text(st.sampled_from(string.ascii_letters[:4] + '0123456789 :./-#L`()[],\n行第见\\"“”'), max_size=400))
def test_any_text_is_parsed(text: str) -> None:
    for mention in mentions(text):
        assert mention.paths
        assert all(path and "\n" not in path for path in mention.paths)


def test_a_long_word_costs_little() -> None:
    assert mentions("a" * 200_000 + ("é" * 20_000) + "(" * 5_000) == []


@pytest.mark.slow
@pytest.mark.parametrize(
    "text",
    [
        "a.py:" * 20_000,
        "[" * 50_000,
        "我们看到" * 25_000,
        "\u200f\ud83d" * 50_000,
        "a.py:1, " * 20_000,
        "`a b" * 20_000,
    ],
)
def test_no_answer_takes_long(text: str) -> None:
    with processor_time_below(5):
        mentions(text + " a.py:7")


def test_a_place_at_the_end_of_a_very_long_word_is_found() -> None:
    (found,) = mentions("我们看到" * 1_000 + "a.py:7")
    assert ("a.py" in found.paths, found.start_line, found.at) == (True, 7, 3_754)


@pytest.mark.parametrize(
    ("text", "quote"),
    [
        ("The bug is `return day > self.finish` (pricing/period.py:22).", "return day > self.finish"),
        ("It is ``x = `y`;`` (in `a.sh:3`)", "x = `y`;"),
        ("这里 `if (user == null)` （src/A.java:7）", "if (user == null)"),
        ("`findById(long id)` (A.java:12) returns", ""),
        ("`make test` (Makefile:3)", ""),
        ("`UserService` (A.java:12)", ""),
        ("a.py:3: `return None` (b.py:4)", ""),
        ("see a.py:3 `return None` (b.py:4)", ""),
        ("`return None` is what happens (b.py:4)", ""),
        ("`return None` (b.py:4): `x = 1`", "x = 1"),
    ],
)
def test_a_line_of_code_right_before_a_place_in_brackets_is_its_quote(text: str, quote: str) -> None:
    assert [mention.quote for mention in mentions(text)][-1] == quote
