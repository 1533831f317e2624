"""Finds stored sessions and says of each, without reading the whole of it, what it was about and how it ended."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from codeagent.errors import UsageError
from codeagent.events import LOG_FORMAT
from codeagent.session.journal import Record
from codeagent.session.log import Log, last_of
from codeagent.session.storage import unreadable
from codeagent.session.store import DIFF, EVENTS, holder, sessions_dir

_HEAD_LINES = 50  # the first question stands among the first events


@dataclass(frozen=True, slots=True)
class Overview:
    """One line of a list.

    `begun` tells that a turn was started, or that the one that was asked for waits for `resume`.
    `started` is as stored, `changed` is when the log was last written; `size` in bytes; `holder` is the pid of the
    process that uses the session now. `outcome` is that of the last turn, None when it has not `ended`, and when a
    fix ended before it had one; `problem` says why nothing is known.
    """

    id: str
    folder: Path
    question: str = ""
    repo: str = ""
    provider: str = ""
    model: str = ""
    started: str = ""
    changed: str = ""
    turns: int = 0
    begun: bool = False
    ended: bool = False
    outcome: str | None = None
    verification: str = "not_requested"
    size: int = 0
    holder: int | None = None
    problem: str = ""


def overviews(state_dir: Path, repo: Path | None = None) -> Iterator[Overview]:
    """All stored sessions, or those of one repository, the one that was used last first."""
    for folder in _by_use(folders(state_dir)):
        if repo is None or _repo(folder) == str(repo):
            yield overview(folder)


def folders(state_dir: Path) -> list[Path]:
    """Of all stored sessions, in no order. Raises StorageError."""
    try:
        with os.scandir(sessions_dir(state_dir)) as entries:
            return [Path(entry.path) for entry in entries if entry.is_dir()]
    except FileNotFoundError:
        return []
    except OSError as error:
        raise unreadable(error, state_dir) from error


def _by_use(sessions: Iterable[Path]) -> list[Path]:
    """The one that was used last first."""
    return sorted(sessions, key=lambda folder: (_modified(folder / EVENTS), folder.name), reverse=True)


def overview(folder: Path) -> Overview:
    """Never raises: what cannot be read is said in `problem`."""
    file = folder / EVENTS
    facts: dict[str, Any] = {"size": _size(folder), "holder": holder(folder), "changed": _changed(file)}
    try:
        head = _head(file)
    except FileNotFoundError:
        head = []
    except OSError as error:
        return Overview(folder.name, folder, problem=error.strerror or "unreadable", **facts)
    if not head:
        return Overview(folder.name, folder, problem="no readable event", **facts)
    if isinstance(head[0].get("format"), int) and head[0]["format"] > LOG_FORMAT:
        return Overview(folder.name, folder, problem="written by a newer codeagent", **facts)
    started = next((record for record in head if record["type"] == "session_started"), head[0])
    asked = next((record for record in head if record["type"] == "turn_started"), {})
    choices = _choices(file, started)
    newest = last_of(file, "turn_started") or asked
    ended = last_of(file, "turn_ended")
    turns = _turn(newest)
    # A fix that ends before its turn has an end alone.
    if ended is not None and _turn(ended) >= turns:
        facts |= {"ended": True, "outcome": _text(ended, "outcome") or None, "verification": _status(ended)}
    elif facts["holder"] is None and _text(choices, "verify"):
        facts["verification"] = "not_run"  # its process was killed before it came to that
    return Overview(
        folder.name,
        folder,
        question=_text(asked, "message") or _text(started, "message"),
        repo=_text(choices, "repo"),
        provider=_text(choices, "provider"),
        model=_text(choices, "model"),
        started=_text(started, "time"),
        turns=turns,
        begun=turns > 0 or (ended is None and bool(_text(started, "message"))),
        **facts,
    )


def _head(file: Path) -> list[Record]:
    """The first events, up to the first question. Raises OSError."""
    head: list[Record] = []
    for record in islice(Log(file), _HEAD_LINES):
        head.append(record)
        if record["type"] == "turn_started":
            break
    return head


def _choices(file: Path, started: Record) -> Record:
    """What says what the session is run with now: the event that began it, or the one that took it up last."""
    return last_of(file, "session_resumed") or started


def _repo(folder: Path) -> str:
    file = folder / EVENTS
    with suppress(OSError):
        started = next((record for record in _head(file) if record["type"] == "session_started"), {})
        return _text(_choices(file, started), "repo")
    return ""


def find(
    state_dir: Path, command: str, *, repo: Path | None = None, ref: str | None = None, answered: bool = False
) -> Path:
    """The folder of the session that a user means; `command` takes an id behind it (`codeagent resume --session`).

    With `ref`: the one whose id begins or ends with it. Without: the latest of `repo` that something was asked in
    (with `answered`: that holds an answer) and that no process uses now. Raises UsageError.
    """
    return _named(state_dir, ref) if ref is not None else _latest(state_dir, command, repo, answered)


def unapplied(folder: Path) -> bool:
    """Whether the session holds a change that is in no repository."""
    with suppress(OSError):
        if not (folder / DIFF).stat().st_size:
            return False
        changed = last_of(folder / EVENTS, "workspace_changed") or {}
        applied = last_of(folder / EVENTS, "applied")
        return applied is None or applied.get("reverse") is True or _text(applied, "time") < _text(changed, "time")
    return False


def latest_unapplied(state_dir: Path, repo: Path) -> Path | None:
    """The session of `repo`, used last, that holds a change which is in no repository."""
    return next((one for one in _by_use(folders(state_dir)) if unapplied(one) and _repo(one) == str(repo)), None)


def _named(state_dir: Path, ref: str) -> Path:
    remedy = "`codeagent sessions list` shows what is stored."
    parent = sessions_dir(state_dir)
    if not ref.strip() or "/" in ref or ref in (".", ".."):
        raise UsageError(f"{ref!r} is no session id.", remedy)
    names = sorted(folder.name for folder in folders(state_dir))
    if ref in names:
        return parent / ref
    matching = [name for name in names if name.startswith(ref) or name.endswith(ref)]
    if len(matching) == 1:
        return parent / matching[0]
    if matching:
        latest = [folder.name for folder in _by_use(parent / name for name in matching)]
        listed = ", ".join(latest[:4]) + (f" and {len(latest) - 4} more" if len(latest) > 4 else "")
        raise UsageError(f"{ref!r} could be {len(matching)} sessions: {listed}.", "Give more of the id.")
    near = ", ".join(nearest(ref, names))
    raise UsageError(f"There is no session {ref!r}.", f"Nearest: {near}. {remedy}" if near else remedy)


def nearest(ref: str, ids: Sequence[str]) -> list[str]:
    """Up to three ids that look like a mistyped one, or whose last part does; the nearest first."""
    from difflib import get_close_matches

    by_part = {one.rpartition("-")[2]: one for one in ids} | {one: one for one in ids}
    found = get_close_matches(ref.lower(), by_part, n=6, cutoff=0.6)
    return list(dict.fromkeys(by_part[part] for part in found))[:3]


def _latest(state_dir: Path, command: str, repo: Path | None, answered: bool) -> Path:
    for candidate in overviews(state_dir, repo):
        wanted = candidate.begun and candidate.holder is None and not candidate.problem
        if wanted and (not answered or _answered(candidate.folder)):
            return candidate.folder
    what = "stored answer" if answered else "finished session"
    remedy = "Start one with `codeagent ask`, or name one that `codeagent sessions list` shows."
    if repo is None:
        raise UsageError(f"There is no {what}.", remedy)
    if near := _near(state_dir, repo):
        folder, about = near
        remedy = f"The latest near it is of {about}: `{command} {folder.name}`."
    raise UsageError(f"There is no {what} of {repo}.", remedy)


def _answered(folder: Path) -> bool:
    return last_of(folder / EVENTS, "turn_ended", lambda ended: ended.get("answer")) is not None


def _near(state_dir: Path, repo: Path) -> tuple[Path, str] | None:
    """The latest session of a folder above or below a repository, and that folder."""
    for folder in _by_use(folders(state_dir)):
        about = Path(_repo(folder))
        if about.is_absolute() and about != repo and (repo in about.parents or about in repo.parents):
            return folder, str(about)
    return None


def age(changed: str) -> str:
    """How long ago, in one unit."""
    try:
        seconds = (datetime.now(UTC) - datetime.fromisoformat(changed)).total_seconds()
    except (ValueError, TypeError):
        return "?"
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds // size:.0f} {unit}"
    return "now"


def _changed(file: Path) -> str:
    modified = _modified(file)
    if not modified:
        return ""
    return datetime.fromtimestamp(modified / 1e9, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def _modified(file: Path) -> int:
    """In nanoseconds since the epoch; 0 when there is no such file."""
    with suppress(OSError):
        return file.stat().st_mtime_ns
    return 0


def _size(folder: Path | str) -> int:
    """Bytes of all files in a folder, those of its folders included."""
    size = 0
    with suppress(OSError), os.scandir(folder) as entries:
        for entry in entries:
            with suppress(OSError):
                if entry.is_dir(follow_symlinks=False):
                    size += _size(entry.path)
                elif entry.is_file(follow_symlinks=False):
                    size += entry.stat(follow_symlinks=False).st_size
    return size


def _status(ended: Record) -> str:
    verification = ended.get("verification")
    status = verification.get("status") if isinstance(verification, dict) else None
    return status if isinstance(status, str) else "not_requested"


def _turn(record: Record) -> int:
    turn = record.get("turn")
    return turn if isinstance(turn, int) else 0


def _text(record: Record, name: str) -> str:
    value = record.get(name)
    return value if isinstance(value, str) else ""
