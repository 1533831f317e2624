"""A person's shell in a session's container: the same mounts, masks, limits, ids and environment as its commands."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
import signal
import socket
import struct
import termios
import threading
import tty
from collections.abc import Callable, Iterator, Mapping
from types import FrameType
from typing import Any

from codeagent.errors import SandboxError
from codeagent.sandbox.engine import Engine
from codeagent.sandbox.hardening import WORKSPACE
from codeagent.sandbox.owner import SESSION_LABEL
from codeagent.sandbox.seam import Command, Sandbox
from codeagent.sandbox.toolbox import Toolbox

# What is done to a command (`sandbox/toolbox/begin.c`) but for its own session, which a terminal needs: the owner's
# ids, no capability. Then the image's own shell.
_BECOME = """
import ctypes, fcntl, os, signal, struct, sys, termios
fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", int(sys.argv[2]), int(sys.argv[3]), 0, 0))
for ignored in (signal.SIGPIPE, signal.SIGXFSZ):  # by Python, and exec would pass that on
    signal.signal(ignored, signal.SIG_DFL)
owner = os.stat(sys.argv[1])
os.setresgid(owner.st_gid, owner.st_gid, owner.st_gid)
os.setresuid(owner.st_uid, owner.st_uid, owner.st_uid)
version = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
libc = ctypes.CDLL(None, use_errno=True)
if libc.capset((ctypes.c_uint32 * 2)(version, 0), (ctypes.c_uint32 * 6)()) != 0:
    raise OSError(ctypes.get_errno(), "its capabilities cannot be dropped")
os.makedirs(os.environ["HOME"], exist_ok=True)
os.chdir(sys.argv[1])
os.execvp("sh", ["sh", "-i"])
"""
_VARIABLE = re.compile(r"^([A-Za-z_][A-Za-z0-9_]*)=", re.MULTILINE)
PROMPT = "codeagent:$PWD$ "


def run_shell(sandbox: Sandbox, engine: Engine, session_id: str, toolbox: Toolbox, term: str) -> int:
    """Joins the terminal (stdin and stdout) to a shell in the session's container; returns the shell's exit code."""
    environment = {**commands_environment(sandbox), "TERM": term, "PS1": PROMPT}
    api = engine.client.api
    running = api.containers(filters={"label": f"{SESSION_LABEL}={session_id}"})
    if not running:
        raise SandboxError("The sandbox's container has ended.", "Try again, or look at `codeagent sandbox status`.")
    created = api.exec_create(
        running[0]["Id"],
        # The size is set before the shell starts: one that changes under its first prompt makes it print another.
        [toolbox.python, "-I", "-S", "-c", _BECOME, WORKSPACE, *map(str, _size())],
        user="0:0",
        tty=True,
        stdin=True,
        environment=environment,
    )
    identity = str(created["Id"])
    opened: Any = api.exec_start(identity, tty=True, socket=True)
    connection: socket.socket = getattr(opened, "_sock", opened)
    connection.settimeout(None)
    with _raw(0), _resizing(lambda rows, columns: api.exec_resize(identity, rows, columns)):
        _relay(connection)
    opened.close()
    code = api.exec_inspect(identity)["ExitCode"]
    return int(code) if code is not None else 1


def commands_environment(sandbox: Sandbox) -> dict[str, str]:
    """The variables that a command of this sandbox sees."""
    result = sandbox.run(Command("shell", "env"), threading.Event())
    text = "".join(part for _, part in result.segments)
    starts = [(match.start(), match.group(1)) for match in _VARIABLE.finditer(text)]
    ends = [start for start, _ in starts[1:]] + [len(text)]
    variables = {
        name: text[start + len(name) + 1 : end].removesuffix("\n")
        for (start, name), end in zip(starts, ends, strict=True)
    }
    return _without_shell_s_own(variables)


def _without_shell_s_own(variables: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in variables.items() if name not in ("PWD", "OLDPWD", "SHLVL", "_")}


def _size() -> tuple[int, int]:
    """Rows and columns of the person's terminal."""
    rows, columns, *_ = struct.unpack("HHHH", fcntl.ioctl(0, termios.TIOCGWINSZ, bytes(8)))
    return rows, columns


@contextlib.contextmanager
def _raw(terminal: int) -> Iterator[None]:
    """Keys go to the shell as they are pressed, Ctrl-C too."""
    before = termios.tcgetattr(terminal)
    try:
        tty.setraw(terminal)
        yield
    finally:
        with contextlib.suppress(termios.error):  # a terminal that was closed
            termios.tcsetattr(terminal, termios.TCSADRAIN, before)


@contextlib.contextmanager
def _resizing(resize: Callable[[int, int], object]) -> Iterator[None]:
    """Tells the shell the terminal's size whenever it changes, and once at first: it may have changed meanwhile."""

    def tell(_number: int = 0, _frame: FrameType | None = None) -> None:
        with contextlib.suppress(Exception):  # a shell that has just ended has no size
            resize(*_size())

    before = signal.signal(signal.SIGWINCH, tell)
    tell()
    try:
        yield
    finally:
        signal.signal(signal.SIGWINCH, before)


def _relay(connection: socket.socket) -> None:
    """Bytes both ways until the shell's side ends."""
    typed = True
    while True:
        ready, _, _ = select.select([connection.fileno(), *([0] if typed else [])], [], [])
        if connection.fileno() in ready:
            received = connection.recv(65536)
            if not received:
                return
            os.write(1, received)
        if 0 in ready:
            keys = os.read(0, 4096)
            if keys:
                connection.sendall(keys)
            else:
                typed = False
                with contextlib.suppress(OSError):
                    connection.shutdown(socket.SHUT_WR)
