"""What turns are carried out with, opened once a session: sandbox, provider, gate, evidence, tools, context."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING, Protocol

from codeagent.agent.context import Context
from codeagent.agent.dispatch import Tool
from codeagent.agent.introduction import instructions
from codeagent.agent.toolset import Toolset
from codeagent.cli.change import StoredDiff
from codeagent.cli.choices import Choices
from codeagent.cli.person import at_terminal
from codeagent.cli.verifier import Fresh
from codeagent.errors import CodeagentError, ToolError
from codeagent.inference import Provider
from codeagent.session.store import Session
from codeagent.settings import ProviderSettings
from codeagent.ui.terminal import Terminal

if TYPE_CHECKING:
    from codeagent.approval.gate import Ask, Gate
    from codeagent.evidence.evidence import Evidence
    from codeagent.evidence.freshness import Synced
    from codeagent.sandbox.sandbox import CopyBy, DockerSandbox


_NAMED = 3
"""Of many protected files that git tracks."""


class Tracked(Protocol):
    def tracked_protected(self) -> list[str]: ...


@dataclass(frozen=True)
class Means:
    """`fresh` opens a private copy of its own from the untouched repository; `image` is the image's id.

    `naming` ends once the protected files that git tracks have been named. `save_change` stores what could not be
    stored when it was made; it raises ToolError, SandboxError or StorageError.
    """

    sandbox: DockerSandbox
    fresh: Fresh
    image: str
    provider: Provider
    gate: Gate
    evidence: Evidence
    tools: Mapping[str, Tool]
    context: Context
    naming: Thread
    save_change: Callable[[], None]


def open_means(choices: Choices, session: Session, terminal: Terminal, closing: ExitStack) -> Means:
    """Engine and image are checked, and while the container starts in the background the provider's SDK is loaded,
    which takes longer. What is opened is closed by `closing`. Raises SandboxError.
    """
    opened, digest = _sandboxes(choices, session, terminal, closing)
    sandbox = opened(session.id)
    closing.callback(sandbox.close)
    naming = Thread(target=name_tracked, args=(sandbox, terminal), name="tracked-protected", daemon=True)
    naming.start()
    provider = open_provider(choices.config.provider, closing)
    gate = _open_gate(choices, session, sandbox)
    diff = StoredDiff(session, choices.repo, sandbox.diff, terminal.note)
    tools = Toolset(sandbox, session.outputs, gate.classify, diff.update).tools(patching=choices.patching)
    return Means(
        sandbox,
        partial(_fresh, opened, sandbox, session.id),
        digest,
        provider,
        gate,
        _open_evidence(choices, sandbox, diff, closing),
        tools,
        context_for(provider, tools, session.diff_file),
        naming,
        diff.catch_up,
    )


def open_provider(settings: ProviderSettings, closing: ExitStack) -> Provider:
    """The provider, ready to be asked."""
    if settings.api == "offline":
        from codeagent.providers.offline.provider import OfflineProvider

        return OfflineProvider()
    from codeagent.providers.open import open_provider

    provider = open_provider(settings)
    closing.callback(provider.close)
    provider.warm_up()
    return provider


def context_for(provider: Provider, tools: Mapping[str, Tool], diff: Path) -> Context:
    """What chooses the part of a conversation that fits into the provider's window. `diff` holds the change."""
    specs = [tool.spec for tool in tools.values()]
    return Context(provider.context_window, instructions(), specs, partial(changed_paths, diff))


def changed_paths(diff: Path) -> list[str]:
    """The files that the stored diff changes."""
    from codeagent.patches import PatchError, parse

    with suppress(OSError, PatchError):
        return [path for each in parse(diff.read_bytes()) for path in each.paths]
    return []


def _sandboxes(
    choices: Choices, session: Session, terminal: Terminal, closing: ExitStack
) -> tuple[Callable[..., DockerSandbox], str]:
    """Checks engine and image, building what is missing; returns what opens a sandbox, and the image's id."""
    from codeagent.cli.install import connect_or_install
    from codeagent.sandbox import image, toolbox
    from codeagent.sandbox.sandbox import open_sandbox

    settings, steps = choices.config.sandbox, terminal.steps
    engine = connect_or_install(settings.docker_host, choices.install, terminal.note)
    closing.callback(engine.close)
    found = image.ensure(engine, settings.image, steps)
    box = toolbox.ensure(engine, steps)
    steps("", 0, 0)

    def opened(label: str, copy: CopyBy | None = None) -> DockerSandbox:
        return open_sandbox(engine, found, box, choices.repo, settings, label, session.outputs, steps, copy=copy)

    return opened, found.id


@contextmanager
def _fresh(opened: Callable[..., DockerSandbox], session: DockerSandbox, label: str) -> Iterator[DockerSandbox]:
    """A private copy of its own, made from the untouched repository and gone afterwards."""
    sandbox = opened(label, session.copies_by)
    try:
        yield sandbox
    finally:
        sandbox.close()


def _open_gate(choices: Choices, session: Session, sandbox: DockerSandbox) -> Gate:
    from codeagent.approval.gate import Gate, digest_by
    from codeagent.approval.rules import Rules

    config = choices.config
    return Gate(
        config.approve,
        emit=session.emit,
        ask=_prompt(choices),
        digest=digest_by(sandbox.fetch),
        rules=Rules(config.allow, config.deny),
    )


def _prompt(choices: Choices) -> Ask | None:
    """The person at the terminal; None where there is none."""
    if not at_terminal():
        return None
    from codeagent.ui.approval import Prompt

    return Prompt(no_color=choices.no_color)


def _open_evidence(choices: Choices, sandbox: DockerSandbox, diff: StoredDiff, closing: ExitStack) -> Evidence:
    from codeagent.evidence.evidence import Evidence
    from codeagent.sandbox.copying import Edit
    from codeagent.sandbox.protected import matcher, regexes

    protected = matcher(regexes(choices.config.sandbox.protect))

    def synchronised(path: str) -> Synced:
        edit = sandbox.sync_host_edit(path)
        became: dict[Edit, Synced] = {Edit.IGNORED: "kept", Edit.CONFLICT: "conflict", Edit.UNCHANGED: "unchanged"}
        return became.get(edit, "taken")

    evidence = Evidence(
        sandbox,
        choices.repo,
        refused=lambda path: protected(path, False),
        sync=synchronised,
        change=lambda: diff.patch,
    )
    closing.callback(evidence.close)
    return evidence


def name_tracked(sandbox: Tracked, terminal: Terminal) -> None:
    """Names protected files that git tracks: masks hide the files, but not git's history of them."""
    with suppress(CodeagentError, ToolError):
        if tracked := sorted(sandbox.tracked_protected()):
            said = "git tracks protected files; they are hidden, but commands can still read them in git's history"
            more = f" and {len(tracked) - _NAMED:,} more" if len(tracked) > _NAMED else ""
            terminal.note(f"{said}: {', '.join(tracked[:_NAMED])}{more}", "warn")
