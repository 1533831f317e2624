from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

KEY = "sk-test-abcdefghijklmnopqrstuvwxyz"
PROGRAM = str(Path(sys.executable).with_name("codeagent"))


def show(tmp_path: Path, *flags: str, config: str = "", **environ: str) -> subprocess.CompletedProcess[str]:
    if config:
        (tmp_path / "config.toml").write_text(config, encoding="utf-8")
    env = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(tmp_path), **environ}
    command = [PROGRAM, "config", "show", *flags]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)


def values(tmp_path: Path, *flags: str, config: str = "", **environ: str) -> dict[str, tuple[Any, str]]:
    ran = show(tmp_path, "--json", *flags, config=config, **environ)
    assert ran.stderr == ""
    return {key: (one["value"], one["origin"]) for key, one in json.loads(ran.stdout)["values"].items()}


def test_each_value_comes_with_its_origin(tmp_path: Path) -> None:
    config = 'max_rounds = 7\n[approval]\nallow = [["make", "test"]]\n[profiles.fast]\nmax_rounds = 3\n'
    file = str(tmp_path / "config.toml")
    plain = values(tmp_path, config=config, CODEAGENT_IMAGE="alpine")
    assert plain["max_rounds"] == (7, file)
    assert plain["sandbox.image"] == ("alpine", "CODEAGENT_IMAGE")
    assert plain["time_limit"] == (900.0, "default")
    assert plain["sandbox.pids"] == (512, "default")
    assert plain["token_limit"] == (None, "default")
    assert plain["approval.allow"] == ([{"prefix": ["make", "test"], "match": [], "not_match": []}], file)
    assert values(tmp_path, "--profile", "fast")["max_rounds"] == (3, f"{file} (profile)")


def test_people_read_sizes_with_their_unit(tmp_path: Path) -> None:
    shown = show(tmp_path, config='time_limit = 60\n[sandbox]\nmemory = "1536MiB"\n').stdout
    told = {line.split()[0]: line.split()[1] for line in shown.splitlines()[1:]}
    assert (told["sandbox.memory"], told["sandbox.copy_limit"], told["time_limit"]) == ("1536MiB", "2GiB", "60")


def test_a_model_that_names_the_offline_investigator_says_where_that_was_said(tmp_path: Path) -> None:
    assert values(tmp_path, CODEAGENT_MODEL="offline")["provider"] == ("offline", "CODEAGENT_MODEL")


def test_a_chosen_provider_is_named_and_said(tmp_path: Path) -> None:
    ran = show(tmp_path, "--json", DEEPSEEK_API_KEY="x")
    shown = json.loads(ran.stdout)
    assert shown["values"]["provider"] == {"value": "deepseek", "origin": "chosen"}
    assert shown["notices"] == ["using provider deepseek, the only one whose key is set (DEEPSEEK_API_KEY)"]


@pytest.mark.parametrize("flags", [(), ("--json",)])
def test_keys_headers_and_passwords_are_never_shown(tmp_path: Path, flags: tuple[str, ...]) -> None:
    config = (
        f'[providers.mine]\napi = "chat"\nbase_url = "http://me:{KEY}@host/v1?key={KEY}"\n'
        f'api_key_env = "MY_KEY"\nheaders = {{ Authorization = "Bearer {KEY}" }}\n'
    )
    ran = show(tmp_path, *flags, config=config, MY_KEY=KEY, OPENAI_API_KEY=KEY)
    assert ran.returncode == 0
    assert KEY not in ran.stdout + ran.stderr
    assert "http://me:(set)@host/v1?(set)" in ran.stdout


def test_whether_a_key_is_set_is_shown(tmp_path: Path) -> None:
    shown = values(tmp_path, OPENAI_API_KEY=KEY)
    assert shown["providers.openai.api_key"] == ("(set)", "OPENAI_API_KEY")
    assert shown["providers.anthropic.api_key"] == ("(not set)", "ANTHROPIC_API_KEY")


def test_an_unknown_key_is_refused_with_the_nearest_known_one(tmp_path: Path) -> None:
    ran = show(tmp_path, config="max_round = 3\n")
    assert (ran.returncode, ran.stdout) == (2, "")
    assert "unknown key `max_round`" in ran.stderr
    assert "The nearest known key is `max_rounds`." in ran.stderr


def test_foreign_text_in_the_file_does_not_act_on_the_terminal(tmp_path: Path) -> None:
    ran = show(tmp_path, config='model = "[/INST] \\u001b[31m \\u202e 你"\n')
    assert "model" in ran.stdout
    assert "[/INST] \\x1b[31m \\u202e 你" in ran.stdout


def test_showing_creates_nothing(tmp_path: Path) -> None:
    home = tmp_path / "home"
    env = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(home)}
    subprocess.run([PROGRAM, "config", "show"], env=env, check=True, capture_output=True)
    assert not home.exists()


def test_a_stack_trace_does_not_act_on_the_terminal_either(tmp_path: Path) -> None:
    ran = show(tmp_path, "--verbose", config='provider = "\\u001b[31m[/INST]"\n')
    assert ran.returncode == 2
    assert "Traceback" in ran.stderr
    assert "There is no provider `\\x1b[31m[/INST]`." in ran.stderr
    assert [one for one in ran.stderr if not one.isprintable() and one != "\n"] == []
