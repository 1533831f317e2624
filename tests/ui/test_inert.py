from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wcwidth import wcswidth

from codeagent.ui.inert import cells, cut, cut_start, inert, inert_line, padded, revealed

# What a terminal acts on, or shows nothing for. Hypothesis picks from all of Unicode, and from these more often.
ACTING = "\x00\x07\x08\r\x1b\x7f\x85\x9b\u00ad\u200b\u200e\u2028\u2029\u202e\u2066\ufeff\ufff9\U000e0041\udce9"
ANY_TEXT = st.text(st.one_of(st.characters(), st.sampled_from(ACTING)))


@given(ANY_TEXT)
def test_nothing_that_acts_on_a_terminal_is_left(text: str) -> None:
    kept = [one for one in inert(text) if unicodedata.category(one) in ("Cc", "Cf", "Cs", "Zl", "Zp")]
    assert set(kept) <= {"\n", "\t", "\u200c", "\u200d"}


@given(ANY_TEXT)
def test_a_line_stays_one_line_whatever_it_holds(text: str) -> None:
    assert len(inert_line(text).splitlines()) <= 1


@given(ANY_TEXT)
def test_making_text_inert_twice_changes_nothing_more(text: str) -> None:
    assert inert(inert(text)) == inert(text)


# Text can be hidden in these selectors; outside rare ideographs they serve nothing else.
HIDING = "".join(map(chr, range(0xE0100, 0xE01F0)))


@given(st.text(st.characters(categories=["L", "M", "N", "P", "S", "Zs"], exclude_characters=HIDING)))
def test_printable_text_passes_byte_for_byte(text: str) -> None:
    assert inert(text) == text


@pytest.mark.parametrize(
    "text", ["[/]", "[/INST]", "[bold", "[link=file:///x]a[/link]", ":smile:", "█ 你 😀", "👩‍💻", "می‌خواهم"]
)
def test_brackets_emoji_and_joined_words_stay(text: str) -> None:
    assert inert(text) == text


def test_text_cannot_hide_in_variation_selectors() -> None:
    assert inert("x\U000e0141") == "x\\U000e0141"


def test_escapes_name_what_they_stand_for() -> None:
    assert inert("\x1b[31m\u202e\udce9\U000e0041\r\n") == "\\x1b[31m\\u202e\\xe9\\U000e0041\n"
    assert inert_line("a\tb\nc\rd") == "a\\tb\\nc\\rd"


def test_a_joiner_that_joins_nothing_is_shown() -> None:
    assert inert("pass\u200dword \u200c") == "pass\\u200dword \\u200c"


def test_what_a_person_decides_on_hides_nothing() -> None:
    assert revealed("rm\u00a0-rf\u3164 ا\u200cب\t👩‍💻\u2800") == "rm\\xa0-rf\\u3164 ا\\u200cب\\t👩\\u200d💻\\u2800"


@given(st.text(st.sampled_from("aZ 9é你好ｗ한😀✓─e\u0301")))
def test_widths_are_those_of_terminals(text: str) -> None:
    assert cells(text) == wcswidth(text)


@given(st.text(st.sampled_from("aZ 9é你好ｗ한😀e\u0301")), st.integers(0, 30))
def test_cut_and_padded_text_fits_exactly(text: str, width: int) -> None:
    assert cells(cut(text, width)) <= width
    assert cells(cut_start(text, width)) <= width
    assert cells(padded(text, width)) == width


def test_cut_text_is_marked() -> None:
    assert cut("UserService.java", 8) == "UserSer…"
    assert cut("你好世界", 6) == "你好…"
    assert cut("short", 8) == "short"
    assert cut_start("src/UserService.java", 12) == "…ervice.java"
    assert cut_start("你好世界", 6) == "…世界"
    assert cut_start("short", 8) == "short"
