"""Writes a session to a file that may leave the machine: what looks like a key is removed first."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Literal, TextIO

from codeagent.errors import StorageError
from codeagent.session.journal import Record, encode
from codeagent.session.log import Log
from codeagent.session.redaction import redact_record, redact_shapes
from codeagent.session.store import DIFF, EVENTS

Form = Literal["html", "markdown", "json"]


def export(folder: Path, form: str, target: str) -> int:
    """Writes one session; `-` is stdout. Returns how many lines of its log could not be read."""
    log = Log(folder / EVENTS)
    records: Iterator[Record] = (redact_record(record) for record in log)
    with _opened(target) as stream:
        if form == "json":
            for record in records:
                stream.write(encode(record) + "\n")
        elif form == "markdown":
            from codeagent.session.tell import markdown
            from codeagent.ui.report.story import read_story

            stream.write(markdown(read_story(records), _diff(folder)))
        else:
            from codeagent.ui.report import render_html

            stream.write(render_html(records, _diff(folder)))
    return log.damaged


def _diff(folder: Path) -> bytes | None:
    try:
        patch = (folder / DIFF).read_bytes()
    except OSError:
        return None
    return redact_shapes(patch.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")


@contextmanager
def _opened(target: str) -> Iterator[TextIO]:
    if target == "-":
        yield sys.stdout
        return
    try:
        with Path(target).open("w", encoding="utf-8", errors="replace", newline="\n") as stream:
            yield stream
    except OSError as error:
        raise StorageError(f"{target} cannot be written: {error.strerror}.", "Name another file.") from error
