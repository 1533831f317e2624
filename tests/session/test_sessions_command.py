"""`codeagent sessions`, run as its user runs it, over sessions that the real journal wrote."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pexpect
import pytest

from codeagent.cli.main import run
from codeagent.events import Applied, SessionResumed, SessionStarted, TurnStarted, WorkspaceChanged
from codeagent.session.catalogue import nearest
from codeagent.session.store import EVENTS, Session
from tests.session.samples import answered, ended
from tests.terminals import listening

KEY = "sk-proj-0123456789abcdefghijklmnop"


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEAGENT_HOME", str(tmp_path / "state"))
    return tmp_path / "state"


def test_list_says_what_each_session_was_about_and_how_it_ended(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first, second = answered(state), answered(state, question="second\n\x1b[2J [bold]")
    assert run(["sessions", "list"]) == 0
    out = capsys.readouterr().out
    told = {line.split()[0]: re.split(r"  +", line)[3:] for line in out.splitlines()}
    assert told == {
        "ID": ["LOOP", "FIX", "REPOSITORY", "QUESTION"],
        first.id: ["answered", "not requested", "/src/shop", "why null?"],
        second.id: ["answered", "not requested", "/src/shop", r"second\n\x1b[2J [bold]"],
    }


def test_list_as_json_has_the_same_facts_one_object_a_line(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = answered(state)
    run(["sessions", "list", "--json"])
    (line,) = capsys.readouterr().out.splitlines()
    listed = json.loads(line)
    assert listed | {"started": "", "changed": "", "size": 0} == {
        "id": session.id,
        "question": "why null?",
        "repo": "/src/shop",
        "provider": "openai",
        "model": "gpt-5.6",
        "started": "",
        "changed": "",
        "turns": 1,
        "ended": True,
        "outcome": "answered",
        "verification": "not_requested",
        "size": 0,
        "pid": None,
        "problem": None,
    }
    assert listed["size"] > 1_000


def test_list_survives_sessions_that_cannot_be_read(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered(state)
    for name, content in (("a", b""), ("b", b"\0" * 99), ("c", b'{"type":"session_started","format":9}\n')):
        (state / "sessions" / name).mkdir()
        (state / "sessions" / name / EVENTS).write_bytes(content)
    (state / "sessions" / "d" / EVENTS).mkdir(parents=True)
    assert run(["sessions", "list", "--json"]) == 0
    problems = {entry["id"]: entry["problem"] for entry in map(json.loads, capsys.readouterr().out.splitlines())}
    assert {name: problem for name, problem in problems.items() if len(name) == 1} == {
        "a": "no readable event",
        "b": "no readable event",
        "c": "written by a newer codeagent",
        "d": "Is a directory",
    }
    assert len(problems) == 5


def test_the_session_used_last_comes_first(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    older, newer = answered(state), answered(state)
    os.utime(newer.folder / EVENTS, (1_000, 1_000))
    run(["sessions", "list", "--json"])
    listed = [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()]
    assert listed == [older.id, newer.id]


def test_a_running_session_is_listed_as_running(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Session.create(state) as session:
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
        session.emit(TurnStarted("now"))
        run(["sessions", "list"])
    assert "  running  " in capsys.readouterr().out


def test_a_turn_that_was_killed_before_its_verification_is_listed_as_not_verified(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with Session.create(state) as session:
        session.emit(SessionStarted("/r", "m", "p", "i", "v", verify="make test"))
        session.journal.turn = 1
        session.emit(TurnStarted("fix it"))
        session.emit(replace(ended("answered"), verification={"status": "passed"}))
        session.journal.turn = 2
        session.emit(TurnStarted("and more"))
    run(["sessions", "list"])
    assert "  not ended  not run  " in capsys.readouterr().out


@pytest.mark.parametrize("status", ["not_run", "not_reproduced"])
def test_a_fix_that_ended_before_its_turn_is_listed_as_it_ended(
    state: Path, capsys: pytest.CaptureFixture[str], status: str
) -> None:
    with Session.create(state) as session:
        session.emit(SessionStarted("/r", "m", "p", "i", "v", message="fix it", verify="make test"))
        session.journal.turn = 1  # counted, and never started
        session.emit(replace(ended("answered"), outcome=None, rounds=0, verification={"status": status}))
    run(["sessions", "list"])
    assert f"  not started  {status.replace('_', ' ')}  " in capsys.readouterr().out
    run(["sessions", "list", "--json"])
    listed = json.loads(capsys.readouterr().out)
    assert {name: listed[name] for name in ("turns", "ended", "outcome", "verification")} == {
        "turns": 0,
        "ended": True,
        "outcome": None,
        "verification": status,
    }


@pytest.mark.parametrize("command", [["sessions", "list"], ["sessions", "show"], ["diff"], ["resume"]])
@pytest.mark.parametrize("below", ["", "below"])
def test_a_file_in_the_place_of_the_state_directory_is_no_lack_of_sessions(
    state: Path, command: list[str], below: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    state.write_text("")
    monkeypatch.setenv("CODEAGENT_HOME", str(state / below))
    assert run(command) == 2
    assert capsys.readouterr().err == (
        f"codeagent: error: The state directory is not readable: {state / below}: Not a directory.\n"
        "Make it a folder that you may write to, or set CODEAGENT_HOME to one.\n"
    )


def test_list_without_sessions_says_so(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "list"]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == "No session is stored yet; `codeagent ask` starts one.\n"


def test_list_of_a_repository_without_sessions_says_so_and_not_that_none_is_stored(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answered(state)
    assert run(["sessions", "list", "--repo", str(tmp_path)]) == 0
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err == (
        f"No session of {tmp_path} is stored; "
        "without --repo, `codeagent sessions list` shows those of all repositories.\n"
    )


def test_list_of_a_repository_takes_where_a_session_went_on(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved, _ = answered(state), answered(state)
    with Session.open(moved.folder) as session:
        session.emit(SessionResumed(str(tmp_path), "m", "p", "i", "v", [], 0))
    run(["sessions", "list", "--json", "--repo", str(tmp_path)])
    assert [json.loads(line)["id"] for line in capsys.readouterr().out.splitlines()] == [moved.id]


def test_show_pairs_calls_with_approvals_and_outputs(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = answered(state, question="why \x1b]0;x\x07?", output="".join(f"{n}\tline\n" for n in range(1, 41)))
    assert run(["sessions", "show", session.id[-5:]]) == 0
    out = capsys.readouterr().out
    assert "\x1b" not in out
    told = [line.partition(" s  ")[2] if line.startswith("  +") else line for line in out.splitlines()]
    told = [line.partition("completed in")[0] + "completed" if "completed in" in line else line for line in told]
    assert told[4:] == [
        r"Turn 1: why \x1b]0;x\x07?",
        "round 1  model response 900 tokens in (300 cached), 40 out  completed",
        "round 1  read_file a.py  ok in 3 ms  (c1)",
        "      output, as the model saw it:",
        *(f"        {n}\tline" for n in range(1, 7)),
        "        (34 more lines; --full shows them)",
        "round 1  run_command rm build  ok in 12 ms  (c2)",
        "      a person was asked: ask: rm writes",
        "      approval: allow by user",
        "      output, as the model saw it:",
        "        exit code 0, 12 ms",
        told[20],
        "      text:",
        "        Because of a.py:1.",
        "Answer:",
        "  Because of a.py:1.",
        "No evidence cited.",
        "Loop: answered after 2 rounds",
        "Fix: not verified (no verification was requested)",
    ]


def test_show_full_leaves_nothing_out(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = answered(state, output="".join(f"{n}\tline\n" for n in range(1, 41)))
    run(["sessions", "show", session.id, "--full"])
    out = capsys.readouterr().out
    assert "        40\tline" in out
    assert "--full" not in out


def test_show_as_json_pairs_by_id(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = answered(state)
    run(["sessions", "show", session.id, "--json"])
    shown = json.loads(capsys.readouterr().out)
    assert shown["session"]["session_id"] == session.id
    (turn,) = shown["turns"]
    assert (turn["turn"], turn["message"], turn["ended"]["outcome"]) == (1, "why null?", "answered")
    assert [
        (call["call_id"], [a["type"] for a in call["approvals"]], call["output"]["status"]) for call in turn["calls"]
    ] == [("c1", [], "ok"), ("c2", ["approval_requested", "approval_decided"], "ok")]
    assert [event["type"] for event in turn["events"]] == ["model_response", "model_response"]


def test_show_without_id_means_the_latest_finished_session_of_the_repository_here(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    here = tmp_path / "shop"
    (here / ".git").mkdir(parents=True)
    (here / "src").mkdir()
    monkeypatch.chdir(here / "src")
    answered(state, question="older", repo=str(here))
    answered(state, question="elsewhere", repo="/other")
    with Session.create(state) as live:
        live.journal.turn = 1
        live.emit(SessionStarted(str(here), "m", "p", "i", "v"))
        live.emit(TurnStarted("live"))
        assert run(["sessions", "show"]) == 0
    assert "Turn 1: older" in capsys.readouterr().out


def test_nothing_finished_here_is_an_error_with_its_remedy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["sessions", "show"]) == 2
    assert capsys.readouterr().err == (
        f"codeagent: error: There is no finished session of {tmp_path}.\n"
        "Start one with `codeagent ask`, or name one that `codeagent sessions list` shows.\n"
    )


@pytest.mark.parametrize(
    ("about", "command"),
    [
        ("top/part", "sessions show"),
        (".", "sessions show"),
        (".", "resume --session"),
        (".", "diff"),
        (".", "apply"),
        (".", "sessions export --html FILE"),
    ],
)
def test_a_session_of_a_folder_above_or_below_is_named(
    about: str,
    command: str,
    state: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    (tmp_path / "top" / "part").mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "top")
    answered(state, repo=f"{tmp_path}-beside")
    near = answered(state, repo=str((tmp_path / about).resolve()))
    assert run(command.removesuffix(" --session").split()) == 2
    assert capsys.readouterr().err == (
        f"codeagent: error: There is no finished session of {tmp_path / 'top'}.\n"
        f"The latest near it is of {(tmp_path / about).resolve()}: `codeagent {command} {near.id}`.\n"
    )


def test_fewer_sessions_than_none_cannot_be_listed(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["sessions", "list", "--limit", "-1"]) == 2
    assert capsys.readouterr().err.startswith("codeagent: error: ")


def test_recheck_names_itself_where_the_answer_is_of_a_folder_above(
    state: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "top").mkdir()
    monkeypatch.chdir(tmp_path / "top")
    near = answered(state, repo=str(tmp_path.resolve()))
    assert run(["recheck"]) == 2
    told = f"The latest near it is of {tmp_path.resolve()}: `codeagent recheck {near.id}`.\n"
    assert capsys.readouterr().err.endswith(told)


def test_a_mistyped_id_is_answered_with_the_nearest(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    ids = ["20260301-090000-abcde", "20260301-090000-k3f9x", "20250101-101500-zzzzz"]
    assert nearest("abcdf", ids) == ids[:1]
    assert nearest("20260301-090000-abcdd", ids)[0] == ids[0]
    assert nearest("K3F9", ids) == [ids[1]]
    assert nearest("q", ids) == []
    session = answered(state)
    mistyped = session.id[:-1] + ("2" if session.id[-1] != "2" else "3")
    assert run(["sessions", "show", mistyped]) == 2
    assert capsys.readouterr().err == (
        f"codeagent: error: There is no session '{mistyped}'.\n"
        f"Nearest: {session.id}. `codeagent sessions list` shows what is stored.\n"
    )


def test_export_removes_key_shapes_and_keeps_opaque_payloads(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Session.create(state) as session:
        session.journal.turn = 1
        session.emit(SessionStarted("/r", "m", "p", "i", "v"))
        session.emit(TurnStarted(f"is {KEY} a key?"))
        from codeagent.events import ModelResponse

        payload = {"type": "reasoning", "id": "rs_1", "encrypted_content": KEY, "summary": [{"text": KEY}]}
        session.emit(ModelResponse("completed", "completed", {}, "", [payload], "responses", "p", "m"))
        session.emit(ended("answered", f"token={KEY}"))
        session.save_diff(f"+key = {KEY}\n".encode())
    run(["sessions", "export", session.id, "--json"])
    records = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    removed = "[looks like a key: removed]"
    assert records[1]["message"] == f"is {removed} a key?"
    assert records[2]["items"] == [
        {"type": "reasoning", "id": "rs_1", "encrypted_content": KEY, "summary": [{"text": removed}]}
    ]
    assert records[3]["answer"] == f"token={removed}"
    for form in ("--markdown", "--html"):
        file = state / f"report{form}"
        assert run(["sessions", "export", session.id, form, str(file)]) == 0
        assert KEY not in file.read_text()
        assert removed in file.read_text()
    assert KEY in (session.folder / EVENTS).read_text()  # the log itself is not edited


def test_markdown_keeps_foreign_text_inside_its_blocks(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = answered(state, question="<script>x</script>", output="```\n# not a heading\n````\n")
    run(["sessions", "export", session.id, "--markdown"])
    out = capsys.readouterr().out
    assert out.startswith("# &lt;script>x&lt;/script>\n")
    assert "`````\n```\n# not a heading\n````\n\n`````" in out


def test_an_export_that_cannot_be_written_names_the_file(
    state: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    session = answered(state)
    assert run(["sessions", "export", session.id, "--json", str(tmp_path / "no" / "x.json")]) == 2
    assert capsys.readouterr().err.startswith(f"codeagent: error: {tmp_path}/no/x.json cannot be written: ")


def test_damage_is_told_and_kept(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    session = answered(state)
    file = session.folder / EVENTS
    file.write_bytes(file.read_bytes() + b'{"type":"turn_st\n\0\0\0\n')
    before = file.read_bytes()
    run(["sessions", "show", session.id])
    assert capsys.readouterr().err == "2 unreadable line(s) of the log were left out; the file is as it was.\n"
    assert file.read_bytes() == before


def test_delete_removes_what_is_named_and_refuses_what_is_in_use(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone, kept = answered(state), answered(state)
    assert run(["sessions", "delete", gone.id, "nope"]) == 2  # nothing is deleted when one cannot be found
    assert gone.folder.exists()
    assert run(["sessions", "delete", gone.id]) == 0
    assert not gone.folder.exists()
    with Session.open(kept.folder):
        assert run(["sessions", "delete", kept.id]) == 2
    assert f"is in use by another codeagent (process {os.getpid()})" in capsys.readouterr().err
    assert kept.folder.exists()


@pytest.mark.parametrize("ref", ["..", "../..", "", "/etc", "."])
def test_an_id_is_never_a_path(ref: str, state: Path) -> None:
    answered(state)
    assert run(["sessions", "delete", ref]) == 2
    assert len(list((state / "sessions").iterdir())) == 1


def test_an_ambiguous_part_of_an_id_is_refused(state: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answered(state), answered(state)
    assert run(["sessions", "show", "2"]) == 2
    assert "'2' could be 2 sessions: " in capsys.readouterr().err


def test_an_ambiguous_part_names_those_used_last_and_says_that_there_are_more(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for number in range(6):
        folder = state / "sessions" / f"20260301-10000{number}-aaaaa"
        folder.mkdir(parents=True)
        (folder / EVENTS).touch()
        os.utime(folder / EVENTS, (1_000 - number, 1_000 - number))
    assert run(["sessions", "show", "2026"]) == 2
    named = ", ".join(f"20260301-10000{number}-aaaaa" for number in range(4))
    assert f"'2026' could be 6 sessions: {named} and 2 more.\n" in capsys.readouterr().err


def test_a_change_that_was_never_applied_is_not_deleted_without_a_word(
    state: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain, changed = answered(state), answered(state)
    with Session.open(changed.folder) as session:
        session.emit(WorkspaceChanged(["a.py"]))
        session.save_diff(b"diff --git a/a.py b/a.py\n")
    assert run(["sessions", "delete", plain.id, changed.id]) == 2
    assert capsys.readouterr().err == (
        f"codeagent: error: Not applied: the change of {changed.id}. Nothing was deleted.\n"
        "`codeagent diff ID` shows it and `codeagent apply ID` keeps it; `--yes` deletes it all the same.\n"
    )
    assert plain.folder.exists()
    assert run(["sessions", "delete", "--yes", plain.id, changed.id]) == 0
    assert list((state / "sessions").iterdir()) == []


@pytest.mark.parametrize(("answer", "code"), [("n", 1), ("y", 0)])
def test_at_a_terminal_a_person_says_whether_it_goes(answer: str, code: int, state: Path) -> None:
    session = answered(state)
    with Session.open(session.folder) as again:
        again.save_diff(b"diff --git a/a.py b/a.py\n")
    start = "from codeagent.cli.main import main; main()"
    arguments = ["-c", start, "sessions", "delete", session.id]
    child = pexpect.spawn(sys.executable, arguments, encoding="utf-8", timeout=30, dimensions=(24, 120))
    child.expect_exact(f"The change of {session.id} was never applied. Delete it all the same? [y/N]:")
    listening(child)
    child.sendline(answer)
    child.expect_exact("Nothing was deleted." if code else f"deleted {session.id}")
    child.expect(pexpect.EOF)
    child.close()
    assert (child.exitstatus, session.folder.exists()) == (code, code == 1)


@pytest.mark.parametrize(("reverse", "code"), [(False, 0), (True, 2)])
def test_a_change_that_is_in_the_repository_may_go(reverse: bool, code: int, state: Path) -> None:
    session = answered(state)
    with Session.open(session.folder) as again:
        again.emit(WorkspaceChanged(["a.py"]))
        again.save_diff(b"diff --git a/a.py b/a.py\n")
        again.emit(Applied(reverse, ["a.py"], "", ""))
    assert run(["sessions", "delete", session.id]) == code


def test_list_starts_without_the_heavy_libraries(state: Path) -> None:
    answered(state)
    script = (
        "import sys; from codeagent.cli.main import run; run(['sessions', 'list']); "
        "print([name for name in ('openai', 'docker', 'rich', 'tree_sitter') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"
