"""A process for the pseudo-terminal tests: asks one review through the real gate and prompt, writes what came of it.

Run as `python ask_once.py OUT COMMAND DELAY TIMES GUARD`: waits DELAY seconds before it asks, TIMES in all; what is
typed within GUARD seconds after a question stood there does not count.
"""

from __future__ import annotations

import json
import signal
import sys
import time
from pathlib import Path
from types import FrameType

from codeagent.approval.gate import Gate
from codeagent.approval.seam import Review
from codeagent.errors import Interrupted
from codeagent.events import Event, body
from codeagent.ui.approval import Prompt


def interrupt(_number: int, _frame: FrameType | None) -> None:
    raise Interrupted


def main() -> None:
    out, command = Path(sys.argv[1]), sys.argv[2]
    delay, times, guard = float(sys.argv[3]), int(sys.argv[4]), float(sys.argv[5])
    signal.signal(signal.SIGINT, interrupt)
    events: list[dict[str, object]] = []

    def emit(event: Event) -> None:
        events.append({"type": event.type, **body(event)})

    at_terminal = sys.stdin.isatty() and sys.stderr.isatty()
    gate = Gate("ask", emit=emit, ask=Prompt(guard_seconds=guard) if at_terminal else None, digest=lambda path: None)
    time.sleep(delay)
    ended = "answered"
    try:
        for number in range(times):
            review = Review(f"call_{number}", "run_command", command, "src", True, gate.classify(command))
            gate(review)
    except Interrupted:
        ended = "interrupted"
    out.write_text(json.dumps({"ended": ended, "events": events}))


main()
