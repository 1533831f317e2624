"""What `codeagent doctor` says where no engine is needed to tell; see tests/docker/test_doctor.py for the rest."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from codeagent.cli.checks import Finding
from codeagent.cli.doctor import rows
from tests.model_server import ModelServer, reply
from tests.ui.screens import PtyScreen

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


def test_a_variable_that_means_nothing_is_a_warning(tmp_path: Path) -> None:
    level, text, remedy = checks(tmp_path, CODEAGENT_MAX_ROUND="3")["config"]
    assert (level, remedy) == ("warning", "Correct its name, or unset it.")
    assert text.endswith("; the variable CODEAGENT_MAX_ROUND means nothing here; is CODEAGENT_MAX_ROUNDS meant?")


def test_a_state_directory_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    home = tmp_path / "file"
    home.write_text("")
    level, text, remedy = checks(home / "below")["state"]
    assert level == "error"
    assert text == f"The state directory is not writable: {home / 'below'}: Not a directory."
    assert remedy == "Make it a folder that you may write to, or set CODEAGENT_HOME to one."


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


@pytest.mark.slow
def test_online_asks_the_provider_and_says_what_is_wrong(tmp_path: Path) -> None:
    config = (
        '[providers.here]\napi = "responses"\nmodel = "m"\nbase_url = "http://127.0.0.1:9/v1"\nretry_seconds = 1\n'
    )
    (tmp_path / "config.toml").write_text(config)
    level, text, _ = checks(tmp_path, "--online", "--provider", "here")["online"]
    assert (level, "127.0.0.1" in text) == ("error", True)
    assert checks(tmp_path, "--online", "--model", "offline")["online"][0] == "ok"
    assert checks(tmp_path, "--online")["online"][0] == "warning"


def at(server: ModelServer, api: str) -> str:
    base = server.root if api == "messages" else server.url
    return (
        f'provider = "here"\n[providers.here]\napi = "{api}"\nmodel = "m1"\nbase_url = "{base}"\n'
        'api_key_env = "HERE_KEY"\nretry_seconds = 1\n'
    )


@pytest.mark.slow
@pytest.mark.parametrize("api", ["responses", "chat", "messages"])
def test_online_says_that_the_model_answered_and_what_it_took(tmp_path: Path, api: str) -> None:
    with ModelServer([reply("ready", usage=(31, 0, 4))], models=["m1"], key=KEY) as server:
        (tmp_path / "config.toml").write_text(at(server, api))
        level, text, remedy = checks(tmp_path, "--online", HERE_KEY=KEY)["online"]
        assert len(server.requests) == 1
    assert (level, remedy) == ("ok", "")
    assert re.fullmatch(r"m1 answered in \d+\.\d s \(35 tokens\)", text)


@pytest.mark.slow
def test_online_tells_a_refused_key_from_an_unknown_model(tmp_path: Path) -> None:
    with ModelServer(models=["m1"], key=KEY) as server:
        (tmp_path / "config.toml").write_text(at(server, "responses"))
        refused = checks(tmp_path, "--online", HERE_KEY="sk-test-wrong-0123456789")["online"]
        unknown = checks(tmp_path, "--online", "--model", "m2", HERE_KEY=KEY)["online"]
    host = server.root.removeprefix("http://")
    assert refused == (
        "error",
        f"{host} refused the key in HERE_KEY.",
        "Set HERE_KEY to a valid key of that provider.",
    )
    assert unknown == (
        "error",
        f"{host} has no model 'm2': The model `m2` does not exist",
        "Choose another with --model (/model in a chat), or set `model` in [providers.here].",
    )


def test_what_is_to_be_done_stays_to_the_left_on_a_narrow_screen() -> None:
    finding = Finding(
        "engine", "error", "No Docker Engine answers at all.", "Start it with:\n    setsid dockerd --host=x &"
    )
    assert list(rows(finding, 39)) == [
        "error    engine      No Docker Engine",
        "  answers at all.",
        "  Start it with:",
        "    setsid dockerd --host=x &",
    ]
    assert list(rows(finding, None)) == [
        "error    engine      No Docker Engine answers at all.",
        "                     Start it with:",
        "    setsid dockerd --host=x &",
    ]


def test_on_a_terminal_findings_break_between_words_beside_their_names(tmp_path: Path) -> None:
    with PtyScreen(60, 60) as pty:
        env = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(tmp_path), "DOCKER_HOST": NO_ENGINE, "TERM": "xterm"}
        subprocess.run([PROGRAM, "doctor"], stdout=pty.stream, stderr=pty.stream, env=env, timeout=120, check=False)
        shown, sent = pty.shown(), pty.sent
    assert "asking the engine" in sent
    assert not any("asking the engine" in line for line in shown)
    names = [line.split()[1] for line in shown if line.startswith(("ok  ", "warning  ", "error  "))]
    assert names == ["python", "config", "keys", "provider", "state", "repository", "engine"]
    at = next(number for number, line in enumerate(shown) if line[9:].startswith("keys"))
    assert shown[at : at + 7] == [
        "warning  keys        no key for provider openai:",
        "                     OPENAI_API_KEY not set,",
        "                     DEEPSEEK_API_KEY not set,",
        "                     ANTHROPIC_API_KEY not set",
        "                     Set OPENAI_API_KEY, or use",
        "                     `--model offline`, which needs no key.",
        "ok       provider    openai (responses), model gpt-5.6",
    ]
