"""A verification in words: what was run on what, how it ended, and what to do where it shows nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from codeagent.ui import wording

Record = Mapping[str, Any]

SIDES = (("before", "Before the change"), ("after", "With the change"))
_SHORT = 12
_TAIL_LINES = 8


def record_lines(verification: Record, *, full: bool = False) -> list[str]:
    """Everything but the outputs; nothing where no verification was asked for. `full` gives whole hashes."""
    if not verification.get("command"):
        return []
    return list(_lines(verification, full))


def _lines(verification: Record, full: bool) -> Iterator[str]:
    if remedy := verification.get("remedy"):
        yield f"What to do: {remedy}"
    image = _hash(verification.get("image"), full)
    where = f"in {verification.get('directory') or '/workspace'}" + (f" of image {image}" if image else "")
    yield f"Check: {verification.get('command')} ({where})"
    for when, label in SIDES:
        run = verification.get(when)
        if isinstance(run, Mapping):
            yield f"{label}: {run_line(run)}" + (f", on tree {_hash(run['tree'], full)}" if run.get("tree") else "")
            yield from _each(run)
        else:
            yield f"{label}: not run"
    if isinstance(again := verification.get("before_again"), Mapping):
        yield f"Without it again: {run_line(again)}"
    if diff := verification.get("diff_sha256"):
        yield f"Change: diff with SHA-256 {_hash(diff, full)}"
    yield from (f"Look at: {notice}" for notice in verification.get("notices") or ())
    yield from _repository(verification.get("repository"), full)


def _each(run: Record) -> Iterator[str]:
    """The runs one by one, where there were several."""
    each = [one for one in run.get("each") or () if isinstance(one, Mapping)]
    if len(each) > 1:
        for number, one in enumerate(each, 1):
            yield f"  run {number}: {run_line(one)}" + (
                f", no pass: {one['fault']}" if one.get("fault") else ", passed"
            )


def _repository(repository: object, full: bool) -> Iterator[str]:
    if not isinstance(repository, Mapping) or not repository.get("before"):
        return
    if repository["before"] == repository.get("after"):
        yield f"Your repository: untouched (state {_hash(repository['before'], full)} before and after)"
    else:
        named = ", ".join(str(path) for path in repository.get("changed") or ())
        hashes = f"{_hash(repository['before'], full)} before, {_hash(repository.get('after'), full)} after"
        yield f"Your repository: changed meanwhile, not by codeagent: {named or 'unnamed paths'} (state {hashes})"


def run_line(run: Record) -> str:
    """One run, or one side: `exit 1, 1.83s, 12 tests of pytest (1 failed), 3 runs of which 2 passed`."""
    parts = ["timed out" if run.get("timed_out") else f"exit {run.get('exit_code')}"]
    parts.append(wording.duration(float(run.get("duration_ms") or 0) / 1000))
    if isinstance(run.get("tests"), int):
        runner = f" of {run['runner']}" if run.get("runner") else ""
        counts = ((run.get(f"{word}_tests"), word) for word in ("failed", "skipped", "collected"))
        more = [
            f"{number} {word}" for number, word in counts if number and (word, number) != ("collected", run["tests"])
        ]
        parts.append(f"{wording.counted(run['tests'], 'test')}{runner}" + (f" ({', '.join(more)})" if more else ""))
    if isinstance(run.get("runs"), int) and run["runs"] > 1:
        parts.append(f"{run['runs']} runs of which {run.get('passed_runs', 0)} passed")
    return ", ".join(parts)


def tail_lines(verification: Record) -> list[str]:
    """The end of the output that the verdict rests on, where that is no pass; a few lines."""
    if verification.get("status") not in ("failed", "flaky", "not_run"):
        return []
    run = verification.get("after") or verification.get("before")
    tail = str(run.get("output_tail") or "") if isinstance(run, Mapping) else ""
    lines = [line for line in tail.splitlines() if line.strip()]
    return [f"  | {line}" for line in lines[-_TAIL_LINES:]]


def _hash(value: object, full: bool) -> str:
    text = str(value or "")
    return text if full else text.removeprefix("sha256:")[:_SHORT]
