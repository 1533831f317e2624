"""docs/security.md names a test for what it claims; a name that leads nowhere would be a claim without one."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs/security.md").read_text(encoding="utf-8")


def known_tests() -> tuple[set[str], set[str]]:
    """The names of all tests, and the files that hold them."""
    paths = sorted((ROOT / "tests").rglob("test_*.py"))
    found = [re.findall(r"^ *def (test_\w+)", path.read_text(encoding="utf-8"), re.MULTILINE) for path in paths]
    return {name for names in found for name in names}, {path.relative_to(ROOT).as_posix() for path in paths}


def test_every_test_and_every_file_that_the_page_names_is_there() -> None:
    names, files = known_tests()
    named = set(re.findall(r"`(test_\w+)`", PAGE))
    assert named - names == set()
    assert len(named) > 50
    in_files = re.findall(r"`((?:tests/[\w/]+/)?test_\w+\.py)`", PAGE)
    assert {name if "/" in name else f"tests/docker/{name}" for name in in_files} - files == set()


def test_every_row_of_a_table_of_claims_names_a_test() -> None:
    tables = [part.splitlines() for part in re.findall(r"(?:^\|.*\n)+", PAGE, re.MULTILINE)]
    claims = [table for table in tables if "shown by" in table[0]]
    assert len(claims) == 5
    assert [row for table in claims for row in table[2:] if "test_" not in row] == []
