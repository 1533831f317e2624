"""`codeagent diff`: what the agent changed in its private copy, as the patch that was stored."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from codeagent.cli.person import say

if TYPE_CHECKING:
    from codeagent.patches import FilePatch

EXAMPLES = """\
examples:
  codeagent diff                  the latest finished session of this repository
  codeagent diff k3f9x            a session named by a part of its id
  codeagent diff --stat           paths only, with lines added and removed
  codeagent diff | git apply      what `codeagent apply` does with more care

The patch is what `git apply` takes, exact to the byte. Nothing is printed when nothing was changed.
"""


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    parser = subparsers.add_parser(
        "diff",
        help="what the agent changed in its private copy",
        description="Prints what the agent changed in its private copy.",
        epilog=EXAMPLES,
    )
    parser.add_argument("id", metavar="ID", nargs="?", help="a session (default: the latest finished one here)")
    parser.add_argument("--repo", metavar="PATH", type=Path, help="the repository whose latest session is meant")
    parser.add_argument("--stat", action="store_true", help="one line a path instead of the patch")
    parser.add_argument("--verbose", action="store_true", help="stack traces of errors")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Exit code 0, also when nothing was changed; UsageError leaves it."""
    from codeagent.cli.sessions import chosen, unapplied_elsewhere
    from codeagent.cli.verdict import tell_verdict
    from codeagent.session.store import stored_diff

    folder = chosen(args.id, "codeagent diff", of=args.repo)
    patch = stored_diff(folder)
    if not patch:
        say(f"Session {folder.name} changed nothing.")
        if args.id is None and (hint := unapplied_elsewhere("codeagent diff", args.repo)):
            say(hint)
    elif args.stat:
        print(statistics(patch))
    elif sys.stdout.isatty():
        from codeagent.ui.patch import readable

        print(readable(patch), end="")
    else:
        sys.stdout.buffer.write(patch)
        sys.stdout.buffer.flush()
    if patch:
        tell_verdict(folder, patch)
    return 0


def statistics(patch: bytes) -> str:
    """`+added -removed path` for every path; binary files say so. Raises UsageError for a damaged patch."""
    from codeagent import patches
    from codeagent.errors import UsageError
    from codeagent.tools.paths import quoted

    try:
        files = patches.parse(patch)
    except patches.PatchError as error:
        raise UsageError(f"The stored diff cannot be read: {error}.") from None
    lines = []
    for file in files:
        if file.forward is not None:
            counts = "binary"
        else:
            added, removed = _changed_lines(file)
            counts = f"+{added} -{removed}"
        lines.append(f"{counts:>12}  {quoted(file.path)}")
    return "\n".join(lines)


def _changed_lines(file: FilePatch) -> tuple[int, int]:
    """Lines added and removed; what old and new share in a hunk is its context."""
    from difflib import SequenceMatcher

    added = removed = 0
    for hunk in file.hunks:
        common = sum(
            block.size for block in SequenceMatcher(None, hunk.old, hunk.new, autojunk=False).get_matching_blocks()
        )
        added += len(hunk.new) - common
        removed += len(hunk.old) - common
    return added, removed
