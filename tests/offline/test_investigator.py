"""The investigator on repositories that it has never seen."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.conversation import AssistantMessage, ToolCall, ToolOutput, UserMessage
from codeagent.inference import Request
from codeagent.providers.offline.provider import OfflineProvider, item_of
from tests.fixtures_expected import CASES, ORDER_PRICING, USER_SERVICE, Case
from tests.offline.machine import Machine, repository
from tests.offline.small_repositories import JAVA, NO_MODEL, NO_MODEL_ZH, PYTHON

PIECES = ["src/a.py:3:def find(x):", "3\t    return None", "error: ", "1\tclass Find:", "a.py: lines 1-9 of 9"]
PIECES += ["\n", '"""', "{", "}"]
QUESTIONS = ["why does Find.find return None", "where is find()", "why does a.py raise Find", "why is `find` empty"]


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


def test_a_wrong_path_is_recovered_from(tmp_path: Path) -> None:
    root = repository(tmp_path, {"src/a/b/lookup.py": "def find(x):\n    if x: return None\n    return 1\n"})
    found = Machine(root).ask("why do I get None from find() in src/lookup.py")
    assert found.cites("src/a/b/lookup.py", 2)


def test_a_file_alone_is_enough(tmp_path: Path) -> None:
    root = repository(tmp_path, {"lookup.py": "def find(x):\n    if x: return None\n    return 1\n"})
    assert Machine(root).ask("why does lookup.py return None").cites("lookup.py", 2)


def test_a_function_of_its_own_package_is_called_before_others_of_that_name(tmp_path: Path) -> None:
    code = "package NAME\n\nfunc helper(x int) *Item {\n\treturn nil\n}\n"
    files = {f"{name}/help.go": code.replace("NAME", name) for name in "abcde"}
    files["c/load.go"] = "package c\n\nfunc Load(x int) *Item {\n\treturn helper(x)\n}\n"
    assert Machine(repository(tmp_path, files)).ask("why does Load() return nil").citations[0] == "c/help.go:4"


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
