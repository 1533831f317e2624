"""`codeagent apply [ID]`: the only command that writes the real repository."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.cli.person import at_terminal, say, waiting
from codeagent.errors import CodeagentError, Interrupted, UsageError

if TYPE_CHECKING:
    from codeagent.agent.interrupts import Interrupts
    from codeagent.applying.plan import Plan
    from codeagent.applying.record import RecordFile
    from codeagent.patches import FilePatch
    from codeagent.session.store import Session

EXAMPLES = """\
examples:
  codeagent apply                 the latest session here: shows its diff, asks, applies
  codeagent apply 3kx7p --yes     without asking, for scripts
  codeagent apply --reverse       takes it back

exit codes: 0 applied or nothing to apply, 1 not applied, 2 usage, 130 interrupted
"""


_LOOKING = "looking at the repository as a whole"


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "apply",
        help="apply that change to the real repository",
        description="Applies what the agent changed in its private copy to the real repository: all or nothing.",
        epilog=EXAMPLES,
    )
    parser.add_argument("session", nargs="?", metavar="ID", help="a session (default: the latest finished one here)")
    parser.add_argument("--repo", metavar="PATH", type=Path, help="the repository whose latest session is meant")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--3way", dest="merge", action="store_true", help="merge into files that have changed since")
    parser.add_argument("--reverse", action="store_true", help="take an applied change back")
    parser.add_argument("--verbose", action="store_true", help="stack traces of errors")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from codeagent.agent.interrupts import Interrupts

    # A signal stops what it does between two files, and never while it puts things back.
    with Interrupts() as interrupts:
        return _run(args, interrupts)


def _run(args: argparse.Namespace, interrupts: Interrupts) -> int:
    from codeagent.applying.record import locked
    from codeagent.beneath import opened_root
    from codeagent.cli.sessions import unapplied_elsewhere
    from codeagent.paths import state_dir
    from codeagent.session.store import Session, stored_diff

    folder, repo = _session(args)
    patch = stored_diff(folder)
    for path in _left_out(folder, patch):
        say(f"note: {path} has changed in the private copy, and is not in the diff")
    if not patch:
        say(f"Session {folder.name} changed nothing; there is nothing to apply.")
        if args.session is None and not args.reverse and (hint := unapplied_elsewhere("codeagent apply", args.repo)):
            say(hint)
        return 0
    patches = _parsed(patch, args.reverse)
    if not (args.yes or at_terminal()):
        raise UsageError(
            "There is no terminal to ask at.", "Look at `codeagent diff`, then use `codeagent apply --yes`."
        )
    with (
        Session.open(folder) as session,
        locked(state_dir(), repo) as record,
        _in_sentences(repo),
        opened_root(repo) as root,
    ):
        return _Apply(args, repo, root, record, session, interrupts).run(patch, patches)


def _end_earlier(repo: Path) -> None:
    """Ends what a killed process began, whichever session that was of: before anything else is looked at."""
    from codeagent.applying.record import locked, unfinished
    from codeagent.beneath import opened_root
    from codeagent.paths import state_dir

    for folder in unfinished(state_dir(), repo):
        with locked(state_dir(), folder) as record, _in_sentences(folder), opened_root(folder) as root:
            _recover(folder, root, record)


def _recover(repo: Path, root: int, record: RecordFile) -> None:
    from codeagent.applying.write import recover

    with _whole(repo):
        ended = recover(root, record)
    if ended:
        say(f"note: {ended}")


def _left_out(folder: Path, patch: bytes) -> list[str]:
    """Paths that the session's last word on the copy names and the diff does not hold (too large, for one)."""
    from codeagent.session.log import last_of
    from codeagent.session.store import EVENTS
    from codeagent.ui.inert import inert_line

    named = (last_of(folder / EVENTS, "workspace_changed") or {}).get("paths")
    if not isinstance(named, list):
        return []
    held = {path for one in _parsed(patch, False) for path in one.paths}
    return [inert_line(path) for path in named if isinstance(path, str) and path not in held]


def _parsed(patch: bytes, reversed_: bool) -> list[FilePatch]:
    from codeagent.patches import PatchError, parse, reverse

    try:
        patches = parse(patch)
        return [reverse(each) for each in reversed(patches)] if reversed_ else patches
    except PatchError as error:
        raise UsageError(f"The stored diff cannot be read: {error}.", "Look at it with `codeagent diff`.") from None


class _Apply:
    """One change on its way into the repository, whose root is opened and whose record is locked."""

    def __init__(
        self,
        args: argparse.Namespace,
        repo: Path,
        root: int,
        record: RecordFile,
        session: Session,
        interrupts: Interrupts,
    ) -> None:
        self._args = args
        self._repo = repo
        self._root = root
        self._record = record
        self._session = session
        self._interrupts = interrupts

    def run(self, patch: bytes, patches: Sequence[FilePatch]) -> int:
        from codeagent.applying.plan import plan

        _recover(self._repo, self._root, self._record)
        try:
            with self._interrupts.waiting():
                made = plan(self._root, patches, merge=self._args.merge, bases=self._session.bases)
                if made.conflicts:
                    return self._refuse(made)
                if not made.writes:
                    where = "not" if self._args.reverse else "already"
                    say(f"The change is {where} in {self._repo}.")
                    return 0
                self._show(patch, made)
                if not self._args.yes and not self._agreed(made):
                    say("Nothing was written.")
                    return 1
        except Interrupted:
            say("Nothing was written.")
            raise
        return self._write(made)

    def _refuse(self, made: Plan) -> int:
        _fail("The change does not fit the repository as it is now; nothing was written.")
        for path, reason in made.conflicts.items():
            _item(f"{path}: {reason}")
        hint = "Resolve these files by hand (`codeagent diff` shows the change)."
        merge = "`--3way` merges where your changes and these do not touch. "
        say(hint if self._args.merge else merge + hint)
        return 1

    def _show(self, patch: bytes, made: Plan) -> None:
        from codeagent.cli.verdict import tell_verdict
        from codeagent.ui.backwards import backwards
        from codeagent.ui.inert import inert_line
        from codeagent.ui.patch import readable

        print(readable(backwards(patch) if self._args.reverse else patch), end="", file=sys.stderr)
        for lines in made.merges():
            print(readable(lines), end="", file=sys.stderr)
        if not self._args.reverse:
            tell_verdict(self._session.folder, patch)
        for path in made.there:
            say(f"note: {inert_line(path)} is that way already")
        for path, why in made.warnings:
            say(f"note: {inert_line(path)}: {inert_line(why)}")

    def _agreed(self, made: Plan) -> bool:
        from codeagent.ui.approval import Prompt
        from codeagent.ui.inert import inert_line

        what = "Take this change back" if self._args.reverse else "Apply this change"
        return Prompt().confirm(f"{what} ({_counted(made)}) in {inert_line(str(self._repo))}?")

    def _write(self, made: Plan) -> int:
        from codeagent.applying.untouched import Rest
        from codeagent.applying.write import Changed, write

        paths = [one.path for one in made.writes]
        with self._interrupts.waiting(), waiting(_LOOKING):
            rest = Rest(self._root, paths)
            before = rest.hash()
        try:
            with _whole(self._repo):
                write(self._root, made.writes, self._record, self._stop_if_asked)
        except Changed as error:
            _fail(f"{error} while this was being written; nothing was changed.")
            say("Run it again to see how the change fits now.")
            return 1
        except Interrupted:
            say("Stopped; everything is as it was.")
            raise
        with waiting(_LOOKING):
            after = rest.hash()
        self._report(made, before, after)
        return 0

    def _stop_if_asked(self) -> None:
        if self._interrupts.pending:
            raise Interrupted

    def _report(self, made: Plan, before: str, after: str) -> None:
        from codeagent.errors import StorageError
        from codeagent.events import Applied
        from codeagent.ui.inert import inert_line

        paths = sorted(one.path for one in made.writes)
        done = "Took back" if self._args.reverse else "Applied"
        back = "" if self._args.reverse else f" `{self._taking_back()}` takes it back."
        say(inert_line(f"{done} {_counted(made)} in {self._repo}.{back}"))
        if before == after:
            say(f"Everything else is untouched (sha256 {before[:16]} before and after).")
        else:
            say("note: somebody else changed other files in the repository meanwhile.")
        try:
            self._session.emit(Applied(self._args.reverse, paths, before, after))
        except StorageError as error:
            say(f"note: it could not be recorded in the session: {error.message}")

    def _taking_back(self) -> str:
        """The command line that undoes this one: what was merged goes back by a merge alone."""
        named = [self._args.session] if self._args.session else []
        return " ".join(["codeagent apply", *named, "--reverse", *(["--3way"] if self._args.merge else [])])


@contextmanager
def _whole(repo: Path) -> Iterator[None]:
    """A write that could neither be finished nor taken back, told file by file."""
    from codeagent.applying.write import NotPutBack

    try:
        yield
    except NotPutBack as error:
        cause = error.__cause__
        reason = f": {cause.strerror or cause}" if isinstance(cause, OSError) else ""
        _fail(f"The change could not be written to {repo}{reason}, nor be taken back as a whole.")
        for line in error.lines:
            _item(line)
        raise CodeagentError(
            "The repository holds a part of the change.",
            "Move these files by hand, or remove what stands in their way and run it again.",
        ) from error


def _session(args: argparse.Namespace) -> tuple[Path, Path]:
    """The session's folder and the repository that it was about, whole."""
    from codeagent.cli.repository import repository
    from codeagent.cli.sessions import chosen
    from codeagent.session.catalogue import overview

    if args.session is None or args.repo is not None:
        _end_earlier(repository(args.repo))
    folder = chosen(args.session, "codeagent apply", of=args.repo)
    repo = Path(overview(folder).repo).resolve()
    if not repo.is_dir():
        raise UsageError(
            f"The repository {repo} of session {folder.name} is not there.", "Move it back to that place."
        )
    _end_earlier(repo)
    return folder, repo


@contextmanager
def _in_sentences(repo: Path) -> Iterator[None]:
    """An error of the file system while reading or writing, as a sentence; exit code 1."""
    try:
        yield
    except OSError as error:
        raise CodeagentError(
            f"The change could not be written to {repo}: {error.strerror or error}; nothing was changed.",
            "Check permissions and free space, then run it again.",
        ) from error


def _fail(sentence: str) -> None:
    from codeagent.ui.inert import inert_line

    say(f"codeagent: error: {inert_line(sentence)}")


def _item(line: str) -> None:
    from codeagent.ui.inert import inert_line

    say(f"  {inert_line(line)}")


def _counted(made: Plan) -> str:
    files = len(made.writes)
    return f"{files} file" if files == 1 else f"{files} files"
