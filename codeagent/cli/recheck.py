"""`codeagent recheck`: do the citations of a stored answer still hold?"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.cli.person import say

if TYPE_CHECKING:
    from codeagent.evidence.recheck import Rechecked

EXAMPLES = """\
examples:
  codeagent recheck                        the latest answer about the repository here
  codeagent recheck k3f9x --json           for a script
  codeagent recheck k3f9x --repo ../clone  in another checkout of the repository

A citation holds when the cited lines are exactly as they were returned to the model. It says nothing of the claim.
exit codes: 0 all citations hold, 1 a fault of codeagent, 2 usage or no stored answer, 5 some do not hold
"""
SOME_DO_NOT_HOLD = 5
MOST_PLACES = 3

_WORDS = {
    "same": "holds",
    "moved": "moved to {where}",
    "ambiguous": "the same text stands at {where}; whether that is what was cited cannot be told",
    "changed": "the lines have changed",
    "missing": "the file is not there",
    "unproven": "was never read ({state}), so there is nothing to compare with",
    "misquoted": "is as it was, but the answer gives another text for it",
}


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "recheck",
        help="do a stored answer's citations still hold?",
        description="Compares the lines that a stored answer cites with the repository as it is now.",
        epilog=EXAMPLES,
    )
    parser.add_argument(
        "id",
        metavar="ID",
        nargs="?",
        help="a session (default: the latest one of the repository here that has an answer)",
    )
    parser.add_argument("--repo", metavar="PATH", type=Path, help="the checkout to look at (the session's own)")
    parser.add_argument("--json", action="store_true", help="one JSON object on stdout")
    parser.add_argument("--verbose", action="store_true", help="stack traces of errors")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 0 when all hold, 5 when some do not. Raises UsageError."""
    from codeagent.applying.record import require_finished
    from codeagent.cli.sessions import chosen
    from codeagent.errors import UsageError
    from codeagent.evidence.host import HostTree
    from codeagent.evidence.recheck import last_answer, recheck
    from codeagent.paths import state_dir
    from codeagent.session.log import Log
    from codeagent.session.store import EVENTS, check_readable

    folder = chosen(args.id, "codeagent recheck", answered=True)
    check_readable(folder)
    answer = last_answer(Log(folder / EVENTS))
    if answer is None:
        raise UsageError(f"The session {folder.name} has no answer.", "Name another one: codeagent sessions list")
    repo = args.repo if args.repo is not None else Path(answer.repo)
    if not repo.is_dir():
        what = f"{repo} is not a directory" if repo.exists() else f"There is no directory {repo}"
        raise UsageError(f"{what}.", "Name a checkout of the repository with --repo PATH.")
    require_finished(state_dir(), repo.resolve())
    with HostTree(repo) as tree:
        checked = recheck(answer, tree)
    if args.json:
        print(json.dumps({"session_id": folder.name, "repo": str(repo), **_as_json(checked)}, ensure_ascii=False))
    else:
        _print(checked)
    return 0 if all(one.holds for one in checked) else SOME_DO_NOT_HOLD


def _as_json(checked: list[Rechecked]) -> dict[str, object]:
    return {
        "held": sum(one.holds for one in checked),
        "total": len(checked),
        "citations": [{**asdict(one), "line": one.line, "holds": one.holds} for one in checked],
    }


def _where(places: Sequence[int]) -> str:
    """The first few of these lines: `line 5`, `lines 5, 18, 31 and 2 more`."""
    shown = ", ".join(map(str, places[:MOST_PLACES]))
    more = f" and {len(places) - MOST_PLACES:,} more" if len(places) > MOST_PLACES else ""
    return f"{'line' if len(places) == 1 else 'lines'} {shown}{more}"


def _print(checked: list[Rechecked]) -> None:
    from codeagent.ui.inert import inert_line

    for one in checked:
        lines = str(one.start_line) if one.start_line == one.end_line else f"{one.start_line}-{one.end_line}"
        said = _WORDS[one.now].format(where=_where(one.places), state=one.state)
        say(f"{inert_line(one.path)}:{lines}  {said}", sys.stdout, hang=2)
    held = sum(one.holds for one in checked)
    summary = f"{held} of {len(checked)} citations hold" if checked else "the answer cites nothing"
    say(summary)
