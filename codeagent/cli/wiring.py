"""The composition root of everything that runs a turn: ask, chat, fix and resume.

A workbench is opened for one session. Its sandbox and provider are opened when the first turn needs them, so that
a failure to do so is that turn's outcome; everything is closed when the workbench is left, however it is left.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Any

from codeagent import __version__, paths
from codeagent.agent.context import Context
from codeagent.agent.dispatch import Dispatcher, Tool
from codeagent.agent.interrupts import Interrupts
from codeagent.agent.introduction import instructions, repository_texts
from codeagent.agent.limits import Bounds, Clock, Limits
from codeagent.agent.loop import Ending, Turn, run_turn
from codeagent.agent.redaction import redactor
from codeagent.agent.toolset import Toolset
from codeagent.cli.flags import config_of
from codeagent.cli.main import report
from codeagent.cli.repository import repository
from codeagent.cli.verifier import Fresh, Verifier
from codeagent.config import Config, require_key
from codeagent.conversation import Item, UserMessage
from codeagent.errors import CodeagentError, Interrupted, SandboxError, ToolError
from codeagent.events import Noted, SessionStarted, TurnEnded, TurnStarted, WorkspaceChanged
from codeagent.inference import Provider
from codeagent.outcome import Outcome
from codeagent.session.store import Session
from codeagent.settings import ProviderSettings
from codeagent.ui.jsonlines import JsonLines
from codeagent.ui.terminal import Terminal

if TYPE_CHECKING:
    from codeagent.approval.gate import Ask, Gate
    from codeagent.evidence.evidence import Evidence
    from codeagent.sandbox.sandbox import CopyBy, DockerSandbox
    from codeagent.session.history import History


@dataclass(frozen=True)
class Means:
    """What turns are carried out with; opened once a session."""

    sandbox: DockerSandbox
    fresh: Fresh
    image: str
    provider: Provider
    gate: Gate
    evidence: Evidence
    tools: Mapping[str, Tool]
    context: Context


@dataclass(frozen=True)
class Choices:
    """What the command line asked for, checked: nothing was started yet, and everything named exists."""

    config: Config
    repo: Path
    json: bool = False
    quiet: bool = False
    verbose: bool = False
    no_color: bool = False
    install: bool = False
    verify: str | None = None
    verify_repeat: int = 1
    patching: bool = False
    force: bool = False

    @classmethod
    def of(cls, args: argparse.Namespace, *, patching: bool = False, **instead: Any) -> Choices:
        """Raises UsageError. `instead` stands for flags that were not given (a stored session's own choices)."""
        repo = repository(args.repo if args.repo is not None else instead.pop("repo", None))
        config = config_of(args, **instead)
        require_key(config.provider)
        return cls(
            config,
            repo,
            json=args.json,
            quiet=args.quiet,
            verbose=args.verbose,
            no_color=args.no_color,
            install=args.install,
            verify=args.verify,
            verify_repeat=args.verify_repeat,
            patching=patching,
            force=getattr(args, "force", False),
        )


@contextmanager
def opened_workbench(choices: Choices, stored: tuple[Session, History] | None = None) -> Iterator[Workbench]:
    """A workbench for a new session, or for a stored one. Raises StorageError when nothing can be recorded."""
    with ExitStack() as stack:
        interrupts = stack.enter_context(Interrupts())
        session = stored[0] if stored else Session.create(paths.state_dir())
        stack.callback(session.close)
        stack.callback(_tell_failures, session, choices.verbose)
        terminal = stack.enter_context(_terminal(choices))
        session.journal.subscribe(terminal.record)
        if choices.json:
            # Nobody reads on: stop as for a signal, with everything answered and cleaned up.
            lines = JsonLines(sys.stdout, closed=lambda: os.kill(os.getpid(), signal.SIGTERM))
            session.journal.subscribe(lines.record)
        bench = Workbench(choices, session, interrupts, terminal, stack)
        if stored:
            bench.take_up(stored[1])
        else:
            bench.begin()
        yield bench


def _tell_failures(session: Session, verbose: bool) -> None:
    """A display that failed was left out from then on, and the run went on; that is said, not hidden."""
    for failure in session.journal.failures:
        if isinstance(failure, BrokenPipeError):
            continue  # its reader has gone
        said = f"codeagent: the display failed: {type(failure).__name__}: {failure}"
        print(f"{said}; the log of session {session.id} is complete.", file=sys.stderr)
        if verbose:
            import traceback

            traceback.print_exception(failure)


def _terminal(choices: Choices) -> Terminal:
    return Terminal(
        None if choices.json else sys.stdout,
        sys.stderr,
        quiet=choices.quiet,
        verbose=choices.verbose,
        no_color=choices.no_color,
        price=choices.config.provider.price,
    )


@contextmanager
def _fresh(opened: Callable[..., DockerSandbox], session: DockerSandbox, label: str) -> Iterator[DockerSandbox]:
    """A private copy of its own, made from the untouched repository and gone afterwards."""
    sandbox = opened(label, session.copies_by)
    try:
        yield sandbox
    finally:
        sandbox.close()


def _failed(error: BaseException) -> Ending:
    if isinstance(error, SandboxError):
        return Ending(Outcome.SANDBOX_FAILED, error=error)
    return Ending(Outcome.INTERRUPTED)


class Workbench:
    """One session under way: its conversation, and what its turns need."""

    def __init__(
        self, choices: Choices, session: Session, interrupts: Interrupts, terminal: Terminal, stack: ExitStack
    ) -> None:
        self.choices = choices
        self.session = session
        self.interrupts = interrupts
        self.terminal = terminal
        self.conversation: list[Item] = []
        self._stack = stack
        self._history: History | None = None
        self._means: Means | None = None
        self._stored_diff = b""

    # --- the session -----------------------------------------------------------------------------------

    def begin(self) -> None:
        """Records who is asked about what, and what the repository says of itself."""
        config = self.choices.config
        for notice in config.notices:
            self.terminal.note(notice)
        self.session.emit(
            SessionStarted(
                repo=str(self.choices.repo),
                model=config.provider.model,
                provider=config.provider.name,
                image=config.sandbox.image,
                version=__version__,
            )
        )
        for text in repository_texts(self.choices.repo, config.instruction_files):
            self.session.emit(Noted("repository", text))
            self.conversation.append(UserMessage(text, "repository"))

    def take_up(self, history: History) -> None:
        """Goes on where a stored session ended."""
        self._history = history
        self.conversation.extend(history.items)
        self.session.journal.turn = history.turn

    def use_provider(self, settings: ProviderSettings) -> None:
        """Asks another provider or model from the next turn on; what only the earlier one can read is not sent."""
        self.choices = replace(self.choices, config=replace(self.choices.config, provider=settings))
        if self._means is not None:
            provider = self._open_provider()
            specs = [tool.spec for tool in self._means.tools.values()]
            # Windows differ, so what is sent of the conversation is chosen anew.
            context = Context(provider.context_window, instructions(), specs)
            self._means = replace(self._means, provider=provider, context=context)

    # --- a turn ----------------------------------------------------------------------------------------

    def turn(self, message: str | None) -> int:
        """One turn to its end; returns the exit code. None goes on with the turn that was interrupted."""
        journal = self.session.journal
        journal.round = 0
        if message is not None:
            journal.turn += 1
        verifier = Verifier(self.choices, self.session, self.terminal.steps)
        try:
            with self.interrupts.waiting():
                means = self.means()
                verifier.run_baseline(means.fresh, means.image)
        except (SandboxError, Interrupted) as error:
            self._start(message)
            return self._end(_failed(error), self._limits(), verifier)
        if verifier.forbids_turn:
            return self._end(None, self._limits(), verifier)
        self._start(message)
        limits = self._limits()
        return self._end(self._run(means, limits), limits, verifier)

    def _start(self, message: str | None) -> None:
        if message is not None:
            self.session.emit(TurnStarted(message))
            self.conversation.append(UserMessage(message))

    def _limits(self) -> Limits:
        config = self.choices.config
        return Limits(Bounds(config.max_rounds, config.time_limit, config.token_limit), Clock())

    def _run(self, means: Means, limits: Limits) -> Ending:
        dispatcher = Dispatcher(
            means.tools,
            review=means.gate,
            redact=redactor(each.api_key for each in self.choices.config.providers.values()),
            observe=means.evidence.observe,
            emit=self.session.emit,
            limits=limits,
            interrupts=self.interrupts,
        )
        try:
            return run_turn(
                Turn(
                    conversation=self.conversation,
                    instructions=instructions(),
                    tools=tuple(tool.spec for tool in means.tools.values()),
                    cache_key=self.session.id,
                    provider=means.provider,
                    context=means.context,
                    dispatcher=dispatcher,
                    limits=limits,
                    interrupts=self.interrupts,
                    notes=means.evidence.notes,
                    begin_round=self._begin_round,
                    emit=self.session.emit,
                    progress=self.terminal.hint,
                )
            )
        finally:
            dispatcher.close()

    def _begin_round(self, number: int) -> None:
        self.session.journal.round = number

    def _end(self, ending: Ending | None, limits: Limits, verifier: Verifier) -> int:
        """Checks the answer, verifies the change, records the end, and says what went wrong.

        `ending` is None when no turn was started, because there was nothing to reproduce.
        """
        self.session.journal.round = 0
        outcome = ending.outcome if ending else None
        text = ending.text if ending else ""
        answered = outcome in (Outcome.ANSWERED, Outcome.NEEDS_INPUT)
        evidence = self._means.evidence if self._means else None
        citations = evidence.check(text) if answered and evidence else []
        verified = verifier.verify(outcome, self._means, self.interrupts)
        exit_code = (outcome.exit_code if outcome else 0) or verifier.exit_code
        self.session.emit(
            TurnEnded(
                outcome=outcome,
                answer=text if answered else None,
                partial=text if text and not answered else None,
                citations=[asdict(citation) for citation in citations],
                verification=verified,
                rounds=limits.rounds,
                usage=asdict(limits.usage),
                exit_code=exit_code,
                limits=[asdict(limit) for limit in evidence.limits(citations)] if evidence else [],
                unsupported=evidence.unsupported(text) if evidence else [],
            )
        )
        if ending is not None and ending.error is not None:
            report(ending.error)
        return exit_code

    # --- what turns need -------------------------------------------------------------------------------

    def means(self) -> Means:
        """Opens what turns need, once. Engine and image are checked, and while the container starts in the
        background the provider's SDK is loaded, which takes longer. Raises SandboxError.
        """
        if self._means is None:
            opened, digest = self._sandboxes()
            sandbox = opened(self.session.id)
            self._stack.callback(sandbox.close)
            Thread(target=self._name_tracked, args=(sandbox,), name="tracked-protected", daemon=True).start()
            provider = self._open_provider()
            gate = self._open_gate(sandbox)
            tools = Toolset(sandbox, self.session.outputs, gate.classify, self._written).tools(
                patching=self.choices.patching
            )
            context = Context(provider.context_window, instructions(), [tool.spec for tool in tools.values()])
            if (past := self._history) is not None:
                context.restore(self.conversation, past.cleared_calls, past.summarised_rounds, past.summary)
            fresh = partial(_fresh, opened, sandbox, self.session.id)
            evidence = self._open_evidence(sandbox)
            self._means = Means(sandbox, fresh, digest, provider, gate, evidence, tools, context)
        return self._means

    def _sandboxes(self) -> tuple[Callable[..., DockerSandbox], str]:
        """Checks engine and image, building what is missing; returns what opens a sandbox, and the image's id."""
        from codeagent.cli.install import connect_or_install
        from codeagent.sandbox import image, toolbox
        from codeagent.sandbox.sandbox import open_sandbox

        config, steps = self.choices.config, self.terminal.steps
        engine = connect_or_install(config.sandbox.docker_host, self.choices.install, self.terminal.note)
        self._stack.callback(engine.close)
        found = image.ensure(engine, config.sandbox.image, steps)
        box = toolbox.ensure(engine, steps)
        steps("", 0, 0)

        def opened(label: str, copy: CopyBy | None = None) -> DockerSandbox:
            repo, outputs = self.choices.repo, self.session.outputs
            return open_sandbox(engine, found, box, repo, config.sandbox, label, outputs, steps, copy=copy)

        return opened, found.id

    def _open_provider(self) -> Provider:
        settings = self.choices.config.provider
        if settings.api == "offline":
            from codeagent.providers.offline.provider import OfflineProvider

            return OfflineProvider()
        from codeagent.providers.open import open_provider

        provider = open_provider(settings)
        self._stack.callback(provider.close)
        provider.warm_up()
        return provider

    def _open_gate(self, sandbox: DockerSandbox) -> Gate:
        from codeagent.approval.gate import Gate
        from codeagent.approval.rules import Rules

        def digest(path: str) -> str | None:
            try:
                return hashlib.sha256(sandbox.fetch(path)).hexdigest()
            except ToolError:
                return None

        config = self.choices.config
        return Gate(
            config.approve,
            emit=self.session.emit,
            ask=self._prompt(),
            digest=digest,
            rules=Rules(config.allow, config.deny),
        )

    def _prompt(self) -> Ask | None:
        """The person at the terminal; None where there is none."""
        if not (sys.stdin.isatty() and sys.stderr.isatty()):
            return None
        from codeagent.ui.approval import Prompt

        return Prompt(no_color=self.choices.no_color)

    def _open_evidence(self, sandbox: DockerSandbox) -> Evidence:
        from codeagent.evidence.evidence import Evidence
        from codeagent.sandbox.protected import matcher, regexes

        protected = matcher(regexes(self.choices.config.sandbox.protect))

        def synchronised(path: str) -> bool:
            try:
                return sandbox.sync_host_edit(path)
            except (
                ToolError
            ):  # too large, or lost with its container: the copy keeps what it has, and the note says so
                return False

        evidence = Evidence(
            sandbox, self.choices.repo, refused=lambda path: protected(path, False), sync=synchronised
        )
        self._stack.callback(evidence.close)
        evidence.replay(self.conversation)
        return evidence

    def _name_tracked(self, sandbox: DockerSandbox) -> None:
        """Names protected files that git tracks: masks hide the files, but not git's history of them."""
        with suppress(CodeagentError, ToolError):
            if tracked := sandbox.tracked_protected():
                self.terminal.note(
                    f"tracked by git, so git's history still shows it to commands: {', '.join(tracked)}", "warn"
                )

    def _written(self) -> None:
        """Stores the diff after a call that may have written."""
        if self._means is None:
            return
        try:
            diff = self._means.sandbox.diff()
        except ToolError as error:
            self.terminal.note(f"the change could not be stored: {error.sentence}", "warn")
            return
        if diff.patch != self._stored_diff:
            self._stored_diff = diff.patch
            self.session.save_diff(diff.patch)
            self.session.emit(WorkspaceChanged(list(diff.paths)))
            for note in diff.notes:
                self.terminal.note(note, "warn")
