"""The fixtures in the default image: their checks, and what the offline investigator says of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.docker.codeagent_cli import Program
from tests.docker.conftest import Open, text
from tests.fixtures_expected import CASES, ORDER_PRICING, USER_SERVICE, Case

ALL_CASES = pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)


def copied(case: Case, target: Path) -> Path:
    shutil.copytree(case.root, target, ignore=shutil.ignore_patterns("__pycache__"))
    return target


def test_the_checks_run_and_fail_where_nothing_can_be_written(open_one: Open, tmp_path: Path) -> None:
    """Without a network, with what the image holds. With a fix: test_fix.py and test_fixture_verification.py."""
    for case in CASES:
        copied(case, tmp_path / "fixtures" / case.name)
    opened = open_one(repo=tmp_path / "fixtures")
    for case in CASES:
        result = opened.run(case.check, timeout=120.0, workdir=case.name)
        assert result.exit_code != 0 and case.failing in text(result), case.name


@ALL_CASES
def test_the_offline_investigator_cites_the_true_lines_and_all_were_read(
    case: Case, tmp_path: Path, engine: Engine, toolbox: Toolbox
) -> None:
    program = Program(tmp_path, engine)
    ran = program.run("ask", case.question, "--repo", str(case.root), "--model", "offline", "--json")
    assert (ran.code, ran.end["outcome"]) == (0, "answered")
    cited = [(one["path"], one["start_line"], one["end_line"]) for one in ran.end["citations"]]
    assert any(
        path == case.null_lines.path and start <= case.null_lines.end and end >= case.null_lines.start
        for path, start, end in cited
    )
    assert {one["state"] for one in ran.end["citations"]} == {"read"}
    assert "No language model was used" in ran.end["answer"]
    assert {event["decision"] for event in ran.of("approval_decided")} == {"allow"}
    assert {event["by"] for event in ran.of("approval_decided")} == {"class"}


def test_a_stored_offline_answer_is_rechecked(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> None:
    program = Program(tmp_path, engine)
    repo = copied(ORDER_PRICING, tmp_path / "repo")
    assert program.run("ask", ORDER_PRICING.question_zh, "--repo", str(repo), "--model", "offline").code == 0
    (session,) = program.sessions
    assert program.run("recheck", session.name).code == 0
    book = repo / ORDER_PRICING.null_lines.path
    book.write_text(book.read_text().replace("return None", "return 0"))
    assert program.run("recheck", session.name).code == 5


def test_the_question_in_chinese_is_answered_in_chinese(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> None:
    program = Program(tmp_path, engine)
    ran = program.run("ask", USER_SERVICE.question_zh, "--repo", str(USER_SERVICE.root), "--model", "offline")
    assert ran.code == 0
    assert "没有使用语言模型" in ran.out
    assert f"{USER_SERVICE.null_lines.path}:{USER_SERVICE.null_lines.start + 1}" in ran.out


def test_an_image_without_ripgrep_is_searched_with_grep(
    tmp_path: Path, engine: Engine, toolbox: Toolbox, busybox_image: str
) -> None:
    program = Program(tmp_path, engine)
    ran = program.run(
        "ask", USER_SERVICE.question, "--repo", str(USER_SERVICE.root), "--model", "offline", "--json",
        "--image", busybox_image,
    )  # fmt: skip
    assert ran.end["outcome"] == "answered"
    paths = {one["path"] for one in ran.end["citations"]}
    assert USER_SERVICE.null_lines.path in paths
