"""Signals are raised where the program waits, and nowhere else."""

from __future__ import annotations

import asyncio
import importlib
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from codeagent.agent.interrupts import DeadlinePassed, Interrupts
from codeagent.errors import Interrupted


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_waiting_raises_at_once(number: signal.Signals) -> None:
    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.waiting():
        os.kill(os.getpid(), number)
        time.sleep(5)


def test_a_signal_outside_is_raised_by_the_next_wait_and_tears_nothing() -> None:
    with Interrupts() as interrupts:
        os.kill(os.getpid(), signal.SIGINT)
        untouched = sum(range(1000))
        with pytest.raises(Interrupted), interrupts.waiting():
            pytest.fail("a wait began although a signal had come")
    assert untouched == 499500


def test_a_second_signal_does_not_tear_the_clean_up_of_the_first() -> None:
    cleaned = []
    with Interrupts() as interrupts:
        with pytest.raises(Interrupted), interrupts.waiting():
            try:
                os.kill(os.getpid(), signal.SIGINT)
                time.sleep(5)
            finally:
                os.kill(os.getpid(), signal.SIGINT)
                cleaned.append(True)
        assert (cleaned, interrupts.pending) == ([True], True)


def test_an_import_is_not_torn_and_the_signal_raises_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "slow_to_import.py").write_text(
        "import os, signal\nos.kill(os.getpid(), signal.SIGINT)\nwhole = True\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.waiting():
        importlib.import_module("slow_to_import")
        time.sleep(5)
    assert sys.modules.pop("slow_to_import").whole is True


def test_a_wait_ends_at_its_deadline() -> None:
    with Interrupts() as interrupts, pytest.raises(DeadlinePassed), interrupts.waiting(0.01):
        time.sleep(5)


def test_after_clear_the_program_goes_on() -> None:
    with Interrupts() as interrupts:
        with pytest.raises(Interrupted), interrupts.waiting():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(5)
        interrupts.clear()
        with interrupts.waiting(5):
            pass


def test_the_handlers_that_stood_before_stand_again() -> None:
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    with Interrupts():
        pass
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_a_hang_up_that_was_ignored_from_the_start_stays_ignored() -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with Interrupts() as interrupts, interrupts.waiting():
            os.kill(os.getpid(), signal.SIGHUP)
        assert (interrupts.pending, signal.getsignal(signal.SIGHUP)) == (False, signal.SIG_IGN)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_two_signals_at_once_are_heard_although_another_thread_takes_them() -> None:
    script = """
        import os, socket, threading
        from codeagent.agent.interrupts import Interrupts
        from codeagent.errors import Interrupted
        here, there = socket.socketpair()
        for _ in range(3):
            threading.Thread(target=threading.Event().wait, daemon=True).start()
        with Interrupts() as interrupts:
            try:
                with interrupts.waiting():
                    print("waiting", flush=True)
                    here.recv(1)
            except Interrupted:
                os._exit(130)
    """
    for _ in range(10):
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(script)], stdout=subprocess.PIPE)
        assert process.stdout is not None
        assert process.stdout.readline() == b"waiting\n"
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGINT)
        try:
            assert process.wait(timeout=60) == 130
        finally:
            process.kill()
            process.communicate()


def test_a_signal_during_a_callback_of_an_event_loop_is_not_taken_for_a_fault_of_the_callback() -> None:
    """The loop would catch what is raised in one, and wait on; the editor of the chat runs in such a loop."""

    async def wait() -> None:
        asyncio.get_running_loop().call_soon(os.kill, os.getpid(), signal.SIGTERM)
        await asyncio.sleep(2)

    with Interrupts() as interrupts, pytest.raises(Interrupted), interrupts.waiting():
        asyncio.run(wait())
