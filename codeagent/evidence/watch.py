"""Events of the file system, as hints: on the folders of files that were read, never on a whole tree."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from watchdog.observers.api import BaseObserver

MAX_FOLDERS = 256


class Watch:
    """Calls `hint` with the path (relative to `root`) of every event.

    Works in the background, the library's import included. When watches run out, or the platform has none, it
    ends with a `reason`: whoever uses it checks by itself then.
    """

    def __init__(self, root: Path, hint: Callable[[str], None]) -> None:
        self._root = root
        self._hint = hint
        self._wanted: queue.SimpleQueue[Path | None] = queue.SimpleQueue()
        self._folders: set[Path] = set()
        self._thread: threading.Thread | None = None
        self.reason = ""

    def add(self, folder: Path) -> None:
        """Watches one folder, without those beneath it."""
        if self.reason or folder in self._folders or len(self._folders) >= MAX_FOLDERS:
            return
        self._folders.add(folder)
        self._wanted.put(folder)
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Ends the watches. Never raises."""
        if self._thread is not None:
            self._wanted.put(None)
            self._thread.join(5)
            self._thread = None

    def _run(self) -> None:
        observer: BaseObserver | None = None
        try:
            observer = self._observe()
        except Exception as error:  # the library raises what its platforms raise; a hint is never worth an end
            self.reason = f"{type(error).__name__}: {error}"
        finally:
            if observer is not None:
                observer.stop()
                observer.join(5)

    def _observe(self) -> BaseObserver | None:
        from watchdog import events
        from watchdog.observers import Observer

        # All but opening and closing: each call of a tool would wake the observer, while its result is awaited.
        changes = [
            *(events.FileCreatedEvent, events.FileModifiedEvent, events.FileMovedEvent, events.FileDeletedEvent),
            *(events.DirCreatedEvent, events.DirModifiedEvent, events.DirMovedEvent, events.DirDeletedEvent),
            events.FileClosedEvent,
        ]
        hint, root = self._hint, str(self._root)

        class Hints(events.FileSystemEventHandler):
            def on_any_event(self, event: events.FileSystemEvent) -> None:
                for name in (event.src_path, event.dest_path):
                    if name:
                        hint(os.path.relpath(os.fsdecode(name), root))

        observer = Observer()
        observer.daemon = True
        observer.start()
        handler = Hints()
        try:
            while (folder := self._wanted.get()) is not None:
                observer.schedule(handler, str(folder), recursive=False, event_filter=changes)
        except OSError as error:  # no watches left, or the folder is gone
            self.reason = f"{type(error).__name__}: {error}"
        return observer
