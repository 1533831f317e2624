"""The small parts that need no server."""

from __future__ import annotations

import itertools
import re
import subprocess
import sys
from collections.abc import Iterator

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.conversation import ToolCall, ToolOutput, UserMessage, adopted, unanswered
from codeagent.errors import UsageError
from codeagent.inference import TextDelta
from codeagent.providers.arguments import usable_arguments
from codeagent.providers.call_ids import any_ids, messages_ids, nine_ids, tool_name
from codeagent.providers.encoding import Shown, clean, cleaned, encoded
from codeagent.providers.open import open_provider
from codeagent.providers.options import Options, read_options
from codeagent.providers.sse import EventStream
from codeagent.providers.text_calls import written_as_text
from codeagent.providers.windows import context_window
from codeagent.providers.written import Written
from codeagent.settings import ProviderSettings
from tests.clocks import processor_time_below

TOOLS = ("read_file", "run_command")

WRITTEN_CALLS = [
    '{"name": "run_command", "arguments": {"command": "pytest"}}',
    '```json\n{"name": "run_command", "arguments": {"command": "pytest"}}\n```',
    '[{"name": "read_file", "parameters": {"path": "a"}}]',
    '{"type": "function", "function": {"name": "read_file", "arguments": "{}"}}',
    '{"tool": "read_file", "args": {"path": "a"}}',
    '{"name": "read_file", "arguments": {"path": "a"}}\n{"name": "read_file", "arguments": {"path": "b"}}',
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>',
    'I will look.\n<tool_call>{"name": "read_file", "arguments": {"path": "a"}}',
    "<function=run_command>\n<parameter=command>\nls\n</parameter>\n</function>",
    '<|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{"path": "a"}<|tool_call_end|>',
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{"path": "a"}\n```',
    '[TOOL_CALLS][{"name": "read_file", "arguments": {"path": "a"}}]',
    '<｜DSML｜function_calls>\n<｜DSML｜invoke name="read_file">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>',
    '<invoke name="run_command">\n<parameter name="command">ls</parameter>\n</invoke>',
    '<|python_tag|>{"name": "read_file", "parameters": {"path": "a"}}',
    '<|channel|>commentary to=functions.read_file <|message|>{"path": "a"}',
]

ANSWERS = [
    "findById returns null because the cache holds it (UserService.java:12).",
    "",
    "{}",
    '{"name": "Ann", "arguments": []}',
    'The tool takes {"name": "read_file", "arguments": {...}} as its input.',
    "I called read_file twice.",
    "```java\nreturn null;\n```",
    "The parser looks for `<tool_call>` in src/parse.py:10-20, where read_file is named, and drops what follows it.",
    'The log holds\n<tool_call>{"name": "read_file"}</tool_call>\nwhich is a mistake of the server, see main.py:3.',
    "<tool_call> is a token of the tokenizer.",
    "[1, 2, 3]",
    '{"name": "read_file"}',
]


@pytest.mark.parametrize("text", WRITTEN_CALLS)
def test_a_call_written_as_text_is_recognised(text: str) -> None:
    assert written_as_text(text, TOOLS)


@pytest.mark.parametrize("text", ANSWERS)
def test_an_answer_is_not_taken_for_a_call(text: str) -> None:
    assert not written_as_text(text, TOOLS)


def events(*chunks: bytes) -> list[str]:
    return list(EventStream(chunks))


STREAM = (
    b': hi\r\n\r\nevent: a\r\ndata: {"x": 1}\r\n\r\ndata: two\ndata: lines\n\ndata:no space\n\n'
    b"event: ping\n\ndata: last\n"
)
DATA = ['{"x": 1}', "two\nlines", "no space", "last"]


def test_events_are_read_out_of_bytes() -> None:
    assert events(STREAM) == DATA
    assert events() == events(b"") == events(b"\n\n: comment\n\n") == []
    assert events("data: a\u2028b\x85c\n\n".encode()) == ["a\u2028b\x85c"]
    assert events(b"data: a\r\rdata: b") == ["a", "b"]


@given(
    st.sampled_from([b"\n", b"\r\n", b"\r"]),
    st.sampled_from([b"", b"\xef\xbb\xbf"]),
    st.lists(st.integers(0, 200), max_size=8),
)
def test_events_do_not_depend_on_where_the_bytes_are_cut_nor_on_how_lines_end(
    end: bytes, mark: bytes, cuts: list[int]
) -> None:
    stream = mark + STREAM.replace(b"\r\n", b"\n").replace(b"\n", end)
    places = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    assert events(*(stream[a:b] for a, b in itertools.pairwise(places))) == DATA
    assert events(*(bytes([byte]) for byte in mark + STREAM)) == DATA


def test_an_event_is_there_as_soon_as_its_blank_line_is() -> None:
    def chunks() -> Iterator[bytes]:
        yield b"\xef\xbb\xbfdata: one\r\r"
        raise AssertionError("more was read than was needed")

    assert next(iter(EventStream(chunks()))) == "one"


def test_a_line_of_ten_megabytes_takes_no_longer_than_its_bytes() -> None:
    with processor_time_below(3):
        (found,) = events(b"data: ", *[b"x" * 1_000] * 10_000)
        assert len(found) == 10_000_000


def test_what_is_no_event_is_kept_to_be_explained() -> None:
    stream = EventStream([b"<html>\n", b"<title>Sign in</title>\n", b"x" * 9000 + b"\n", b"y\n"])
    assert list(stream) == []
    assert stream.stray.startswith("<html>\n<title>Sign in</title>\n")
    assert len(stream.stray) < 12000


@given(st.text(st.characters(), max_size=40))
def test_clean_text_is_kept_and_any_text_can_be_encoded(text: str) -> None:
    assert clean(text).encode().decode() == clean(text)
    assert cleaned({"a": [text]}) == {"a": [clean(text)]}
    assert encoded(text).decode()
    if not any("\ud800" <= c <= "\udfff" for c in text):
        assert clean(text) == text


def test_halves_of_a_character_in_two_deltas_are_shown_as_one() -> None:
    shown: list[str] = []
    show = Shown(lambda p: shown.append(p.text) if isinstance(p, TextDelta) else None)
    for piece in ("a\ud83d", "\ude00b", "\ud83d", "x", "\ude00", "", None, 5):
        show(piece)
    assert shown == ["a", "😀b", "\ufffdx", "\ufffd"]


@given(st.lists(st.text(st.characters(codec="utf-8"), min_size=1, max_size=80), unique=True, max_size=12))
def test_mapped_ids_are_accepted_different_and_stable(ids: list[str]) -> None:
    for maker, form in (
        (any_ids, r"[!-~]{1,64}"),
        (messages_ids, r"[a-zA-Z0-9_-]{1,64}"),
        (nine_ids, r"[a-zA-Z0-9]{9}"),
    ):
        first, second = maker(), maker()
        mapped = [first(i) for i in ids]
        assert [first(i) for i in ids] == [second(i) for i in ids] == mapped
        assert len(set(mapped)) == len(ids)
        assert all(re.fullmatch(form, m) for m in mapped)


def test_an_id_that_looks_like_a_mapped_one_does_not_collide_with_it() -> None:
    ids = messages_ids()
    mapped = ids("a:b")
    assert ids(mapped) != mapped
    assert ids("fine_id") == "fine_id"
    other = messages_ids()
    assert other(mapped) == mapped
    assert other("a:b") != mapped


def test_invented_names_become_names_that_are_accepted() -> None:
    names = ["read_file", "functions.read_file", "", "a b", "x" * 100]
    assert [tool_name(n) for n in names] == ["read_file", "functions_read_file", "unnamed", "a_b", "x" * 64]


@given(st.lists(st.lists(st.sampled_from(["", "a", "a", "b", "a_2", "call"]), max_size=4), max_size=5))
def test_adopted_calls_have_ids_of_their_own(turns: list[list[str]]) -> None:
    history: list[UserMessage | ToolCall | ToolOutput] = []
    for ids in turns:
        items = adopted([ToolCall(i, "read_file", "{}") for i in ids], history)
        calls = [item for item in items if isinstance(item, ToolCall)]
        assert [bool(c.defect) for c in calls] == [not i or i in ids[:n] for n, i in enumerate(ids)]
        history += calls
        history += [ToolOutput(c.call_id, "x") for c in unanswered(history)]
    made = [item.call_id for item in history if isinstance(item, ToolCall)]
    assert len(made) == len(set(made))
    assert all(made)


def test_only_a_json_object_goes_back_as_arguments() -> None:
    kept = ['{"a": 1}', "{}", ' {"a": {"b": [null]}} ']
    assert [usable_arguments(a) for a in kept] == kept
    for bad in ("", "null", "[]", '"x"', "5", '{"a"', '{"a":1}{"a":1}', '{"a": 1e999}', '{"a": NaN}', "[" * 100_000):
        assert usable_arguments(bad) == "{}"


def test_what_was_encoded_once_is_not_encoded_again() -> None:
    asked: list[int] = []

    def encode(items: object, start: int) -> list[bytes]:
        asked.append(start)
        return [item.text.encode() for item in list(items)[start:]]  # type: ignore[call-overload]

    written = Written(encode)
    items = [UserMessage("a"), UserMessage("b")]
    assert written(items) == [b"a", b"b"]
    assert written([*items, UserMessage("c")]) == [b"a", b"b", b"c"]
    assert written([*items, UserMessage("d")]) == [b"a", b"b", b"d"]
    assert written(items[:1]) == [b"a"]
    assert asked == [0, 2, 0, 0]


def test_options_are_checked_and_the_nearest_is_named() -> None:
    assert read_options({}, "p") == Options()
    given_options = {"without": ["strict"], "stream": False, "reasoning": "never", "body": {"seed": 1}}
    assert read_options(given_options, "p") == Options(
        without=("strict",), stream=False, reasoning="never", body={"seed": 1}
    )
    with pytest.raises(UsageError, match=r"providers\.p\.options\.reasonin is not an option") as raised:
        read_options({"reasonin": "never"}, "p")
    assert "`reasoning`" in raised.value.remedy
    for wrong in (
        {"reasoning": "sometimes"},
        {"stream": "no"},
        {"without": "strict"},
        {"body": 1},
        {"key_header": 3},
    ):
        with pytest.raises(UsageError, match="may not be"):
            read_options(wrong, "p")


@pytest.mark.parametrize("url", ["api.example.com/v1", "ftp://x/v1", "http://", "not a url"])
def test_a_base_url_that_is_none_is_a_usage_error(url: str) -> None:
    with pytest.raises(UsageError, match="base_url"):
        open_provider(ProviderSettings("p", "chat", "m", base_url=url))


@pytest.mark.parametrize("key", ["sk-1\n", " sk-1", "sk-\xe4", "sk-\0"])
def test_a_key_that_cannot_be_sent_is_neither_tried_nor_shown(key: str) -> None:
    with pytest.raises(UsageError) as refused:
        open_provider(ProviderSettings("p", "chat", "m", api_key_env="KEY", api_key=key))
    assert refused.value.message == "The key in KEY holds characters that no key has."


@pytest.mark.parametrize("headers", [{"x y": "1"}, {"x": "\xe4"}, {"x": "a\nb"}, {"": "1"}])
def test_a_header_that_cannot_be_sent_is_named(headers: dict[str, str]) -> None:
    with pytest.raises(UsageError, match="cannot be sent"):
        open_provider(ProviderSettings("p", "messages", "m", headers=headers))


def test_the_window_is_configured_known_or_careful() -> None:
    opened = open_provider(ProviderSettings("p", "chat", "m", base_url="http://127.0.0.1:1/v1", context_window=5))
    assert opened.context_window == 5
    assert [
        context_window("gpt-5.6", None),
        context_window("openai/gpt-4o-mini", "https://openrouter.ai/api/v1"),
        context_window("never-heard-of", "https://example.com"),
        context_window("qwen3-coder", "https://example.com"),
        context_window("qwen3-coder", "http://localhost:8080/v1"),  # as much as the server was started with
        context_window("gpt-5.6", "http://localhost:8080/v1"),  # a proxy
    ] == [400_000, 128_000, 128_000, 256_000, 32_000, 400_000]


def test_nothing_heavy_is_imported_before_it_is_needed() -> None:
    program = (
        "import sys\n"
        "from codeagent.providers.open import open_provider\n"
        "from codeagent.settings import ProviderSettings\n"
        "for api in ('responses', 'chat', 'messages'):\n"
        "    open_provider(ProviderSettings('p', api, 'm'))\n"
        "print(sorted({'openai', 'httpx2', 'pydantic'} & set(sys.modules)))\n"
        "p = open_provider(ProviderSettings('p', 'messages', 'm'))\n"
        "p.warm_up(); p.close()\n"
        "print(sorted({'openai', 'httpx2', 'pydantic'} & set(sys.modules)))\n"
        "p = open_provider(ProviderSettings('p', 'responses', 'm'))\n"
        "p.warm_up(); p.close()\n"
        "print('openai' in sys.modules, 'openai.resources.responses' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "[]\n['httpx2']\nTrue False\n"
