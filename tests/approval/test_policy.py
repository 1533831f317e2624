"""`codeagent policy check` as a program: its output, its exit codes, what it does not import."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

CODEAGENT = Path(sys.executable).with_name("codeagent")


def policy(*words: str, home: Path, stdin: str | None = None) -> subprocess.CompletedProcess[str]:
    environ = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(home), "HOME": str(home), "LANG": "C.UTF-8"}
    return subprocess.run(
        [str(CODEAGENT), "policy", *words], input=stdin, capture_output=True, text=True, env=environ, timeout=60
    )


def configure(home: Path, text: str) -> None:
    (home / "config.toml").write_text(text)


@pytest.mark.parametrize(
    ("command", "code", "class_", "reason", "commands"),
    [
        ("ls -la | wc -l", 0, "read_only", "ls, wc with these flags only read", [["ls", "-la"], ["wc", "-l"]]),
        ("cp a 'b c'", 1, "ask", "cp is not known to be read-only", [["cp", "a", "b c"]]),
        ("cat $x", 1, "ask", "not understood: a variable expands", []),
        ("mount x", 2, "forbidden", "mount never runs", [["mount", "x"]]),
        ("", 1, "ask", "not understood: a command is missing", []),
    ],
)
def test_json_and_exit_code(
    command: str, code: int, class_: str, reason: str, commands: list[list[str]], tmp_path: Path
) -> None:
    done = policy("check", "--json", command, home=tmp_path)
    assert json.loads(done.stdout) == {"class": class_, "reason": reason, "commands": commands}
    assert (done.returncode, done.stderr) == (code, "")


def test_for_people(tmp_path: Path) -> None:
    done = policy("check", "ls 'a b' \x1b[2J; rm x", home=tmp_path)
    assert done.stdout == "ask: not understood: the character U+001B is not plain text\n"
    done = policy("check", "ls 'a b'; rm x", home=tmp_path)
    assert done.stdout == "ask: rm is not known to be read-only\n  ls 'a b'\n  rm x\n"
    done = policy("check", "sudo rm -rf / '' a=b '~'", home=tmp_path)
    assert done.stdout.splitlines()[1:] == ["  sudo rm -rf / '' a=b '~'"]


def test_shows_which_rule_decided(tmp_path: Path) -> None:
    configure(tmp_path, '[approval]\nallow = [{prefix = ["npm", "test"]}]\ndeny = [{prefix = ["curl"]}]\n')
    allowed = policy("check", "--json", "npm test", home=tmp_path)
    denied = policy("check", "--json", "curl x", home=tmp_path)
    assert (allowed.returncode, json.loads(allowed.stdout)["rule"]) == (1, "allow npm test")
    assert (denied.returncode, json.loads(denied.stdout)["rule"]) == (2, "deny curl")
    assert "  rule: deny curl\n" in policy("check", "curl x", home=tmp_path).stdout


def test_a_person_is_told_that_what_a_rule_allows_is_not_asked(tmp_path: Path) -> None:
    configure(tmp_path, '[approval]\nallow = [["make", "test"]]\n')
    shown = policy("check", "make test", home=tmp_path).stdout
    assert "  rule: allow make test, so it runs without a question\n" in shown


def test_many_commands_in_order(tmp_path: Path) -> None:
    commands = ["ls", "rm x", "mount x", "cat \u2028", "", "echo 你"]
    lines = "\n".join(json.dumps({"command": command, "class": "?"}) for command in commands)
    (tmp_path / "list.jsonl").write_text(lines + "\n\n")
    for done in (
        policy("check", "--jsonl", "-", home=tmp_path, stdin=lines),
        policy("check", "--jsonl", str(tmp_path / "list.jsonl"), home=tmp_path),
    ):
        assert (done.returncode, done.stderr) == (0, "")
        found = [json.loads(line) for line in done.stdout.splitlines()]
        assert [(entry["command"], entry["class"]) for entry in found] == list(
            zip(commands, ["read_only", "ask", "forbidden", "ask", "ask", "read_only"], strict=True)
        )
        assert all(set(entry) == {"command", "class", "reason", "commands"} for entry in found)


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("check",),
        ("check", "ls", "-la"),
        ("check", "ls", "pwd"),
        ("check", "--unknown", "ls"),
        ("check", "ls", "--jsonl", "-"),
        ("check", "--jsonl", "/nonexistent"),
        ("check", "--config", "/nonexistent", "ls"),
        ("check", "--profile", "nonexistent", "ls"),
        ("unknown",),
    ],
)
def test_its_own_errors_exit_with_64(words: tuple[str, ...], tmp_path: Path) -> None:
    done = policy(*words, home=tmp_path, stdin="")
    assert (done.returncode, done.stdout) == (64, "")
    assert "error:" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("line", ["x", "5", "[]", '{"command": 5}', '{"comand": "ls"}', "\udcff"])
def test_a_line_that_is_no_command_is_named(line: str, tmp_path: Path) -> None:
    file = tmp_path / "list.jsonl"
    file.write_bytes(b'{"command": "ls"}\n' + line.encode(errors="surrogateescape") + b"\n")
    done = policy("check", "--jsonl", str(file), home=tmp_path)
    assert done.returncode == 64
    assert "line 2 of" in done.stderr


def test_a_broken_configuration_exits_with_64(tmp_path: Path) -> None:
    configure(tmp_path, '[approval]\nallow = [{prefix = ["npm"], not_match = ["npm test"]}]\n')
    done = policy("check", "ls", home=tmp_path)
    assert done.returncode == 64
    assert "'npm' matches its own example 'npm test'" in done.stderr


def test_a_repository_cannot_loosen_anything(tmp_path: Path) -> None:
    repository = tmp_path / "repo"
    repository.mkdir()
    rules = '[approval]\nmode = "all"\nallow = [{prefix = ["rm"]}]\n'
    for name in ("config.toml", "codeagent.toml", ".codeagent.toml", "pyproject.toml"):
        (repository / name).write_text(rules)
    (repository / ".env").write_text("CODEAGENT_HOME=.\nCODEAGENT_APPROVE=all\n")
    environ = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(tmp_path), "HOME": str(tmp_path)}
    done = subprocess.run(
        [str(CODEAGENT), "policy", "check", "--json", "rm x"],
        cwd=repository,
        env=environ,
        capture_output=True,
        text=True,
    )
    assert json.loads(done.stdout) == {
        "class": "ask",
        "reason": "rm is not known to be read-only",
        "commands": [["rm", "x"]],
    }


def test_starts_neither_the_engine_nor_a_model_nor_the_terminal(tmp_path: Path) -> None:
    code = (
        "import sys; from codeagent.cli.main import run; code = run(['policy', 'check', 'ls | head']); "
        "print(code, sorted({'docker', 'openai', 'rich', 'prompt_toolkit', 'watchdog'} & set(sys.modules)))"
    )
    environ = {"PATH": os.environ["PATH"], "CODEAGENT_HOME": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "0 []"
