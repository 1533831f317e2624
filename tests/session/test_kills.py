"""However a process ends, its session can be sent again: to a server that rejects what real ones reject."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from codeagent.conversation import ToolCall, ToolOutput
from codeagent.errors import StorageError
from codeagent.session.history import History
from codeagent.session.resumption import read_history
from codeagent.session.store import Session, holder, sessions_dir
from tests.clocks import wait_until
from tests.model_script import Entry, Received, call, reply, text, thought
from tests.model_server import ModelServer

CALLS = 6


def scripted() -> ModelServer:
    """Two calls a response until enough outputs are there, then the answer; by what is asked, not by its order.

    It fails the test when a request has an unanswered call, an output without its call or reasoning out of
    place, and when a later request of the session does not begin with the earlier one.
    """
    numbers = count()

    def answer(received: Received) -> Entry:
        seen = len(received.outputs)
        if seen >= CALLS:
            return reply(thought("enough"), text("because"))
        look, act = (call(name, {"n": seen}, call_id=f"call_{next(numbers)}") for name in ("look", "act"))
        return reply(thought("hm"), look, act)

    return ModelServer(answer)


class Processes:
    """Starts turns in processes of their own (see `zygote.py`)."""

    def __init__(self) -> None:
        self._zygote = subprocess.Popen(
            [sys.executable, "-m", "tests.session.zygote"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def order(self, *words: Any) -> int:
        assert self._zygote.stdin is not None
        assert self._zygote.stdout is not None
        self._zygote.stdin.write(json.dumps(words) + "\n")
        self._zygote.stdin.flush()
        return int(self._zygote.stdout.readline())

    def killed(self, seconds: float, *words: Any, number: signal.Signals = signal.SIGKILL) -> int:
        """Carries out the order and kills its process after some seconds; how it ended."""
        pid = self.order(*words)
        time.sleep(seconds)
        os.kill(pid, number)
        return self.order("wait", pid)

    def finished(self, *words: Any) -> int:
        return self.order("wait", self.order(*words))

    def close(self) -> None:
        self._zygote.communicate()


@pytest.fixture(scope="module")
def processes() -> Iterator[Processes]:
    made = Processes()
    yield made
    made.close()


def only_session(state: Path) -> Path | None:
    """The session that a killed process left, or None when it had recorded nothing yet."""
    folders = list(sessions_dir(state).iterdir()) if sessions_dir(state).exists() else []
    if not folders:
        return None
    try:
        Session.open(folders[0]).close()
    except StorageError as error:
        assert "holds no readable event" in error.message
        return None
    return folders[0]


def assert_whole(history: History) -> None:
    calls = [item.call_id for item in history.items if isinstance(item, ToolCall)]
    assert calls == [item.call_id for item in history.items if isinstance(item, ToolOutput)]
    assert len(set(calls)) == len(calls)


@pytest.mark.slow
def test_a_hundred_kills_at_random_moments_and_each_session_goes_on_to_its_answer(
    tmp_path: Path, processes: Processes
) -> None:
    random.seed(20260301)
    repaired = resumed = 0
    with scripted() as server:
        processes.finished("start", str(tmp_path / "cold"), "responses", server.url)
        began = time.monotonic()
        assert processes.finished("start", str(tmp_path / "warm"), "responses", server.url) == 0
        whole = time.monotonic() - began
        for trial in range(100):
            state = tmp_path / str(trial)
            processes.killed(random.uniform(0, whole), "start", str(state), "responses", server.url)
            folder = only_session(state)
            if folder is None:
                continue
            resumed += 1
            assert holder(folder) is None
            # Without a question in the log there is nothing to go on with; the command asks for a message then.
            message = "and then?" if trial % 2 or not read_history(folder)[0].message else None
            if trial % 3 == 0:  # and the process that went on is killed, too
                processes.killed(random.uniform(0, whole), "resume", str(folder), "responses", server.url, message)
            repaired += len(read_history(folder)[0].interrupted_calls)
            assert processes.finished("resume", str(folder), "responses", server.url, message) == 0
            history, damaged = read_history(folder)
            assert (history.outcome, damaged, history.interrupted_calls) == ("answered", 0, ())
            assert_whole(history)
            server.check()
    assert resumed >= 50  # the others were killed before they had recorded anything
    assert repaired >= 1  # some were hit while a call was open


@pytest.mark.slow
@pytest.mark.parametrize("signals", [[signal.SIGINT], [signal.SIGTERM], [signal.SIGINT, signal.SIGINT]])
def test_an_interrupted_turn_ends_at_once_and_goes_on_later(
    tmp_path: Path, processes: Processes, signals: list[signal.Signals]
) -> None:
    with scripted() as server:
        for trial, seconds in enumerate((0.02, 0.05, 0.08, 0.11)):
            state = tmp_path / str(trial)
            pid = processes.order("start", str(state), "responses", server.url)
            wait_until_running(state)
            time.sleep(seconds)
            for number in signals:
                os.kill(pid, number)
            code = processes.order("wait", pid)
            folder = only_session(state)
            assert folder is not None
            history, _ = read_history(folder)
            assert history.outcome in ("interrupted", "answered")
            # A signal that comes when the turn has ended, and its handlers stand no more, ends the process itself.
            assert code in (0, 1) or (-code in signals and history.outcome == "answered")
            assert history.interrupted_calls == ()  # the process itself has answered them
            assert processes.finished("resume", str(folder), "responses", server.url, "go on") == 0
            assert_whole(read_history(folder)[0])


def wait_until_running(state: Path) -> None:
    """Until the model has answered once."""
    wait_until(lambda: any(b"model_response" in file.read_bytes() for file in state.glob("sessions/*/events.jsonl")))
