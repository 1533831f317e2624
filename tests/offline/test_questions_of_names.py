"""What a question names: found, told apart, or said to be nowhere."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.offline.machine import Machine, repository
from tests.offline.small_repositories import JAVA, NO_MODEL, NO_MODEL_ZH, PYTHON

TENACITY = {
    "tenacity/base.py": (
        "class RetryError(Exception):\n    pass\n\n\nclass Retrying:\n"
        "    def __init__(self, retry_error_cls: type[RetryError] = RetryError):\n"
        "        self.retry_error_cls = retry_error_cls\n\n"
        "    def end(self):\n        raise self.retry_error_cls()\n"
    ),
    "doc/retry.rst": "A RetryError says that the limit was reached.\n",
}
SIGNERS = {
    "signer.py": "class Signer:\n    def validate(self, value):\n        return False\n",
    "tools/checks.py": "def validate_all(values):\n    return False\n",
}


def test_an_exception_that_nothing_raises_by_its_name_is_shown_where_it_is_defined(tmp_path: Path) -> None:
    assert Machine(repository(tmp_path, TENACITY)).ask("what raises RetryError").answer == (
        "Nothing found: no place that gives or raises `RetryError` was recognised for `RetryError`.\n\n"
        "`RetryError` is defined here:\n- tenacity/base.py:1: `class RetryError(Exception):`\n\n"
        "`RetryError` is mentioned here:\n"
        "- tenacity/base.py:6: `def __init__(self, retry_error_cls: type[RetryError] = RetryError):`\n"
        "- doc/retry.rst:1: `A RetryError says that the limit was reached.`\n\n"
        f"{NO_MODEL}\n"
    )


def test_what_is_mentioned_only_and_a_file_without_functions_are_not_called_missing(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, TENACITY))
    assert machine.ask("where is `limit`").answer == (
        "No definition of `limit` was recognised; it is mentioned here:\n"
        f"- doc/retry.rst:1: `A RetryError says that the limit was reached.`\n\n{NO_MODEL}\n"
    )
    found = machine.ask("where is retry.rst")
    assert found.answer.startswith(
        "`retry.rst` is defined here:\n- doc/retry.rst:1: `A RetryError says that the limit was reached.`\n"
    )


def test_each_of_several_names_is_told_by_itself(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, PYTHON)).ask("where is `power_for` and `walk_for`")
    assert found.answer.startswith(
        "`power_for` is defined here:\n- robot/motor.py:2: `def power_for(self, angle):`\n"
    )
    assert "\n\nNothing found: no `walk_for` is defined in this repository" in (found.answer)


def test_a_file_in_the_question_and_a_package_in_an_import_tell_which_is_meant(tmp_path: Path) -> None:
    code = "def bend(x):\n    return None\n"
    files = {f"{name}.py": code for name in "abcd"} | {"arm/joints/__init__.py": code}
    files["arm/arm.py"] = "from arm.joints import bend\n\n\ndef move(x):\n    return bend(x)\n"
    machine = Machine(repository(tmp_path, files))
    assert machine.ask("why does move() return None").citations == ["arm/joints/__init__.py:2", "arm/arm.py:5"]
    assert machine.ask("why does bend() in c.py return None").citations == ["c.py:2"]


def test_a_name_that_begins_with_an_underscore_keeps_it(tmp_path: Path) -> None:
    code = "def isnumber(x):\n    return True\n\n\ndef _isnumber(x):\n    return False\n"
    machine = Machine(repository(tmp_path, {"a.py": code}))
    for question in ("where is _isnumber", "where is `_isnumber`", "why does _isnumber return False"):
        found = machine.ask(question)
        assert found.citations in (["a.py:5"], ["a.py:6"]), found.answer


def test_a_capitalised_word_after_where_is_is_a_name_also_where_it_is_nowhere(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, {"a.py": "x = 1\n"}))
    assert machine.ask("where is Gamma").answer.startswith("Nothing found: no `Gamma` is defined")


def test_why_an_exception_is_raised_is_what_raises_it(tmp_path: Path) -> None:
    code = "class NotForSale(Exception):\n    pass\n\n\ndef total(x):\n    raise NotForSale(x)\n"
    machine = Machine(repository(tmp_path, {"a.py": code}))
    whole = machine.ask("what raises NotForSale").answer
    assert "a.py:6 in `total`: `raise NotForSale(x)`" in whole
    assert machine.ask("why is NotForSale raised").answer == whole
    assert machine.ask("why does NotForSale get raised").answer == whole


@pytest.mark.parametrize("question", ["why does NoSuchClass.validate return False", "where is NoSuchClass.validate"])
def test_a_method_of_a_class_that_is_not_there_is_not_confirmed(tmp_path: Path, question: str) -> None:
    found = Machine(repository(tmp_path, SIGNERS)).ask(question)
    first, _, rest = found.answer.partition("\n\n")
    assert first == ("No definition of `NoSuchClass.validate` was recognised; others of that name:")
    assert rest.startswith(("`validate`: places that", "`validate` is defined here:"))
    assert rest.partition("\n")[2].strip().startswith(("1. signer.py:3 in `Signer.validate`: ", "- signer.py:2: "))
    assert "NoSuchClass" not in rest


def test_a_function_of_a_module_and_an_inherited_method_are_what_was_asked_for(tmp_path: Path) -> None:
    code = "from signer import Signer\n\n\nclass Timed(Signer):\n    pass\n"
    machine = Machine(repository(tmp_path, {**SIGNERS, "timed.py": code}))
    assert machine.ask("why does Timed.validate return False").answer.startswith("`Timed.validate`: places")
    assert machine.ask("why does checks.validate_all return False").answer.startswith("`checks.validate_all`: ")
    assert machine.ask("where is checks.validate_all").answer.startswith("`checks.validate_all` is defined here:")


@pytest.mark.parametrize(
    "question",
    ["explain this repository", "how does sign up work", "where is the retry limit set", "and for deleted users?"],
)
def test_words_that_the_repository_does_not_define_are_no_names(tmp_path: Path, question: str) -> None:
    code = "def set_up(limit):\n    work = retry = limit\n    return work, retry\n"
    found = Machine(repository(tmp_path, {"a.py": code})).ask(question)
    assert found.answer == (
        'Without a model only "why does X return null", "why does X raise Y" and "where is X" can be answered.\n\n'
        f"{NO_MODEL}\n\n"
        'NEEDS INPUT: a class, a function or a file of this repository, by name, as in "where is UserService".\n'
    )


def test_a_word_that_the_repository_defines_is_a_name(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, {"a.py": "def retry(limit):\n    return None\n"}))
    found = machine.ask("where is the retry limit set")
    assert found.answer.startswith('Without a model only "why does X return null"')
    assert "\n\n`retry` is defined here:\n- a.py:1: `def retry(limit):`\n" in found.answer
    assert "limit`" not in found.answer.replace("`def retry(limit):`", "")
    assert machine.ask("why does retry return nothing").cites("a.py", 2)
    assert machine.ask("where is retry").answer.startswith("`retry` is defined here:\n")


def test_what_is_not_there_is_not_invented(tmp_path: Path) -> None:
    root = repository(tmp_path, {"a.py": "def b():\n    return 1\n"})
    assert Machine(root).ask("why does Ghost.walk return null").answer == (
        "Nothing found: no `Ghost.walk` is defined in this repository, nor mentioned, as far as it was searched.\n\n"
        f"{NO_MODEL}\n"
    )
    assert Machine(root).ask("why does b() return None").answer == (
        "Nothing found: no place that gives or raises `None` was recognised for `b`.\nThis is what was read:\n"
        f"- `return 1` (a.py:2)\n\n{NO_MODEL}\n"
    )


def test_a_name_that_nothing_has_is_answered_also_in_an_empty_folder(tmp_path: Path) -> None:
    english = (
        "Nothing found: no `Nonexistent` is defined in this repository, nor mentioned, as far as it was searched."
    )
    chinese = "没有找到：就搜索所及，仓库中没有定义、也没有提到 `Nonexistent`。"
    for root in (tmp_path, repository(tmp_path / "other", {"a.py": "x = 1\n"})):
        machine = Machine(root)
        assert machine.ask("why does Nonexistent return None").answer == f"{english}\n\n{NO_MODEL}\n"
        assert machine.ask("Nonexistent 为什么返回 None").answer == f"{chinese}\n\n{NO_MODEL_ZH}\n"


def test_a_question_without_a_name_asks_for_one(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, {"a.py": "x = 1\n"})).ask("为什么会返回空？")
    assert NO_MODEL_ZH in found.answer
    assert found.answer.splitlines()[-1].startswith("NEEDS INPUT:")


def test_a_question_of_another_kind_is_answered_with_places_only(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, PYTHON)).ask("why is power_for so slow")
    assert found.answer.startswith('Without a model only "why does X return null"')
    assert found.cites("robot/motor.py", 2)


def test_where_gives_definitions_before_uses(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, PYTHON)).ask("Where is power_for?")
    assert found.answer == (
        "`power_for` is defined here:\n"
        "- robot/motor.py:2: `def power_for(self, angle):`\n\n"
        "`power_for` is mentioned here:\n"
        "- robot/arm.py:14: `power = self._motor.power_for(angle)`\n\n"
        f"{NO_MODEL}\n"
    )


def test_where_finds_what_is_only_set(tmp_path: Path) -> None:
    code = "LIMIT: int = 3\n\n\nclass Retry:\n    def __init__(self):\n        self.limit = LIMIT\n"
    machine = Machine(repository(tmp_path, {"retry.py": code}))
    assert machine.ask("where is `LIMIT`").answer.startswith(
        "`LIMIT` is defined here:\n- retry.py:1: `LIMIT: int = 3`\n"
    )
    assert machine.ask("where is Retry.limit").answer.splitlines()[1] == "- retry.py:6: `self.limit = LIMIT`"


def test_where_gives_what_implements_a_method_of_an_interface(tmp_path: Path) -> None:
    root = repository(tmp_path, {**JAVA, "Thief.java": "class Thief {\n    Item take(String code) {\n"})
    found = Machine(root).ask("where is Shelf.take")
    assert found.answer.startswith("`Shelf.take` is defined here:\n- src/shop/WoodenShelf.java:8: ")
    assert found.citations[:2] == ["src/shop/WoodenShelf.java:8", "Thief.java:2"]
