from __future__ import annotations

import pytest

from codeagent.outcome import Outcome
from codeagent.ui import wording


@pytest.mark.parametrize("outcome", Outcome)
def test_every_outcome_has_its_sentence_and_says_nothing_about_a_fix(outcome: Outcome) -> None:
    line = wording.loop_line(outcome.value, 6)
    assert line in {f"Loop: {wording.LOOP[outcome]} {when}" for when in ("after 6 rounds", "in round 6")}
    assert not {"verified", "correct", "success", "fixed"} & set(line.split())


@pytest.mark.parametrize("outcome", [outcome for outcome in Outcome if outcome is not Outcome.ANSWERED])
def test_every_early_end_says_how_to_go_on(outcome: Outcome) -> None:
    first, *_ = wording.next_lines(outcome.value, "s1", changed=False, cited=False)
    assert "--session s1" in first


def test_a_response_that_was_cut_short_names_the_table_of_the_key_that_raises_it() -> None:
    (line,) = wording.next_lines("truncated", "s1", changed=False, cited=False)
    assert line.endswith("--session s1 (max_output_tokens of [providers.NAME] raises it)")


@pytest.mark.parametrize(
    ("verification", "first", "applies"),
    [
        ("not_requested", "Ask more", True),
        ("passed", "Ask more", True),
        ("failed", "Ask more", False),
        ("flaky", "Ask more", False),
        ("not_reproduced", "Ask more", False),
        ("not_run", "Verify again, with the next turn", False),
    ],
)
def test_a_change_is_offered_to_the_repository_unless_its_verification_did_not_pass(
    verification: str, first: str, applies: bool
) -> None:
    lines = wording.next_lines("answered", "s1", changed=True, cited=True, verification=verification)
    assert lines == [
        f'{first}: codeagent resume "…" --session s1',
        "See the change: codeagent diff s1",
        *(["Put it into your repository: codeagent apply s1"] if applies else []),
    ]


@pytest.mark.parametrize("outcome", ["interrupted", "model_failed", "sandbox_failed"])
def test_a_round_that_broke_off_is_not_told_as_done(outcome: str) -> None:
    said = wording.LOOP[Outcome(outcome)]
    assert wording.loop_line(outcome, 1) == f"Loop: {said} in round 1"
    assert wording.loop_line(outcome, 0) == f"Loop: {said} before the first round"


CAVEAT = "That says that the lines were seen, not that the claim is true."


@pytest.mark.parametrize(
    ("states", "line"),
    [
        (["read", "moved"], f"2 of 2 citations: lines were seen by the tools. {CAVEAT}"),
        (["read", "missing"], f"1 of 2 citations: lines were seen by the tools. {CAVEAT}"),
        (
            ["read", "unread", "own_change"],
            f"1 of 2 citations: lines were seen by the tools; 1 more is of lines that the agent wrote itself. "
            f"{CAVEAT}",
        ),
        (["own_change"], "1 citation, of lines that the agent wrote itself: see the change, not the repository."),
        (
            ["own_change", "own_change"],
            "2 citations, of lines that the agent wrote itself: see the change, not the repository.",
        ),
    ],
)
def test_lines_that_the_agent_wrote_are_counted_apart(states: list[str], line: str) -> None:
    cited = [{"path": "a.py", "start_line": 3, "end_line": 3, "state": state} for state in states]
    assert wording.citation_lines(cited)[0] == line


def test_the_two_facts() -> None:
    assert wording.loop_line("answered", 6) == "Loop: answered after 6 rounds"
    assert wording.loop_line("answered", 1) == "Loop: answered after 1 round"
    assert wording.loop_line(None, 0) == "Loop: not started"
    assert wording.fix_line({"status": "not_requested"}) == "Fix: not verified (no verification was requested)"


@pytest.mark.parametrize(
    ("status", "line"),
    [
        ("not_run", "Fix: not verified (it could not be run)"),
        ("not_reproduced", "Fix: not verified (the command already passes on the untouched repository)"),
        ("failed", "Fix: verification failed (the command fails with the change applied)"),
        ("flaky", "Fix: not verified (repeated runs with the change disagree)"),
        ("passed", "Fix: verified (the command fails before the change and passes after it)"),
        ("someday", "Fix: not verified (someday)"),
    ],
)
def test_every_verification_status_has_its_sentence(status: str, line: str) -> None:
    assert wording.fix_line({"status": status, "reason": ""}) == line
    own = wording.fix_line({"status": status, "reason": "exit 1 with the change"})
    assert own == f"{line.partition(' (')[0]} (exit 1 with the change)"


def test_changed_tests_stand_beside_the_verdict() -> None:
    line = wording.fix_line({"status": "passed", "reason": "", "tests_modified": ["tests/test_a.py", "conftest.py"]})
    assert line == (
        "Fix: verified (the command fails before the change and passes after it); the change touches tests or their "
        "configuration, judged with these restored: tests/test_a.py, conftest.py"
    )


def test_a_reason_with_braces_is_only_text() -> None:
    assert wording.fix_line({"status": "not_run", "reason": "{0} {x}"}) == "Fix: not verified ({0} {x})"


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.004, "0.00s"), (9.994, "9.99s"), (12.34, "12.3s"), (59.94, "59.9s"), (125, "2m05s"), (3725, "1h02m")],
)
def test_durations(seconds: float, text: str) -> None:
    assert wording.duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 KB"), (150_000, "146 KB"), (5 << 30, "5.0 GB")]
)
def test_sizes(count: int, text: str) -> None:
    assert wording.size(count) == text


def test_what_an_answer_does_not_rest_on_is_said() -> None:
    record = {
        "outcome": "answered",
        "session_id": "s",
        "citations": [],
        "unsupported": ["All tests pass."],
        "limits": [{"kind": "denied", "call_id": f"c{n}", "subject": f"make {n}"} for n in range(6)],
    }
    assert wording.evidence_lines(record) == [
        "No evidence cited.",
        "Unsupported claim (no recorded run shows it): All tests pass.",
        "What limited the answer (6 calls):",
        *(f"  denied: make {n}" for n in range(5)),
        "  and 1 more: codeagent sessions show s",
    ]


def test_an_answer_that_was_cut_short_is_not_blamed_for_missing_citations() -> None:
    assert wording.evidence_lines({"outcome": "truncated", "citations": []}) == []
