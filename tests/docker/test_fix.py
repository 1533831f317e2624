"""`fix` end to end: a scripted model changes the private copy, the program verifies, the repository stays."""

from __future__ import annotations

import hashlib
import json
import shutil
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.clocks import wait_until
from tests.docker.codeagent_cli import Program, Ran, containers, interrupt, runs
from tests.fixtures_expected import ORDER_PRICING, USER_SERVICE
from tests.model_script import Entry, Received
from tests.model_server import ModelServer, call, reply, text


@pytest.fixture
def program(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> Iterator[Program]:
    yield Program(tmp_path, engine)


def tree_hash(repo: Path) -> str:
    digest = hashlib.sha256()
    for path in sorted(repo.rglob("*")):
        digest.update(str(path.relative_to(repo)).encode() + str(path.lstat().st_mode).encode())
        if path.is_file() and not path.is_symlink():
            digest.update(path.read_bytes())
    return digest.hexdigest()


def fix_with(server: ModelServer, program: Program, repo: Path, check: str) -> Ran:
    argv = ("fix", "repair it", "--repo", str(repo), "--verify", check, "--approve", "contained", "--json")
    return program.run(*argv, server=server, timeout=240)


def fix(program: Program, repo: Path, check: str, patch: str, claim: str = "All tests pass now.") -> Ran:
    with ModelServer([reply(call("apply_patch", {"patch": patch}, call_id="p1")), reply(text(claim))]) as server:
        return fix_with(server, program, repo, check)


def test_the_right_patch_is_verified_and_the_repository_untouched(program: Program) -> None:
    """On one fixture; on all of them, without a session around it: test_fixture_verification.py."""
    case = USER_SERVICE
    before = tree_hash(case.root)
    ran = fix(program, case.root, case.check, case.right_patch.read_text())
    assert (ran.code, ran.end["outcome"], ran.end["verification"]["status"]) == (0, "answered", "passed")
    (verified,) = ran.of("verification")
    assert (verified["before"]["exit_code"] != 0, verified["after"]["exit_code"], verified["tests_modified"]) == (
        True,
        0,
        [],
    )
    (changed,) = ran.of("workspace_changed")
    assert changed["paths"] and tree_hash(case.root) == before
    assert verified["repository"]["before"] == verified["repository"]["after"] and ran.end["unsupported"] == []


def test_the_wrong_patch_fails_whatever_the_model_says(program: Program) -> None:
    case = ORDER_PRICING
    ran = fix(program, case.root, case.check, case.wrong_patch.read_text(), claim="Verified: all tests pass.")
    assert (ran.code, ran.end["outcome"], ran.end["verification"]["status"]) == (5, "answered", "failed")
    assert ran.end["unsupported"] == ["Verified: all tests pass."]
    shown = program.run("sessions", "show", ran.end["session_id"]).out
    assert "Loop: answered after 2 rounds\nFix: verification failed (it exited 1 with the change)\n" in shown
    for told in (
        "Check: python3 -m pytest",
        "Before the change: exit 1",
        "With the change: exit 1",
        "2 failed, 13 pass",
    ):
        assert told in shown


WRONG = "def half(n):\n    return n // 3\n"


def made(folder: Path) -> Path:
    folder.mkdir()
    (folder / "calc.py").write_text(WRONG)
    (folder / "test_calc.py").write_text("from calc import half\n\n\ndef test_half():\n    assert half(4) == 2\n")
    return folder


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return made(tmp_path / "repo")


RIGHT = "*** Begin Patch\n*** Update File: calc.py\n@@\n-    return n // 3\n+    return n // 2\n*** End Patch\n"
PYTEST = "python3 -m pytest -q"


def test_a_check_that_passes_already_starts_no_turn(program: Program, repo: Path) -> None:
    with ModelServer([]) as server:
        ran = program.run("fix", "make it pass", "--repo", str(repo), "--verify", "true", "--json", server=server)
    assert (ran.code, ran.end["outcome"], ran.end["rounds"], server.requests) == (5, None, 0, [])
    assert ran.end["verification"]["status"] == "not_reproduced"
    shown = program.run("sessions", "show", ran.end["session_id"]).out
    assert "Turn 1: make it pass" in shown and "Loop: not started\nFix: not verified (the command already" in shown
    assert "What to do: Give a command that fails because of the fault" in shown


@pytest.mark.parametrize(
    ("check", "said"),
    [
        ("nosuch", "(the command was not found in the image)\nWhat to do: Name an image"),
        (
            "sleep 60",
            "(it was still running at its time limit of 1 s, before any change)\nWhat to do: Raise --verify",
        ),
    ],
)
def test_a_check_that_shows_nothing_ends_before_the_turn_with_its_reason_and_the_remedy(
    program: Program, repo: Path, check: str, said: str
) -> None:
    with ModelServer([]) as server:
        argv = ("fix", "x", "--repo", str(repo), "--verify", check, "--verify-time-limit", "1")
        ran = program.run(*argv, server=server)
    assert ran.code == 5 and f"Loop: not started\nFix: not verified {said}" in ran.err


def test_fix_needs_a_check(program: Program, repo: Path) -> None:
    with ModelServer([]) as server:
        ran = program.run("fix", "x", "--repo", str(repo), server=server)
    assert (ran.code, ran.err.splitlines()[0]) == (2, "codeagent: error: fix needs a command that shows the fault.")


@dataclass(frozen=True)
class Fixed:
    """A session with a verified change, its repository, and the model that made it."""

    program: Program
    repo: Path
    server: ModelServer


def fixes_and_shows(request: Received) -> Entry:
    outputs = request.outputs
    if "show it" not in request.user_texts:
        return reply(text("Done.") if "p1" in outputs else call("apply_patch", {"patch": RIGHT}, call_id="p1"))
    place = {"path": "calc.py", "start_line": None, "end_line": None}
    return reply(text(outputs["r1"]) if "r1" in outputs else call("read_file", place, call_id="r1"))


@pytest.fixture(scope="module")
def fixed_once(tmp_path_factory: pytest.TempPathFactory, engine: Engine, toolbox: Toolbox) -> Iterator[Fixed]:
    program = Program(tmp_path_factory.mktemp("fixed"), engine)
    repo = made(program.home / "repo")
    with ModelServer(fixes_and_shows) as server:
        assert fix_with(server, program, repo, PYTEST).code == 0
        shutil.copytree(program.home / "codeagent", program.home / "as-fixed", symlinks=True)
        yield Fixed(program, repo, server)


@pytest.fixture
def fixed(fixed_once: Fixed) -> Fixed:
    """As it was when the change had just been verified."""
    home = fixed_once.program.home
    shutil.rmtree(home / "codeagent")
    shutil.copytree(home / "as-fixed", home / "codeagent", symlinks=True)
    (fixed_once.repo / "calc.py").write_text(WRONG)
    return fixed_once


def test_the_change_is_shown_applied_and_taken_back(fixed: Fixed) -> None:
    program, repo = fixed.program, fixed.repo
    diff = program.run("diff", cwd=repo)
    assert (diff.code, diff.out.splitlines()[0]) == (0, "diff --git a/calc.py b/calc.py")
    assert program.run("apply", cwd=repo).code == 2  # no terminal to ask at
    assert (repo / "calc.py").read_text() == WRONG
    assert program.run("apply", "--yes", cwd=repo).code == 0
    assert (repo / "calc.py").read_text() == WRONG.replace("3", "2")
    assert program.run("apply", "--yes", "--reverse", cwd=repo).code == 0
    assert (repo / "calc.py").read_text() == WRONG


def test_apply_refuses_what_was_changed_since_and_merges_on_demand(fixed: Fixed) -> None:
    program, repo = fixed.program, fixed.repo
    (repo / "calc.py").write_text("# mine\ndef half(n):\n    return n // 3\n")
    refused = program.run("apply", "--yes", cwd=repo)
    assert refused.code == 1 and "calc.py: it was changed since the copy was made" in refused.err
    assert program.run("apply", "--yes", "--3way", cwd=repo).code == 0
    assert (repo / "calc.py").read_text() == "# mine\ndef half(n):\n    return n // 2\n"


def test_ask_with_a_check_and_no_change_keeps_its_exit_code(program: Program, repo: Path) -> None:
    with ModelServer([reply(text("It divides by three."))]) as server:
        ran = program.run("ask", "why?", "--repo", str(repo), "--verify", PYTEST, "--json", server=server)
    verification = ran.end["verification"]
    assert (ran.code, verification["status"], verification["reason"]) == (0, "not_run", "no change to verify")
    assert verification["before"]["exit_code"] == 1 and verification["after"] is None


def test_a_resumed_session_still_has_its_change(fixed: Fixed) -> None:
    program = fixed.program
    ran = program.run("resume", "show it", server=fixed.server, cwd=fixed.repo)
    assert ran.code == 0 and "return n // 2" in ran.out
    assert "Fix: verified" in ran.err and f"codeagent apply {program.sessions[-1].name}\n" in ran.err


def running(engine: Engine, program: Program, process: str) -> list[str]:
    """The session's containers in which a process with this command line runs."""
    if not (program.home / "codeagent/sessions").exists() or not program.sessions:
        return []
    return [found for found in containers(engine, program.sessions[-1].name) if runs(found, process)]


def test_a_signal_during_the_run_before_ends_everything(program: Program, engine: Engine, repo: Path) -> None:
    with ModelServer([]) as server:
        process = program.start("fix", "x", "--repo", str(repo), "--verify", "sleep 61", "--json", server=server)
        wait_until(lambda: running(engine, program, "sleep 61"), 40)
        ran = interrupt(process, signal.SIGTERM)
    ended = [json.loads(line) for line in ran.out.splitlines()][-1]
    assert (ran.code, ended["outcome"], ended["exit_code"]) == (130, "interrupted", 130)
    assert (ended["verification"]["status"], ended["verification"]["reason"]) == (
        "not_run",
        "it was stopped before the run had ended",
    )
    assert containers(engine, ended["session_id"]) == []
    shown = program.run("sessions", "show", ended["session_id"])
    assert shown.code == 0 and "Fix: not verified (it was stopped before the run had ended)" in shown.out


@pytest.mark.parametrize("end", ["signal", "killed"])
def test_an_end_in_the_middle_of_the_run_with_the_change_leaves_it_not_run(
    program: Program, engine: Engine, repo: Path, end: str
) -> None:
    check = "grep -rq '// 2' . || exit 1; sleep 62"
    script = [reply(call("apply_patch", {"patch": RIGHT}, call_id="p1")), reply(text("All tests pass now."))]
    argv = ("fix", "x", "--repo", str(repo), "--verify", check, "--approve", "contained", "--json")
    with ModelServer(script) as server:
        process = program.start(*argv, server=server)
        wait_until(lambda: running(engine, program, "sleep 62"), 60)
        if end == "signal":
            ran = interrupt(process, signal.SIGINT)
        else:
            for container in running(engine, program, "sleep 62"):
                engine.client.api.kill(container)
            out, err = process.communicate(timeout=40)
            ran = Ran(process.returncode, out, err)
    ended = [json.loads(line) for line in ran.out.splitlines()][-1]
    # The loop had ended before: its outcome stays, and the exit code is that of what was not verified.
    assert (ran.code, ended["outcome"], ended["verification"]["status"]) == (5, "answered", "not_run")
    again = f'Verify again, with the next turn: codeagent resume "…" --session {ended["session_id"]}\n'
    assert again in ran.err and "codeagent apply" not in ran.err
    said = "the verification was interrupted" if end == "signal" else "the run with the change could not be made: the"
    assert ended["verification"]["reason"].startswith(said)
    assert ended["verification"]["before"]["exit_code"] == 1 and ended["unsupported"] == ["All tests pass now."]
    assert containers(engine, ended["session_id"]) == []
    assert program.run("diff", ended["session_id"]).out.startswith("diff --git a/calc.py")
