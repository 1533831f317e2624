"""What counts as shown really stood in the output, and what stood there with its number counts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from codeagent.evidence.ledger import Ledger
from codeagent.evidence.recognise import bare, paths_in, shown_lines
from tests.clocks import processor_time_below

PATH = "src/app/a.py"
LINE = st.sampled_from(
    ["", "}", "    return None", "x = 1", "def f():", "  y = x", "é = '中'", "a:1:b", "7: seven", "\t# tab"]
)
FILES = st.lists(LINE, min_size=1, max_size=25)
NOISE = st.lists(
    st.sampled_from(["", "noise", "3:", "--", "    return None", "lib/b.py:1:x = 1", "[… 9 bytes left out …]"])
)
FORMS = (
    "src/app/a.py:{n}:{t}", "./src/app/a.py:{n}:{t}", "a.py:{n}:{t}", "src/app/a.py-{n}-{t}", "{n}:{t}", "{n}-{t}",
    "     {n}\t{t}", "{n}: {t}", "src/app/a.py:{n}:4:{t}", "\x1b[35msrc/app/a.py\x1b[0m:\x1b[32m{n}\x1b[0m:{t}",
    "1a2b3c4d (Ann Other 2024-01-02 03:04:05 +0100 {n}) {t}",
)  # fmt: skip


def shown(output: list[str], lines: list[str], named: bool = True) -> set[int]:
    return shown_lines([bare(line) for line in output], PATH, lines, named, named)


@given(FILES, st.data(), st.sampled_from(FORMS), NOISE)
def test_lines_with_their_numbers_are_all_found(
    lines: list[str], data: st.DataObject, form: str, noise: list[str]
) -> None:
    numbers = data.draw(st.sets(st.integers(1, len(lines))))
    output = noise + [form.format(n=number, t=lines[number - 1]) for number in sorted(numbers)]
    assert numbers <= shown(output, lines)


@given(FILES, st.data(), NOISE, st.booleans())
def test_what_is_found_stood_in_the_output(
    lines: list[str], data: st.DataObject, noise: list[str], named: bool
) -> None:
    start = data.draw(st.integers(0, len(lines)))
    end = data.draw(st.integers(start, len(lines)))
    output = noise + lines[start:end] + noise
    for number in shown(output, lines, named):
        text = lines[number - 1]
        assert text in output or any(line.endswith(text) and str(number) in line for line in output)


@given(FILES, FILES, st.data())
def test_a_part_that_stands_at_one_place_is_found_there_and_only_there(
    before: list[str], after: list[str], data: st.DataObject
) -> None:
    marked = ["<unique start>", *data.draw(FILES), "<unique end>"]
    lines = before + marked + after
    expected = set(range(len(before) + 1, len(before) + len(marked) + 1))
    assert shown(["noise", *marked, "noise"], lines) == expected


@given(FILES)
def test_a_part_that_stands_at_two_places_is_found_at_none(part: list[str]) -> None:
    lines = ["<a>", *part, "<b>", *part, "<c>"]
    assert shown(["noise", *part, "noise"], [line.replace(":", ";") for line in lines]) <= {
        number for number, line in enumerate(lines, 1) if lines.count(line) == 1
    }


@given(FILES)
def test_a_file_that_nobody_named_needs_more_than_a_line_or_two(lines: list[str]) -> None:
    assert shown(["y = x + 1", "noise"], [*lines, "y = x + 1"], named=False) == set()


def test_paths_at_the_start_of_lines_are_found() -> None:
    assert paths_in(["src/a.py:3:x", "./b c.py:4:y", "src/a.py-5-z", "plain", "12:x"]) == ["src/a.py", "b c.py"]


def test_many_equal_lines_cost_little() -> None:
    with processor_time_below(10):
        assert shown([""] * 20_000, [""] * 100_000) == set()
        assert shown(["a"] * 20_000, (["a"] * 31 + ["b"]) * 3_000) == set()


def test_calls_are_listed_in_order_and_contents_kept_apart() -> None:
    ledger = Ledger()
    ledger.add_lines("one", "a", "f" * 64, {1: "x", 2: "y\r"})
    ledger.add_lines("two", "a", "f" * 64, {2: "y"})
    ledger.add_lines("three", "a", "e" * 64, {2: "z"})
    assert {number: (line.text, line.call_ids) for number, line in ledger.at("a", "f" * 64).items()} == {
        1: ("x", ("one",)),
        2: ("y", ("one", "two")),
    }
    assert ledger.hashes("a") == ["f" * 64, "e" * 64]
    assert ledger.ever("a")[2].text == "z"
    assert ledger.at("b", "f" * 64) == {}


def test_lines_with_numbers_are_those_of_the_file_that_stands_above_them() -> None:
    output = ["src/app/a.py", "1:x", "--", "3:z", "", "src/app/b.py", "2:y"]
    assert shown_lines(output, PATH, ["x", "y", "z"], True, False) == {1, 3}
    assert shown_lines(["a.py", "b.py", "1:x"], PATH, ["x"], True, False) == set()
