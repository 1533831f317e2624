from __future__ import annotations

import io
import json
import os
import subprocess
import sys

from codeagent.ui.jsonlines import JsonLines
from tests.ui.records import HOSTILE, answered_session, hostile_session


def test_each_event_is_one_ascii_line_and_reads_back_as_it_was() -> None:
    out = io.StringIO()
    lines = JsonLines(out)
    records = [*answered_session(), *hostile_session()]
    for record in records:
        lines.record(record)
    printed = out.getvalue()
    assert printed.isascii()
    assert [json.loads(line) for line in printed.splitlines()] == records


def test_a_reader_that_goes_away_is_told_to_the_owner_once() -> None:
    reading, writing = os.pipe()
    told: list[str] = []
    with os.fdopen(writing, "w") as out:
        lines = JsonLines(out, lambda: told.append("closed"))
        lines.record({"type": "a"})
        os.close(reading)
        for _ in range(3):
            lines.record({"type": "b", "text": HOSTILE})
    assert told == ["closed"]


def test_piping_into_head_ends_quietly() -> None:
    script = (
        "import sys; from codeagent.ui.jsonlines import JsonLines\nlines = JsonLines(sys.stdout)\n"
        "for number in range(50_000): lines.record({'type': 'x', 'number': number})"
    )
    shell = f'PYTHONUNBUFFERED=1 {sys.executable} -c "$0" | head -1; echo "${{PIPESTATUS[0]}}"'
    ran = subprocess.run(["bash", "-c", shell, script], capture_output=True, text=True, timeout=60)
    assert (ran.stdout, ran.stderr) == ('{"type":"x","number":0}\n0\n', "")
