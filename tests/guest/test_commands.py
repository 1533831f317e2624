"""What a request to run a command must look like."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from guest.commands import MAX_SCRIPT, Job, plan
from guest.operations import Refusal


def test_an_order_names_the_real_directory(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to("real")
    asked = {"timeout": 3, "workdir": "link", "quota": 5}
    job = plan(7, b"true", asked, str(tmp_path))
    assert job == Job(7, b"true", str(tmp_path / "real"), 3.0, 5)
    assert Job.of(job.message()) == job


def test_the_root_itself_is_a_directory_of_it(tmp_path: Path) -> None:
    assert plan(1, b"true", {"timeout": 1, "workdir": "."}, str(tmp_path)).directory == str(tmp_path)


@pytest.mark.parametrize(
    ("workdir", "kind"),
    [
        ("missing", "file_not_found"),
        ("file/x", "file_not_found"),
        ("file", "not_a_directory"),
        ("..", "outside_repository"),
        ("/etc", "outside_repository"),
        ("out", "outside_repository"),
        ("loop", "permission_denied"),
        ("a\0b", "invalid_arguments"),
    ],
)
def test_a_directory_that_is_none_of_the_repository_is_refused(tmp_path: Path, workdir: str, kind: str) -> None:
    repo = tmp_path / "repo"
    repo.mkdir()
    (repo / "file").touch()
    (repo / "out").symlink_to("/etc")
    (repo / "loop").symlink_to("loop")
    with pytest.raises(Refusal) as refused:
        plan(1, b"true", {"timeout": 1, "workdir": workdir}, str(repo))
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"timeout": 0},
        {"timeout": "3"},
        {"timeout": 1e9},
        {"timeout": float("nan")},
        {"timeout": 1, "workdir": 5},
        {"timeout": 1, "quota": "much"},
    ],
)
def test_malformed_orders_are_refused(tmp_path: Path, asked: dict[str, Any]) -> None:
    with pytest.raises(Refusal) as refused:
        plan(1, b"true", asked, str(tmp_path))
    assert refused.value.kind == "invalid_arguments"


def test_a_script_must_fit_into_one_argument(tmp_path: Path) -> None:
    whole = b"#" * MAX_SCRIPT
    assert plan(1, whole, {"timeout": 1}, str(tmp_path)).timeout == 1.0
    with pytest.raises(Refusal, match="131072 bytes"):
        plan(1, whole + b"#", {"timeout": 1}, str(tmp_path))
    with pytest.raises(Refusal, match="NUL"):
        plan(1, b"echo \0", {"timeout": 1}, str(tmp_path))
