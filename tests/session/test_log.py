"""What is written can be read, and damage costs the damaged lines only."""

from __future__ import annotations

import json
import resource
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from codeagent.errors import StorageError
from codeagent.events import (
    ApprovalDecided,
    ApprovalRequested,
    Event,
    SessionResumed,
    SessionStarted,
    ToolCalled,
    ToolFinished,
    TurnEnded,
    TurnStarted,
)
from codeagent.session.journal import Journal, announces_effect
from codeagent.session.log import Log, last_of
from codeagent.session.store import EVENTS, Session
from tests.clocks import processor_time_below

STARTED = SessionStarted("/repo", "model", "provider", "image", "1.0")
GOOD = b'{"type":"turn_started","message":"hello"}\n'
ENDED = TurnEnded("answered", "yes", None, [], {"status": "not_requested"}, 1, {}, 0)


def types(file: Path) -> list[str]:
    return [record["type"] for record in Log(file)]


def test_each_event_is_one_line_with_its_envelope(tmp_path: Path) -> None:
    with Session.create(tmp_path) as session:
        session.journal.turn, session.journal.round = 2, 3
        session.emit(ApprovalRequested("c1", "rm x", "ask", "it writes"))
        (line,) = (session.folder / EVENTS).read_bytes().split(b"\n")[:-1]
    record = json.loads(line)
    assert list(record) == ["type", "time", "session_id", "turn", "round", "call_id", "command", "class", "reason"]
    assert record | {"time": ""} == {
        "type": "approval_requested",
        "time": "",
        "session_id": session.id,
        "turn": 2,
        "round": 3,
        "call_id": "c1",
        "command": "rm x",
        "class": "ask",
        "reason": "it writes",
    }
    assert len(record["time"]) == len("2026-01-01T00:00:00.000Z")


@given(st.text(st.characters(exclude_categories=())))
def test_any_text_survives_as_one_line(text: str) -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / EVENTS
        journal = Journal(file, "s")
        journal.emit(TurnStarted(text))
        journal.close()
        content = file.read_bytes()
        assert content.isascii()
        assert content.count(b"\n") == 1
        (record,) = Log(file)
        # Two lone surrogates side by side become the character that they encode, as in any JSON.
        assert record["message"] == text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")


@pytest.mark.parametrize(
    ("damage", "count"),
    [
        (b'{"type":"mess\n', 1),
        (b"\0" * 300 + b"\n", 1),
        (b"\n", 0),
        (b"  \r\n", 0),
        (b"5\n", 1),
        (b"[]\n", 1),
        (b'{"kind":"no type"}\n', 1),
        (b'{"type":5}\n', 1),
        (b'{"type":"x","text":"\xff"}\n', 1),
        (b"[" * 100_000 + b"\n", 1),
        (b'{"type":"x","n":' + b"9" * 5_000 + b"}\n", 1),
    ],
    ids=["torn", "zeroed", "blank", "white", "number", "list", "untyped", "type", "utf8", "deep", "huge number"],
)
def test_a_damaged_line_costs_that_line_only(tmp_path: Path, damage: bytes, count: int) -> None:
    file = tmp_path / EVENTS
    content = GOOD + damage + GOOD.replace(b"\n", b"\r\n")
    file.write_bytes(content)
    log = Log(file)
    assert [record["message"] for record in log] == ["hello", "hello"]
    assert log.damaged == count
    assert file.read_bytes() == content


def test_a_byte_order_mark_is_no_damage(tmp_path: Path) -> None:
    file = tmp_path / EVENTS
    file.write_bytes(b"\xef\xbb\xbf" + GOOD)
    log = Log(file)
    assert [record["type"] for record in log] == ["turn_started"]
    assert log.damaged == 0


def test_appending_after_a_torn_line_starts_a_line_of_its_own(tmp_path: Path) -> None:
    file = tmp_path / EVENTS
    file.write_bytes(GOOD + b'{"type":"tool_out')
    journal = Journal(file, "s")
    journal.emit(TurnStarted("after"))
    journal.close()
    log = Log(file)
    assert [record["message"] for record in log] == ["hello", "after"]
    assert log.damaged == 1
    assert file.read_bytes().startswith(GOOD + b'{"type":"tool_out\n{"type":"turn_started"')


def test_events_of_many_threads_do_not_mix(tmp_path: Path) -> None:
    file = tmp_path / EVENTS
    journal = Journal(file, "s")

    def write(name: str) -> None:
        for number in range(100):
            journal.emit(ToolFinished(f"{name}{number}", "ok", None, name * 3_000, 1))

    threads = [threading.Thread(target=write, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    journal.close()
    log = Log(file)
    assert sorted(record["call_id"] for record in log) == sorted(f"{n}{i}" for n in "abcd" for i in range(100))
    assert log.damaged == 0


def test_a_subscriber_that_fails_is_left_out_and_the_rest_is_stored_and_shown(tmp_path: Path) -> None:
    shown: list[str] = []

    def broken(record: Mapping[str, Any]) -> None:
        raise BrokenPipeError

    journal = Journal(tmp_path / EVENTS, "s")
    journal.subscribe(broken)
    journal.subscribe(lambda record: shown.append(record["message"]))
    journal.emit(TurnStarted("one"))
    journal.emit(TurnStarted("two"))
    assert shown == ["one", "two"]
    assert [type(failure) for failure in journal.failures] == [BrokenPipeError]
    assert [record["message"] for record in Log(tmp_path / EVENTS)] == ["one", "two"]
    journal.close()


def test_a_log_that_was_removed_is_noticed_at_the_next_event(tmp_path: Path) -> None:
    journal = Journal(tmp_path / EVENTS, "s")
    journal.emit(TurnStarted("one"))
    (tmp_path / EVENTS).unlink()
    with pytest.raises(StorageError, match="was removed while it was in use"):
        journal.emit(ApprovalDecided("c", "allow", "user", ""))
    journal.close()


def test_what_is_shown_is_what_is_stored(tmp_path: Path) -> None:
    shown: list[Mapping[str, Any]] = []
    journal = Journal(tmp_path / EVENTS, "s")
    journal.subscribe(shown.append)
    for event in (STARTED, TurnStarted("\u2028 \udcff"), ToolCalled("c", "read_file", "{}"), ENDED):
        journal.emit(event)
    journal.close()
    assert list(Log(tmp_path / EVENTS)) == shown


@pytest.mark.parametrize(
    ("event", "forced"),
    [
        (ApprovalDecided("c", "allow", "user", ""), True),
        (ApprovalDecided("c", "allow", "flag", ""), True),
        (ApprovalDecided("c", "allow", "class", ""), False),
        (ApprovalDecided("c", "deny", "user", ""), False),
        (ToolFinished("c", "ok", None, "", 1), False),
        (SessionResumed("/r", "m", "p", "i", "v", [], 0, "and now?"), True),
        (ENDED, True),
    ],
)
def test_only_what_announces_an_effect_is_forced_to_the_disk(event: Event, forced: bool) -> None:
    assert announces_effect(event) is forced


def test_the_last_event_of_a_type_is_found_past_damage(tmp_path: Path) -> None:
    file = tmp_path / EVENTS
    journal = Journal(file, "s")
    for event in (STARTED, TurnStarted("one"), TurnStarted("two"), ToolCalled("c", "x", '{"type":"turn_started"')):
        journal.emit(event)
    journal.close()
    with file.open("ab") as stream:
        stream.write(b'{"type":"turn_started","mess')
    found = last_of(file, "turn_started")
    assert found is not None
    assert found["message"] == "two"
    assert last_of(file, "turn_ended") is None
    assert last_of(tmp_path / "nothing", "turn_ended") is None
    (tmp_path / "empty").touch()
    assert last_of(tmp_path / "empty", "turn_ended") is None


def test_a_20_mb_log_is_read_quickly_and_without_holding_it(tmp_path: Path) -> None:
    file = tmp_path / EVENTS
    line = b'{"type":"tool_output","output":"' + b"some text and " * 145 + b'"}\n'
    file.write_bytes(line * 10_000)
    assert file.stat().st_size > 20_000_000
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with processor_time_below(5):
        assert sum(1 for _ in Log(file)) == 10_000
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 10_000  # KiB
    with processor_time_below(2):
        assert last_of(file, "turn_ended") is None


def test_a_log_that_is_a_link_is_not_followed(tmp_path: Path) -> None:
    target = tmp_path / "elsewhere"
    target.write_text("mine")
    (tmp_path / EVENTS).symlink_to(target)
    with pytest.raises(StorageError):
        Journal(tmp_path / EVENTS, "s")
    assert target.read_text() == "mine"
