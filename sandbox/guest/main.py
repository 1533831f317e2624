"""The guest's start: opens what only it may reach, gives up its ids, forks the spawner, serves.

    python3 -I -S -m guest CONFIG

CONFIG is one JSON object (it can be read in `docker inspect`, so nothing in it is secret):

    root          the repository's mount point
    uid, gid      whose rights to take; null: those of the root's owner, as seen in the container
    folders       further folders to open before the ids are given up, by name
    environment   variables of every command, on top of the fixed ones
    reading       the same, of commands that may not write
"""

from __future__ import annotations

import gc
import json
import os
import platform
import signal
import socket
import sys
from collections.abc import Mapping
from typing import Any

from guest import environment, ids, protocol
from guest.spawner import Spawner

HOST = "/codeagent.host"
FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def main() -> None:
    config = json.loads(sys.argv[1])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGPIPE):
        signal.signal(number, signal.SIG_IGN)
    os.umask(0o022)
    folders = {name: os.open(path, FOLDER) for name, path in config.get("folders", {}).items()}
    owner = _owner(config)
    ids.become_guest(owner)
    # Only now: root without capabilities may not even enter a folder that is closed to others.
    root, readable = _open_root(config["root"])
    os.makedirs(environment.HOME, mode=0o700, exist_ok=True)
    common, reading = config.get("environment", {}), config.get("reading", {})
    writers = environment.for_commands(os.environ, common, owner)
    readers = environment.for_commands(os.environ, {**common, **reading}, owner)
    spawner = Spawner(writers, readers, owner)
    # Only now, too: each fork of the spawner's would copy what it does not need.
    from guest.files import Files
    from guest.marker import marker
    from guest.operations import Root
    from guest.server import Server

    files = Files()
    operations = {**files.operations(), "marker": marker}
    incoming, outgoing = _connection()
    server = Server(incoming, outgoing, Root(root, folders), config["root"], operations, spawner, files.steady)
    gc.freeze()  # what is there by now stays, and no collection has to look through it
    try:
        server.serve(greeting(owner, readable))
    except protocol.ProtocolError as error:
        print(f"guest: {error}", file=sys.stderr, flush=True)
        os._exit(2)
    finally:
        # This is the container's first process: its end is the end of every other.
        os._exit(0)


def _connection() -> tuple[int, int]:
    """The host's own socket where it could be mounted and somebody listens; otherwise the stream of the engine.

    Made after the spawner was forked, which has no part in it. Before any command runs, the host stops listening.
    """
    direct = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        direct.connect(HOST)
    except OSError:
        direct.close()
        return 0, 1
    fd = direct.detach()
    return fd, fd


def _owner(config: Mapping[str, Any]) -> ids.Owner:
    found = os.stat(config["root"])
    uid, gid = config.get("uid"), config.get("gid")
    return ids.Owner(found.st_uid if uid is None else uid, found.st_gid if gid is None else gid)


def _open_root(path: str) -> tuple[int, bool]:
    """A descriptor, and whether the repository can be listed with the owner's rights."""
    try:
        fd = os.open(path, FOLDER)
        os.listdir(fd)
    except PermissionError:
        return os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC), False
    return fd, True


def greeting(owner: ids.Owner, readable: bool) -> dict[str, Any]:
    """What the host is told at the start."""
    return {
        "version": protocol.VERSION,
        "uid": owner.uid,
        "gid": owner.gid,
        "readable": readable,
        "machine": platform.machine(),
    }
