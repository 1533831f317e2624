"""What a question asks for, in several languages."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.providers.offline.question import EMPTIES, NULLS, Question, parse

NOTHING = "nothing"
SERVICE = ("UserService",)
FIND = ("UserService.findById",)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("why does UserService return null", Question(NOTHING, SERVICE, values=NULLS)),
        ("why does UserService.findById return null?", Question(NOTHING, FIND, values=NULLS)),
        ("why does findById in UserService return null", Question(NOTHING, FIND, values=NULLS)),
        ("UserService::findById gives nil", Question(NOTHING, FIND, values=NULLS)),
        ("why does `search` return nothing", Question(NOTHING, ("search",), values=NULLS + EMPTIES)),
        ("why does search return an empty list", Question(NOTHING, ("search",), values=NULLS + EMPTIES)),
        ("why is the search empty", Question(NOTHING, ("search",), values=NULLS + EMPTIES, named=False)),
        ("why does Nonexistent return None", Question(NOTHING, ("Nonexistent",), values=NULLS)),
        ("why does nonexistent always return None", Question(NOTHING, ("nonexistent",), values=NULLS)),
        ("why does Nonexistent raise KeyError", Question("raise", ("Nonexistent",), exceptions=("KeyError",))),
        ("why does it return None", Question(NOTHING, values=NULLS)),
        ("where is nonexistent?", Question("where", ("nonexistent",))),
        ("Nonexistent 为什么返回 null", Question(NOTHING, ("Nonexistent",), values=NULLS, chinese=True)),
        ("为什么 Nonexistent 会返回 None？", Question(NOTHING, ("Nonexistent",), values=NULLS, chinese=True)),
        ("nonexistent 在哪里", Question("where", ("nonexistent",), chinese=True)),
        ("Warum gibt find_user null zurück?", Question(NOTHING, ("find_user",), values=NULLS)),
        ("¿Por qué findUser devuelve null?", Question(NOTHING, ("findUser",), values=NULLS)),
        ("Pourquoi findUser() renvoie null ?", Question(NOTHING, ("findUser",), values=NULLS)),
        ("UserService 为什么返回 null？", Question(NOTHING, SERVICE, values=NULLS, chinese=True)),
        ("为什么findById返回空", Question(NOTHING, ("findById",), values=NULLS + EMPTIES, chinese=True)),
        ("why does is_open() return False", Question(NOTHING, ("is_open",), values=("false", "False"))),
        ("what raises KeyError", Question("raise", exceptions=("KeyError",))),
        ("parse_day 报错", Question("raise", ("parse_day",), chinese=True)),
        (
            "why do I get a ValueError in parse_day",
            Question("raise", ("parse_day",), exceptions=("ValueError",)),
        ),
        ("why does total raise NotForSale", Question("raise", ("total",), exceptions=("NotForSale",))),
        (
            "why does Response.json raise JSONDecodeError",
            Question("raise", ("Response.json",), exceptions=("JSONDecodeError",)),
        ),
        ("where is ExpiringCache", Question("where", ("ExpiringCache",))),
        ("ExpiringCache在哪里", Question("where", ("ExpiringCache",), chinese=True)),
        (
            "where is parse_day in storage/price_list.py",
            Question("where", ("parse_day",), files=("storage/price_list.py",)),
        ),
        ("where is _isnumber", Question("where", ("_isnumber",))),
        ("why does _isnumber return False", Question(NOTHING, ("_isnumber",), values=("false", "False"))),
        ("why does __init return null", Question(NOTHING, ("__init",), values=NULLS)),
        ("where is Gamma", Question("where", ("Gamma",))),
        ("Where is Gamma defined?", Question("where", ("Gamma",))),
        ("where is the Python code that signs", Question("where", ("Python", "signs"), named=False)),
        ("why is NotForSale raised", Question("raise", exceptions=("NotForSale",))),
        ("why does `NotForSale` get raised?", Question("raise", exceptions=("NotForSale",))),
        ("why is NotForSale thrown by total()", Question("raise", ("total",), exceptions=("NotForSale",))),
        ("NotForSale 为什么会被抛出", Question("raise", exceptions=("NotForSale",), chinese=True)),
        (
            "为什么 get_timestamp 抛出异常 SignatureExpired",
            Question("raise", ("get_timestamp",), exceptions=("SignatureExpired",), chinese=True),
        ),
        (
            "why does get_timestamp throw an exception SignatureExpired",
            Question("raise", ("get_timestamp",), exceptions=("SignatureExpired",)),
        ),
        ("where is Makefile", Question("where", files=("Makefile",))),
        ("where is Profile", Question("where", ("Profile",))),
        ("explain UserService", Question("other", SERVICE)),
        ("why is the build slow", Question("other", ("build", "slow"), named=False)),
    ],
)
def test_names_symptom_and_kind(text: str, expected: Question) -> None:
    assert parse(text) == expected


@given(st.text(max_size=300))
def test_any_text_is_a_question(text: str) -> None:
    question = parse(text)
    assert all(question.names)
