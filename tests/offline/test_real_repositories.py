"""The investigator on code that was not written for it: this project, and libraries that it is built on."""

from __future__ import annotations

import ast
import shutil
from pathlib import Path

import pathspec
import pytest
import rich

import codeagent
from codeagent.providers.offline.source import functions_of, part
from tests.offline.machine import Machine

PACKAGES = {
    "codeagent": Path(codeagent.__file__).parent,
    "rich": Path(rich.__file__).parent,
    "pathspec": Path(pathspec.__file__).parent,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("package", "question", "path", "text"),
    [
        (
            "codeagent",
            "why does parse_arguments raise ToolError",
            "tools/arguments.py",
            "ToolError(ErrorKind.INVALID",
        ),
        ("codeagent", "where is `unanswered`", "conversation.py", "def unanswered("),
        ("rich", "why does Text.from_markup raise MarkupError", "markup.py", "raise MarkupError("),
        ("rich", "Style.parse 为什么抛出异常", "color.py", "raise ColorParseError("),
        (
            "rich",
            "why does Console.encoding or get_style raise MissingStyle",
            "console.py",
            "raise errors.MissingStyle(",
        ),
        ("rich", "where is ColorTriplet?", "color_triplet.py", "class ColorTriplet("),
        ("pathspec", "why does normalize_file return an empty string", "util.py", "return norm_file"),
    ],
)
def test_the_line_is_cited(package: str, question: str, path: str, text: str, tmp_path: Path) -> None:
    root = tmp_path / package
    shutil.copytree(PACKAGES[package], root, ignore=shutil.ignore_patterns("__pycache__", "_sandbox"))
    found = Machine(root).ask(question)
    lines = (root / path).read_text(encoding="utf-8").splitlines()
    places = [number for number, line in enumerate(lines, 1) if text in line]
    assert places
    assert any(found.cites(path, number) for number in places), found.answer
    assert found.rounds <= 15


@pytest.mark.slow
@pytest.mark.parametrize("package", ["rich", "pathspec"])
def test_functions_and_returns_are_those_that_pythons_own_parser_finds(package: str) -> None:
    for path in sorted(PACKAGES[package].rglob("*.py"))[::2]:
        text = path.read_text(encoding="utf-8")
        nodes = list(ast.walk(ast.parse(text)))
        functions = {
            (one.name, one.lineno) for one in nodes if isinstance(one, ast.FunctionDef | ast.AsyncFunctionDef)
        }
        found = functions_of(path.name, text)
        assert {(one.name, part(one.node, "name").start_point.row + 1) for one in found} == functions, path  # type: ignore[union-attr]
        returns = {one.line for function in found for one in function.statements if one.kind == "return"}
        assert returns == {one.lineno for one in nodes if isinstance(one, ast.Return)}, path
