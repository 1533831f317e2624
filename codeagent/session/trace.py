"""A session as one value for scripts: what belongs together stands together, paired by `call_id`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from codeagent.session.journal import Record

_ENVELOPE = ("type", "session_id", "turn")


def paired(records: Iterable[Record]) -> dict[str, Any]:
    """`{"session": …, "turns": [{"turn", "message", "calls": […], "events": […], "ended"}]}`.

    Each call is `{"call_id", "name", "arguments", "round", "time", "approvals": […], "output": … or null}`; all other
    events of a turn are in `events`, in order, without the raw output of responses.
    """
    session: dict[str, Any] = {}
    turns: list[dict[str, Any]] = []
    calls: dict[Any, dict[str, Any]] = {}
    for record in records:
        own = {name: value for name, value in record.items() if name not in _ENVELOPE}
        type_ = record["type"]
        if type_ == "session_started":
            session = {"session_id": record.get("session_id"), **own}
            continue
        if type_ == "turn_started" or not turns:
            turns.append({"turn": record.get("turn"), "message": None, "calls": [], "events": [], "ended": None})
        turn = turns[-1]
        call = calls.get(str(record.get("call_id")))
        if type_ == "turn_started":
            turn |= {"message": record.get("message"), "time": record.get("time")}
        elif type_ == "turn_ended":
            turn["ended"] = own
        elif type_ == "tool_call":
            calls[str(record.get("call_id"))] = own | {"approvals": [], "output": None}
            turn["calls"].append(calls[str(record.get("call_id"))])
        elif call is not None and type_ == "tool_output":
            call["output"] = call["output"] or own
        elif call is not None and type_.startswith("approval_"):
            call["approvals"].append({"type": type_, **own})
        else:
            turn["events"].append({"type": type_, **{name: own[name] for name in own if name != "items"}})
    return {"session": session, "turns": turns}
