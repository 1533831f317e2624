"""The guest's server against a host that behaves and one that does not, with everything but real commands."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

import pytest
from guest import protocol
from guest.commands import Job
from guest.operations import Handler, Refusal, Reply, Root
from guest.protocol import Kind
from guest.server import Server
from guest.spawner import Spawner


def echo(_root: Root, args: dict[str, Any], body: bytes) -> Reply:
    return {"args": args}, body


def stream(_root: Root, _args: dict[str, Any], _body: bytes) -> Reply:
    return {"whole": True}, iter([b"x" * 100_000, b"", b"y"])


def refuse(_root: Root, _args: dict[str, Any], _body: bytes) -> Reply:
    raise Refusal("file_not_found", "there is none", "but this")


def fail(_root: Root, _args: dict[str, Any], _body: bytes) -> Reply:
    raise OSError(5, "Input/output error", "/host/path")


def too_much(_root: Root, _args: dict[str, Any], _body: bytes) -> Reply:
    return {"names": ["x" * 1_000] * 100}, b""


OPERATIONS: Mapping[str, Handler] = {
    "echo": echo,
    "stream": stream,
    "refuse": refuse,
    "fail": fail,
    "too_much": too_much,
}


class FakeSpawner:
    """Hands the test the supervisor's end of each command's connection."""

    def __init__(self) -> None:
        self.started: list[tuple[Job, socket.socket]] = []
        self.ready = threading.Semaphore(0)

    def start(self, job: Job) -> socket.socket:
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.started.append((job, theirs))
        self.ready.release()
        return ours

    def finished(self, connection: socket.socket) -> None:
        connection.close()


class Host:
    """The host's end: writes frames, reads frames."""

    def __init__(self, workspace: Path) -> None:
        self._incoming, self._write = os.pipe()
        self._read, outgoing = os.pipe()
        self.spawner = FakeSpawner()
        self._outgoing = outgoing
        self._replies = os.fdopen(self._read, "rb")
        spawner = cast(Spawner, self.spawner)
        root, steady = Root(-1), lambda state: bool(state == 3)
        server = Server(self._incoming, outgoing, root, str(workspace), OPERATIONS, spawner, steady)
        self.failure: list[BaseException] = []
        self._thread = threading.Thread(target=self._serve, args=(server,), daemon=True)
        self._thread.start()
        assert self.reply() == (0, {"ok": {"version": 1}}, b"")

    def _serve(self, server: Server) -> None:
        try:
            server.serve({"version": 1})
        except protocol.ProtocolError as error:
            self.failure.append(error)

    def write(self, *frames: bytes) -> None:
        os.write(self._write, b"".join(frames))

    def call(self, number: int, op: str, args: dict[str, Any], body: bytes = b"") -> None:
        self.write(protocol.frame(number, Kind.CALL, protocol.dump({"op": op, "args": args})))
        for piece in protocol.pieces(body):
            self.write(protocol.frame(number, Kind.BODY, piece))
        self.write(protocol.frame(number, Kind.END))

    def frame(self) -> tuple[int, Kind, bytes]:
        found = protocol.read_frame(self._replies.read)
        assert found is not None
        return found

    def reply(self) -> tuple[int, dict[str, Any], bytes]:
        body = b""
        while (found := self.frame())[1] is Kind.BODY:
            body += found[2]
        return found[0], protocol.load(found[2]), body

    def hang_up(self) -> None:
        os.close(self._write)
        self._thread.join(5)
        assert not self._thread.is_alive()
        self._replies.close()
        os.close(self._incoming)
        os.close(self._outgoing)
        for _, connection in self.spawner.started:
            connection.close()


@pytest.fixture
def host(tmp_path: Path) -> Iterator[Host]:
    (tmp_path / "workspace").mkdir()
    found = Host(tmp_path / "workspace")
    yield found
    found.hang_up()


def test_a_reply_is_fields_and_body(host: Host) -> None:
    host.call(7, "echo", {"a": "\udc80"}, b"b" * 150_000)
    assert host.reply() == (7, {"ok": {"args": {"a": "\udc80"}}}, b"b" * 150_000)


def test_a_body_is_sent_while_it_is_made_in_pieces_that_fit(host: Host) -> None:
    host.call(1, "stream", {})
    assert host.reply() == (1, {"ok": {"whole": True}}, b"x" * 100_000 + b"y")


@pytest.mark.parametrize(
    ("op", "error"),
    [
        ("refuse", {"kind": "file_not_found", "sentence": "there is none", "detail": "but this"}),
        ("fail", {"kind": "sandbox_failed", "sentence": "fail failed: Input/output error", "detail": ""}),
        (
            "nothing",
            {"kind": "sandbox_failed", "sentence": "the guest has no operation 'nothing'", "detail": ""},
        ),
        (
            "too_much",
            {"kind": "sandbox_failed", "sentence": "the reply's fields do not fit into a frame", "detail": ""},
        ),
    ],
)
def test_what_cannot_be_done_is_an_error_and_the_next_request_is_answered(
    host: Host, op: str, error: dict[str, str]
) -> None:
    host.call(1, op, {})
    assert host.reply() == (1, {"error": error}, b"")
    host.call(2, "echo", {})
    assert host.reply() == (2, {"ok": {"args": {}}}, b"")


def test_a_body_that_is_too_large_is_refused_and_not_kept(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "MAX_BODY", 100_000)
    host.call(1, "echo", {}, b"x" * 150_000)
    number, reply, _ = host.reply()
    assert (number, reply["error"]["kind"]) == (1, "too_large")


def test_a_request_that_is_cancelled_before_its_end_is_forgotten(host: Host) -> None:
    host.write(
        protocol.frame(1, Kind.CALL, protocol.dump({"op": "echo", "args": {}})), protocol.frame(1, Kind.CANCEL)
    )
    host.write(protocol.frame(1, Kind.END), protocol.frame(1, Kind.BODY, b"x"))
    host.call(2, "echo", {})
    assert host.reply() == (2, {"ok": {"args": {}}}, b"")


@pytest.mark.parametrize(("state", "kinds"), [(3, {"ok"}), (2, {"error"}), (None, {"ok"})])
def test_a_request_is_carried_out_only_in_the_state_that_it_names(
    host: Host, state: int | None, kinds: set[str]
) -> None:
    call = protocol.dump({"op": "echo", "args": {}, "state": state})
    host.write(protocol.frame(1, Kind.CALL, call), protocol.frame(1, Kind.END))
    assert host.reply()[1].keys() == kinds
    run = protocol.dump({"op": "run", "args": {"timeout": 3}, "state": 2})
    host.write(protocol.frame(2, Kind.CALL, run), protocol.frame(2, Kind.BODY, b"true"), protocol.frame(2, Kind.END))
    assert host.reply()[1]["error"]["kind"] == "outdated"
    assert host.spawner.started == []


def test_a_ping_is_answered(host: Host) -> None:
    host.write(protocol.frame(0, Kind.PING))
    assert host.frame() == (0, Kind.PING, b"")


def test_a_commands_frames_are_relayed_and_a_cancellation_reaches_it(host: Host) -> None:
    host.call(5, "run", {"timeout": 3}, b"true")
    host.spawner.ready.acquire()
    job, connection = host.spawner.started[0]
    assert (job.request_id, job.script, job.timeout) == (5, b"true", 3.0)
    connection.send(protocol.frame(5, Kind.BODY, b"\x01hi"))
    assert host.frame() == (5, Kind.BODY, b"\x01hi")
    host.write(protocol.frame(5, Kind.CANCEL))
    assert connection.recv(64) == b"cancel"
    connection.send(protocol.frame(5, Kind.END, b'{"ok": {}}'))
    assert host.reply() == (5, {"ok": {}}, b"")


def test_a_supervisor_that_is_killed_is_an_error_of_its_command(host: Host) -> None:
    host.call(5, "run", {"timeout": 3}, b"true")
    host.spawner.ready.acquire()
    host.spawner.started[0][1].close()
    number, reply, _ = host.reply()
    assert (number, reply["error"]["kind"]) == (5, "sandbox_failed")


def test_a_command_that_cannot_be_run_is_refused_before_anything_is_started(host: Host) -> None:
    host.call(5, "run", {"timeout": 3, "workdir": "missing"}, b"true")
    assert host.reply()[1]["error"]["kind"] == "file_not_found"
    assert host.spawner.started == []


@pytest.mark.parametrize(
    "nonsense",
    [
        protocol.frame(1, Kind.CALL, b"{}"),
        protocol.frame(1, Kind.CALL, b'{"op": 5, "args": {}}'),
        protocol.frame(1, Kind.CALL, b'{"op": "echo", "args": []}'),
        protocol.frame(1, Kind.CALL, b'{"op": "echo", "args": {}, "state": "3"}'),
        protocol.frame(1, Kind.CALL, b"{"),
        protocol.HEADER.pack(1 << 30, 1, Kind.CALL),
    ],
)
def test_a_host_that_talks_nonsense_ends_the_guest(host: Host, nonsense: bytes) -> None:
    host.write(nonsense)
    host._thread.join(5)
    assert [type(error) for error in host.failure] == [protocol.ProtocolError]


def test_the_working_directory_is_below_the_workspace(host: Host, tmp_path: Path) -> None:
    host.call(5, "run", {"timeout": 3, "workdir": str(tmp_path)}, b"true")
    assert host.reply()[1]["error"]["kind"] == "outside_repository"


ABANDONED = """
import os, sys, time
sys.path.insert(0, sys.argv[1])
from guest import server
from guest.operations import Root
server.WATCHDOG_SECONDS = 0.4
incoming, _ = os.pipe()
_, outgoing = os.pipe()
server.Server(incoming, outgoing, Root(-1), "/", {}, None, None).serve({})
"""


def test_a_guest_that_hears_nothing_of_its_host_for_long_ends_by_itself() -> None:
    sandbox = Path(__file__).parents[2] / "sandbox"
    done = subprocess.run([sys.executable, "-c", ABANDONED, str(sandbox)], timeout=20, check=False)
    assert done.returncode == 3
