"""How a guest talks to its host: by a socket of the host's, or through the engine where that cannot be."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from codeagent.sandbox.door import TARGET, Direct, Door
from codeagent.sandbox.hardening import Mount
from codeagent.sandbox.session_containers import Slot
from tests.docker.conftest import Open, Opened

CONNECT = """
import socket
try:
    socket.socket(socket.AF_UNIX).connect("/codeagent.host")
except OSError as error:
    print(error.strerror)
else:
    print("CONNECTED")
"""


NAMES = """
import socket
for name in ("localhost", "codeagent", "example.com"):
    try:
        print(*sorted({found[4][0] for found in socket.getaddrinfo(name, 1)}))
    except socket.gaierror:
        print("unknown")
"""


def way(opened: Opened) -> str:
    """Which class of connection the reader's channel has."""
    slot: Slot = opened.sandbox._reader
    return type(slot.running.channel._connection).__name__


def serves(opened: Opened) -> None:
    assert [line.text for line in opened.sandbox.read_file("hello.txt", None, None).lines] == ["hello"]
    assert opened.output("head -c 3000000 /dev/zero | tr '\\0' x | wc -c; echo err >&2") == "3000000\nerr\n"
    assert len(opened.output("head -c 300000 /dev/zero | tr '\\0' x")) > 10_000
    # Whoever sets the network up, the container knows its own names, and nobody else's.
    assert opened.output(f"ls /sys/class/net; python3 -c '{NAMES}'") == "lo\n127.0.0.1 ::1\n127.0.0.1\nunknown\n"


def test_the_way_around_the_engine_is_closed_before_a_command_runs(open_one: Open) -> None:
    opened = open_one()
    serves(opened)
    assert way(opened) == Direct.__name__
    assert opened.output(f"python3 -c '{CONNECT}'") == "Connection refused\n"
    assert "Read-only file system" in opened.output("rm /codeagent.host; mv /codeagent.host /tmp")
    assert list(opened.outputs.glob(".*")) == []


@pytest.mark.parametrize("source", ["{outputs}/away", "/dev/null"], ids=["not there", "nobody listens"])
def test_an_engine_that_cannot_have_it_is_talked_to_itself(
    open_one: Open, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, source: str
) -> None:
    elsewhere = Mount("bind", TARGET, source.format(outputs=tmp_path / "outputs"))
    monkeypatch.setattr(Door, "mount", property(lambda _: elsewhere))
    opened = open_one()
    serves(opened)
    assert way(opened) == "Attached"
    assert list(opened.outputs.glob(".*")) == []


def test_a_guest_ends_with_its_host_s_socket(open_one: Open) -> None:
    opened = open_one()
    serves(opened)
    opened.sandbox._reader.running.channel._connection.shutdown(2)
    until = time.monotonic() + 5
    while opened.containers() and time.monotonic() < until:
        time.sleep(0.02)
    assert opened.containers() == []
