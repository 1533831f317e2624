"""A tool call's arguments, against whatever a model may send."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.errors import ErrorKind, ToolError
from codeagent.inference import ToolSpec
from codeagent.tools.arguments import parse_arguments

SPEC = ToolSpec(
    "dig",
    "Digs.",
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["path", "depth", "fast"],
        "properties": {
            "path": {"type": "string"},
            "depth": {"type": ["integer", "null"], "minimum": 1, "maximum": 10},
            "fast": {"type": ["boolean", "null"]},
        },
    },
)


def sentence(arguments: str) -> str:
    with pytest.raises(ToolError) as refused:
        parse_arguments(SPEC, arguments)
    assert refused.value.kind is ErrorKind.INVALID_ARGUMENTS
    refused.value.text().encode()
    return refused.value.sentence


def test_every_key_is_there_and_what_may_be_null_may_be_absent() -> None:
    assert parse_arguments(SPEC, '{"path": "a", "depth": 3, "fast": true}') == {"path": "a", "depth": 3, "fast": True}
    assert parse_arguments(SPEC, '{"path": "a"}') == {"path": "a", "depth": None, "fast": None}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("null", "must be one JSON object"),
        ("[]", "must be one JSON object"),
        ('"a.py"', "must be one JSON object"),
        ("5", "must be one JSON object"),
        ("true", "must be one JSON object"),
        ("", "not valid JSON"),
        ('{"path": "a"', "not valid JSON"),
        ('{"path": "a"} {}', "not valid JSON"),
        ("[" * 100_000, "not valid JSON"),
        ('{"path": "a", "path": "b"}', 'the key "path" is given twice'),
        ("{}", 'the argument "path" is missing'),
        ('{"path": null}', '"path" must be string, not null'),
        ('{"path": ["a"]}', '"path" must be string, not array'),
        ('{"path": {}}', '"path" must be string, not object'),
        ('{"path": "a", "depth": "30"}', '"depth" must be integer or null, not string'),
        ('{"path": "a", "depth": true}', '"depth" must be integer or null, not boolean'),
        ('{"path": "a", "depth": 1.5}', '"depth" must be integer or null, not number'),
        ('{"path": "a", "depth": 0}', '"depth" must be between 1 and 10'),
        ('{"path": "a", "depth": -1}', '"depth" must be between 1 and 10'),
        ('{"path": "a", "depth": 1e999}', '"depth" must be integer or null, not number'),
        ('{"path": "a", "depth": NaN}', '"depth" must be integer or null, not number'),
        ('{"path": "a", "fast": 1}', '"fast" must be boolean or null, not integer'),
        ('{"path": "a\\u0000"}', '"path" holds a NUL character'),
        ('{"path": "\\ud83d"}', "half of a surrogate pair"),
        ('{"path": "a", "deph": 1}', 'dig has no argument "deph"; did you mean "depth"?'),
        ('{"path": "a", "zzz": 1}', 'dig has no argument "zzz"; its arguments are path, depth, fast'),
        ('{"path": "a", "\\ud83d": 1}', 'dig has no argument "\\ud83d"'),
    ],
)
def test_what_is_wrong_is_named(arguments: str, said: str) -> None:
    assert said in sentence(arguments)


JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.slow
@given(JSON | st.dictionaries(st.sampled_from(["path", "depth", "fast", "other"]), JSON))
def test_arguments_are_either_of_the_schema_or_refused(value: Any) -> None:
    try:
        found = parse_arguments(SPEC, json.dumps(value))
    except ToolError as error:
        assert error.kind is ErrorKind.INVALID_ARGUMENTS
        return
    assert isinstance(found["path"], str)
    assert found["depth"] is None or (type(found["depth"]) is int and 1 <= found["depth"] <= 10)
    assert found["fast"] is None or type(found["fast"]) is bool


@given(st.text())
def test_any_text_is_answered(arguments: str) -> None:
    with pytest.raises(ToolError):
        parse_arguments(SPEC, arguments)
