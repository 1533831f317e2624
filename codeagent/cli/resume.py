"""`codeagent resume [MESSAGE]`: goes on with a stored session."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codeagent.cli.flags import add_turn_flags
from codeagent.errors import Interrupted, SandboxError, UsageError

if TYPE_CHECKING:
    from codeagent.cli.choices import Choices
    from codeagent.cli.wiring import Workbench
    from codeagent.session.history import History
    from codeagent.session.resumption import Setup

EXAMPLES = """\
examples:
  codeagent resume                                    the turn that was stopped goes on
  codeagent resume "the path is src/main/UserService.java"
  codeagent resume --session k3f9x --max-rounds 80
  codeagent resume "and who calls it?" --provider anthropic

Repository, provider, model, image and verification stay as they were unless given again; approval mode and grants \
never carry over.
Without --session, the latest session of the repository here (or of --repo) that no other process uses is meant.
With --session, --repo says where that session's repository is now.

exit codes: 0 answered, 1 not printed, or a fault of codeagent, 2 usage, 3 model, 4 sandbox, 5 not verified, \
6 needs input, 7 stopped early, 130 interrupted
"""


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "resume",
        help="go on with a stored session",
        description="Goes on with a stored session: with a message as a new turn, without one where it was stopped.",
        epilog=EXAMPLES,
    )
    parser.add_argument("message", metavar="MESSAGE", nargs="?", help="what to say next, in any language")
    parser.add_argument("--session", metavar="ID", help="a session (default: the latest finished one here)")
    add_turn_flags(
        parser, "the repository (default: with --session that of the session, else the git work tree here)"
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """The outcome's exit code. Raises UsageError and StorageError before anything is started."""
    from codeagent import paths
    from codeagent.cli.repository import repository
    from codeagent.session.catalogue import find
    from codeagent.session.resumption import read_history, require_open_turn, take_up
    from codeagent.session.store import Session

    if args.message is not None and not args.message.strip():
        raise UsageError("The message is empty.", "Leave it out to go on with the turn that was stopped.")
    repo = repository(args.repo) if args.session is None else None
    folder = find(paths.state_dir(), "codeagent resume --session", ref=args.session, repo=repo)
    with Session.open(folder) as session:
        history, damaged = read_history(folder)
        if args.message is None:
            require_open_turn(session.id, history)
        if args.verify is None:
            args.verify, args.verify_repeat = history.verify, history.verify_repeat
        from codeagent.cli.choices import Choices

        choices = Choices.of(args, patching=history.patching, **_stored_choices(args, history, session.id))
        if args.message is None and history.patching:
            choices.require_model()
        from codeagent.cli.wiring import opened_workbench

        with opened_workbench(choices, stored=(session, history)) as bench:
            bench.conversation[:] = take_up(session, history, damaged, _setup(choices), args.message)
            _restore_copy(bench, folder)
            if args.message is None and history.pending:
                return bench.turn(history.pending, fixing=history.patching)
            return bench.turn(args.message)


def _setup(choices: Choices) -> Setup:
    from codeagent import __version__
    from codeagent.session.resumption import Setup

    config = choices.config
    return Setup(
        str(choices.repo),
        config.provider.name,
        config.provider.model,
        config.sandbox.image,
        __version__,
        patching=choices.patching,
        verify=choices.verify,
        verify_repeat=choices.verify_repeat,
    )


def _stored_choices(args: argparse.Namespace, history: History, session_id: str) -> dict[str, Any]:
    """What the session was run with, where the command line says nothing else. Raises UsageError.

    A model belongs to its provider: who names one of the two anew does not get the other of the past with it,
    but for a model of the same provider.
    """
    stored: dict[str, Any] = {"image": history.image or None}
    if args.repo is None:
        stored["repo"] = _stored_repository(history.repo, session_id)
    if args.provider is None and args.model is None:
        stored |= {"provider": history.provider or None, "model": history.model or None}
    elif args.provider is None and history.provider != "offline":
        stored["provider"] = history.provider
    return stored


def _stored_repository(repo: str, session_id: str) -> Path:
    remedy = f"Say where it is now: `codeagent resume --session {session_id} --repo PATH`."
    if not repo:
        raise UsageError(f"The log of session {session_id} does not say which repository it is about.", remedy)
    if not Path(repo).is_dir():
        raise UsageError(f"The repository of session {session_id} is no longer at {repo}.", remedy)
    return Path(repo)


def _restore_copy(bench: Workbench, folder: Path) -> None:
    """Makes the private copy as the session left it; the model is told what could not be restored."""
    from codeagent.agent.loop import add_note
    from codeagent.session.store import stored_diff

    patch = stored_diff(folder)
    if not patch:
        return
    bench.terminal.changed = True
    try:
        with bench.interrupts.waiting():
            lost = _restored(bench, patch)
    except (SandboxError, Interrupted):
        return  # the turn meets it again, and ends with it
    if lost:
        listed = "; ".join(f"{path}: {reason}" for path, reason in sorted(lost.items()))
        text = f"The private copy was made anew. These earlier changes could not be restored in it: {listed}."
        bench.terminal.note(text)
        add_note(bench.conversation, bench.session.emit, text)


def _restored(bench: Workbench, patch: bytes) -> dict[str, str]:
    """Stores the changes of the diff in the copy; returns the paths that could not be, each with its reason."""
    from codeagent.applying.plan import is_link, plan
    from codeagent.beneath import opened_root
    from codeagent.errors import ToolError
    from codeagent.patches import PatchError, parse
    from codeagent.sandbox.seam import FileChange

    sandbox = bench.means().sandbox
    try:
        with opened_root(bench.choices.repo) as root:
            made = plan(root, parse(patch))
    except (PatchError, OSError) as error:
        return {"all of them": str(error)}
    lost = dict(made.conflicts)
    changes = [
        FileChange(each.path, each.content, each.mode if is_link(each) else _permissions(each.mode))
        for each in made.writes
    ]
    try:
        if changes:
            sandbox.store(changes)
    except ToolError as error:
        return {"all of them": error.sentence}
    return lost


def _permissions(mode: int | None) -> int | None:
    """git's mode without the file's type."""
    return None if mode is None else mode & 0o777
