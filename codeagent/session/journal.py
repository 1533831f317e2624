"""Appends events to `events.jsonl` and hands them on.

A line is on its way to the disk before anybody acts on it or sees it. Every line is written at once, so a
process that is killed leaves whole lines, but for a long one that the kernel breaks off. A line that announces an
effect is also forced to the disk (`announces_effect`), so that a machine that loses power knows what it may have
done; the others are not, because forcing costs milliseconds on ordinary disks and what they tell can be found out
again.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock
from typing import Any

from codeagent.errors import StorageError
from codeagent.events import (
    ApprovalDecided,
    Event,
    SessionResumed,
    SessionStarted,
    TurnEnded,
    WorkspaceChanged,
    body,
)
from codeagent.session.storage import storage_error

Record = Mapping[str, Any]
"""One event as it is stored and as `--json` prints it: the envelope and the event's own fields."""

Subscriber = Callable[[Record], None]


def announces_effect(event: Event) -> bool:
    """Whether something irreversible follows: a command that may write, or what was promised to the user: that the
    question is kept, and the end.
    """
    if isinstance(event, ApprovalDecided):
        return event.decision == "allow" and event.by != "class"  # by class means that it only reads
    return isinstance(event, (SessionStarted, SessionResumed, WorkspaceChanged, TurnEnded))


def now() -> str:
    """The time as it stands in the log: ISO 8601, UTC, milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


def encode(record: Record) -> str:
    """One line of JSON in ASCII: nothing in a text can end the line, and lone surrogates survive."""
    return _ENCODER.encode(record)


_ENCODER = json.JSONEncoder(ensure_ascii=True, separators=(",", ":"))  # `dumps` would make one each time


class Journal:
    """The one writer of a session's log; the caller holds the session's lock.

    `turn` and `round` are set by the loop and stand in the envelope of each event. Events may come from several
    threads. A subscriber that raises is left out from then on, and its error is kept in `failures`: what cannot be
    shown must still be stored.
    """

    def __init__(self, file: Path, session_id: str) -> None:
        """Opens or makes `file`. Raises StorageError."""
        self.turn = 0
        self.round = 0
        self.failures: list[Exception] = []
        self._file = file
        self._session_id = session_id
        self._lock = RLock()
        self._subscribers: list[Subscriber] = []
        try:
            self._fd = os.open(file, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
            self._end = os.fstat(self._fd).st_size
            # A line that was torn by a crash stays as it is; the next one starts on a line of its own.
            self._fresh = self._end == 0 or os.pread(self._fd, 1, self._end - 1) == b"\n"
        except OSError as error:
            raise storage_error(error, file) from error

    @property
    def empty(self) -> bool:
        return self._end == 0

    def subscribe(self, subscriber: Subscriber) -> None:
        self._subscribers.append(subscriber)

    def emit(self, event: Event) -> None:
        """Stores one event, then shows it. Raises StorageError when it could not be stored."""
        with self._lock:
            record = self._record(event)
            self._append(encode(record), announces_effect(event))
            self._hand_on(record)

    def show(self, event: Event) -> None:
        """Shows an event that could not be stored and that nothing follows from: a finished answer above all."""
        with self._lock:
            self._hand_on(self._record(event))

    def close(self) -> None:
        with self._lock, suppress(OSError):
            os.close(self._fd)

    def _record(self, event: Event) -> Record:
        return {
            "type": event.type,
            "time": now(),
            "session_id": self._session_id,
            "turn": self.turn,
            "round": self.round,
            **body(event),
        }

    def _append(self, line: str, force: bool) -> None:
        content = (line + "\n" if self._fresh else "\n" + line + "\n").encode("ascii")
        try:
            written = os.write(self._fd, content)
            while written < len(content):  # a disk that fills up takes a part, and fails at the next try
                written += os.write(self._fd, content[written:])
            if force:
                os.fdatasync(self._fd)
            removed = os.fstat(self._fd).st_nlink == 0
        except OSError as error:
            with suppress(OSError):
                os.ftruncate(self._fd, self._end)  # our own half line, nothing else
            raise storage_error(error, self._file) from error
        if removed:
            raise StorageError(
                f"The session's log was removed while it was in use: {self._file}.",
                "Start a new session with `codeagent ask`, and leave the state directory alone while it runs.",
            )
        self._end += len(content)
        self._fresh = True

    def _hand_on(self, record: Record) -> None:
        for subscriber in tuple(self._subscribers):
            try:
                subscriber(record)
            except Exception as error:
                self._subscribers.remove(subscriber)
                self.failures.append(error)
