"""What a command finds in its environment."""

from __future__ import annotations

from pathlib import Path

import pytest
from guest import environment
from guest.ids import Owner

OWNER = Owner(12345, 12345)
NEVER = {"PATH": "/usr/bin:/bin"}


def nowhere(_path: str) -> bool:
    return False


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("/usr/bin:/bin", "/usr/bin:/bin"),
        ("/workspace/bin:/usr/bin", "/usr/bin"),
        ("/workspace:/usr/bin", "/usr/bin"),
        ("/workspace2/bin:/usr/bin", "/workspace2/bin:/usr/bin"),
        ("/usr/../workspace/bin:/usr/bin", "/usr/bin"),
        (".:bin::/usr/bin:", "/usr/bin"),
        ("", environment.DEFAULT_PATH),
        ("relative:./x", environment.DEFAULT_PATH),
    ],
)
def test_path_keeps_only_absolute_entries_outside_of_the_repository(given: str, kept: str) -> None:
    assert environment.safe_path(given, nowhere) == kept


def test_path_entries_that_lead_into_a_writable_place_are_dropped(tmp_path: Path) -> None:
    link = tmp_path / "link"
    link.symlink_to("/workspace")
    assert environment.safe_path(f"{link}:/usr/bin", nowhere) == "/usr/bin"
    assert environment.safe_path("/opt/tools:/usr/bin", lambda path: path == "/opt/tools") == "/usr/bin"


def test_a_path_entry_that_could_be_made_later_counts_as_writable(tmp_path: Path) -> None:
    assert environment._writable(str(tmp_path / "not" / "there"))


def test_the_images_own_variables_are_kept_below_the_fixed_ones() -> None:
    found = environment.for_commands({**NEVER, "JAVA_HOME": "/opt/java", "HOME": "/root", "PAGER": "less"}, {}, OWNER)
    assert {name: found[name] for name in ("JAVA_HOME", "HOME", "PAGER", "USER")} == {
        "JAVA_HOME": "/opt/java",
        "HOME": "/tmp/home",
        "PAGER": "cat",
        "USER": "codeagent",
    }


def test_what_the_host_adds_wins_over_the_fixed_values() -> None:
    assert environment.for_commands(NEVER, {"GIT_DIR": "/x", "TERM": "y"}, OWNER).items() >= {
        ("GIT_DIR", "/x"),
        ("TERM", "y"),
    }


def test_no_git_command_pages_prompts_edits_or_asks_a_server() -> None:
    found = environment.for_commands(NEVER, {}, OWNER)
    count = int(found["GIT_CONFIG_COUNT"])
    settings = {found[f"GIT_CONFIG_KEY_{place}"]: found[f"GIT_CONFIG_VALUE_{place}"] for place in range(count)}
    assert settings == dict(environment.GIT_CONFIG)
    assert found["GIT_TERMINAL_PROMPT"] == "0"
    assert found["GIT_ALLOW_PROTOCOL"] == ""


def test_the_documentation_lists_every_fixed_variable() -> None:
    page = (Path(__file__).parents[2] / "docs" / "security.md").read_text()
    missing = [name for name, value in environment.FIXED.items() if f"`{name}={value}`" not in page]
    assert missing == []
