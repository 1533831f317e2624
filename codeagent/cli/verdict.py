"""What the stored verification says of a stored diff, where the diff is shown or applied."""

from __future__ import annotations

import hashlib
from pathlib import Path

from codeagent.cli.person import say


def tell_verdict(folder: Path, patch: bytes) -> None:
    """A line on stderr, where a verification of the session's change is stored."""
    from codeagent.ui.inert import inert_line

    if line := verdict(folder, patch):
        say(inert_line(line))


def verdict(folder: Path, patch: bytes) -> str:
    """For example `Fix: verified (…)`; empty when none was asked for. What was found of another diff, such as that
    of an earlier turn, says nothing of this one."""
    from codeagent.session.log import last_of
    from codeagent.session.store import EVENTS
    from codeagent.ui.wording import fix_line

    record = last_of(folder / EVENTS, "verification")
    if record is None:
        return ""
    if record.get("diff_sha256") in (None, "", hashlib.sha256(patch).hexdigest()):
        return fix_line(record)
    status = record.get("status")
    reason = f"the change is not the one that the stored verification is about, whose status is {status}"
    return fix_line({"status": "not_run", "reason": reason})
