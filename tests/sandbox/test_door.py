"""The guest's way around the engine, and the stream of the engine that is used where there is none."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from codeagent.sandbox.attached import Attached
from codeagent.sandbox.channel import Channel
from codeagent.sandbox.door import TARGET, Direct, Door
from codeagent.sandbox.frames import STREAM_HEADER, Kind, frame
from codeagent.sandbox.hardening import Mount

GREETING = frame(0, Kind.END, b'{"ok":{"version":1}}')


@pytest.fixture
def engine() -> Iterator[tuple[Attached, socket.socket]]:
    """The stream of the engine, and its other end."""
    ours, theirs = socket.socketpair()
    attached = Attached(ours)
    yield attached, theirs
    attached.close()
    theirs.close()


@pytest.fixture
def door(tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path / "door")
    yield door
    door.close()


def knock(door: Door) -> socket.socket:
    guest = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    guest.settimeout(5)
    guest.connect(door.mount.source)
    return guest


def said(stream: int, payload: bytes) -> bytes:
    return STREAM_HEADER.pack(stream, len(payload)) + payload


def test_a_guest_that_comes_through_the_door_is_talked_to_there(
    door: Door, engine: tuple[Attached, socket.socket]
) -> None:
    attached, theirs = engine
    with knock(door) as guest:
        guest.sendall(GREETING)
        connection = door.first(attached, 5)
        assert isinstance(connection, Direct)
        channel = Channel(connection)
        assert channel.greeting(5) == {"version": 1}
        theirs.sendall(said(2, b"guest: a warning\n"))
        assert channel.diagnostics == "guest: a warning\n"
        channel.close()
        assert guest.recv(100) == b""
    assert theirs.recv(100) == b""


@pytest.mark.parametrize(
    ("sent", "received"), [(said(2, b"loading\n") + said(1, GREETING), GREETING), (said(2, b"broken\n"), b"")]
)
def test_a_guest_that_speaks_or_ends_through_the_engine_is_heard_there(
    door: Door, engine: tuple[Attached, socket.socket], sent: bytes, received: bytes
) -> None:
    attached, theirs = engine
    theirs.sendall(sent)
    if not received:
        theirs.shutdown(socket.SHUT_WR)
    assert door.first(attached, 5) is attached
    assert attached.recv() == received
    assert attached.diagnostics == ("loading\n" if received else "broken\n")


def test_a_guest_that_says_nothing_is_given_up(door: Door, engine: tuple[Attached, socket.socket]) -> None:
    assert door.first(engine[0], 0.01) is engine[0]


def test_complaints_are_taken_while_nobody_asks_for_them(door: Door, engine: tuple[Attached, socket.socket]) -> None:
    attached, theirs = engine
    with knock(door):
        connection = door.first(attached, 5)
    theirs.settimeout(5)
    flooding = threading.Thread(target=theirs.sendall, args=(said(2, b"x" * 3_000_000),))
    flooding.start()
    while flooding.is_alive():
        connection.attend()
    flooding.join()
    assert set(connection.diagnostics) == {"x"}
    connection.close()


def test_when_it_is_closed_nothing_is_left_of_it(tmp_path: Path) -> None:
    file = tmp_path / "door"
    door = Door(file)
    assert file.is_socket()
    assert door.mount == Mount("bind", TARGET, str(file))
    door.close()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_with_a_long_path_has_one_too(tmp_path: Path) -> None:
    folder = tmp_path / ("long" * 30)
    folder.mkdir()
    Door(folder / "door").close()
    assert list(folder.iterdir()) == []


def test_a_folder_that_is_missing_or_full_has_none(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="No such file"):
        Door(tmp_path / "missing" / "door")
