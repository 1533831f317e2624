"""What `codeagent doctor` says where no engine is needed to tell; see tests/docker/test_doctor.py for the rest."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = str(Path(sys.executable).with_name("codeagent"))
KEY = "sk-test-abcdefghijklmnopqrstuvwxyz"
NO_ENGINE = "unix:///nonexistent/docker.sock"

Checks = dict[str, tuple[str, str, str]]


def doctor(home: Path, *flags: str, **environ: str) -> subprocess.CompletedProcess[str]:
    env = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(home), "DOCKER_HOST": NO_ENGINE, **environ}
    return subprocess.run([PROGRAM, "doctor", *flags], capture_output=True, text=True, timeout=120, env=env)


def checks(home: Path, *flags: str, **environ: str) -> Checks:
    ran = doctor(home, "--json", *flags, **environ)
    assert ran.stderr == ""
    shown = json.loads(ran.stdout)
    assert shown["ok"] == (ran.returncode == 0)
    return {one["name"]: (one["level"], one["text"], one["remedy"]) for one in shown["checks"]}


def test_a_missing_engine_is_an_error_line_with_its_remedy_and_exit_code_1(tmp_path: Path) -> None:
    ran = doctor(tmp_path)
    assert ran.returncode == 1
    lines = ran.stdout.splitlines()
    at = next(number for number, line in enumerate(lines) if line.startswith("error"))
    assert lines[at].startswith("error    engine      No Docker Engine answers.")
    assert lines[at + 1].startswith(" " * 21)


def test_the_rest_is_told_all_the_same(tmp_path: Path) -> None:
    found = checks(tmp_path, "--repo", str(tmp_path))
    assert list(found) == ["python", "config", "keys", "provider", "state", "repository", "engine"]
    assert found["config"] == ("ok", f"valid: built-in defaults ({tmp_path / 'config.toml'} does not exist)", "")
    assert found["keys"][0] == "warning"
    assert found["keys"][2] == "Set OPENAI_API_KEY, or use `--model offline`, which needs no key."
    assert found["repository"] == ("ok", f"{tmp_path} (no git here)", "")


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_keys_are_never_shown(tmp_path: Path, flags: tuple[str, ...]) -> None:
    ran = doctor(tmp_path, *flags, OPENAI_API_KEY=KEY)
    assert KEY not in ran.stdout + ran.stderr
    assert "OPENAI_API_KEY set, DEEPSEEK_API_KEY not set" in ran.stdout


def test_a_broken_config_is_a_line_and_the_others_follow(tmp_path: Path) -> None:
    (tmp_path / "config.toml").write_text("max_round = 3\n")
    found = checks(tmp_path)
    assert found["config"][0] == "error"
    assert found["config"][2] == "The nearest known key is `max_rounds`."
    assert "engine" in found


def test_a_state_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    level, text, remedy = checks(home / "below")["state"]
    assert level == "error"
    assert text.startswith(f"{home / 'below'} cannot be written: ")
    assert remedy == "Make it writable, or set CODEAGENT_HOME to a folder that is."


def test_others_who_can_read_the_sessions_are_a_warning(tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    assert checks(tmp_path)["state"][0] == "warning"
    tmp_path.chmod(0o700)
    assert checks(tmp_path)["state"] == ("ok", str(tmp_path), "")


def test_looking_creates_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    assert checks(home)["state"] == ("ok", f"{home} (made when it is needed)", "")
    assert not home.exists()


def test_a_repository_that_is_named_and_missing_is_an_error(tmp_path: Path) -> None:
    assert checks(tmp_path, "--repo", str(tmp_path / "no"))["repository"][0] == "error"


def test_online_asks_the_provider_and_says_what_is_wrong(tmp_path: Path) -> None:
    config = (
        '[providers.here]\napi = "responses"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\nretry_seconds = 1\n'
    )
    (tmp_path / "config.toml").write_text(config)
    level, text, _ = checks(tmp_path, "--online", "--provider", "here")["online"]
    assert (level, "127.0.0.1" in text) == ("error", True)
    assert checks(tmp_path, "--online", "--model", "offline")["online"][0] == "ok"
    assert checks(tmp_path, "--online")["online"][0] == "warning"
