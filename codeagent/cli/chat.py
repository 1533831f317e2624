"""`codeagent chat`: many turns of one session, in a terminal."""

from __future__ import annotations

import argparse
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from codeagent.agent.interrupts import ignores_hang_up
from codeagent.cli.flags import add_turn_flags
from codeagent.cli.person import at_terminal
from codeagent.errors import Interrupted, UsageError

if TYPE_CHECKING:
    from types import FrameType

    from codeagent.cli.chat_commands import Chat
    from codeagent.cli.wiring import Workbench

EXAMPLES = """\
examples:
  codeagent chat
  codeagent chat --repo ~/src/shop --approve contained

Enter sends; Alt-Enter, or a backslash before Enter, begins a new line; Tab completes paths and commands.
Ctrl-C stops the turn, not the program; Ctrl-D or /exit ends it. /help lists the commands.
The session is stored as it goes: `codeagent resume` goes on with it another time.
"""

_COMMAND = re.compile(r"/[a-z]+\Z")


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "chat",
        help="many turns, in a terminal",
        description="Many turns about one repository, in a terminal.",
        epilog=EXAMPLES,
    )
    add_turn_flags(parser)
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Reads messages and runs turns until the user ends it; 0, or 130 after SIGTERM or SIGHUP."""
    if not at_terminal():
        raise UsageError(
            "chat needs a terminal to read from and to show its prompt on.",
            "In scripts, use `codeagent ask` and then `codeagent resume MESSAGE`.",
        )
    from codeagent.cli.choices import Choices

    choices = Choices.of(args)
    from codeagent.cli.chat_commands import Chat
    from codeagent.cli.wiring import opened_workbench

    with opened_workbench(choices) as bench, _told_of_termination() as terminated:
        chat = Chat(bench)
        code = _converse(chat, bench, terminated)
        chat.say_how_to_go_on()
        return code


def _converse(chat: Chat, bench: Workbench, terminated: list[int]) -> int:
    editor = chat.open_editor()
    bench.terminal.hints = False  # how to go on in the shell is said at the end of the chat
    bench.terminal.note("Type a question; /help lists the commands.", "dim")
    while not terminated:
        try:
            with bench.interrupts.waiting():
                message = editor.read(chat.status())
        except KeyboardInterrupt:
            bench.terminal.note("Ctrl-D or /exit ends the chat.", "dim")
            continue
        except EOFError:
            return 0
        except Interrupted:
            return Interrupted.exit_code
        if not _take(chat, bench, message):
            return 0
        if not terminated:
            # The turn that Ctrl-C stopped is over; the program goes on.
            bench.interrupts.clear()
    return Interrupted.exit_code


def _take(chat: Chat, bench: Workbench, message: str) -> bool:
    """Runs one command or one turn; False when the user wants to leave. No error ends the program."""
    from codeagent.cli.main import tell

    name, _, rest = message.strip().partition(" ")
    try:
        if _COMMAND.match(name):
            return chat.command(name, rest.strip())
        bench.turn(message)
    except Interrupted:
        pass
    except BrokenPipeError:
        raise
    except Exception as error:
        tell(error, verbose=bench.choices.verbose)
    return True


@contextmanager
def _told_of_termination() -> Iterator[list[int]]:
    """Inside, SIGTERM and SIGHUP are noted in the list besides what they do anyway: after one, the program ends."""
    seen: list[int] = []
    before: dict[int, Any] = {
        number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP) if not ignores_hang_up(number)
    }

    def note(number: int, frame: FrameType | None) -> None:
        seen.append(number)
        if callable(before[number]):
            before[number](number, frame)

    for number in before:
        signal.signal(number, note)
    try:
        yield seen
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
