"""One session's sandbox: a container that reads, and from the first approved write on a second one that writes.

Construction returns at once; the first call waits for the container. Containers are replaced for three reasons: a
mask has come off, the private copy takes the mount's place, or a container was lost (once; the model is told).
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeVar

from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.sandbox.container import Container, reap_orphans
from codeagent.sandbox.ended import command_result
from codeagent.sandbox.errands import Errands, await_result
from codeagent.sandbox.hardening import WORKSPACE, Mount
from codeagent.sandbox.marker import host_marker
from codeagent.sandbox.output import OutputKeeper, saved_name
from codeagent.sandbox.pending import ChannelLost, Outdated
from codeagent.sandbox.private_copy import make_copy
from codeagent.sandbox.reading import Reading
from codeagent.sandbox.seam import Command, CommandResult, Diff, FileChange, FilePage, Flag, Listing, Steps
from codeagent.sandbox.session_containers import Guarded, Lease, Parts, Slot, Starter, Unreadable, take_down
from codeagent.sandbox.view import View, Volumes
from codeagent.settings import SandboxSettings

if TYPE_CHECKING:
    from codeagent.sandbox.copying import Edit
    from codeagent.sandbox.engine import Engine
    from codeagent.sandbox.image import Image
    from codeagent.sandbox.toolbox import Toolbox

GRACE_SECONDS = 15.0
"""The guest ends commands itself; a host that has waited this much longer takes the guest for broken."""
LEAVE_SECONDS = 0.3
"""How long the end waits for what it could not break off. The engine's reaper sees to what takes longer."""
CLOSE_SECONDS = 10.0
"""The same for the removal of what was there: an engine that hangs holds nobody."""
MASK_ROUNDS = 4
"""How often a container is started anew because more to mask was found, before that is taken for an attack."""

CopyBy = Literal["engine", "upload"]

Answer = TypeVar("Answer")


class DockerSandbox:
    """See `codeagent.sandbox.seam.Sandbox`. Use `open_sandbox`."""

    def __init__(self, parts: Parts, steps: Steps, copy: CopyBy | None = None) -> None:
        self._parts = parts
        self._steps = steps
        self._copy_at_once = copy
        self._mounts = False
        self._lock = threading.RLock()
        self._lease = Lease()
        self._starter = Starter(parts)
        self._errands = Errands()
        self._notes: list[str] = []
        self._volumes: Volumes | None = None
        self._closed = False
        self._stop = threading.Event()
        self._reader = Slot("reader", parts.layout.mounted)
        self._writer: Slot | None = None
        self._ready: Future[None] = Future()
        self._opening = threading.Thread(target=self._open, name="sandbox-start", daemon=True)
        self._opening.start()

    def __enter__(self) -> DockerSandbox:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What a session asks

    @property
    def has_copy(self) -> bool:
        """Whether the private copy stands in the mount's place."""
        return self._volumes is not None

    @property
    def copies_by(self) -> CopyBy:
        """How a private copy is made here: by the engine, or uploaded where it does not see the repository."""
        self._ready.result()
        return "engine" if self._mounts else "upload"

    def reading(self, cancel: Flag) -> Reading:
        return Reading(self, cancel)

    def read_file(
        self, path: str, start_line: int | None, end_line: int | None, cancel: Flag | None = None
    ) -> FilePage:
        page = self._read(lambda calls: self._parts.layout.read_file(calls, path, start_line, end_line), cancel)
        notes = self._take_notes()
        return replace(page, notes=(*page.notes, *notes)) if notes else page

    def list_dir(self, path: str, depth: int, offset: int, cancel: Flag | None = None) -> Listing:
        listing = self._read(lambda calls: self._parts.layout.list_dir(calls, path, depth, offset), cancel)
        notes = self._take_notes()
        return replace(listing, notes=(*listing.notes, *notes)) if notes else listing

    def fetch(self, path: str, cancel: Flag | None = None) -> bytes:
        return self._read(lambda calls: self._parts.layout.fetch(calls, path), cancel)

    def run(self, command: Command, cancel: Flag) -> CommandResult:
        """Runs to its end, its deadline, or until `cancel` is set; nothing it started outlives the call."""
        settings = self._parts.settings
        args: dict[str, object] = {"workdir": command.workdir, "timeout": command.timeout_seconds}
        if command.writable:
            args["quota"] = settings.copy_limit
        script = command.script.encode("utf-8", "surrogateescape")
        limit = command.timeout_seconds + GRACE_SECONDS
        slot = self._writing_slot(cancel) if command.writable else self._reading_slot(cancel)
        keeper = OutputKeeper(self._parts.outputs / saved_name(command.call_id))
        try:
            fields, _ = self._ask(
                slot, lambda calls: calls.call("run", args, script, keeper.take, cancel, limit), cancel
            )
        finally:
            output = keeper.finish()
        return command_result(fields, output, settings, self._take_notes())

    def store(self, changes: Sequence[FileChange]) -> None:
        self._write(lambda calls: self._parts.layout.store(calls, changes))

    def diff(self) -> Diff:
        return self._write(self._parts.layout.diff) if self.has_copy else Diff()

    def tree_hash(self) -> str:
        """One hash over everything that `diff` compares, as it is now."""
        self._ready.result()
        if not self.has_copy:
            raise ToolError(ErrorKind.SANDBOX_FAILED, "there is no private copy")
        return self._write(self._parts.layout.tree_hash)

    def sync_host_edit(self, path: str) -> Edit:
        """Brings a file that the user has changed into the copy, unless the agent has changed it too (CONFLICT)."""
        return self._write(lambda calls: self._parts.layout.sync_host_edit(calls, path))

    def tracked_protected(self) -> list[str]:
        """Protected files that git tracks: masks do not cover its history."""
        return self._read(self._parts.layout.tracked_protected)

    def close(self) -> None:
        """Ends the containers and removes the copy. Never raises; may be called twice."""
        self._stop.set()  # before the lock, which is held while a copy is made
        with self._lock:
            self._closed = True
        self._opening.join(LEAVE_SECONDS)
        with self._lock:
            slots = [self._reader] if self._writer in (None, self._reader) else [self._reader, self._writer]
            containers = [container for slot in slots if (container := slot.put(None)) is not None]
            volumes, self._volumes = self._volumes, None
        ending = threading.Thread(target=take_down, args=(self._parts.engine, containers, volumes), daemon=True)
        ending.start()
        ending.join(CLOSE_SECONDS)
        self._errands.settle(LEAVE_SECONDS)

    # Which container answers

    def _read(self, ask: Callable[[Guarded], Answer], cancel: Flag | None = None) -> Answer:
        """Asks about files; reading twice does no harm, so a lost container is only noticed by the note."""
        try:
            return self._ask(self._looking_slot(cancel), ask, cancel, cancel)
        except _Replaced as replaced:
            with self._lock:
                self._notes.append(replaced.note)
        return self._ask(self._looking_slot(cancel), ask, cancel, cancel)

    def _write(self, ask: Callable[[Guarded], Answer]) -> Answer:
        return self._ask(self._writing_slot(), ask)

    def _ask(
        self, slot: Slot, ask: Callable[[Guarded], Answer], cancel: Flag | None = None, leave: Flag | None = None
    ) -> Answer:
        """One call, in a container whose masks are in place. One lost meanwhile is replaced, and the call fails.

        `cancel` ends the waiting for a container, `leave` that for the answer (a command is ended by the guest).
        """
        for _ in range(MASK_ROUNDS):
            calls = self._current(slot, cancel, leave)
            with self._lease.holding(calls.container):
                try:
                    return ask(calls)
                except Outdated:
                    self._forget_state(slot, calls)
                except ChannelLost as lost:
                    raise _Replaced(self._replace(slot, calls.container, lost.reason, cancel)) from None
        raise _unsteady()

    def _current(self, slot: Slot, cancel: Flag | None, leave: Flag | None) -> Guarded:
        with self._lock:
            if slot.container is None and not self._closed:
                slot.put(self._start(slot, cancel))
            if lost := slot.running.channel.loss():
                self._notes.append(self._replace(slot, slot.running, lost, cancel))
            if slot.state is None and slot is self._reader and not self.has_copy:
                self._renew_masks(slot, cancel)
            return Guarded(slot.running, slot.state, leave)

    def _forget_state(self, slot: Slot, seen: Guarded) -> None:
        with self._lock:
            if (slot.container, slot.state) == (seen.container, seen.state):
                slot.state = None

    def _renew_masks(self, slot: Slot, cancel: Flag | None = None) -> None:
        """Calls wait here until every mask that is needed is in place."""
        for _ in range(MASK_ROUNDS):
            container = slot.running
            try:
                slot.state = self._parts.layout.steady_state(container.channel)
            except ChannelLost as lost:
                self._notes.append(self._replace(slot, container, lost.reason, cancel))
                continue
            if slot.state is not None:
                return
            self._exchange(slot, cancel)
        raise _unsteady()

    def _exchange(self, slot: Slot, cancel: Flag | None) -> None:
        old = slot.put(self._start(slot, cancel))
        if old is not None:
            self._lease.retire(old)

    def _replace(self, slot: Slot, lost: Container, reason: str, cancel: Flag | None) -> str:
        """A new container in place of a lost one, once; what the model is to be told."""
        with self._lock:
            note = f"the sandbox was lost ({reason}) and a new one has taken its place: what was in /tmp is gone" + (
                ", the private copy of the repository is kept" if self.has_copy else ""
            )
            if slot.container is not lost:
                return note  # another call has noticed it first
            if self._closed or slot.losses:
                raise SandboxError(f"The sandbox was lost: {reason}.", "`codeagent doctor` looks at the engine.")
            self._parts.layout.refresh()
            self._exchange(slot, cancel)
            slot.losses += 1
            return note

    def _take_notes(self) -> tuple[str, ...]:
        if not self._notes:
            return ()
        with self._lock:
            notes, self._notes = tuple(dict.fromkeys(self._notes)), []
        return notes

    # How containers and the copy come to be

    def _open(self) -> None:
        try:
            with self._lock:
                if self._copy_at_once is not None:
                    self._make_copy(self._stop, from_host=self._copy_at_once == "upload")
                elif self._mount():
                    self._mounts = True
                    self._renew_masks(self._reader)
                else:
                    self._make_copy(self._stop, from_host=True)
        except BaseException as error:
            self._ready.set_exception(error)
        else:
            self._ready.set_result(None)
        if self._copy_at_once is None and not self._stop.is_set():
            reap_orphans(self._parts.engine, self._starter.owner)

    def _mount(self) -> bool:
        """Starts the reader on the repository itself; whether the engine sees the same folder as we do."""
        try:
            self._reader.put(container := self._start(self._reader))
        except Unreadable:
            # It is seen, but the owner is nobody to an engine with users of its own (rootless, user namespaces).
            return False
        except SandboxError as error:
            # Masks do not fit on another folder than the one they were made for.
            if not _unseen(error) and ("mount" not in error.message or self._engine_sees_repository()):
                raise
            return False
        if self._is_repository(container):
            return True
        self._lease.retire(container)
        self._reader.put(None)
        self._starter.ids = None  # they were somebody else's
        return False

    def _engine_sees_repository(self) -> bool:
        """Looks by a container with the bare folder, in which no command runs."""
        bare = View((Mount("bind", WORKSPACE, str(self._parts.repo)),))
        try:
            container = self._starter.start("scout", bare, prepared=False)
        except SandboxError as error:
            if _unseen(error):
                return False
            raise
        try:
            return self._is_repository(container)
        finally:
            container.close()

    def _is_repository(self, container: Container) -> bool:
        for _ in range(3):  # a folder that changes just now is compared again
            fields, _body = container.channel.call("marker", {})
            if fields.get("marker") == host_marker(self._parts.repo):
                return True
        return False

    def _start(self, slot: Slot, cancel: Flag | None = None) -> Container:
        return self._errands.run(
            partial(self._starter.start, slot.role, slot.view()), Container.close, *self._flags(cancel)
        )

    def _flags(self, cancel: Flag | None) -> list[Flag]:
        """What ends the waiting for the engine."""
        return [self._stop] if cancel is None else [self._stop, cancel]

    def _looking_slot(self, cancel: Flag | None) -> Slot:
        """Files are looked at where they are written, if they are: only a command needs a place where it cannot."""
        reader = self._reading_slot(cancel)
        return self._writer or reader

    def _reading_slot(self, cancel: Flag | None) -> Slot:
        """Which slot reads is known only when the sandbox has opened: a copy's writer reads, too."""
        await_result(self._ready, *self._flags(cancel))
        return self._reader

    def _writing_slot(self, cancel: Flag | None = None) -> Slot:
        await_result(self._ready, *self._flags(cancel))
        with self._lock:
            return self._writer or self._make_copy(cancel or threading.Event(), from_host=False)

    def _make_copy(self, cancel: Flag, *, from_host: bool) -> Slot:
        """Makes the private copy and puts it in the mount's place, for good. Nothing is left of a copy that fails."""
        parts, flags = self._parts, self._flags(cancel)
        making = partial(make_copy, parts, self._starter, self._steps, flags, from_host=from_host)
        copy = self._errands.run(making, lambda copy: copy.take_down(parts.engine), *flags)
        if copy.note:
            self._notes.append(copy.note)
        self._writer, self._volumes = copy.writer, copy.volumes
        if self._copy_at_once is None:
            self._turn_reader_to(copy.volumes)
        else:
            self._reader = copy.writer
        return copy.writer

    def _turn_reader_to(self, volumes: Volumes) -> None:
        """The reader on the repository goes; the next call that reads, if there is one, starts one on the copy."""
        slot = self._reader
        slot.view = partial(self._parts.layout.copied, volumes, False)
        if (old := slot.put(None)) is not None:
            self._lease.retire(old)


def _unseen(error: SandboxError) -> bool:
    """Whether the engine found nothing at a path of ours: in Docker's words, and in Podman's."""
    words = error.message
    return "bind source path does not exist" in words or ("statfs" in words and "no such file" in words)


def _unsteady() -> SandboxError:
    return SandboxError(
        "Protected files in the repository keep changing faster than they can be masked.",
        "Is a program rewriting them? Wait for it, or narrow --repo.",
    )


class _Replaced(ToolError):
    """The call was lost with its container; a new one stands ready."""

    def __init__(self, note: str) -> None:
        super().__init__(
            ErrorKind.SANDBOX_FAILED, f"{note}; this call did not end, and may have taken effect in part"
        )
        self.note = note


def open_sandbox(
    engine: Engine,
    image: Image,
    toolbox: Toolbox,
    repo: Path,
    settings: SandboxSettings,
    session_id: str,
    outputs: Path,
    steps: Steps = lambda _what, _done, _total: None,
    *,
    copy: CopyBy | None = None,
) -> DockerSandbox:
    """A sandbox whose container is on its way; engine, image and toolbox are there already. Close it with `with`.

    `outputs` is the session's folder for whole outputs. With `copy` (see `DockerSandbox.copies_by`) there is a
    private copy from the start and one container for everything, reading included. What cannot be started is raised
    by the first call, as SandboxError.
    """
    from codeagent.sandbox.workspace import RepositoryLayout

    layout = RepositoryLayout(repo, settings)
    return DockerSandbox(Parts(engine, image, toolbox, repo, layout, settings, session_id, outputs), steps, copy)
