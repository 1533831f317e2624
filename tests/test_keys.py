from __future__ import annotations

from codeagent.keys import redactor


def test_exact_values_of_keys_are_removed_the_longer_one_first() -> None:
    redact = redactor(["sk-abc123", "sk-abc123-longer", None, ""])
    assert redact("a sk-abc123-longer b sk-abc123\nsk-abc12") == "a [key removed] b [key removed]\nsk-abc12"


def test_words_given_to_servers_that_need_no_key_are_left_alone() -> None:
    redact = redactor(["ollama", "none", "x", "1234"])
    text = "ollama none x 1234"
    assert redact(text) == text


def test_a_key_with_pattern_characters_is_taken_literally() -> None:
    assert redactor(["key.+(*)"])("key.+(*) keyXX(*)") == "[key removed] keyXX(*)"
