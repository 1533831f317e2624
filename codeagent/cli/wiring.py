"""The composition root of everything that runs a turn: ask, chat, fix and resume.

A workbench is opened for one session. Its sandbox and provider are opened when the first turn needs them, so that
a failure to do so is that turn's outcome; everything is closed when the workbench is left, however it is left.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING

from codeagent import __version__, paths
from codeagent.agent.dispatch import Dispatcher
from codeagent.agent.interrupts import Interrupts
from codeagent.agent.introduction import instructions, repository_texts
from codeagent.agent.limits import Bounds, Clock, Limits
from codeagent.agent.loop import Ending, Turn, run_turn
from codeagent.cli.afterwards import Afterwards
from codeagent.cli.choices import Choices
from codeagent.cli.main import print_trace, report, unforeseen
from codeagent.cli.means import Means, changed_paths, context_for, open_means, open_provider
from codeagent.cli.verifier import Verifier
from codeagent.conversation import Item, UserMessage
from codeagent.errors import CodeagentError, Interrupted, SandboxError, StorageError
from codeagent.events import Event, Noted, SessionStarted, ToolCalled, TurnEnded, TurnStarted
from codeagent.evidence.findings import Findings
from codeagent.evidence.landmark import as_json
from codeagent.keys import redactor
from codeagent.outcome import Outcome
from codeagent.session.store import Session
from codeagent.settings import ProviderSettings
from codeagent.ui import streams
from codeagent.ui.jsonlines import JsonLines
from codeagent.ui.terminal import Terminal

if TYPE_CHECKING:
    from codeagent.session.history import History


@contextmanager
def opened_workbench(
    choices: Choices, message: str | None = None, stored: tuple[Session, History] | None = None
) -> Iterator[Workbench]:
    """A workbench for a new session, which `message` is about to be said in, or for a stored one.

    Raises StorageError when nothing can be recorded.
    """
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
            bench.begin(message)
        yield bench


def _undisplayed(session: Session) -> list[Exception]:
    """What kept a subscriber from showing the session, but a reader who has gone."""
    return [failure for failure in session.journal.failures if not isinstance(failure, BrokenPipeError)]


def _tell_failures(session: Session, verbose: bool) -> None:
    """A display that failed was left out from then on, and the run went on; that is said, not hidden."""
    for failure in _undisplayed(session):
        error = unforeseen(failure)
        if isinstance(failure, OSError):
            streams.silence(sys.stdout)  # what is left of it would fail, and be told, once more at exit
        report(CodeagentError(error.message, f"{error.remedy} Nothing is lost: codeagent sessions show {session.id}"))
        if verbose:
            print_trace(failure)


def _terminal(choices: Choices) -> Terminal:
    return Terminal(
        None if choices.json else sys.stdout,
        sys.stderr,
        # Whoever reads the events may show them on the same terminal.
        live=not choices.json or streams.is_file(sys.stdout),
        quiet=choices.quiet,
        verbose=choices.verbose,
        no_color=choices.no_color,
        price=choices.config.provider.price,
    )


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

    # --- the session -----------------------------------------------------------------------------------

    def begin(self, message: str | None) -> None:
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
                message=message,
                patching=self.choices.patching,
                verify=self.choices.verify,
                verify_repeat=self.choices.verify_repeat,
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
        """Asks another provider or model from the next turn on; what only the earlier one can read is not sent.

        Raises UsageError or StorageError, and then nothing has changed.
        """
        if self._means is not None:
            from codeagent.session.resumption import read_history

            past, _ = read_history(self.session.folder)
            provider = open_provider(settings, self._stack)
            context = context_for(provider, self._means.tools, self.session.diff_file)
            self._means = replace(self._means, provider=provider, context=context)
            self._shorten_as(past, self._means)
        self.choices = replace(self.choices, config=replace(self.choices.config, provider=settings))
        self.terminal.charge(settings.price)

    # --- a turn ----------------------------------------------------------------------------------------

    def turn(self, message: str | None, *, fixing: bool = False) -> int:
        """One turn to its end; returns the exit code. None goes on with the turn that was interrupted.

        With `fixing`, no turn starts when the command that verifies it cannot be seen to fail first.
        """
        journal = self.session.journal
        self.terminal.begin_turn()
        journal.round = 0
        if message is not None:
            journal.turn += 1
        if not fixing:
            self._start(message)
        verifier = Verifier(self.choices, self.session, self.terminal.steps)
        ready = self._ready(verifier)
        if fixing:
            if isinstance(ready, Means) and verifier.forbids_turn:
                return self._end(None, self._limits(), verifier)
            self._start(message)
        limits = self._limits()
        ending = self._run(ready, limits) if isinstance(ready, Means) else _failed(ready)
        return self._end(ending, limits, verifier)

    def _ready(self, verifier: Verifier) -> Means | SandboxError | Interrupted:
        """What the turn needs, with the run before the change made; or why it cannot be had."""
        try:
            with self.interrupts.waiting():
                means = self.means()
                verifier.run_baseline(means.fresh, means.image)
        except (SandboxError, Interrupted) as error:
            return error
        return means

    def _start(self, message: str | None) -> None:
        if message is not None:
            self.session.emit(TurnStarted(message))
            self.conversation.append(UserMessage(message))

    def _limits(self) -> Limits:
        config = self.choices.config
        return Limits(Bounds(config.max_rounds, config.time_limit, config.token_limit), Clock())

    def _run(self, means: Means, limits: Limits) -> Ending:
        def emit(event: Event) -> None:
            # The container starts beside the first inference, and what is to be said of it comes before any call;
            # an answer that needs no call waits for no container.
            while isinstance(event, ToolCalled) and means.naming.is_alive() and not self.interrupts.pending:
                means.naming.join(0.05)
            self.session.emit(event)

        dispatcher = Dispatcher(
            means.tools,
            review=means.gate,
            redact=redactor(each.api_key for each in self.choices.config.providers.values()),
            observe=means.evidence.observe,
            emit=emit,
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
                    notes=lambda: self._told(means.evidence.notes()),
                    begin_round=self._begin_round,
                    emit=self.session.emit,
                    progress=self.terminal.hint,
                )
            )
        finally:
            dispatcher.close()

    def _told(self, notes: list[str]) -> list[str]:
        """What the model must be told of files that changed, which concerns whoever asked as well."""
        for note in notes:
            self.terminal.note(f"told the model: {note}")
        return notes

    def _begin_round(self, number: int) -> None:
        self.session.journal.round = number
        self.terminal.begin_round(self.choices.config.provider.api)

    def _end(self, ending: Ending | None, limits: Limits, verifier: Verifier) -> int:
        """Checks the answer, verifies the change, records the end, and says what went wrong.

        `ending` is None when no turn was started, because there was nothing to reproduce.
        """
        self.session.journal.round = 0
        outcome, text = (ending.outcome, ending.text) if ending else (None, "")
        answered = outcome in (Outcome.ANSWERED, Outcome.NEEDS_INPUT)
        after = Afterwards(self.session.journal, ending.error if ending else None)
        if self._means is not None:
            after.attempt("saving the change", self._means.save_change, self._tell_unsaved)
        found = self._findings(text, answered, after)
        verified = verifier.verify(outcome, self._means, self.interrupts, after)
        exit_code = (outcome.exit_code if outcome else 0) or verifier.exit_code
        if not exit_code and after.unstored:
            exit_code = StorageError.exit_code
        if after.failed:
            # The cause is told before what follows from it.
            self.terminal.step_aside()
            after.tell(str(verified.get("reason") or ""), verbose=self.choices.verbose)
        ended = TurnEnded(
            outcome=outcome,
            answer=text if answered else None,
            partial=text if text and not answered else None,
            citations=[citation.published() for citation in found.citations],
            verification=verified,
            rounds=limits.rounds,
            usage=asdict(limits.usage),
            exit_code=exit_code,
            limits=[asdict(limit) for limit in found.limits],
            # A verification that passed is the recorded run that a claim needs.
            unsupported=[] if verified["status"] == "passed" else list(found.unsupported),
            misquoted=list(found.misquoted),
            cited_sha256=[citation.sha256 for citation in found.citations],
            cited_within=[as_json(citation.within) for citation in found.citations],
            shown=found.shown,
            unchecked=found.unchecked,
        )
        unstored = replace(ended, exit_code=exit_code or StorageError.exit_code)
        if not after.record(ended, unstored):
            ended = unstored
            after.tell(verbose=self.choices.verbose)
        # An answer that did not reach whoever asked, because stdout is on a full disk, is not delivered.
        return ended.exit_code or (CodeagentError.exit_code if _undisplayed(self.session) else 0)

    def _findings(self, text: str, answered: bool, after: Afterwards) -> Findings:
        """What the record says of the text; of a turn whose sandbox was never opened, there is nothing to say."""
        if self._means is None:
            return Findings()
        evidence = self._means.evidence

        def with_files() -> Findings:
            # A signal that came before has ended the turn, and is no reason to leave this out.
            with nullcontext() if self.interrupts.pending else self.interrupts.waiting():
                return evidence.findings(text, answered=answered)

        def without_files(reason: CodeagentError) -> Findings:
            why = reason.message.rstrip(".")
            changed = changed_paths(self.session.diff_file)
            return after.attempt(
                "checking the citations",
                lambda: evidence.findings_without_files(text, why, answered=answered, changed=changed),
                lambda _reason: Findings(unchecked=why),
            )

        return after.attempt("checking the citations", with_files, without_files)

    def _tell_unsaved(self, _reason: CodeagentError) -> None:
        self.terminal.note("What was changed last in the private copy could not be stored, and is lost.", "warn")

    def means(self) -> Means:
        """What turns need, opened once. Raises SandboxError."""
        if self._means is None:
            self._means = open_means(self.choices, self.session, self.terminal, self._stack)
            if self._history is not None:
                self._means.evidence.replay(self.conversation, self._history.shown)
                self._shorten_as(self._history, self._means)
        return self._means

    def _shorten_as(self, past: History, means: Means) -> None:
        """What was no longer sent is not sent from now on either, whoever is asked."""
        from codeagent.session.resumption import readable

        means.context.restore(self.conversation, past.compactions, readable(past.compaction, means.provider))
