"""The prompt, driven in a real pseudo-terminal and read as a person sees it."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pexpect
import pyte
import pytest

from codeagent.errors import Interrupted
from codeagent.ui.approval import Prompt
from tests.terminals import listening

pytestmark = pytest.mark.slow

ASK_ONCE = Path(__file__).parent / "ask_once.py"
READY = r"\[y/a/(p/)?N/r/s\]: "


class Person:
    """Someone at a terminal of a given size, in front of one question."""

    def __init__(
        self, out: Path, command: str, columns: int, rows: int, delay: float, times: int, guard: float, **env: str
    ) -> None:
        self.out = out
        self.screen = pyte.HistoryScreen(columns, rows, history=5000)
        self.stream = pyte.Stream(self.screen)
        self.seen = ""
        self.process: pexpect.spawn[str] = pexpect.spawn(
            sys.executable,
            [str(ASK_ONCE), str(out), command, str(delay), str(times), str(guard)],
            dimensions=(rows, columns),
            encoding="utf-8",
            env={"PATH": "/usr/bin:/bin", "TERM": "xterm", "LANG": "C.UTF-8", **env},
            timeout=60,
        )

    def waits_for(self, pattern: str) -> str:
        self.process.expect(pattern)
        text = f"{self.process.before}{self.process.after}"
        self.seen += text
        self.stream.feed(text)
        return text

    def answers(self, text: str, *, after: str = READY) -> None:
        """Types once the question stands there and what is typed counts."""
        self.waits_for(after)
        listening(self.process)
        self.process.send(text)

    def outcome(self) -> dict[str, Any]:
        self.process.expect(pexpect.EOF)
        self.seen += str(self.process.before)
        self.stream.feed(str(self.process.before))
        self.process.close()
        result: dict[str, Any] = json.loads(self.out.read_text())
        return result

    def decisions(self) -> list[tuple[str, str, str]]:
        return [
            (event["decision"], event["by"], event["reason"])
            for event in self.outcome()["events"]
            if event["type"] == "approval_decided"
        ]


Sit = Callable[..., Person]


@pytest.fixture
def sit(tmp_path: Path) -> Iterator[Sit]:
    people: list[Person] = []

    def down(
        command: str,
        *,
        columns: int = 80,
        rows: int = 24,
        delay: float = 0,
        times: int = 1,
        guard: float = 0.1,
        **env: str,
    ) -> Person:
        out = tmp_path / f"out{len(people)}.json"
        people.append(Person(out, command, columns, rows, delay, times, guard, **env))
        return people[-1]

    yield down
    for person in people:
        person.process.close(force=True)


def plain(text: str) -> str:
    return re.sub(r"\x1b\[[0-9;]*m", "", text).replace("\r\n", "\n")


def test_shows_the_command_its_size_class_reason_directory_and_where_it_runs(sit: Sit) -> None:
    person = sit("rm -rf build", NO_COLOR="1")
    person.answers("y\n")
    assert person.decisions() == [("allow", "user", "")]
    lines = person.seen.replace("\r\n", "\n").split("\n")
    assert lines[:7] == [
        "",
        "May this command run? (1 line, 12 bytes)",
        "| rm -rf build",
        "class ask: rm is not known to be read-only",
        "in /workspace/src: the private copy, which it may change",
        "y once   a always exactly this   n no   r no, with a reason   s stop",
        "[y/a/N/r/s]: y",
    ]
    assert "\x1b" not in person.seen


def test_colour_only_where_it_is_wanted(sit: Sit) -> None:
    person = sit("rm x")
    person.answers("n\n")
    person.outcome()
    assert "\x1b[1m" in person.seen


@pytest.mark.parametrize(
    ("typed", "decision"),
    [
        ("n\n", ("deny", "user", "the user denied this call")),
        ("\n", ("deny", "user", "the user denied this call")),
        ("\x04", ("deny", "user", "the user denied this call")),
        ("s\n", ("stop", "user", "the user stopped the turn")),
    ],
)
def test_exact_answers_decide(sit: Sit, typed: str, decision: tuple[str, str, str]) -> None:
    person = sit("rm x")
    person.answers(typed)
    assert person.decisions() == [decision]


def test_a_reason_reaches_the_decision_without_anything_that_acts_on_a_terminal(sit: Sit) -> None:
    person = sit("rm x")
    person.answers("r\n")
    person.answers("look first, 先看\x16\x1b[31m\n", after="Reason: ")
    assert person.decisions() == [("deny", "user", "the user denied this call: look first, 先看\\x1b[31m")]


@pytest.mark.parametrize(
    "wrong",
    [
        ("Y", " y", "y "),
        (" Y ", "yes", "yes please"),
        ("ｙ", "yy", "y\\n"),
        ("\x16\x1by", "\x16\x1b[A", "p"),
        ("у", "у", "у"),
    ],
)
def test_whatever_is_not_exactly_an_answer_asks_again_and_the_third_denies(
    sit: Sit, wrong: tuple[str, str, str]
) -> None:
    person = sit("rm x")
    for answer in wrong:
        person.answers(f"{answer}\n")
    assert person.decisions() == [("deny", "user", "the user denied this call")]
    assert "Not one of the answers three times: denied." in person.seen
    assert person.seen.count("Exactly one of these, then Enter: [y/a/N/r/s]: ") == 2


def test_a_wrong_answer_can_be_corrected(sit: Sit) -> None:
    person = sit("rm x")
    person.answers("yes\n")
    person.answers("y\n")
    assert person.decisions() == [("allow", "user", "")]


def test_a_y_without_its_enter_is_no_consent_when_the_input_ends(sit: Sit) -> None:
    person = sit("rm x")
    person.answers("y\x04\x04")
    assert person.decisions() == [("deny", "user", "the user denied this call")]


def test_a_flood_of_y_is_no_consent(sit: Sit) -> None:
    person = sit("rm x")
    for _ in range(3):
        person.answers("y" * 100_000 + "\n")
    assert person.decisions() == [("deny", "user", "the user denied this call")]


def test_keys_typed_before_the_question_do_not_answer_it(sit: Sit) -> None:
    person = sit("rm x", delay=0.6)
    person.process.send("y\n" + "\n" * 10 + "y\n")
    person.answers("n\n")
    assert person.decisions() == [("deny", "user", "the user denied this call")]


def test_keys_typed_while_the_question_appears_do_not_answer_it(sit: Sit) -> None:
    person = sit("rm x", guard=2.0)
    person.waits_for(READY)
    person.process.send("y\n")
    assert not person.process.getecho()
    listening(person.process)
    person.process.send("n\n")
    assert person.decisions() == [("deny", "user", "the user denied this call")]


def test_the_rest_of_a_paste_after_a_wrong_line_does_not_answer(sit: Sit) -> None:
    person = sit("rm x")
    person.answers("what\ny\ny\n")
    person.answers("n\n")
    assert person.decisions() == [("deny", "user", "the user denied this call")]


def test_ctrl_c_interrupts_and_is_recorded(sit: Sit) -> None:
    person = sit("rm x")
    person.answers("\x03")
    result = person.outcome()
    assert result["ended"] == "interrupted"
    assert [event["type"] for event in result["events"]] == ["approval_requested", "approval_decided"]
    assert result["events"][1]["decision"] == "stop"


def test_control_bidirectional_and_invisible_characters_are_shown_and_flagged(sit: Sit) -> None:
    command = "rm \u202egnp.x\u202c a\u200bb \x1b[2K\x07 c\u00a0d\te"
    person = sit(command)
    person.answers("n\n")
    person.outcome()
    seen = plain(person.seen)
    assert r"| rm \u202egnp.x\u202c a\u200bb \x1b[2K\x07 c\xa0d\te" in seen
    assert "! It holds characters that act or show nothing" in seen
    assert not set("\u202e\u202c\u200b\u00a0\x07") & set(seen)


def test_lookalike_letters_are_pointed_out(sit: Sit) -> None:
    person = sit("сp a b")
    person.answers("n\n")
    person.outcome()
    assert "! Look again: сp is not cp: it holds U+0441 (cyrillic small letter es)." in plain(person.seen)


def test_a_long_command_is_seen_whole_before_it_can_be_approved(sit: Sit) -> None:
    command = "\n".join(f"# line {number} {'x' * 30}" for number in range(60)) + "\n" + " " * 300 + "; touch evil"
    person = sit(command, columns=40, rows=10)
    pages = 0
    while True:
        person.process.expect(["stops: ", READY])
        person.seen += f"{person.process.before}{person.process.after}"
        if "N/r/s" in str(person.process.after):
            break
        pages += 1
        assert pages < 60
        listening(person.process)
        person.process.send("\n")
    listening(person.process)
    person.process.send("y\n")
    assert person.decisions() == [("allow", "user", "")]
    rows = [row for row in plain(person.seen).split("\n") if row[:2] in ("| ", ". ")]
    shown = "".join(row[2:] if row.startswith(". ") else "\n" + row[2:] for row in rows).lstrip("\n")
    assert shown == command
    assert all(len(row) < 40 for row in rows)
    assert pages >= 15


@pytest.mark.parametrize("typed", ["y\n", "a\n", "p\n", "yes\n"])
def test_nothing_can_be_approved_before_the_last_page(sit: Sit, typed: str) -> None:
    person = sit("\n".join(f"echo {number} > f" for number in range(100)))
    for _ in range(3):
        person.answers(typed, after="s stops: ")
    assert person.decisions() == [("deny", "user", "the user denied this call")]


def test_a_page_can_be_refused_at_once(sit: Sit) -> None:
    person = sit("\n".join(f"echo {number} > f" for number in range(100)))
    person.answers("s\n", after="s stops: ")
    assert person.decisions() == [("stop", "user", "the user stopped the turn")]


@pytest.mark.parametrize("columns", [20, 33])
def test_narrow_terminals_and_wide_characters_lose_nothing(sit: Sit, columns: int) -> None:
    command = "touch 数据/用户服务/测试文件名称很长的一个文件.txt 😀😀😀😀😀😀😀😀😀😀"
    person = sit(command, columns=columns, rows=60)
    person.answers("n\n")
    person.outcome()
    rows = [row for row in plain(person.seen).split("\n") if row[:2] in ("| ", ". ")]
    assert "".join(row[2:] for row in rows) == command
    screen = [line.rstrip() for line in person.screen.display if line.strip()]
    assert all(len(row) <= columns for row in screen)


@pytest.mark.parametrize("character", ["\u4dc0", "\u0301", "\U0001f1e6"])
def test_characters_of_unsure_width_push_nothing_off_the_screen(sit: Sit, character: str) -> None:
    command = "touch evil; echo hidden\n" + "\n".join("# " + character * 50 for _ in range(5))
    person = sit(command, columns=60, rows=15)
    screens = []
    while "y once" not in person.seen:
        person.waits_for(rf"stops: |{READY}")
        screens.append("\n".join(person.screen.display))
        listening(person.process)
        person.process.send("\n")
    assert "touch evil; echo hidden" in screens[0]
    assert person.decisions() == [("deny", "user", "the user denied this call")]


def test_a_column_count_from_the_environment_hides_nothing(sit: Sit) -> None:
    person = sit("touch evil\n" + "\n".join("x" * 150 for _ in range(8)), columns=40, rows=20, COLUMNS="200")
    person.waits_for(rf"stops: |{READY}")
    assert "touch evil" in "\n".join(person.screen.display)


def test_a_terminal_that_is_too_small_to_show_it_denies(sit: Sit) -> None:
    person = sit("touch evil; echo hidden", columns=12, rows=5)
    assert person.decisions()[0][0] == "deny"
    assert "too small" in plain(person.seen)


def test_a_terminal_without_unicode_shows_escapes_instead_of_question_marks(sit: Sit) -> None:
    person = sit("rm 数据", PYTHONIOENCODING="ascii")
    person.answers("n\n")
    person.outcome()
    assert "| rm \\u6570\\u636e" in plain(person.seen)


def test_a_third_denial_of_the_same_command_in_a_row_stops(sit: Sit) -> None:
    person = sit("rm x", times=3)
    for _ in range(3):
        person.answers("n\n")
    assert [decision for decision, _, _ in person.decisions()] == ["deny", "deny", "stop"]
    assert "You denied this 2 time(s) in a row" in person.seen


def test_always_exactly_this_is_asked_once(sit: Sit) -> None:
    person = sit("rm x", times=2)
    person.answers("a\n")
    assert [by for _, by, _ in person.decisions()] == ["user", "grant"]


def test_a_prefix_is_offered_with_what_it_would_have_covered(sit: Sit) -> None:
    person = sit("npm test -- --watch", times=2)
    person.answers("y\n")
    person.answers("p\n")
    outcome = person.outcome()
    assert "p always `npm test …`" in person.seen
    assert "p would have covered no earlier command of this session." in person.seen
    assert "p would have covered these commands of this session:\r\n    npm test -- --watch" in person.seen
    assert [event for event in outcome["events"] if event["type"] == "grant"] == [
        {"type": "grant", "action": "given", "kind": "prefix", "command": "npm test", "workdir": ""}
    ]


def test_piped_input_never_approves(tmp_path: Path) -> None:
    out = tmp_path / "out.json"
    subprocess.run(
        [sys.executable, str(ASK_ONCE), str(out), "rm x", "0", "1", "0.1"],
        input=b"y\n" * 100,
        capture_output=True,
        check=True,
        timeout=60,
    )
    events = json.loads(out.read_text())["events"]
    assert [(event["type"], event["decision"], event["by"]) for event in events] == [
        ("approval_decided", "deny", "no_terminal")
    ]
    assert "--approve contained would allow it" in events[0]["reason"]


def test_a_terminal_that_goes_away_answers_nothing() -> None:
    master, terminal = os.openpty()
    with os.fdopen(terminal, "r+b", buffering=0) as device:
        stdin = io.TextIOWrapper(device, encoding="utf-8")
        prompt = Prompt(stdin=stdin, stderr=io.StringIO(), guard_seconds=0)
        closed = threading.Timer(0.2, os.close, [master])
        closed.start()
        with pytest.raises(Interrupted):
            prompt.confirm("Really?")
        closed.join()
