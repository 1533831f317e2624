"""The program's own bounds: what counts as repetition, which bound ends a turn first."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.agent.limits import MAX_ERROR_ROUNDS, Bounds, Clock, Limits, Repetition, sameness
from codeagent.conversation import ToolCall, ToolOutput
from codeagent.errors import ErrorKind
from codeagent.inference import Usage
from codeagent.outcome import Outcome


def limits(**bounds: float) -> Limits:
    return Limits(Bounds(**bounds), Clock())  # type: ignore[arg-type]


def seen(repetition: Repetition, *steps: tuple[str, str]) -> list[int]:
    """Feeds (arguments, output) pairs, each as a round of its own; returns what each was counted as."""
    return [each for step in steps for each in seen_at_once(repetition, step)]


def seen_at_once(repetition: Repetition, *steps: tuple[str, str]) -> list[int]:
    """The same for the calls of one response."""
    counts = [
        repetition.seen(ToolCall(f"call_{number}", "list_dir", arguments), ToolOutput(f"call_{number}", output))
        for number, (arguments, output) in enumerate(steps)
    ]
    repetition.close_round()
    return counts


@pytest.mark.parametrize("response", ["aaaa", "aab", "abab", "abcabcabcabc", "abba", "aabbaabb"])
def test_the_model_sees_the_warning_before_the_turn_ends_however_often_a_response_repeats_itself(
    response: str,
) -> None:
    repetition = Repetition()
    rounds = [seen_at_once(repetition, *[("{}", output) for output in response]) for _ in range(4)]
    assert [max(counts) for counts in rounds] == [1, 2, 3, 4]
    assert repetition.longest == 4


def test_the_same_call_with_the_same_result_is_counted() -> None:
    assert seen(Repetition(), *[('{"path":"."}', "a\nb")] * 4) == [1, 2, 3, 4]


def test_reordered_keys_are_the_same_call() -> None:
    one, other = '{"path":".","depth":1}', '{"depth": 1, "path": "."}'
    assert seen(Repetition(), (one, "x"), (other, "x"), (one, "x")) == [1, 2, 3]


def test_a_cycle_of_two_calls_is_found_at_its_fourth_run() -> None:
    assert max(seen(Repetition(), *[("{}", "a"), ('{"x":1}', "b")] * 4)) == 4


def test_polling_a_file_that_changes_is_no_repetition() -> None:
    assert seen(Repetition(), ("{}", "1"), ("{}", "2"), ("{}", "3"), ("{}", "4")) == [1, 1, 1, 1]


def test_the_duration_in_the_header_and_the_id_do_not_tell_two_results_apart() -> None:
    first = sameness(ToolCall("c1", "run_command", "{}"), ToolOutput("c1", "exit 0, 12 ms; /outputs/c1.txt\nok"))
    second = sameness(ToolCall("c2", "run_command", "{}"), ToolOutput("c2", "exit 0, 1.5 s; /outputs/c2.txt\nok"))
    assert first == second


def test_arguments_that_no_parser_can_follow_are_compared_as_text() -> None:
    deep = "[" * 100_000
    assert seen(Repetition(), *[(deep, "error")] * 3) == [1, 2, 3]


def test_a_duration_in_the_output_itself_tells_two_results_apart() -> None:
    first = sameness(ToolCall("c", "run_command", "{}"), ToolOutput("c", "exit 0\n10 s left"))
    second = sameness(ToolCall("c", "run_command", "{}"), ToolOutput("c", "exit 0\n20 s left"))
    assert first != second


@given(st.lists(st.sampled_from("abc"), min_size=1, max_size=6), st.integers(2, 4))
def test_any_short_cycle_is_counted_at_least_as_often_as_it_ran(cycle: list[str], runs: int) -> None:
    assert seen(Repetition(), *[("{}", output) for output in cycle] * runs)[-1] >= runs


@given(st.lists(st.text("ab", min_size=1, max_size=5), max_size=30))
def test_no_turn_ends_for_repetition_in_the_round_of_its_first_warning(responses: list[str]) -> None:
    repetition, warned = Repetition(), False
    for response in responses:
        counts = seen_at_once(repetition, *[("{}", output) for output in response])
        if max(counts) >= 4:
            assert warned
            break
        warned = warned or 3 in counts


@given(st.lists(st.integers(), unique=True, max_size=40))
def test_results_that_all_differ_are_never_a_repetition(results: list[int]) -> None:
    assert set(seen(Repetition(), *[("{}", str(result)) for result in results])) <= {1}


def test_eight_rounds_of_errors_end_the_turn_and_one_success_starts_the_count_again() -> None:
    bound = limits(rounds=100)
    failed, ok = ToolOutput("c", "error: denied: no", ErrorKind.DENIED), ToolOutput("d", "fine")
    for _ in range(MAX_ERROR_ROUNDS - 1):
        bound.close_round([failed])
    bound.close_round([failed, ok])
    assert bound.reached() is None
    for _ in range(MAX_ERROR_ROUNDS):
        bound.close_round([failed])
    assert bound.reached() is Outcome.TOO_MANY_ERRORS


@pytest.mark.parametrize(
    ("bounds", "outcome"),
    [
        ({"rounds": 1}, Outcome.ROUND_LIMIT),
        ({"seconds": 1e-9}, Outcome.TIME_LIMIT),
        ({"tokens": 30}, Outcome.TOKEN_LIMIT),
        ({"rounds": 2, "tokens": 31}, None),
    ],
)
def test_each_bound_has_its_outcome(bounds: dict[str, float], outcome: Outcome | None) -> None:
    bound = limits(**bounds)
    bound.rounds = 1
    bound.spend(Usage(20, 5, 10))
    assert bound.reached() is outcome


def test_time_while_the_clock_is_stopped_does_not_count() -> None:
    clock = Clock(started=0.0)
    before = clock.elapsed()
    clock.paused += before
    assert clock.elapsed() < 1


def test_a_budget_affords_so_many_more_inferences_like_the_last() -> None:
    limits = Limits(Bounds(tokens=1_000), Clock())
    assert limits.affords(2)
    limits.spend(Usage(300, 0, 30))
    assert limits.affords(2)
    limits.spend(Usage(100, 0, 0))
    assert limits.affords(5)
    assert not limits.affords(6)
    assert Limits(Bounds(), Clock()).affords(1_000)
