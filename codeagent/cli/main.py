"""The entry point: parses the command line, runs the command, turns errors into a sentence and an exit code.

Start-up is paid on every call, so a command's module is imported only when it is asked for, and the parser
knows of the others only their name and their line of help.
"""

from __future__ import annotations

import argparse
import errno
import gc
import importlib
import io
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from typing import TextIO

from codeagent import __version__
from codeagent.cli.parser import Parser
from codeagent.errors import CodeagentError, Interrupted

COMMANDS = {
    "ask": "one question about a repository, then exit",
    "chat": "many turns, in a terminal",
    "fix": "investigate, change a private copy, verify independently",
    "resume": "go on with a stored session",
    "sessions": "list, show, export and delete stored sessions",
    "diff": "what the agent changed in its private copy",
    "apply": "apply that change to the real repository",
    "recheck": "do a stored answer's citations still hold?",
    "policy": "how a command would be classified, and why",
    "sandbox": "build, show, open and clean the sandbox",
    "config": "each setting and where it comes from",
    "doctor": "what is installed, reachable, misconfigured",
    "completion": "completion for bash, zsh or fish",
}

EXAMPLES = """\
examples:
  codeagent ask "why does UserService return null"
  codeagent ask "where is CartService" --repo ~/src/shop --model offline
  codeagent fix "the date parser drops the time zone" --verify "pytest -q tests/test_dates.py"
  codeagent policy check "git log -3 | head"

exit codes: 0 answered, 1 not printed, or a fault of codeagent, 2 usage, 3 model, 4 sandbox, 5 not verified, \
6 needs input, 7 stopped early, 130 interrupted
"""


def build_parser(only: str | None = None) -> Parser:
    """The whole parser, or, with `only`, one in which just that command is filled in (none for an unknown one)."""
    parser = Parser(
        prog="codeagent",
        description="Investigates a repository with a language model, inside a locked-down container.",
        epilog=EXAMPLES,
    )
    parser.add_argument("--version", action="version", version=f"codeagent {__version__}")
    subparsers = parser.add_subparsers(dest="command", metavar="COMMAND", required=True)
    for name, line in COMMANDS.items():
        if only is None or name == only:
            importlib.import_module(f"codeagent.cli.{name}").add_parser(subparsers)
        else:
            subparsers.add_parser(name, help=line)
    return parser


def run(argv: Sequence[str]) -> int:
    """Runs one command line. Errors raised on purpose become a sentence, a remedy and their exit code."""
    named = next((word for word in argv if not word.startswith("-")), None)
    args = argparse.Namespace()
    try:
        args = build_parser(named or "").parse_args(argv)
        return int(args.run(args))
    except (KeyboardInterrupt, Interrupted):
        return Interrupted.exit_code
    except BrokenPipeError:
        raise
    except Exception as caught:
        error = tell(caught, verbose=getattr(args, "verbose", False))
        return getattr(args, "usage_exit_code", error.exit_code) if error.exit_code == 2 else error.exit_code


def tell(caught: Exception, *, verbose: bool) -> CodeagentError:
    """Reports an error of any kind; returns it as one with an exit code."""
    if verbose:
        print_trace(caught)
    error = caught if isinstance(caught, CodeagentError) else unforeseen(caught)
    report(error)
    return error


def unforeseen(error: Exception) -> CodeagentError:
    """What is said of an error that nobody raised on purpose; a disk that is full is none of codeagent's faults."""
    if isinstance(error, OSError) and error.errno in (
        errno.ENOSPC,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EIO,
        errno.EROFS,
    ):
        where = f"{error.filename} cannot" if error.filename else "What was to be printed could not"
        return CodeagentError(f"{where} be written: {error.strerror}.", "Free some space, or write somewhere else.")
    what = " ".join(str(error).split()) or "no message"
    return CodeagentError(
        f"Something went wrong that should not ({type(error).__name__}: {what}).",
        "This is a fault of codeagent. `--verbose` shows where it happened.",
    )


def print_trace(error: Exception) -> None:
    """Where an error happened, on stderr."""
    import traceback

    from codeagent.ui.inert import inert

    print(inert("".join(traceback.format_exception(error))), end="", file=sys.stderr)


def report(error: CodeagentError) -> None:
    """What is wrong and what to do about it, on stderr, with nothing in it that acts on a terminal."""
    from codeagent.cli.person import say
    from codeagent.ui.inert import inert

    for sentence in (f"codeagent: error: {error.message}", error.remedy):
        if sentence:
            say(inert(sentence))


def main() -> None:
    """The whole program, from its arguments to its exit code."""
    # Start-up makes many objects and frees few: collecting every 700 of them costs a tenth of loading the SDK.
    gc.set_threshold(100_000, 50, 50)
    _open_closed_streams()
    sys.stderr = _Asides.instead_of(sys.stderr)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        try:
            code = run(sys.argv[1:])
        finally:
            sys.stdout.flush()  # also after --help, which leaves by SystemExit
    except OSError as error:
        # Python would complain once more when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = 141  # as a shell reports SIGPIPE
        if not isinstance(error, BrokenPipeError):  # the reader has not gone (`| head`): the disk is full
            report(unforeseen(error))
            code = CodeagentError.exit_code
    sys.exit(code)


class _Asides(io.TextIOWrapper):
    """stderr. What cannot be said on it, on a full disk or a terminal that has gone, changes nothing: not what is
    done, and not the exit code, which Python makes 120 when it fails to flush at exit."""

    @classmethod
    def instead_of(cls, stream: TextIO) -> TextIO:
        if not isinstance(stream, io.TextIOWrapper):
            return stream
        encoding, below = stream.encoding, stream.detach()
        if isinstance(below, io.RawIOBase):  # PYTHONUNBUFFERED: what a signal cut off would be lost
            below = io.BufferedWriter(below)
        return cls(below, encoding, line_buffering=True)

    def write(self, text: str) -> int:
        with suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with suppress(OSError):
            super().flush()


def _open_closed_streams() -> None:
    """Started with stdin, stdout or stderr closed, the next file that is opened would take its place."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: PTH123, SIM115 -- stays open to the end
