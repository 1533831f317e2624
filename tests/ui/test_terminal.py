from __future__ import annotations

import io
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pytest

from codeagent.inference import RetryNotice, TextDelta
from codeagent.settings import Price
from codeagent.ui import streams
from codeagent.ui.terminal import Terminal
from tests.clocks import wait_until
from tests.ui.records import HOSTILE, SERVICE, Recorder, answered_session, hostile_session
from tests.ui.screens import OWN_SEQUENCES, PtyScreen

XTERM = {"TERM": "xterm"}


def plain(records: Iterable[Mapping[str, Any]], **options: Any) -> tuple[str, str]:
    """What stands on stdout and stderr after `records`, off a terminal."""
    out, err = io.StringIO(), io.StringIO()
    with Terminal(out, err, environ={}, **options) as terminal:
        for record in records:
            terminal.record(record)
    return out.getvalue(), without_time(err.getvalue())


def without_time(text: str) -> str:
    """The footer ends with the time that the test itself took."""
    lines = text.split("\n")
    return "\n".join(line.rpartition(" · ")[0] if line.startswith("round ") else line for line in lines)


def test_off_a_terminal_each_thing_is_one_plain_line() -> None:
    out, err = plain(answered_session())
    assert err == (
        "/home/me/user-service · openai gpt-5.6 · session 20260301-090000-abcde\n"
        "  I will look at the service first.\n"
        f"read_file {SERVICE}:10-14: ok, 0.01s, {len(read_output())} B\n"
        "read_file src/Missing.java: file_not_found, 0.00s, 51 B\n"
        "retry 1 in 1.5s: 429 too many requests\n"
        "run_command rg -n 'return null' src: ok, 0.02s, 136 B\n"
        f"apply_patch {SERVICE}: ok, 0.04s, 14 B\n"
        f"  changed in the private copy: {SERVICE}\n"
        "1 of 2 citations: lines were seen by the tools. That says that the lines were seen, "
        "not that the claim is true.\n"
        f"  {SERVICE}:99: the file exists, but no tool returned these lines\n"
        "Loop: answered after 3 rounds\n"
        "Fix: verified (the command fails before the change and passes after it)\n"
        "Check: make test (in /workspace of image cccccccccccc)\n"
        "Before the change: exit 1, 1.83s, 12 tests\n"
        "With the change: exit 0, 1.83s, 12 tests\n"
        "Change: diff with SHA-256 dddddddddddd\n"
        "Your repository: untouched (state eeeeeeeeeeee before and after)\n"
        "round 3 · 14.4k tokens in (69% cached), 440 out\n"
        'Ask more: codeagent resume "…" --session 20260301-090000-abcde\n'
        "See the change: codeagent diff 20260301-090000-abcde\n"
        "Put it into your repository: codeagent apply 20260301-090000-abcde\n"
    )
    assert out == answered_session()[-1]["answer"]


def test_what_is_no_longer_sent_is_said_and_who_shortened_it() -> None:
    log = Recorder()
    log.start("why?")
    log.add("compacted", cleared_calls=["c1"], summarised_rounds=0, summary=None)
    made = {"usage": {"output_tokens": 400}}
    log.add("compacted", cleared_calls=[], summarised_rounds=12, summary="so far", compaction=made)
    log.add("compacted", cleared_calls=["c1"], summarised_rounds=12, summary=None)
    log.add("retry", attempt=1, reason="the server has none", delay_ms=0)
    log.add("compacted", cleared_calls=["c2", "c3"], summarised_rounds=20, summary="so far", compaction=None)
    log.end()
    _, err = plain(log.records)
    assert err.splitlines()[1:6] == [
        "context: 1 old output cleared",
        "context: 0 old outputs cleared, 12 rounds compacted by the API",
        "context: 1 old output cleared",
        "retry 1: the server has none",
        "context: 2 old outputs cleared, 20 rounds summarised",
    ]


def read_output() -> str:
    return next(str(record["output"]) for record in answered_session() if record["type"] == "tool_output")


def test_quiet_leaves_the_answer_what_its_marks_mean_and_the_two_facts() -> None:
    out, err = plain(answered_session(), quiet=True)
    assert out == answered_session()[-1]["answer"]
    assert err == (
        "1 of 2 citations: lines were seen by the tools. "
        "That says that the lines were seen, not that the claim is true.\n"
        "  src/main/java/com/example/UserService.java:99: the file exists, but no tool returned these lines\n"
        "Loop: answered after 3 rounds\nFix: verified (the command fails before the change and passes after it)\n"
    )


def test_nothing_is_redrawn_where_something_else_is_printed_to_the_same_terminal() -> None:
    with PtyScreen(100) as pty:
        with Terminal(None, pty.stream, live=False, environ=XTERM) as terminal:
            for record in answered_session():
                terminal.record(record)
        sent = pty.sent
    assert "\x1b[J" not in sent
    assert "waiting" not in sent


def test_sentences_are_folded_on_a_terminal_where_nothing_is_redrawn() -> None:
    with PtyScreen(40) as pty:
        with Terminal(None, pty.stream, live=False, environ=XTERM) as terminal:
            terminal.note("a sentence that is wider than this narrow screen")
        assert pty.shown() == ["a sentence that is wider than this", "narrow screen"]


def test_only_a_plain_file_shows_nothing_of_what_is_written_to_it(tmp_path: Path) -> None:
    reader, writer = os.pipe()
    with (
        os.fdopen(reader),
        os.fdopen(writer, "w") as pipe,
        (tmp_path / "events").open("w") as file,
        PtyScreen() as pty,
    ):
        found = [streams.is_file(stream) for stream in (file, pipe, pty.stream, io.StringIO())]
    assert found == [True, False, False, False]


def test_the_time_of_a_turn_counts_what_comes_before_its_first_event() -> None:
    err = io.StringIO()
    with Terminal(None, err, environ={}) as terminal:
        terminal.begin_turn()
        begun = time.monotonic()
        terminal.steps("running the check without the change", 0, 0)
        wait_until(lambda: time.monotonic() - begun > 0.05)
        for record in answered_session():
            terminal.record(record)
    (took,) = re.findall(r"^round 3 .* · ([\d.]+)s$", err.getvalue(), re.MULTILINE)
    assert float(took) >= 0.05


def test_where_the_sandbox_failed_the_image_that_was_named_is_looked_at_and_another_offered() -> None:
    log = Recorder()
    log.add("session_started", repo="/r", model="m", provider="p", image="no such:1", version="1")
    log.end("sandbox_failed", exit_code=4)
    _, err = plain(log.records)
    assert err.splitlines()[-1] == (
        "Find the cause: codeagent doctor --image 'no such:1'; then try again: "
        "codeagent resume --session 20260301-090000-abcde (--image IMAGE takes another image)"
    )


def test_verbose_shows_outputs_and_who_decided() -> None:
    _, err = plain(answered_session(), verbose=True)
    assert "    | 13\t        return null;\n" in err
    assert "  allow by class: read-only\n" in err
    assert "before the change: exit 1, 1.83s, 12 tests\n    | 1 failed, 11 passed\n" in err


def test_a_turn_without_any_answer_says_both_facts_and_how_to_go_on() -> None:
    log = Recorder()
    log.start("q")
    log.respond("so far: line 3")
    log.end("round_limit", partial="so far: line 3\nand 4", exit_code=7)
    out, err = plain(log.records)
    assert out == ""
    assert err.splitlines()[1:] == [
        "Partial (written before the turn was stopped; not an answer):",
        "  so far: line 3",
        "  and 4",
        "Loop: stopped at the round limit after 1 round",
        "Fix: not verified (no verification was requested)",
        "round 1 · 14.4k tokens in (69% cached), 440 out",
        "Go on: codeagent resume --session 20260301-090000-abcde (--max-rounds raises it)",
    ]


def test_what_no_person_decided_is_explained() -> None:
    log = Recorder()
    log.start("q")
    log.call("c", "run_command", command="make")
    reason = "no terminal to ask on; --approve contained would allow it"
    log.add("approval_decided", call_id="c", decision="deny", by="no_terminal", reason=reason)
    log.output("c", "error: denied: …", error_kind="denied")
    _, err = plain(log.records)
    assert f"  deny by no_terminal: {reason}\nrun_command make: denied, 0.01s, 18 B\n" in err


def test_what_the_model_alone_is_told_is_shown_with_verbose() -> None:
    log = Recorder()
    log.start("q")
    log.add("note", origin="program", text="The turn ends here (a limit of 1.5 s). Do not call a tool.\nSay more.")
    log.add("note", origin="repository", text="x" * 2_000)
    _, err = plain(log.records)
    assert err.splitlines()[1:] == [
        "note: the model was given the repository's own instructions (2.0 KB, untrusted)",
    ]
    _, err = plain(log.records[:-1], verbose=True)
    assert err.splitlines()[1:] == [
        "note: The turn ends here (a limit of 1.5 s). Do not call a tool.",
        "note: Say more.",
    ]


def test_the_repositorys_instructions_are_not_told_of_where_no_model_is_given_them() -> None:
    log = Recorder()
    log.start("q")
    log.records[0] |= {"provider": "offline", "model": "offline"}
    log.add("note", origin="repository", text="x" * 2_000)
    _, err = plain(log.records)
    assert err == "/home/me/user-service · offline · session 20260301-090000-abcde\n"


def test_a_provider_without_a_model_stands_alone() -> None:
    log = Recorder()
    log.add("session_started", repo="/r", model="", provider="local", image="codeagent-sandbox", version="0.1.0")
    _, err = plain(log.records)
    assert err == "/r · local · session 20260301-090000-abcde\n"


def test_a_resumed_session_says_what_is_uncertain() -> None:
    log = Recorder()
    facts = {"repo": "/r", "model": "m", "provider": "p", "image": "i", "version": "0.1.0"}
    log.add("session_resumed", **facts, interrupted_calls=["a", "b"], damaged_lines=1, orphan_outputs=3)
    log.respond()
    log.call("c", "list_dir", path=".")
    log.output("c", "x")
    log.end(answer="Done.")
    _, err = plain(log.records)
    assert err.splitlines()[:5] == [
        "/r · p m · image i · session 20260301-090000-abcde",
        "2 calls without an output may or may not have run; the model is told so",
        "left out: 1 line of the session's log that cannot be read; the file is as it was",
        "left out: 3 outputs whose call is not in the log",
        "list_dir .: ok, 0.01s, 1 B",
    ]


def test_off_a_terminal_a_long_command_is_told_by_its_beginning() -> None:
    log = Recorder()
    log.start("q")
    log.call("a", "run_command", command="rg " + "x" * 600)
    log.output("a", "[exit code 0; 0.02 s; cwd /workspace]")
    log.call("b", "read_file", path="d/" * 200 + "a.py")
    log.output("b", "x")
    _, err = plain(log.records)
    assert err.splitlines()[1:] == [
        f"run_command rg {'x' * 116}…: ok, 0.01s, 37 B",
        f"read_file …/{'d/' * 57}a.py: ok, 0.01s, 1 B",
    ]


def test_cost_is_shown_when_the_price_is_known() -> None:
    _, err = plain(answered_session(), price=Price(input=2.0, output=8.0, cached_input=0.5))
    # 4,400 fresh at 2, 10,000 cached at 0.5, 440 out at 8, per million
    assert "round 3 · 14.4k tokens in (69% cached), 440 out · cost 0.0173\n" in err


def test_slow_steps_are_said_once_off_a_terminal() -> None:
    err = io.StringIO()
    with Terminal(None, err, environ={}) as terminal:
        terminal.steps("copying the repository", 0, 10)
        time.sleep(0.55)
        terminal.steps("copying the repository", 5, 10)
        terminal.steps("copying the repository", 6, 10)
        terminal.steps("copying the repository", 10, 10)
    assert err.getvalue() == "copying the repository: 5 of 10 (50%)\n"


def test_a_copy_is_one_step_told_by_its_share() -> None:
    err = io.StringIO()
    with Terminal(None, err, environ={}) as terminal:
        terminal.steps("copying the repository (1 of 90 files)", 10_000, 5_000_000)
        time.sleep(0.55)
        for number in range(2, 90):
            terminal.steps(f"copying the repository ({number} of 90 files)", 50_000 * number, 5_000_000)
    assert err.getvalue() == "copying the repository (2 of 90 files): 2%\n"


@pytest.mark.slow
def test_the_lines_of_a_build_are_one_step_that_goes_on() -> None:
    err = io.StringIO()
    with Terminal(None, err, environ={}) as terminal:
        terminal.steps("building the image: line 0", 0, 0)
        time.sleep(0.55)
        for number in range(1, 100):
            terminal.steps(f"building the image: line {number}", 0, 0)
        terminal.steps("preparing the toolbox", 0, 0)
        time.sleep(0.55)
        terminal.steps("preparing the toolbox", 0, 0)
    assert err.getvalue() == "building the image: line 1\npreparing the toolbox\n"


def test_the_footer_names_what_is_waited_for() -> None:
    log = Recorder()
    log.start("why?")
    with PtyScreen(80) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        for record in log.records:
            terminal.record(record)
        shown = [pty.shown()[-1].strip()]
        terminal.steps("copying the repository", 1, 9)
        shown.append(pty.shown()[-2].strip())
        terminal.steps("", 0, 0)
        for api in ("responses", "offline"):
            terminal.begin_round(api)
            shown.append(pty.shown()[-1].strip())
    assert [line.partition(" · ")[0] for line in shown] == [
        "starting the sandbox",
        "copying the repository: 1 of 9 (11%)",
        "waiting for the model",
        "working by fixed rules",
    ]


def test_a_step_within_another_leaves_the_outer_one() -> None:
    with PtyScreen(80) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        shown = []
        for report in (
            ("verifying: before the change", 0, 1),
            ("copying the repository (1 of 9 files)", 10_000, 50_000),
            ("copying the repository (9 of 9 files)", 50_000, 50_000),
            ("looking for a registry", 0, 0),
            ("building the image: step 1", 0, 0),
            ("", 0, 0),
        ):
            terminal.steps(*report)
            shown.append([line.strip() for line in pty.shown()])
    assert shown == [
        ["verifying: before the change"],
        ["copying the repository (1 of 9 files): 20%"],
        ["verifying: before the change"],
        ["looking for a registry"],
        ["building the image: step 1"],
        [],
    ]


@pytest.mark.parametrize("verbose", [False, True])
def test_foreign_text_never_acts_off_a_terminal(verbose: bool) -> None:
    _, err = plain(hostile_session(), verbose=verbose)
    assert [one for one in err if not one.isprintable() and one not in "\n"] == []
    assert "[/INST] [link=file:///x]a[/link] [bold\\x1b[31m\\x1b]8;;http://evil\\x07 \\u202e\\u2028 😀 你" in err


@pytest.mark.parametrize("verbose", [False, True])
@pytest.mark.parametrize("columns", [20, 100])
def test_foreign_text_never_acts_on_a_terminal(verbose: bool, columns: int) -> None:
    with PtyScreen(columns) as pty:
        with Terminal(pty.stream, pty.stream, verbose=verbose, environ=XTERM) as terminal:
            for record in hostile_session():
                terminal.record(record)
                terminal.hint(TextDelta(HOSTILE))
        left = OWN_SEQUENCES.sub("", pty.sent)
    assert [one for one in left if not one.isprintable() and one not in "\r\n\t"] == []
    assert "[/INST]" in left
    assert "😀 你" in left or columns == 20  # a wrapped answer may break the line there


def test_one_line_a_call_fills_in_as_it_runs_in_the_order_of_the_calls() -> None:
    log = Recorder()
    log.start("q")
    log.respond()
    log.call("a", "read_file", path="first.py", start_line=None, end_line=None)
    log.call("b", "read_file", path="second.py", start_line=None, end_line=None)
    log.output("b", "x" * 2_000, 700)
    with PtyScreen(80) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        for record in log.records:
            terminal.record(record)
        running = pty.shown()
        log.output("a", "error: file_not_found: no", 900, "file_not_found")
        terminal.record(log.records[-1])
        finished = pty.shown()
    assert running[1:3] == [
        "  read_file   first.py",
        "  read_file   second.py                          0.70s   2.0 KB  ok",
    ]
    assert finished[1:3] == [
        "  read_file   first.py                           0.90s     25 B  file_not_found",
        "  read_file   second.py                          0.70s   2.0 KB  ok",
    ]
    assert "waiting for the model" in finished[3]


def test_a_very_wide_screen_keeps_what_belongs_together_together() -> None:
    log = Recorder()
    log.start("q")
    log.call("a", "read_file", path="a" * 300, start_line=None, end_line=None)
    log.output("a", "x")
    with PtyScreen(250) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        for record in log.records:
            terminal.record(record)
        line = pty.shown()[1]
    assert line == f"  read_file   …{'a' * 72}   0.01s      1 B  ok"


def test_the_block_leaves_the_screen_and_the_two_facts_stand_under_the_answer() -> None:
    with PtyScreen(100) as pty:
        with Terminal(pty.stream, pty.stream, environ=XTERM) as terminal:
            for record in answered_session():
                terminal.record(record)
        shown = pty.shown()
    assert not [line for line in shown if "waiting for the model" in line]
    answer = shown.index("Cause")
    facts = shown.index("Loop: answered after 3 rounds")
    assert answer < facts
    assert shown[facts + 1] == "Fix: verified (the command fails before the change and passes after it)"
    assert "Where  What" in shown


def test_citations_are_marked_in_the_answer_on_a_terminal_and_nowhere_else() -> None:
    with PtyScreen(100) as pty:
        with Terminal(pty.stream, pty.stream, environ=XTERM) as terminal:
            for record in answered_session():
                terminal.record(record)
        shown = " ".join(pty.shown())
    assert f"{SERVICE}:12-13 ✓ returns null" in shown
    assert f"see {SERVICE}:99 ?." in shown
    assert "✓" not in plain(answered_session())[0]


def test_the_footer_tells_the_round_that_is_under_way_in_the_words_that_fit() -> None:
    shown = {}
    for columns in (100, 70, 40, 24):
        log = Recorder()
        log.start("q")
        log.respond(sent=15_500, cached=12_000, out=130)
        log.call("a", "list_dir", path=".")
        log.output("a", "x")
        with PtyScreen(columns) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
            for record in log.records:
                terminal.record(record)
            shown[columns] = pty.shown()[-1].strip().rpartition(" · ")[0]
    assert shown == {
        100: "waiting for the model · round 2 · 15.5k tokens in (77% cached), 130 out",
        70: "waiting for the model · round 2 · 15.6k tokens",
        40: "round 2 · 15.6k tokens",
        24: "round 2",
    }


def test_an_error_stands_above_the_end_that_it_caused() -> None:
    log = Recorder()
    log.start("q")
    log.end("sandbox_failed", rounds=0, usage={})
    with PtyScreen(80) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        terminal.record(log.records[1])
        terminal.step_aside()
        pty.stream.write("error: no engine\n")
        time.sleep(0.25)
        terminal.record(log.records[2])
        shown = pty.shown()
    assert shown[:3] == [
        "error: no engine",
        "Loop: stopped because the sandbox failed before the first round",
        "Fix: not verified (no verification was requested)",
    ]
    assert shown[3].startswith("round 0 · ")


def test_a_chat_says_how_to_go_on_at_its_own_end() -> None:
    err = io.StringIO()
    with Terminal(None, err, environ={}) as terminal:
        terminal.hints = False
        for record in answered_session():
            terminal.record(record)
    assert "codeagent apply" not in err.getvalue()


def test_a_chat_says_where_the_sandbox_failed_what_finds_the_cause() -> None:
    log, err = Recorder(), io.StringIO()
    log.add("session_started", repo="/r", model="m", provider="p", image="no such:1", version="1")
    log.end("sandbox_failed", exit_code=4)
    with Terminal(None, err, environ={}) as terminal:
        terminal.hints = False
        for record in log.records:
            terminal.record(record)
    last = "Find the cause: codeagent doctor --image 'no such:1'; then ask again here"
    assert err.getvalue().splitlines()[-1] == last


def test_narrow_screens_break_the_two_facts_between_words() -> None:
    with PtyScreen(40) as pty:
        with Terminal(None, pty.stream, environ=XTERM) as terminal:
            for record in answered_session():
                terminal.record(record)
        shown = pty.shown()
    at = shown.index("Fix: verified (the command fails before")
    assert shown[at + 1] == "the change and passes after it)"


def test_wide_characters_keep_the_columns_aligned() -> None:
    log = Recorder()
    log.start("q")
    for at, path in enumerate(("plain/path.py", "资料/用户服务.py", "한국어/😀.py", "资" * 80)):
        log.call(str(at), "read_file", path=path, start_line=None, end_line=None)
        log.output(str(at), "x")
    with PtyScreen(80) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        for record in log.records:
            terminal.record(record)
        screen = pty.screen()
    rows = [screen.buffer[row] for row in range(1, 5)]
    sizes = [next(x for x in range(79) if row[x].data + row[x + 1].data + row[x + 2].data == "1 B") for row in rows]
    assert len(set(sizes)) == 1


def test_nothing_is_drawn_while_a_person_is_asked() -> None:
    log = Recorder()
    log.start("q")
    log.call("a", "run_command", command="make")
    log.add("approval_requested", call_id="a", command="make", **{"class": "ask"}, reason="unknown")
    with PtyScreen(80) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        for record in log.records:
            terminal.record(record)
        before = pty.sent
        terminal.note("a thread has something to say")
        terminal.steps("starting the container", 1, 5)
        time.sleep(0.25)
        assert pty.sent == before
        log.add("approval_decided", call_id="a", decision="allow", by="user", reason="")
        terminal.record(log.records[-1])
        assert "a thread has something to say" in pty.shown()[1]


def test_streamed_text_is_previewed_and_a_retry_takes_it_back() -> None:
    log = Recorder()
    log.start("q")
    with PtyScreen(80) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        for record in log.records:
            terminal.record(record)
        terminal.hint(TextDelta("The cache "))
        terminal.hint(TextDelta("is asked first."))
        wait_until(lambda: "  The cache is asked first." in pty.shown())
        terminal.hint(RetryNotice(1, "cut", 10))
        wait_until(lambda: "  The cache is asked first." not in pty.shown())


def test_what_takes_long_turns_a_spinner_and_shows_progress() -> None:
    with PtyScreen(80) as pty, Terminal(None, pty.stream, environ=XTERM) as terminal:
        terminal.steps("building the image", 3, 12)
        terminal.steps("building the image", 6, 12)
        spinning = r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏] building the image: 6 of 12 \(50%\) · \d+\.\d\ds"
        wait_until(lambda: any(re.fullmatch(spinning, line) for line in pty.shown()))
        terminal.steps("building the image", 12, 12)
        wait_until(lambda: pty.shown() == [])


@pytest.mark.parametrize("columns", ["0", "5", "1", "-3", "x", "100000"])
@pytest.mark.parametrize("term", ["xterm", "dumb", ""])
def test_no_width_and_no_terminal_is_too_strange(columns: str, term: str) -> None:
    with PtyScreen(7, 3) as pty:
        environ = {"TERM": term, "COLUMNS": columns}
        with Terminal(pty.stream, pty.stream, environ=environ) as terminal:
            for record in answered_session():
                terminal.record(record)
        sent = pty.sent
    assert "Loop: answered after 3 rounds" in " ".join(OWN_SEQUENCES.sub("", sent).split())
    assert ("\x1b" in sent) == (term == "xterm")


@pytest.mark.parametrize("environ", [{"NO_COLOR": "1", "TERM": "xterm"}, {"TERM": "xterm"}])
def test_colour_can_be_turned_off(environ: dict[str, str]) -> None:
    with PtyScreen() as pty:
        with Terminal(pty.stream, pty.stream, no_color="NO_COLOR" not in environ, environ=environ) as terminal:
            for record in answered_session():
                terminal.record(record)
        sent = pty.sent
    assert "m" not in {sequence[-1] for sequence in OWN_SEQUENCES.findall(sent)}


def test_no_colour_off_a_terminal_even_when_forced() -> None:
    err = io.StringIO()
    with Terminal(err, err, environ={"FORCE_COLOR": "1", "TERM": "xterm-256color", "COLUMNS": "5"}) as terminal:
        for record in answered_session():
            terminal.record(record)
    assert "\x1b" not in err.getvalue()


@pytest.mark.parametrize("encoding", ["ascii", "cp1252", "latin-1"])
def test_an_encoding_that_lacks_a_character_gets_a_question_mark(encoding: str) -> None:
    raw = io.BytesIO()
    stream = io.TextIOWrapper(raw, encoding=encoding)
    with Terminal(stream, stream, environ={}) as terminal:
        for record in hostile_session():
            terminal.record(record)
    stream.flush()
    assert b"Loop: answered after 1 round" in raw.getvalue()


def test_a_reader_of_progress_that_goes_away_does_not_stop_the_run() -> None:
    script = (
        "import sys; from codeagent.ui.terminal import Terminal; from tests.ui.records import answered_session\n"
        "with Terminal(sys.stdout, sys.stderr) as t:\n"
        "    for _ in range(300):\n        [t.record(r) for r in answered_session()[:-1]]\n"
        "print('done')"
    )
    shell = f'{sys.executable} -c "$0" 2>&1 1>/dev/null | head -1; echo "${{PIPESTATUS[0]}}"'
    ran = subprocess.run(["bash", "-c", shell, script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.splitlines()[1:] == ["0"]


def test_an_answer_that_cannot_be_written_leaves_the_facts() -> None:
    err = io.StringIO()
    with open("/dev/full", "w") as full, pytest.raises(OSError, match="No space"):  # noqa: PTH123 -- no file
        try:
            terminal = Terminal(full, err, environ={})
            for record in answered_session():
                terminal.record(record)
        finally:
            terminal.close()
            os.dup2(os.open(os.devnull, os.O_WRONLY), full.fileno())
    assert "Loop: answered after 3 rounds\nFix: verified" in err.getvalue()


def test_off_a_terminal_nothing_heavy_is_imported() -> None:
    script = (
        "import sys; from codeagent.ui.terminal import Terminal; from tests.ui.records import answered_session\n"
        "with Terminal(sys.stdout, sys.stderr) as t:\n    [t.record(r) for r in answered_session()]\n"
        "print({'rich', 'markdown_it', 'prompt_toolkit', 'openai', 'docker'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert ran.stdout.endswith("set()\n")


def test_on_a_terminal_a_path_below_the_home_directory_is_short() -> None:
    log = Recorder()
    log.start("q", repo="/home/me/src/shop")
    for home, shown in (
        ("/home/me", "~/src/shop · "),
        ("/home/m", "/home/me/src/shop · "),
        ("", "/home/me/src/shop · "),
    ):
        with PtyScreen(100) as pty, Terminal(None, pty.stream, environ={**XTERM, "HOME": home}) as terminal:
            terminal.record(log.records[0])
            assert pty.shown()[0].startswith(shown)
