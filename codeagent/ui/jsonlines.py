"""`--json`: the session's events on stdout, one a line, and nothing else."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from threading import Lock
from typing import Any, TextIO

from codeagent.ui import streams


class JsonLines:
    """A subscriber of event records. Each line is ASCII JSON, ended by LF and flushed at once.

    When the reader goes away, the rest goes nowhere, and `closed` is called once, so that the owner of the
    run can stop it: nobody is listening any more.
    """

    def __init__(self, out: TextIO, closed: Callable[[], None] = lambda: None) -> None:
        self._out = streams.forgiving(out)
        self._closed = closed
        self._gone = False
        self._lock = Lock()

    def record(self, record: Mapping[str, Any]) -> None:
        """Prints one event. ASCII escapes keep U+2028 and lone surrogates from breaking a line's reader."""
        line = json.dumps(record, separators=(",", ":")) + "\n"
        with self._lock:
            if self._gone:
                return
            try:
                self._out.write(line)
                self._out.flush()
                return
            except BrokenPipeError:
                self._gone = True
                streams.silence(self._out)
        self._closed()
