"""What a question asks for, in several languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.providers.offline.question import EMPTIES, NULLS, Kind, Question, Target, parse

NOTHING = Kind.NOTHING
SERVICE = (Target("UserService", ""),)
FIND = (Target("UserService", "findById"),)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("why does UserService return null", Question(NOTHING, SERVICE, values=NULLS)),
        ("why does UserService.findById return null?", Question(NOTHING, FIND, values=NULLS)),
        ("why does findById in UserService return null", Question(NOTHING, FIND, values=NULLS)),
        ("UserService::findById gives nil", Question(NOTHING, FIND, values=NULLS)),
        ("why does `search` return nothing", Question(NOTHING, (Target("", "search"),), values=NULLS + EMPTIES)),
        (
            "why does search return an empty list",
            Question(NOTHING, targets=(Target("", "search"),), values=NULLS + EMPTIES, named=False),
        ),
        ("Warum gibt find_user null zurück?", Question(NOTHING, (Target("", "find_user"),), values=NULLS)),
        ("¿Por qué findUser devuelve null?", Question(NOTHING, (Target("", "findUser"),), values=NULLS)),
        ("Pourquoi findUser() renvoie null ?", Question(NOTHING, (Target("", "findUser"),), values=NULLS)),
        ("UserService 为什么返回 null？", Question(NOTHING, SERVICE, values=NULLS, chinese=True)),
        ("为什么findById返回空", Question(NOTHING, (Target("", "findById"),), values=NULLS + EMPTIES, chinese=True)),
        ("why does is_open() return False", Question(NOTHING, (Target("", "is_open"),), values=("false", "False"))),
        ("what raises KeyError", Question(Kind.RAISE, exceptions=("KeyError",))),
        ("parse_day 报错", Question(Kind.RAISE, (Target("", "parse_day"),), chinese=True)),
        (
            "why do I get a ValueError in parse_day",
            Question(Kind.RAISE, (Target("", "parse_day"),), exceptions=("ValueError",)),
        ),
        (
            "why does total raise NotForSale",
            Question(Kind.RAISE, (Target("", "total"),), exceptions=("NotForSale",), named=False),
        ),
        (
            "why does Response.json raise JSONDecodeError",
            Question(Kind.RAISE, (Target("Response", "json"),), exceptions=("JSONDecodeError",)),
        ),
        ("where is ExpiringCache", Question(Kind.WHERE, (Target("ExpiringCache", ""),))),
        ("ExpiringCache在哪里", Question(Kind.WHERE, (Target("ExpiringCache", ""),), chinese=True)),
        (
            "where is parse_day in storage/price_list.py",
            Question(Kind.WHERE, (Target("", "parse_day"),), files=("storage/price_list.py",)),
        ),
        ("explain UserService", Question(Kind.OTHER, SERVICE)),
        ("why is the build slow", Question(Kind.OTHER, (Target("", "build"), Target("", "slow")), named=False)),
    ],
)
def test_names_symptom_and_kind(text: str, expected: Question) -> None:
    assert parse(text) == expected


@given(st.text(max_size=300))
def test_any_text_is_a_question(text: str) -> None:
    question = parse(text)
    assert all(target.title for target in question.targets)
