"""The investigator on repositories that it has never seen."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.conversation import AssistantMessage, ToolCall, ToolOutput, UserMessage, unanswered
from codeagent.errors import ErrorKind, ToolError
from codeagent.evidence.citations import mentions
from codeagent.inference import Request
from codeagent.providers.offline.provider import OfflineProvider, item_of
from codeagent.providers.offline.transcript import place
from tests.fixtures_expected import CASES, ORDER_PRICING, USER_SERVICE, Case
from tests.offline.machine import Machine, repository

NO_MODEL = "No language model was used: this was found by fixed rules that search and read the code."
NO_MODEL_ZH = "没有使用语言模型：以下内容由固定规则搜索和阅读代码得出。"


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_the_fixtures_true_lines_are_cited(case: Case) -> None:
    found = Machine(case.root).ask(case.question)
    assert any(
        found.cites(case.null_lines.path, line) for line in range(case.null_lines.start, case.null_lines.end + 1)
    )
    assert found.rounds <= 15
    assert NO_MODEL in found.answer


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_chinese_question_finds_the_same_and_is_answered_in_chinese(case: Case) -> None:
    found = Machine(case.root).ask(case.question_zh)
    assert any(
        found.cites(case.null_lines.path, line) for line in range(case.null_lines.start, case.null_lines.end + 1)
    )
    assert NO_MODEL_ZH in found.answer
    assert NO_MODEL not in found.answer


def test_what_decides_a_condition_is_followed_to_its_lines() -> None:
    found = Machine(ORDER_PRICING.root).ask(ORDER_PRICING.question)
    assert found.cites(ORDER_PRICING.cause.path, ORDER_PRICING.cause.start)
    assert "a `break` or `continue` depends on this: `not price_list.period.covers(day)`" in found.answer


def test_every_cited_line_was_shown_by_a_tool() -> None:
    found = Machine(USER_SERVICE.root).ask(USER_SERVICE.question)
    read = {json.loads(call.arguments)["path"] for call in found.calls if call.name == "read_file"}
    assert {citation.rpartition(":")[0] for citation in found.citations} <= read


def test_a_machine_without_ripgrep_is_searched_with_grep() -> None:
    machine = Machine(USER_SERVICE.root, without_rg=True)
    found = machine.ask(USER_SERVICE.question)
    assert found.cites(USER_SERVICE.null_lines.path, USER_SERVICE.null_lines.start + 1)
    assert [command.split()[0] for command in machine.commands[:2]] == ["rg", "grep"]


def test_a_grep_of_few_options_will_do(tmp_path: Path) -> None:
    root = repository(tmp_path, {**PYTHON, ".git/logs/x.py": "def power_for():\n    return None\n"})
    machine = Machine(root, without_rg=True, busybox=True)
    found = machine.ask("where is power_for")
    assert found.citations == ["robot/motor.py:2", "robot/arm.py:14"]
    assert "Some calls failed" not in found.answer


def test_a_search_that_failed_is_told(tmp_path: Path) -> None:
    machine = Machine(tmp_path / "nonesuch", without_rg=True)
    machine.list_dir = lambda _: ""  # type: ignore[method-assign, assignment]
    machine.run_command = lambda _: "[exit code 127; 0 s; cwd /workspace]\nsh: not found"  # type: ignore[method-assign, assignment]
    found = machine.ask("where is power_for")
    assert "Some calls failed, and their part is missing: `grep -rnE …: exit code 127`." in found.answer
    assert found.rounds <= 4


JAVA = {
    "src/shop/Basket.java": """package shop;

class Basket {
    private final Shelf shelf;

    Basket(Shelf shelf) { this.shelf = shelf; }

    Item pick(String code) {
        if (code.isBlank())
            return null;
        return shelf.take(code);
    }
}
""",
    "src/shop/Shelf.java": "package shop;\n\ninterface Shelf {\n    Item take(String code);\n}\n",
    "src/shop/WoodenShelf.java": """package shop;

class WoodenShelf
        implements Shelf {
    private final java.util.Map<String, Item> items = new java.util.HashMap<>();

    // return null here would be wrong: if (true) return null;
    public Item take(String code) {
        String text = "if (x) { return null; }";
        return locked ? null : items.remove(code);
    }
}
""",
}


def test_java_calls_are_followed_through_an_interface(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, JAVA)).ask("Why is null returned by `Basket.pick`?")
    assert found.answer == (
        "`Basket.pick`: places that can give `null` back, as they are reached; "
        "which one applies, rules cannot tell:\n\n"
        "1. src/shop/Basket.java:10 in `Basket.pick`: `return null`\n"
        "   - when `code.isBlank()` (src/shop/Basket.java:9)\n"
        "2. src/shop/WoodenShelf.java:10 in `WoodenShelf.take`: `return locked ? null : items.remove(code)`\n"
        "   - reached through `Basket.pick`: `return shelf.take(code);` (src/shop/Basket.java:11)\n\n"
        f"{NO_MODEL}\n"
    )


PYTHON = {
    "robot/arm.py": '''"""Arms. return None is only text here."""
from robot.joints import (
    bend,
    straighten,
)


class Arm:
    def __init__(self, motor):
        self._motor = motor

    def move(self, angle):
        try:
            power = self._motor.power_for(angle)
        except OverflowError:
            return None
        if not power: return None
        return bend(
            angle,
            power,
        )
''',
    "robot/motor.py": """class Motor:
    def power_for(self, angle):
        table = {1: 2}
        if angle < 0:
            raise ValueError(f"{angle}")
        elif angle == 0:
            pass
        else:
            return table[angle]
""",
    "robot/joints.py": "def bend(angle, power):\n    return power if angle else None\n",
    "other/joints.py": "def bend(x):\n    return None\n",
    "tests/test_arm.py": "def move():\n    return None\n",
}


def test_python_is_followed_through_imports_attributes_and_ends_without_return(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, PYTHON)).ask("why does Arm.move return None?")
    assert found.answer == (
        "`Arm.move`: places that can give `None` back, as they are reached; which one applies, rules cannot tell:\n\n"
        "1. robot/arm.py:16 in `Arm.move`: `return None`\n"
        "   - when `except OverflowError` (robot/arm.py:15)\n"
        "2. robot/arm.py:17 in `Arm.move`: `return None`\n"
        "   - when `not power` (robot/arm.py:17)\n"
        "   - a value in question is set here: `power = self._motor.power_for(angle)` (robot/arm.py:14)\n"
        "3. robot/motor.py:9 is the last statement of `Motor.power_for`, "
        "whose end can be reached without a `return`\n"
        "   - when this did not end it earlier: `angle < 0` (robot/motor.py:4)\n"
        "   - when `angle == 0` (robot/motor.py:6)\n"
        "   - reached through `Arm.move`: `power = self._motor.power_for(angle)` (robot/arm.py:14)\n"
        "4. robot/joints.py:2 in `bend`: `return power if angle else None`\n"
        "   - reached through `Arm.move`: `return bend(` (robot/arm.py:18)\n\n"
        f"{NO_MODEL}\n"
    )


def test_an_exception_is_followed_to_where_it_is_raised(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, PYTHON)).ask("why does Arm.move raise ValueError?")
    assert found.answer == (
        "`Arm.move`: places that raise `ValueError`, as they are reached; which one applies, rules cannot tell:\n\n"
        '1. robot/motor.py:5 in `Motor.power_for`: `raise ValueError(f"{angle}")`\n'
        "   - when `angle < 0` (robot/motor.py:4)\n"
        "   - reached through `Arm.move`: `power = self._motor.power_for(angle)` (robot/arm.py:14)\n\n"
        f"{NO_MODEL}\n"
    )


def test_an_exception_alone_is_found_wherever_it_is_raised(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, PYTHON)).ask("robot 抛出 ValueError 的原因是什么")
    assert found.cites("robot/motor.py", 5)
    assert NO_MODEL_ZH in found.answer


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


def test_a_wrong_path_is_recovered_from(tmp_path: Path) -> None:
    root = repository(tmp_path, {"src/a/b/lookup.py": "def find(x):\n    if x: return None\n    return 1\n"})
    found = Machine(root).ask("why do I get None from find() in src/lookup.py")
    assert found.cites("src/a/b/lookup.py", 2)


def test_a_file_alone_is_enough(tmp_path: Path) -> None:
    root = repository(tmp_path, {"lookup.py": "def find(x):\n    if x: return None\n    return 1\n"})
    assert Machine(root).ask("why does lookup.py return None").cites("lookup.py", 2)


TENACITY = {
    "tenacity/base.py": (
        "class RetryError(Exception):\n    pass\n\n\nclass Retrying:\n"
        "    def __init__(self, retry_error_cls: type[RetryError] = RetryError):\n"
        "        self.retry_error_cls = retry_error_cls\n\n"
        "    def end(self):\n        raise self.retry_error_cls()\n"
    ),
    "doc/retry.rst": "A RetryError says that the limit was reached.\n",
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


ODD = (b"my file.py", b'a b/it\'s, "so".py', b"app/[id]/a.py", b"a+b.py", b"\xe7\x94\xa8\xe6\x88\xb7 1.py")
UNWRITTEN = (
    b"a\x1b[31mb.py",
    b"new\nline.py",
    b"caf\xe9.py",
    b"back`tick.py",
    b"back\\slash.py",
    b"c:1:d.py",
    b"a=b.py",
)


@pytest.mark.parametrize("without_rg", [False, True])
@pytest.mark.parametrize("question", ["why does Alpha return None", "where is Alpha"])
def test_a_name_of_a_file_is_written_so_that_it_is_read_whole_or_left_out(
    tmp_path: Path, without_rg: bool, question: str
) -> None:
    code = "class Alpha:\n    def get(self):\n        return None\n"
    root = repository(tmp_path, {os.fsdecode(name): code for name in ODD + UNWRITTEN})
    found = Machine(root, without_rg).ask(question)
    assert sorted(mention.paths[0] for mention in mentions(found.answer)) == sorted(name.decode() for name in ODD)
    assert "".join(found.answer.split("\n")).isprintable()
    (line,) = (line for line in found.answer.splitlines() if "cannot be written exactly: " in line)
    assert line.count("`, ") + int(line.rpartition("+")[2].rstrip(").")) == len(UNWRITTEN)


def test_what_is_only_in_files_that_are_left_out_is_not_called_missing(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, {"back`tick.py": "class Alpha:\n    pass\n"})).ask("where is Alpha")
    assert found.answer == (
        "Nothing found: no `Alpha` is defined in this repository, nor mentioned, as far as it was searched.\n\n"
        "What limited this:\n- Left out, as names or lines cannot be written exactly: `` back`tick.py ``.\n\n"
        f"{NO_MODEL}\n"
    )


def test_a_place_or_a_control_character_in_a_quoted_line_is_none_of_the_answer(tmp_path: Path) -> None:
    files = {"a.md": "Alpha \x1b[1m is in nowhere.py:30\n", "long.md": "Alpha " + "x " * 300 + "\n"}
    found = Machine(repository(tmp_path, files)).ask("where is Alpha")
    assert "\n- a.md:1: `Alpha …[1m is in nowhere.py:…`\n\n" in found.answer
    assert "\n- Left out, as names or lines cannot be written exactly: `long.md`.\n" in found.answer
    assert [mention.paths[0] for mention in mentions(found.answer)] == ["a.md"]


@pytest.mark.parametrize("count", [10, 25])
def test_all_candidates_are_listed_or_counted(tmp_path: Path, count: int) -> None:
    code = "class Alpha:\n    def get(self, x):\n        if x:\n            return None\n        return 1\n"
    found = Machine(repository(tmp_path, {f"a{at:02}.py": code for at in range(count)})).ask(
        "why does Alpha return None"
    )
    assert found.citations[::2] == [f"a{at:02}.py:4" for at in range(min(count, 20))]
    assert "\n9. a08.py:4 in `Alpha.get`: `return None`\n   - when" in found.answer
    assert "\n10. a09.py:4 in `Alpha.get`: `return None`\n    - when" in found.answer
    unread = (
        "- Files that matched and were not read to their end: `a20.py`, `a21.py`, `a22.py`, `a23.py`, `a24.py`.\n"
    )
    assert (unread in found.answer) == ("What limited this" in found.answer) == (count > 20)


def test_places_and_notes_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    ways = "    if x:\n        return None\n"
    code = f"def many(x):\n{ways * 24}    return 1\n\n\ndef few(x):\n{ways * 11}    return None\n"
    machine = Machine(repository(tmp_path, {"a.py": code}))
    assert "\n    - when `x` (a.py:40)\n\n… (+4)\n\n" in machine.ask("why does many return None").answer
    assert f"\n    - … (+3)\n\n{NO_MODEL}" in machine.ask("why does few return None").answer


def test_functions_that_are_too_far_down_are_named(tmp_path: Path) -> None:
    code = (
        "".join(f"def f{at}(x):\n    return f{at + 1}(x)\n\n\n" for at in range(9)) + "def f9(x):\n    return None\n"
    )
    machine = Machine(repository(tmp_path, {"a.py": code}))
    assert "- Functions further down, not looked at: `f6`.\n" in machine.ask("why does f0() return None").answer
    assert "- Functions further down, not looked at: `f4`.\n" in machine.ask("why does f0() raise KeyError").answer


def test_a_file_in_the_question_and_a_package_in_an_import_tell_which_is_meant(tmp_path: Path) -> None:
    code = "def bend(x):\n    return None\n"
    files = {f"{name}.py": code for name in "abcd"} | {"arm/joints/__init__.py": code}
    files["arm/arm.py"] = "from arm.joints import bend\n\n\ndef move(x):\n    return bend(x)\n"
    machine = Machine(repository(tmp_path, files))
    assert machine.ask("why does move() return None").citations == ["arm/joints/__init__.py:2", "arm/arm.py:5"]
    assert machine.ask("why does bend() in c.py return None").citations == ["c.py:2"]


def test_a_function_of_its_own_package_is_called_before_others_of_that_name(tmp_path: Path) -> None:
    code = "package NAME\n\nfunc helper(x int) *Item {\n\treturn nil\n}\n"
    files = {f"{name}/help.go": code.replace("NAME", name) for name in "abcde"}
    files["c/load.go"] = "package c\n\nfunc Load(x int) *Item {\n\treturn helper(x)\n}\n"
    assert Machine(repository(tmp_path, files)).ask("why does Load() return nil").citations[0] == "c/help.go:4"


@given(
    st.text(st.sampled_from("ab7_.-/ ()[]'\"`\\:,;#=é用\n\x1b\ufffd"), min_size=1, max_size=12),
    st.sampled_from(["", ".py"]),
)
def test_a_place_is_read_whole_or_not_written(name: str, suffix: str) -> None:
    path = os.path.normpath(name.strip("/") + suffix)
    if written := place(path, "3-4"):
        for text in (f"1. {written} in `f`: `return x`", f"- when `x` ({written})", f"   - `a` → `b` ({written})"):
            (mention,) = mentions(text)
            assert (mention.paths[0], mention.start_line, mention.end_line) == (path, 3, 4)


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


SIGNERS = {
    "signer.py": "class Signer:\n    def validate(self, value):\n        return False\n",
    "tools/checks.py": "def validate_all(values):\n    return False\n",
}


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


def test_where_gives_what_implements_a_method_of_an_interface(tmp_path: Path) -> None:
    root = repository(tmp_path, {**JAVA, "Thief.java": "class Thief {\n    Item take(String code) {\n"})
    found = Machine(root).ask("where is Shelf.take")
    assert found.answer.startswith("`Shelf.take` is defined here:\n- src/shop/WoodenShelf.java:8: ")
    assert found.citations[:2] == ["src/shop/WoodenShelf.java:8", "Thief.java:2"]


def test_a_quoted_line_is_exact_for_whoever_checks_it(tmp_path: Path) -> None:
    lines = ["def find(x):  # see `other`", "    return None  # as ``find`` and `a`", "``find``"]
    found = Machine(repository(tmp_path, {"a.py": "\n".join([*lines[:2], ""]), "b.md": lines[2] + "\n"})).ask(
        "where is `find`"
    )
    quotes = {mention.start_line: mention.quote for mention in mentions(found.answer) if mention.paths[0] == "a.py"}
    assert quotes[1] == " ".join(lines[0].split())
    assert quotes[2].strip("` ")
    assert quotes[2].strip("` ") in " ".join(lines[1].split())
    assert "- a.py:1: `` def find(x): # see `other` ``\n" in found.answer
    assert "- b.md:1: ``` ``find`` ```\n" in found.answer


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


def test_a_call_that_did_not_come_to_its_end_is_made_again() -> None:
    machine = Machine(USER_SERVICE.root)
    whole = machine.ask(USER_SERVICE.question)
    kinds = (ErrorKind.INTERRUPTED, ErrorKind.CANCELLED, ErrorKind.SANDBOX_FAILED)
    places = [at for at, item in enumerate(whole.items) if isinstance(item, ToolOutput)]
    assert len(places) > len(kinds)
    for count, at in enumerate(places):
        item, kind = whole.items[at], kinds[count % len(kinds)]
        assert isinstance(item, ToolOutput)
        cut = [*whole.items[:at], ToolOutput(item.call_id, ToolError(kind, "it was ended").text(), kind)]
        cut += whole.items[at + 1 : at + 1 + len(unanswered(cut))]
        again = machine.go_on(cut)
        assert again.answer == whole.answer
        assert again.calls[0].name == next(one.name for one in whole.calls if one.call_id == item.call_id)


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


def test_denied_commands_are_named_in_the_answer(tmp_path: Path) -> None:
    found = Machine(repository(tmp_path, PYTHON), denied=("rg ",)).ask("where is power_for")
    assert "Some calls failed, and their part is missing" in found.answer
    assert found.rounds <= 2


def test_when_calls_are_no_longer_allowed_it_says_what_it_has() -> None:
    found = Machine(USER_SERVICE.root).ask(USER_SERVICE.question, tool_choice_at=3)
    assert found.rounds == 3
    assert found.cites("src/main/java/com/acme/users/service/UserService.java", 19)
    assert "The search ended at its limit after 3 rounds" in found.answer


def test_the_next_step_depends_on_the_conversation_alone() -> None:
    """A session that is resumed in the middle goes on like one that was never interrupted."""
    machine = Machine(USER_SERVICE.root)
    whole = machine.ask(USER_SERVICE.question)
    cut = list(whole.items[:-1])
    assert machine.go_on(cut).answer == whole.answer
    half = whole.items[: len(whole.items) // 2]
    while half and isinstance(half[-1], ToolCall):
        half.pop()
    assert machine.go_on(half).answer == whole.answer


def test_a_later_question_starts_afresh(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, PYTHON))
    items = machine.ask("where is power_for").items
    items.append(UserMessage("why does Arm.move return None?"))
    found = machine.go_on(items)
    assert found.cites("robot/arm.py", 16)
    ids = [call.call_id for call in found.items if isinstance(call, ToolCall)]
    assert len(ids) == len(set(ids))


def test_a_file_that_changed_is_read_again(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, {"lookup.py": "def find(x):\n    if x: return None\n    return 1\n"}))
    items = machine.ask("why does find() return None").items
    assert isinstance(items.pop(), AssistantMessage)
    (tmp_path / "lookup.py").write_text("\n\ndef find(x):\n    if not x: return None\n    return 1\n")
    items.append(UserMessage("lookup.py has changed since it was read: lines 1-5 differ.", "program"))
    found = machine.go_on(items)
    assert found.cites("lookup.py", 4)
    assert "not x" in found.answer


def test_the_wire_form_of_a_response_gives_the_same_items() -> None:
    request = Request("", (UserMessage("where is X1"),), (), "key")
    inference = OfflineProvider().infer(request, lambda _: None)
    rebuilt = [item_of(payload, item.source) for payload, item in zip(inference.raw, inference.items, strict=True)]  # type: ignore[union-attr, arg-type]
    assert rebuilt == list(inference.items)


def test_a_place_far_down_a_long_file_is_read_where_it_is(tmp_path: Path) -> None:
    filler = "".join(f"def filler_{number}():\n    return {number}\n\n\n" for number in range(1_000))
    code = "def deep(x):\n    if x:\n        return helper(x)\n    return None\n\n\ndef helper(x):\n    return None\n"
    found = Machine(repository(tmp_path, {"long.py": filler + code})).ask("why does deep() return None")
    assert found.cites("long.py", 4_004)
    assert found.cites("long.py", 4_008)
    starts = [json.loads(call.arguments)["start_line"] for call in found.calls if call.name == "read_file"]
    assert starts == [None, 2001, 3501]


@pytest.mark.slow
def test_a_long_file_is_read_to_its_end(tmp_path: Path) -> None:
    filler = "".join(f"    int filler{number}() {{\n        return {number};\n    }}\n" for number in range(2_000))
    code = f"class Long extends Base {{\n    Item get() {{\n        return null;\n    }}\n{filler}}}\n"
    base = "class Base {\n    Item get() {\n        return null;\n    }\n}\n"
    found = Machine(repository(tmp_path, {"Long.java": code, "Base.java": base})).ask("why does Long.get return null")
    assert found.citations == ["Long.java:3"]
    reads = [json.loads(call.arguments) for call in found.calls if call.name == "read_file"]
    assert [read["start_line"] for read in reads if read["path"] == "Long.java"] == [
        None,
        2001,
        3501,
        5001,
    ]  # a class that is cut may be no class


def test_a_file_that_is_too_long_is_named(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, {"a.py": "def find(x):\n    return None\n" + "x = 1\n" * 200}))
    read_file = machine.read_file

    def short(arguments: Mapping[str, int | str | None]) -> str:
        last = int(arguments["start_line"] or 1) + 19
        return read_file({**arguments, "end_line": min(last, int(arguments["end_line"] or last))})

    machine.read_file = short  # type: ignore[method-assign]
    found = machine.ask("why does find() return None")
    assert "\n- Files that matched and were not read to their end: `a.py`.\n" in found.answer


def test_more_results_than_a_call_returns_are_read_from_where_they_are_kept(tmp_path: Path) -> None:
    machine = Machine(repository(tmp_path, {"a.py": "def find(x):\n    return None\n"}))
    (tmp_path / "outputs").mkdir()
    run_command, read_file = machine.run_command, machine.read_file

    def cut(arguments: Mapping[str, str]) -> str:
        (tmp_path / "outputs/1.txt").write_text(run_command(arguments).partition("\n")[2])
        return "[exit code 0; 0.01 s]\n[… 70,000 bytes left out; the whole output: read_file /outputs/1.txt …]\n"

    machine.run_command = cut  # type: ignore[method-assign]
    machine.read_file = lambda arguments: read_file({**arguments, "path": str(arguments["path"]).lstrip("/")})  # type: ignore[method-assign]
    found = machine.ask("why does find() return None")
    assert found.cites("a.py", 2)
    assert "A search had more results" not in found.answer


def test_inherited_methods_and_what_super_means_are_followed(tmp_path: Path) -> None:
    code = (
        "class Base:\n    def pick(self):\n        return None\n\n\nclass Middle(Base):\n    def pick(self):\n"
        "        return super().pick()\n\n\nclass Leaf(Middle):\n    pass\n"
    )
    other = "from base import Leaf\n\n\nclass Odd(Leaf):\n    def pick(self):\n        return None if self else 1\n"
    found = Machine(repository(tmp_path, {"base.py": code, "odd.py": other})).ask("why does Leaf.pick return None")
    assert found.cites("base.py", 3)
    assert not found.cites("odd.py", 6)


def test_an_exception_made_by_a_helper_and_a_subtype_of_the_named_one_are_found(tmp_path: Path) -> None:
    code = (
        "class Broken(ValueError):\n    pass\n\n\ndef load(x):\n    if not x:\n        raise _broken(x)\n\n\n"
        "def _broken(x):\n    return Broken(x)\n"
    )
    found = Machine(repository(tmp_path, {"load.py": code})).ask("why does load() raise ValueError")
    assert found.cites("load.py", 11)
    assert "reached through `load`: `raise _broken(x)` (load.py:7)" in found.answer


def test_go_and_typescript_are_followed_across_files(tmp_path: Path) -> None:
    root = repository(
        tmp_path,
        {
            "store/store.go": (
                "package store\n\ntype Store struct { cache *Cache }\n\n"
                "func (s *Store) Load(key string) *Item {\n\treturn s.cache.Lookup(key)\n}\n"
            ),
            "store/cache.go": (
                "package store\n\ntype Cache struct { items map[string]*Item }\n\n"
                "func (c *Cache) Lookup(key string) *Item {\n\tif item, ok := c.items[key]; ok {\n"
                "\t\treturn item\n\t}\n\treturn nil\n}\n"
            ),
            "web/api.ts": (
                "import { pick } from './choice';\n\nexport class Api {\n"
                "  first(all: string[]): string | undefined {\n"
                "    const one = pick(all);\n    return one;\n  }\n}\n"
            ),
            "web/choice.ts": "export const pick = (all: string[]) => all.length ? all[0] : undefined;\n",
        },
    )
    assert Machine(root).ask("why does Store.Load return nil").cites("store/cache.go", 9)
    assert Machine(root).ask("why is Api.first undefined").cites("web/choice.ts", 1)


def test_searches_for_definitions_show_heads_in_code_and_neither_prose_nor_calls_nor_tests(tmp_path: Path) -> None:
    code = "def find(x):\n    if not helper(x):\n        return None\n    return helper(x)\n"
    other = "def helper(\n    x,\n):\n    return None\n\n\nif helper(1):\n    print(helper(1).name)\n"
    java = (
        "class Helper {\n    int helper(final Map<String, Integer> x, int y) throws Lost {\n        return 1; } }\n"
    )
    files = {"a.py": code, "b.py": other, "c.md": "The type of helper\nhelper (x)\n", "lib/Helper.java": java}
    found = Machine(repository(tmp_path, {**files, "tests/b.py": other})).ask("why does find() return None")
    outputs = [item.text.partition("\n")[2] for item in found.items if isinstance(item, ToolOutput)]
    shown = [text for text in outputs if "helper" in text and text.startswith("./")]
    assert {line for text in shown for line in text.splitlines()} == {
        "./a.py:4:    return helper(x)",  # as if `return` were a type
        "./b.py:1:def helper(",
        "./lib/Helper.java:2:    int helper(final Map<String, Integer> x, int y) throws Lost {",
    }
    assert found.cites("b.py", 4)


def test_of_methods_of_one_name_the_declared_type_tells_and_one_of_pythons_own_types_is_not_guessed(
    tmp_path: Path,
) -> None:
    store = (
        "class A:\n    def get(self):\n        return None\n\n\nclass B:\n    def get(self):\n        return None\n"
    )
    code = "def find(x: A, y, z: Path):\n    if y:\n        return y.strip() or z.expand()\n    return x.get()\n"
    strip = "class Wall:\n    def strip(self):\n        return None\n\n    def expand(self):\n        return None\n"
    root = repository(tmp_path, {"a.py": code, "store.py": store, "wall.py": strip})
    assert Machine(root).ask("why does find() return None").citations[::2] == ["store.py:3"]


@pytest.mark.parametrize("imported", [True, False])
def test_a_function_of_python_itself_is_followed_only_where_it_is_imported(tmp_path: Path, imported: bool) -> None:
    code = "from tools import open\n" * imported + "def find(x):\n    return open(x)\n"
    files = {"a.py": code, "tools.py": "def open(x):\n    return None\n"}
    found = Machine(repository(tmp_path, files)).ask("why does find() return None")
    assert found.cites("tools.py", 2) == imported


def test_recursion_and_circles_come_to_an_end(tmp_path: Path) -> None:
    code = "def one(x):\n    return two(x)\n\n\ndef two(x):\n    return one(x) if x else two(None)\n"
    found = Machine(repository(tmp_path, {"a.py": code})).ask("why does one() return None")
    assert found.rounds <= 6
    assert "Nothing found" in found.answer


PIECES = ["src/a.py:3:def find(x):", "3\t    return None", "error: ", "1\tclass Find:", "a.py: lines 1-9 of 9"]
PIECES += ["\n", '"""', "{", "}"]
QUESTIONS = ["why does Find.find return None", "where is find()", "why does a.py raise Find", "why is `find` empty"]


@pytest.mark.slow
@given(
    st.lists(st.lists(st.sampled_from(PIECES), max_size=12).map("\n".join), max_size=30), st.sampled_from(QUESTIONS)
)
def test_whatever_the_tools_say_it_comes_to_an_answer(outputs: list[str], question: str) -> None:
    machine, texts = Machine(Path("/nonesuch")), iter(outputs)
    machine.output = lambda call: ToolOutput(call.call_id, next(texts, "[exit code 1; 0 s]"))  # type: ignore[method-assign]
    found = machine.ask(question)
    assert found.rounds <= 16
    assert NO_MODEL in found.answer
