"""`codeagent apply [ID]`: the only command that writes the real repository."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.errors import UsageError

if TYPE_CHECKING:
    from codeagent.applying.plan import Plan

EXAMPLES = """\
examples:
  codeagent apply                 the latest session here: shows its diff, asks, applies
  codeagent apply 3kx7p --yes     without asking, for scripts
  codeagent apply --reverse       takes it back

exit codes: 0 applied or nothing to apply, 1 not applied, 2 usage
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "apply",
        help="apply that change to the real repository",
        description="Applies what the agent changed in its private copy to the real repository: all or nothing.",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("session", nargs="?", metavar="ID", help="a session (default: the latest finished one here)")
    parser.add_argument("--repo", metavar="PATH", type=Path, help="the repository whose latest session is meant")
    parser.add_argument("--yes", action="store_true", help="do not ask")
    parser.add_argument("--3way", dest="merge", action="store_true", help="merge into files that have changed since")
    parser.add_argument("--reverse", action="store_true", help="take an applied change back")
    parser.add_argument("--verbose", action="store_true", help="stack traces of errors")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    from codeagent.applying.plan import plan
    from codeagent.applying.write import write
    from codeagent.beneath import opened_root
    from codeagent.patches import PatchError, parse, reverse

    folder, repo = _session(args)
    try:
        patch = (folder / "diff.patch").read_bytes()
    except FileNotFoundError:
        patch = b""
    if not patch:
        print(f"Session {folder.name} changed nothing; there is nothing to apply.", file=sys.stderr)
        return 0
    try:
        patches = [reverse(each) for each in reversed(parse(patch))] if args.reverse else parse(patch)
    except PatchError as error:
        raise UsageError(f"The stored diff cannot be read: {error}.", "Look at it with `codeagent diff`.") from None
    with _in_sentences(repo), opened_root(repo) as root:
        made = plan(root, patches, merge=args.merge)
        if made.conflicts:
            return _refuse(made, args)
        if not _agreed(patch, made, repo, args):
            print("Nothing was written.", file=sys.stderr)
            return 1
        write(root, made.writes)
    paths = {each.path for each in made.writes}
    back = "" if args.reverse else " `codeagent apply --reverse` takes it back."
    print(f"{'Took back' if args.reverse else 'Applied'} {_counted(len(paths))} in {repo}.{back}", file=sys.stderr)
    return 0


def _session(args: argparse.Namespace) -> tuple[Path, Path]:
    """The session's folder and the repository that it was about."""
    from codeagent.cli.repository import repository
    from codeagent.paths import state_dir
    from codeagent.session.catalogue import find, overview

    if args.session is not None:
        folder = find(state_dir(), ref=args.session)
    else:
        folder = find(state_dir(), repo=repository(args.repo))
    repo = Path(overview(folder).repo)
    if not repo.is_dir():
        raise UsageError(
            f"The repository {repo} of session {folder.name} is not there.", "Move it back to that place."
        )
    return folder, repo


@contextmanager
def _in_sentences(repo: Path) -> Iterator[None]:
    """An error of the file system while reading or writing, as a sentence."""
    try:
        yield
    except OSError as error:
        raise UsageError(
            f"The change could not be written to {repo}: {error.strerror or error}; nothing was changed.",
            "Check permissions and free space, then run it again.",
        ) from error


def _refuse(made: Plan, args: argparse.Namespace) -> int:
    from codeagent.ui.inert import inert_line

    print(
        "codeagent: error: The change does not fit the repository as it is now; nothing was written.", file=sys.stderr
    )
    for path, reason in made.conflicts.items():
        print(f"  {inert_line(path)}: {inert_line(reason)}", file=sys.stderr)
    hint = "Resolve these files by hand (`codeagent diff` shows the change)."
    print(hint if args.merge else f"`--3way` merges where the changed lines still stand. {hint}", file=sys.stderr)
    return 1


def _agreed(patch: bytes, made: Plan, repo: Path, args: argparse.Namespace) -> bool:
    """Shows the whole diff and asks; `--yes` answers for the user."""
    from codeagent.ui.inert import inert, inert_line

    if not args.yes and not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise UsageError(
            "There is no terminal to ask at.", "Look at `codeagent diff`, then use `codeagent apply --yes`."
        )
    print(inert(patch.decode("utf-8", "replace")), file=sys.stderr)
    for path in made.executed_by_others:
        print(f"note: other programs execute or obey {inert_line(path)}", file=sys.stderr)
    if args.yes:
        return True
    what = "Take this change back" if args.reverse else "Apply this change"
    paths = {each.path for each in made.writes}
    print(f"{what} ({_counted(len(paths))}) in {repo}? [y/N] ", end="", file=sys.stderr, flush=True)
    return sys.stdin.readline(10).strip() == "y"


def _counted(files: int) -> str:
    return f"{files} file" if files == 1 else f"{files} files"
