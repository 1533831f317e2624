"""Runs turns of a stored session in this process: the real loop, journal and provider, over a real socket.

Only the tools are stand-ins, so that a hundred kills cost no containers: `look` answers at once, `act` takes a
while, `stop` interrupts the turn.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

from codeagent.agent.context import Context
from codeagent.agent.dispatch import Action, Dispatcher, Tool
from codeagent.agent.interrupts import Interrupts
from codeagent.agent.limits import Bounds, Clock, Limits
from codeagent.agent.loop import Ending, Turn, run_turn
from codeagent.approval.seam import Approval
from codeagent.conversation import Item, ToolCall, UserMessage
from codeagent.events import SessionStarted, TurnEnded, TurnStarted
from codeagent.inference import Provider, ToolSpec
from codeagent.sandbox.seam import Flag
from codeagent.session.history import History
from codeagent.session.resumption import Setup, read_history, readable, take_up
from codeagent.session.store import Session
from codeagent.tools.result import ToolResult

BOUNDS = Bounds(rounds=100)
SETUP = Setup("/repo", "scripted", "model", "image", "1.0")
SCHEMA = {
    "type": "object",
    "properties": {"n": {"type": "integer"}},
    "required": ["n"],
    "additionalProperties": False,
}


def tool(name: str, seconds: float, text: str = "line\n" * 20, signals: signal.Signals | None = None) -> Tool:
    def prepare(call: ToolCall) -> Action:
        def run(cancel: Flag, _seconds_left: float) -> ToolResult:
            if signals is not None:
                os.kill(os.getpid(), signals)
            until = time.monotonic() + seconds
            while not cancel.is_set() and time.monotonic() < until:
                time.sleep(0.001)
            return ToolResult(f"{name} {call.arguments} done\n{text}")

        return Action(run)

    return Tool(ToolSpec(name, f"{name}s at n", SCHEMA), prepare)


TOOLS = {
    "look": tool("look", 0.0),
    "look_long": tool("look_long", 0.0, "some line of code that was read\n" * 150),
    "act": tool("act", 0.02),
    "stop": tool("stop", 0.3, signals=signal.SIGINT),
}


def start(state: Path, provider: Provider, question: str = "why?", bounds: Bounds = BOUNDS) -> Ending:
    """A new session and its first turn, to the end."""
    with Session.create(state) as session:
        session.emit(SessionStarted("/repo", "model", "scripted", "image", "1.0"))
        session.journal.turn = 1
        session.emit(TurnStarted(question))
        return play(session, [UserMessage(question)], History(), provider, bounds)


def resume(folder: Path, provider: Provider, message: str | None = None) -> Ending:
    """Goes on with a stored session, as the command does."""
    with Session.open(folder) as session:
        history, damaged = read_history(folder)
        items = take_up(session, history, damaged, SETUP, message)
        if message is not None:
            session.journal.turn, session.journal.round = history.turn + 1, 0
            session.emit(TurnStarted(message))
            items.append(UserMessage(message))
        return play(session, items, history, provider)


def play(
    session: Session, items: list[Item], history: History, provider: Provider, bounds: Bounds = BOUNDS
) -> Ending:
    def begin_round(number: int) -> None:
        session.journal.round = number

    limits = Limits(bounds, Clock())
    specs = tuple(each.spec for each in TOOLS.values())
    context = Context(provider.context_window, "Find out.", specs)
    context.restore(items, history.compactions, readable(history.compaction, provider))
    with Interrupts() as interrupts:
        dispatcher = Dispatcher(
            TOOLS,
            review=lambda _: Approval("allow", "flag"),
            redact=lambda text: text,
            observe=lambda _call, _result: None,
            emit=session.emit,
            limits=limits,
            interrupts=interrupts,
        )
        ending = run_turn(
            Turn(
                conversation=items,
                instructions="Find out.",
                tools=specs,
                cache_key=session.id,
                provider=provider,
                context=context,
                dispatcher=dispatcher,
                limits=limits,
                interrupts=interrupts,
                notes=lambda: (),
                begin_round=begin_round,
                emit=session.emit,
                progress=lambda _: None,
            )
        )
        dispatcher.close()
    session.emit(
        TurnEnded(ending.outcome.value, ending.text, None, [], {"status": "not_requested"}, limits.rounds, {}, 0)
    )
    return ending
