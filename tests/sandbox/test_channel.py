"""The host's end of the connection, against guests that behave, misbehave and die. Nothing here may hang."""

from __future__ import annotations

import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox import channel as channels
from codeagent.sandbox.attached import Attached
from codeagent.sandbox.channel import Channel
from codeagent.sandbox.frames import FRAME_HEADER, STREAM_HEADER, Kind, frame
from codeagent.sandbox.pending import ChannelLost, Outdated
from tests.clocks import PATIENCE, at_once


class Guest:
    """The other end of a channel, played by the test: it reads frames and writes bytes."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self._file = connection.makefile("rb")
        self._writing = threading.Lock()

    def read(self) -> tuple[int, Kind, bytes]:
        """The next frame that is not a PING."""
        while True:
            length, number, kind = FRAME_HEADER.unpack(self._file.read(FRAME_HEADER.size))
            payload = self._file.read(length)
            if kind != Kind.PING:
                return number, Kind(kind), payload

    def request(self) -> tuple[int, dict[str, Any], bytes]:
        """The next whole request: its id, its call and its body."""
        number, kind, payload = self.read()
        assert kind is Kind.CALL
        body = b""
        while (following := self.read())[1] is not Kind.END:
            body += following[2]
        return number, json.loads(payload), body

    def write(self, data: bytes, stream: int = 1) -> None:
        with self._writing:
            self.connection.sendall(STREAM_HEADER.pack(stream, len(data)) + data)

    def end(self, number: int, reply: object) -> None:
        self.write(frame(number, Kind.END, json.dumps(reply).encode()))

    def die(self) -> None:
        self._file.close()
        self.connection.close()


Pair = tuple[Channel, Guest]


@pytest.fixture
def pair() -> Iterator[Pair]:
    ours, theirs = socket.socketpair()
    channel, guest = Channel(Attached(ours)), Guest(theirs)
    channel.start()
    yield channel, guest
    channel.close()
    guest.die()


def asked(channel: Channel, **options: Any) -> Callable[[], Any]:
    """Starts a call in a thread; the result is a function that waits for its outcome, raised or returned."""
    outcome: list[Any] = []

    def call() -> None:
        try:
            outcome.append(channel.call("read_file", {"path": "x"}, **options))
        except Exception as error:
            outcome.append(error)

    thread = threading.Thread(target=call, daemon=True)
    thread.start()

    def result() -> Any:
        thread.join(PATIENCE)
        assert outcome, "the call hangs"
        return outcome[0]

    return result


def test_a_reply_is_its_fields_and_its_body(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel, body=b"b" * 100_000, state=4)
    number, call, body = guest.request()
    assert (call, body) == ({"op": "read_file", "args": {"path": "x"}, "state": 4}, b"b" * 100_000)
    guest.write(frame(number, Kind.BODY, b"one ") + frame(number, Kind.BODY, b"two"))
    guest.end(number, {"ok": {"lines": 2}})
    assert result() == ({"lines": 2}, b"one two")


def test_replies_find_their_calls_in_any_order(pair: Pair) -> None:
    channel, guest = pair
    results = [asked(channel) for _ in range(8)]
    numbers = [guest.request()[0] for _ in results]
    for number in reversed(numbers):
        guest.write(frame(number, Kind.BODY, str(number).encode()))
        guest.end(number, {"ok": {}})
    assert sorted(int(result()[1]) for result in results) == sorted(numbers)


def test_who_reads_leaves_it_to_another_when_its_own_reply_has_come(
    pair: Pair, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(channels, "PULSE_SECONDS", 3600)  # which would help out
    channel, guest = pair
    results, numbers = [], []
    for _ in range(4):
        results.append(asked(channel))
        numbers.append(guest.request()[0])
        time.sleep(0.02)
    for number, result in zip(numbers, results, strict=True):
        guest.end(number, {"ok": {"number": number}})
        assert result() == ({"number": number}, b"")


def test_many_callers_get_their_own_replies(pair: Pair) -> None:
    channel, guest = pair
    ends: list[threading.Timer] = []

    def answer() -> None:
        for _ in range(400):
            number, call, _ = guest.request()
            reply = frame(number, Kind.BODY, call["args"]["n"].encode()) + frame(number, Kind.END, b'{"ok": {}}')
            # Late, so that replies come out of order and while others are sent.
            ends.append(threading.Timer(number % 7 / 1000, guest.write, (reply,)))
            ends[-1].start()

    threading.Thread(target=answer, daemon=True).start()
    with ThreadPoolExecutor(16) as pool:
        replies = list(pool.map(lambda n: channel.call("x", {"n": str(n)}, timeout=20)[1], range(400)))
    assert replies == [str(n).encode() for n in range(400)]
    for end in ends:
        end.join()


def test_a_guest_that_ends_between_two_calls_is_seen_before_the_next(pair: Pair) -> None:
    channel, guest = pair
    assert channel.loss() == ""
    guest.die()
    assert channel.loss() == "the container has ended"


@pytest.mark.slow
def test_what_a_guest_says_is_taken_while_every_caller_is_still_sending(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel, body=b"x" * 10_000_000)
    guest.write(b"warning " * 150_000, stream=2)  # it does not read before this is taken
    number, _, body = guest.request()
    guest.end(number, {"ok": {}})
    assert (result(), len(body)) == (({}, b""), 10_000_000)


def test_a_body_can_be_taken_as_it_arrives(pair: Pair) -> None:
    channel, guest = pair
    pieces: list[bytes] = []
    result = asked(channel, on_body=pieces.append)
    number = guest.request()[0]
    for piece in (b"a", b"b", b"c"):
        guest.write(frame(number, Kind.BODY, piece))
    guest.end(number, {"ok": {}})
    assert result() == ({}, b"")
    assert pieces == [b"a", b"b", b"c"]


def test_a_taker_that_fails_fails_its_call_and_no_other(pair: Pair) -> None:
    channel, guest = pair

    def full(_piece: bytes) -> None:
        raise OSError(28, "No space left on device")

    result = asked(channel, on_body=full)
    number = guest.request()[0]
    guest.write(frame(number, Kind.BODY, b"x") + frame(number, Kind.BODY, b"y"))
    guest.end(number, {"ok": {}})
    assert isinstance(result(), OSError)
    again = asked(channel)
    guest.end(guest.request()[0], {"ok": {}})
    assert again() == ({}, b"")


def test_a_refusal_is_a_tool_error_of_the_same_kind(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel)
    error = {"kind": "file_not_found", "sentence": "there is no x", "detail": "xy"}
    guest.end(guest.request()[0], {"error": error})
    refused = result()
    assert isinstance(refused, ToolError)
    assert (refused.kind, refused.sentence, refused.detail) == (ErrorKind.FILE_NOT_FOUND, "there is no x", "xy")


def test_a_call_in_a_state_that_is_over_says_so(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel, state=3)
    number, call, _ = guest.request()
    assert call["state"] == 3
    guest.end(number, {"error": {"kind": "outdated", "sentence": ""}})
    assert isinstance(result(), Outdated)


def test_a_refusal_of_an_unknown_kind_is_the_sandboxs_failure(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel)
    guest.end(guest.request()[0], {"error": {"kind": "SystemExit", "sentence": "x" * 5_000}})
    refused = result()
    assert isinstance(refused, ToolError)
    assert (refused.kind, len(refused.sentence)) == (ErrorKind.SANDBOX_FAILED, 2_000)


@pytest.mark.parametrize(
    ("damage", "reason"),
    [
        (frame(77, Kind.END, b"{}"), "answered the unknown request 77"),
        (FRAME_HEADER.pack(2**31, 1, Kind.BODY), "announced a frame of 2147483648 bytes"),
        (FRAME_HEADER.pack(0, 1, 9), "a frame of kind 9"),
        (frame(1, Kind.END, b"{"), "malformed JSON"),
        (frame(1, Kind.END, b"[]"), "JSON that is not an object"),
        (frame(1, Kind.END, b'{"fine": 1}'), "neither a result nor an error"),
        (frame(1, Kind.END, b'{"ok": {}, "error": {}}'), "neither a result nor an error"),
        (frame(1, Kind.END, b'{"ok": 5}'), "neither a result nor an error"),
        (frame(1, Kind.END, b'{"error": {"kind": 1, "sentence": "x"}}'), "a malformed error"),
    ],
)
def test_a_guest_that_talks_nonsense_is_given_up(pair: Pair, damage: bytes, reason: str) -> None:
    channel, guest = pair
    result = asked(channel)
    guest.request()
    guest.write(damage)
    lost = result()
    assert isinstance(lost, ChannelLost)
    assert reason in lost.reason
    with pytest.raises(ChannelLost, match=reason):
        channel.call("read_file", {})


def test_a_second_reply_to_the_same_request_is_nonsense(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel)
    number = guest.request()[0]
    guest.end(number, {"ok": {}})
    assert result() == ({}, b"")
    waiting = asked(channel)
    guest.request()
    guest.end(number, {"ok": {}})
    assert "unknown request" in waiting().reason


def test_a_reply_that_never_ends_is_given_up(pair: Pair, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("codeagent.sandbox.pending.MAX_REPLY", 100_000)
    channel, guest = pair
    result = asked(channel)
    number = guest.request()[0]
    guest.write(frame(number, Kind.BODY, b"x" * 60_000) * 2)
    assert "more than 100000 bytes" in result().reason


def test_a_guest_that_dies_ends_every_call(pair: Pair) -> None:
    channel, guest = pair
    results = [asked(channel) for _ in range(3)]
    for _ in results:
        guest.request()
    guest.die()
    assert [result().reason for result in results] == ["the container has ended"] * 3


def test_a_reply_that_is_torn_off_is_no_reply(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel)
    number = guest.request()[0]
    whole = frame(number, Kind.END, b'{"ok": {}}')
    guest.write(whole[:-4])
    guest.die()
    assert result().reason == "the reply of the container was cut short"


def test_closing_ends_every_call(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel)
    guest.request()
    channel.close()
    assert result().reason == "the sandbox was closed"


def test_cancelling_asks_the_guest_and_its_reply_counts(pair: Pair) -> None:
    channel, guest = pair
    cancel = threading.Event()
    result = asked(channel, cancel=cancel)
    number = guest.request()[0]
    cancel.set()
    assert guest.read() == (number, Kind.CANCEL, b"")
    guest.end(number, {"ok": {"ending": "cancelled"}})
    assert result() == ({"ending": "cancelled"}, b"")


def test_a_call_is_left_at_once_and_the_channel_goes_on(pair: Pair) -> None:
    channel, guest = pair
    leave = threading.Event()
    result = asked(channel, leave=leave)
    number = guest.request()[0]
    with at_once():
        leave.set()
        left = result()
        assert isinstance(left, ToolError) and left.kind is ErrorKind.CANCELLED
    assert guest.read() == (number, Kind.CANCEL, b"")
    guest.end(number, {"ok": {}})
    again = asked(channel)
    guest.end(guest.request()[0], {"ok": {"fine": True}})
    assert again() == ({"fine": True}, b"")


def test_a_guest_that_does_not_answer_in_time_is_given_up(pair: Pair) -> None:
    channel, guest = pair
    with at_once():
        result = asked(channel, timeout=0.2)
        guest.request()
        assert result().reason == "the container does not answer"


def test_an_answer_to_a_call_that_was_left_is_dropped(pair: Pair) -> None:
    channel, guest = pair

    class Left(Exception):
        pass

    class Leaving(threading.Event):
        def is_set(self) -> bool:
            raise Left

    result = asked(channel, cancel=Leaving())
    number = guest.request()[0]
    assert isinstance(result(), Left)
    assert guest.read() == (number, Kind.CANCEL, b"")
    guest.write(frame(number, Kind.BODY, b"late"))
    guest.end(number, {"ok": {}})
    again = asked(channel)
    guest.end(guest.request()[0], {"ok": {"fine": True}})
    assert again() == ({"fine": True}, b"")


@pytest.mark.slow
def test_silence_is_explained_by_whoever_knows() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(Attached(ours), diagnose=lambda: "the container was paused")
    channel.start()
    with at_once():
        assert asked(channel)().reason == "the container was paused"
    theirs.close()


@pytest.mark.slow
def test_silence_without_a_reason_is_waited_out(pair: Pair) -> None:
    channel, guest = pair
    result = asked(channel)
    number = guest.request()[0]
    time.sleep(1.6)  # longer than silence is taken without a question
    guest.end(number, {"ok": {}})
    assert result() == ({}, b"")


@pytest.mark.slow
def test_a_caller_that_is_stuck_in_sending_is_freed() -> None:
    ours, theirs = socket.socketpair()
    channel = Channel(Attached(ours), diagnose=lambda: "the container was paused")
    channel.start()
    assert asked(channel, body=b"x" * 30_000_000)().reason == "the container was paused"
    theirs.close()


def test_the_greeting_is_awaited_and_diagnostics_are_kept_apart(pair: Pair) -> None:
    channel, guest = pair
    guest.write(b"guest: a warning\n", stream=2)
    guest.end(0, {"ok": {"version": 1}})
    assert channel.greeting(1.0) == {"version": 1}
    assert channel.diagnostics == "guest: a warning\n"


def test_a_guest_that_never_greets_is_given_up(pair: Pair) -> None:
    with pytest.raises(ChannelLost, match="does not answer"):
        pair[0].greeting(0.1)
