"""`codeagent sessions`: list, show, export and delete what is stored."""

from __future__ import annotations

import argparse
import json
import sys
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.cli.flags import add_command
from codeagent.cli.person import say

if TYPE_CHECKING:
    from codeagent.session.catalogue import Overview

NAMED = """
A session is named by its id, or by a part that its id begins or ends with.
"""
LATEST = "a session (default: the latest finished one of the repository here)"

EXAMPLES = {
    "list": """\
  codeagent sessions list                            the latest 50, of all repositories
  codeagent sessions list --repo . --limit 0         all of the repository here
  codeagent sessions list --json | jq -r .id         for a script
""",
    "show": """\
  codeagent sessions show                            the latest finished session of the repository here
  codeagent sessions show k3f9x --full | less        every output whole
  codeagent sessions show k3f9x --json | jq '.turns[].calls[].name'
""",
    "export": """\
  codeagent sessions export k3f9x --html report.html
  codeagent sessions export --markdown notes.md      the latest finished session of the repository here
  codeagent sessions export k3f9x --json > k3f9x.jsonl
""",
    "delete": """\
  codeagent sessions delete k3f9x
  codeagent sessions delete 20260301-101500-k3f9x 20260228-093012-p7w2m
""",
}
EXAMPLES["sessions"] = "".join(examples.splitlines(keepends=True)[0] for examples in EXAMPLES.values())

Parser = argparse.ArgumentParser


def add_parser(subparsers: argparse._SubParsersAction[Parser]) -> None:
    parser = _action(subparsers, "sessions", "list, show, export and delete stored sessions")
    actions = parser.add_subparsers(dest="action", metavar="ACTION", required=True)
    listing = _action(actions, "list", "one line a session, the last used first")
    listing.add_argument("--repo", metavar="PATH", type=Path, help="only those of this repository")
    listing.add_argument("--limit", metavar="N", type=_not_negative, default=50, help="at most N (50); 0 shows all")
    listing.add_argument("--json", action="store_true", help="one JSON object a line")
    show = _action(actions, "show", "the trace: calls, approvals, outputs and timings")
    show.add_argument("id", metavar="ID", nargs="?", help=LATEST)
    show.add_argument("--full", action="store_true", help="whole texts instead of their first lines")
    show.add_argument("--json", action="store_true", help="one JSON object: calls paired with their outputs")
    export = _action(actions, "export", "a file to pass on; what looks like a key is removed")
    export.add_argument("id", metavar="ID", nargs="?", help=LATEST)
    form = export.add_mutually_exclusive_group(required=True)
    form.add_argument("--html", metavar="FILE", help="one self-contained page")
    form.add_argument("--markdown", metavar="FILE", nargs="?", const="-", help="one document (default: stdout)")
    form.add_argument("--json", metavar="FILE", nargs="?", const="-", help="one event a line (default: stdout)")
    delete = _action(actions, "delete", "remove sessions for good")
    delete.add_argument("ids", metavar="ID", nargs="+", help="a session; never one that was not named")
    delete.add_argument("--yes", action="store_true", help="do not ask about a change that was never applied")
    for action in (listing, show, export, delete):
        action.add_argument("--verbose", action="store_true", help="stack traces of errors")
    parser.set_defaults(run=run)


def _action(actions: argparse._SubParsersAction[Parser], name: str, line: str) -> Parser:
    epilog = f"examples:\n{EXAMPLES[name]}{'' if name == 'list' else NAMED}"
    return add_command(actions, name, line, epilog)


def _not_negative(text: str) -> int:
    if text.isdecimal():
        return int(text)
    raise argparse.ArgumentTypeError("must be a whole number, 0 or above")


def run(args: argparse.Namespace) -> int:
    """Exit code 0, or 1 when a person did not want a session deleted; UsageError and StorageError leave it."""
    if args.action == "delete":
        return _delete(args)
    {"list": _list, "show": _show, "export": _export}[args.action](args)
    return 0


def chosen(ref: str | None, command: str, *, of: Path | None = None, answered: bool = False) -> Path:
    """The folder of the session that an optional ID behind `command` means (see `find`). Raises UsageError.

    `of` is the repository that it is to be about, instead of the one here.
    """
    from codeagent import paths
    from codeagent.cli.repository import repository
    from codeagent.errors import UsageError
    from codeagent.session.catalogue import find, overview

    if ref is None:
        return find(paths.state_dir(), command, repo=repository(of), answered=answered)
    folder = find(paths.state_dir(), command, ref=ref, answered=answered)
    if of is not None and (about := overview(folder).repo) != str(repo := repository(of)):
        raise UsageError(
            f"Session {folder.name} is about {about or 'no known repository'}, not about {repo}.",
            "Leave out --repo, or leave out the ID: then the latest session of that repository is meant.",
        )
    return folder


def unapplied_elsewhere(command: str, repo: Path | None) -> str:
    """For a session that changed nothing: which one of the repository (None: here) has a change for `command`."""
    from codeagent.cli.repository import repository
    from codeagent.paths import state_dir
    from codeagent.session.catalogue import latest_unapplied

    folder = latest_unapplied(state_dir(), repository(repo))
    return f"The latest change that was not applied: `{command} {folder.name}`." if folder else ""


def _list(args: argparse.Namespace) -> None:
    from codeagent import paths
    from codeagent.cli.repository import repository
    from codeagent.session.catalogue import folders, overviews
    from codeagent.ui.inert import inert_line

    repo = repository(args.repo) if args.repo is not None else None
    listed = overviews(paths.state_dir(), repo)
    found = list(islice(listed, args.limit) if args.limit else listed)
    if args.json:
        for overview in found:
            print(json.dumps(_as_json(overview)))
    elif found:
        from codeagent.cli.session_table import print_table

        print_table(found)
    elif repo is not None and folders(paths.state_dir()):
        everywhere = "without --repo, `codeagent sessions list` shows those of all repositories"
        say(f"No session of {inert_line(str(repo))} is stored; {everywhere}.")
    else:
        say("No session is stored yet; `codeagent ask` starts one.")


def _as_json(overview: Overview) -> dict[str, Any]:
    return {
        "id": overview.id,
        "question": overview.question,
        "repo": overview.repo,
        "provider": overview.provider,
        "model": overview.model,
        "started": overview.started,
        "changed": overview.changed,
        "turns": overview.turns,
        "ended": overview.ended,
        "outcome": overview.outcome,
        "verification": overview.verification,
        "size": overview.size,
        "pid": overview.holder,
        "problem": overview.problem or None,
    }


def _show(args: argparse.Namespace) -> None:
    from codeagent.session.log import Log
    from codeagent.session.store import EVENTS, check_readable

    folder = chosen(args.id, "codeagent sessions show")
    check_readable(folder)
    log = Log(folder / EVENTS)
    if args.json:
        from codeagent.session.trace import paired

        print(json.dumps(paired(log)))
    else:
        from codeagent.session.tell import trace
        from codeagent.ui.report.story import read_story
        from codeagent.ui.streams import filled

        def fill(prose: str, indent: int = 0) -> str:
            return filled(prose, sys.stdout, indent=indent)

        for line in trace(read_story(log), full=args.full, fill=fill):
            print(line)
    _tell_damage(log.damaged)


def _export(args: argparse.Namespace) -> None:
    from codeagent.session.export import export
    from codeagent.session.store import check_readable

    folder = chosen(args.id, "codeagent sessions export --html FILE")
    check_readable(folder)
    form = next(name for name in ("html", "markdown", "json") if getattr(args, name) is not None)
    target = getattr(args, form)
    damaged = export(folder, form, target)
    if target != "-":
        from codeagent.ui.inert import inert_line

        say(f"written: {inert_line(target)}")
    _tell_damage(damaged)


def _delete(args: argparse.Namespace) -> int:
    from codeagent.session.catalogue import unapplied
    from codeagent.session.store import delete

    folders = [chosen(ref, "codeagent sessions delete") for ref in args.ids]  # all are found before the first is gone
    never_applied = ", ".join(folder.name for folder in folders if unapplied(folder))
    if never_applied and not (args.yes or _agreed(never_applied)):
        say("Nothing was deleted.")
        return 1
    for folder in folders:
        delete(folder)
        say(f"deleted {folder.name}")
    return 0


def _agreed(never_applied: str) -> bool:
    from codeagent.cli.person import agreed
    from codeagent.errors import UsageError

    return agreed(
        f"The change of {never_applied} was never applied. Delete it all the same?",
        UsageError(
            f"Not applied: the change of {never_applied}. Nothing was deleted.",
            "`codeagent diff ID` shows it and `codeagent apply ID` keeps it; `--yes` deletes it all the same.",
        ),
    )


def _tell_damage(lines: int) -> None:
    if lines:
        say(f"{lines} unreadable line(s) of the log were left out; the file is as it was.")
