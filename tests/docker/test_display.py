"""What the whole program prints when the model, the files and the reader misbehave."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pyte
import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.clocks import GONE_SECONDS, wait_until
from tests.docker.codeagent_cli import Program, containers
from tests.model_server import ModelServer, call, reply, text
from tests.terminals import listening
from tests.ui.records import HOSTILE
from tests.ui.screens import OWN_SEQUENCES, PtyScreen

LINES = (
    "[/]",
    "[/INST]",
    "[bold",
    "[link=file:///x]a[/link]",
    "█ 你 😀",
    "\x1b[31mred\x1b]0;title\x07",
    "\u202eevil",
)
ANSWER = "\n\n".join(LINES) + "\n\nSee `[x].py:1`."


@pytest.fixture
def program(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> Program:
    return Program(tmp_path, engine)


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    repo = tmp_path / "[link=x]repo"
    repo.mkdir()
    (repo / "[x].py").write_text("\n".join(LINES))
    return repo


def script() -> list[object]:
    """Every foreign text at once: the model's words, paths, commands, outputs and errors."""
    return [
        reply(
            text("I look at [/INST] \x1b[2J first"),
            call("read_file", {"path": "[x].py", "start_line": None, "end_line": None}, "c1"),
            call("read_file", {"path": "[bold]\x1b[31m😀", "start_line": None, "end_line": None}, "c2"),
            call("[/tool]\x1b[0m", "{[}", "c3"),
            call(
                "run_command",
                {"command": "cat '[x].py' # [/]\x1b[1m", "workdir": None, "timeout_seconds": None, "writes": False},
                "c4",
            ),
        ),
        reply(text(ANSWER)),
    ]


def ask(program: Program, repo: Path, *flags: str, **environ: str) -> subprocess.CompletedProcess[bytes]:
    with ModelServer(script(), prefix="free") as server:  # type: ignore[arg-type]
        env = {**program.with_model(server), **environ}
        argv = program.argv("ask", HOSTILE.replace("\udce9", ""), "--repo", str(repo), *flags)
        return subprocess.run(argv, env=env, capture_output=True, stdin=subprocess.DEVNULL, timeout=90)


@pytest.mark.parametrize("verbose", [(), ("--verbose",)])
def test_off_a_terminal_the_answer_is_exact_and_the_rest_is_inert(
    program: Program, repo: Path, verbose: tuple[str, ...]
) -> None:
    ran = ask(program, repo, *verbose, COLUMNS="5", FORCE_COLOR="1")
    assert ran.returncode == 0
    assert ran.stdout.decode() == ANSWER + "\n"
    err = ran.stderr.decode()
    assert [one for one in err if not one.isprintable() and one not in "\n\t"] == []
    assert "I look at [/INST] \\x1b[2J first\n" in err
    assert "read_file [bold]\\x1b[31m😀: file_not_found" in err
    assert f"{repo} · openai" in err
    assert err.splitlines()[-5:-3] != []
    assert "Loop: answered after 2 rounds\nFix: not verified (no verification was requested)\n" in err


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_any_encoding_of_the_streams_is_survived(program: Program, repo: Path, encoding: str) -> None:
    ran = ask(program, repo, "--verbose", PYTHONIOENCODING=encoding)
    assert ran.returncode == 0
    assert b"[link=file:///x]a[/link]" in ran.stdout
    assert b"Loop: answered after 2 rounds" in ran.stderr


def on_a_screen(program: Program, repo: Path, columns: int, environ: Mapping[str, str]) -> PtyScreen:
    pty = PtyScreen(columns, 60)
    with ModelServer(script(), prefix="free") as server:  # type: ignore[arg-type]
        env = {**program.with_model(server), **environ}
        argv = program.argv("ask", "what is it?", "--repo", str(repo))
        child = subprocess.Popen(argv, env=env, stdin=subprocess.DEVNULL, stdout=pty.stream, stderr=pty.stream)
        assert child.wait(90) == 0
    return pty


@pytest.mark.parametrize("columns", [5, 100])
def test_on_a_terminal_only_our_own_sequences_are_sent(program: Program, repo: Path, columns: int) -> None:
    with on_a_screen(program, repo, columns, {"TERM": "xterm"}) as pty:
        left = OWN_SEQUENCES.sub("", pty.sent)
        screen = pty.screen()
    assert [one for one in left if not one.isprintable() and one not in "\r\n"] == []
    for line in LINES[: 4 if columns > 20 else 3]:  # a longer one is broken in two
        assert line in left
    assert isinstance(screen, pyte.Screen)
    assert screen.title == ""


@pytest.mark.parametrize("environ", [{"TERM": "dumb"}, {"TERM": ""}, {"TERM": "xterm", "NO_COLOR": "1"}])
def test_plain_terminals_get_no_colour(program: Program, repo: Path, environ: dict[str, str]) -> None:
    with on_a_screen(program, repo, 80, environ) as pty:
        sent = pty.sent
    assert not re.search(r"\x1b\[[0-9;]*m", sent)
    assert ("\x1b" in sent) == (environ["TERM"] == "xterm")


def test_json_on_the_terminal_of_the_progress_has_nothing_redrawn_below_it(program: Program, repo: Path) -> None:
    (repo / ".env").write_text("S=1")
    for command in (["init", "-q"], ["add", "-f", "."]):
        subprocess.run(["git", *command], cwd=repo, check=True)
    with PtyScreen(200) as pty:
        argv = program.argv("ask", "where is f", "--repo", str(repo), "--model", "offline", "--json")
        env = {**program.with_model(None), "TERM": "xterm"}
        ran = subprocess.run(
            argv, env=env, stdin=subprocess.DEVNULL, stdout=pty.stream, stderr=pty.stream, timeout=90, check=False
        )
        sent = pty.sent
    assert ran.returncode == 0
    assert "\x1b[J" not in sent
    lines = sent.splitlines()
    assert {json.loads(line)["type"] for line in lines if line.startswith("{")} >= {"session_started", "turn_ended"}
    # What git tracks is named before the first call, whichever was ready first.
    tracked = next(at for at, line in enumerate(lines) if line.endswith("in git's history: .env\x1b[0m"))
    called = next(at for at, line in enumerate(lines) if '"type":"tool_call"' in line)
    assert tracked < called


def test_a_reader_of_json_that_goes_away_ends_the_run_quietly(program: Program, repo: Path, engine: Engine) -> None:
    slow = {"command": "sleep 300", "workdir": None, "timeout_seconds": None, "writes": False}
    with ModelServer([reply(call("run_command", slow, "c1")), reply(text("x"))], prefix="free") as server:
        env = {**program.with_model(server), "PYTHONUNBUFFERED": "1"}
        argv = program.argv("ask", "q", "--repo", str(repo), "--approve", "contained", "--json")
        shell = '"$@" | head -1; echo "${PIPESTATUS[0]}"'
        ran = subprocess.run(
            ["bash", "-c", shell, "bash", *argv],
            env=env,
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            timeout=90,
        )
    first, code = ran.stdout.splitlines()
    assert json.loads(first)["type"] == "session_started"
    assert code == "130"
    assert "Traceback" not in ran.stderr
    [session] = program.sessions
    wait_until(lambda: not containers(engine, session.name), GONE_SECONDS)
    end = json.loads((session / "events.jsonl").read_text().splitlines()[-1])
    assert (end["type"], end["outcome"]) == ("turn_ended", "interrupted")


def test_a_reader_of_the_answer_that_goes_away_is_no_error(program: Program, repo: Path) -> None:
    with ModelServer([reply(text("line\n" * 100_000))]) as server:
        argv = program.argv("ask", "q", "--repo", str(repo))
        shell = '"$@" | head -1; echo "${PIPESTATUS[0]}"'
        ran = subprocess.run(
            ["bash", "-c", shell, "bash", *argv],
            env=program.with_model(server),
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
        )
    assert ran.stdout == "line\n0\n"
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
    assert "Loop: answered after 1 round" in ran.stderr


def test_an_approval_question_is_not_drawn_over(program: Program, repo: Path) -> None:
    """While a person is asked, nothing else is written: what stands on the screen is the whole question."""
    import pexpect

    command = {"command": "touch x", "workdir": None, "timeout_seconds": None, "writes": True}
    with ModelServer([reply(call("run_command", command, "c1")), reply(text("Done."))]) as server:
        argv = program.argv("ask", "q", "--repo", str(repo))
        env = {**program.with_model(server), "TERM": "xterm"}
        child: pexpect.spawn[str] = pexpect.spawn(
            argv[0], argv[1:], env=env, encoding="utf-8", timeout=60, dimensions=(40, 100)
        )
        child.expect_exact("touch x")
        child.expect_exact("/s]: ")
        listening(child)
        child.expect(pexpect.TIMEOUT, timeout=1.0)
        assert child.before == ""
        child.send("y\n")
        child.expect_exact("Loop: answered after 2 rounds")
        child.close(force=True)
