"""The evidence of one session: what was shown, what has changed since, and what an answer's citations are worth."""

from __future__ import annotations

import posixpath
import re
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Protocol, TypeGuard

from codeagent.conversation import Item, ToolCall
from codeagent.errors import ErrorKind, SandboxError, ToolError
from codeagent.evidence import claims
from codeagent.evidence.check import Checker
from codeagent.evidence.citations import Citation, looks_like_file
from codeagent.evidence.claims import Limit, LimitKind
from codeagent.evidence.findings import Findings
from codeagent.evidence.freshness import Freshness, Sync, note
from codeagent.evidence.host import HostTree
from codeagent.evidence.ledger import Ledger, Text
from codeagent.evidence.lines import lines_of, ranges, sha256
from codeagent.evidence.recognise import paths_in
from codeagent.evidence.replay import arguments_of, replay
from codeagent.evidence.runs import Run, exit_code
from codeagent.evidence.watch import Watch

MAX_LOOKED_AT = 24
"""Files of one command's output that are fetched when it is new, so that their content is known by its hash."""


class Changed(Protocol):
    """A diff, as far as it concerns evidence."""

    @property
    def paths(self) -> tuple[str, ...]: ...


class View(Protocol):
    """The part of a sandbox that evidence asks."""

    def fetch(self, path: str) -> bytes:
        """A whole file, as the tools see it; ToolError when it cannot be had."""

    @property
    def has_copy(self) -> bool: ...

    def diff(self) -> Changed: ...


class LinesFact(Protocol):
    """A tool's word that it showed whole lines of a file, by number; `all` of a UTF-8 file or some."""

    @property
    def path(self) -> str: ...
    @property
    def sha256(self) -> str: ...
    @property
    def lines(self) -> Mapping[int, str]: ...
    @property
    def all(self) -> bool: ...


class TextFact(Protocol):
    """A tool's word that it showed text; `cut` tells that a part was left out."""

    @property
    def text(self) -> str: ...
    @property
    def cut(self) -> bool: ...


def _shows_lines(fact: object) -> TypeGuard[LinesFact]:
    return hasattr(fact, "lines")  # a check of the whole protocol takes longer than recording the lines


def _shows_text(fact: object) -> TypeGuard[TextFact]:
    return hasattr(fact, "cut")


class Result(Protocol):
    """What a tool gave back."""

    @property
    def text(self) -> str: ...
    @property
    def error_kind(self) -> ErrorKind | None: ...
    @property
    def facts(self) -> Sequence[object]: ...


class Evidence:
    """Fed with every result; asked before each inference and at the end. Used from one thread.

    `refused` names the protected paths, which are never read on the host. `sync` brings a host edit into the
    private copy; without it a note says that the copy has the old version. `change` gives what the agent has
    changed so far, as an object of its own for each state.
    """

    def __init__(
        self,
        view: View,
        repo: Path,
        *,
        refused: Callable[[str], bool] = lambda _path: False,
        sync: Sync | None = None,
        watch: bool = True,
        change: Callable[[], object] = lambda: None,
    ) -> None:
        self._view = view
        self._host = HostTree(repo, refused)
        self._ledger = Ledger()
        self._freshness = Freshness(self._host, sync)
        self._watch = Watch(self._host.root, self._freshness.hint) if watch else None
        self._limits: list[Limit] = []
        self._runs: list[Run] = []
        self._change = change
        self._tested = change()
        self._commands: dict[str, str] = {}
        self._folders: set[str] = set()
        self._shown: dict[str, dict[str, dict[str, str]]] = {}
        self._replayed = False
        self.misquoted: list[str] = []
        """Places of the answer that was checked last, quoted with a text that was never in their file."""

    def close(self) -> None:
        """Ends the watches. Never raises; may be called twice."""
        if self._watch is not None:
            self._watch.close()
        self._host.close()

    def __enter__(self) -> Evidence:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # What happens

    def observe(self, call: ToolCall, result: Result) -> None:
        """Records what a call returned."""
        self._limit(call, result)
        given = arguments_of(call.arguments)
        command = str(given.get("command") or "")
        if (change := self._change()) is not self._tested:
            self._tested = change
            self._runs.clear()  # what passed before says nothing of the code as it is now
        if call.name == "run_command":
            self._commands[call.call_id] = command
            code = exit_code(result.text) if result.error_kind is None else None
            self._runs.append(Run(call.call_id, command, code, result.text))
        for fact in result.facts:
            if _shows_lines(fact):
                self._ledger.add_lines(call.call_id, fact.path, fact.sha256, fact.lines)
                self._follow(fact.path, fact.sha256, fact.lines, fact.all)
            elif _shows_text(fact) and call.name != "list_dir":
                path = str(given.get("path") or "")
                output_of = re.match(r"/outputs/(.+)\.txt$", path)
                source = command or self._commands.get(output_of[1], path) if output_of else command
                self._look_at(self._ledger.add_text(call.call_id, source, fact.text), str(given.get("workdir") or ""))

    def replay(self, items: Iterable[Item], shown: Mapping[str, Mapping[str, object]]) -> None:
        """Records what the outputs of a stored conversation say; for a session that is resumed. `shown` is what
        `take_shown` gave of them."""
        replay(self._ledger, items, shown)
        self._replayed = True

    def take_shown(self) -> dict[str, dict[str, dict[str, str]]]:
        """Which lines of which files the outputs of commands showed, by call, since this was asked last."""
        shown, self._shown = self._shown, {}
        return shown

    def _follow(self, path: str, content_hash: str, shown: Mapping[int, str], everything: bool = False) -> None:
        """Begins to notice changes of a file."""
        if everything and not self._view.has_copy:
            self._freshness.saw_all(path, content_hash, shown)
        else:
            self._freshness.saw(path, content_hash, shown, self._view.has_copy)
        name = path.rpartition("/")[0]
        if self._watch is not None and name not in self._folders:
            self._folders.add(name)
            if (folder := self._host.folder(name)) is not None:
                self._watch.add(folder)

    def _look_at(self, text: Text, workdir: str) -> None:
        """Compares a new output with the files that it names, while they are as the command saw them."""
        for path in _named_files(text, workdir)[:MAX_LOOKED_AT]:
            content = self._fetch(path)
            if content is None:
                continue
            lines, content_hash = lines_of(content), sha256(content)
            if numbers := self._ledger.settle(text, path, content_hash, lines):
                known = {"sha256": content_hash, "lines": ranges(list(numbers))}
                self._shown.setdefault(text.call_id, {})[path] = known
                shown = self._ledger.at(path, content_hash)
                self._follow(path, content_hash, {number: line.text for number, line in shown.items()})

    def _fetch(self, path: str) -> bytes | None:
        """A file as the tools see it; None when there is none or it cannot be had.

        A sandbox that is lost is for the next call to find: the output that names the file is whole.
        """
        try:
            return self._view.fetch(path)
        except (ToolError, SandboxError):
            return None

    def _limit(self, call: ToolCall, result: Result) -> None:
        kinds = [_LIMITS[result.error_kind]] if result.error_kind in _LIMITS else []
        if any(_shows_text(fact) and fact.cut for fact in result.facts):
            kinds.append(_CUT.get(call.name, "cut_file"))
        for kind in kinds:
            self._limits.append(Limit(kind, call.call_id, claims.subject(call.arguments) or call.name))

    # What is asked

    def notes(self) -> list[str]:
        """What the model must be told before its next inference: one note on all files that changed, or none."""
        if self._replayed:  # the private copy is as the session left it by now
            self._replayed = False
            for path in self._ledger.paths():
                self._freshness.remember(path, self._ledger.hashes(path), self._view.has_copy)
        changes = self._freshness.changes(self._view.has_copy)
        return [note(changes)] if changes else []

    def findings(self, text: str, *, answered: bool) -> Findings:
        """All that the record says of a turn's last text; only an answer has citations. Asks the sandbox."""
        citations = self.check(text) if answered else []
        misquoted = self.misquoted if answered else []
        return Findings(citations, self.limits(citations), self.unsupported(text), misquoted, self.take_shown())

    def findings_without_files(
        self, text: str, unchecked: str, *, answered: bool, changed: Collection[str] = ()
    ) -> Findings:
        """The same where no file can be looked at, for the reason `unchecked`: all that is known is what had been
        returned, and the paths that the agent had `changed`."""

        def closed(path: str) -> None:
            if self._ledger.hashes(path) or looks_like_file(path):
                raise ToolError(ErrorKind.PERMISSION_DENIED, unchecked)

        citations = Checker(self._ledger, closed, changed=changed).check(text) if answered else []
        return Findings(
            citations,
            self.limits(citations),
            self.unsupported(text),
            (),
            self.take_shown(),
            unchecked if citations else "",
        )

    def check(self, answer: str) -> list[Citation]:
        """The citations of an answer, each with what the record says of it."""
        checker = self._checker()
        citations = checker.check(answer)
        self.misquoted = list(dict.fromkeys(checker.misquoted))
        return citations

    def limits(self, citations: Sequence[Citation] = ()) -> list[Limit]:
        """What limited the answer; outputs that were cut only as far as `citations` rest on them."""
        return claims.relevant(self._limits, citations)

    def unsupported(self, answer: str) -> list[str]:
        """Sentences of an answer which claim that tests pass, when no recorded run says so."""
        return claims.unsupported(answer, self._runs)

    def _checker(self) -> Checker:
        if not self._view.has_copy:
            return Checker(self._ledger, self._current, real=self._host.real)
        try:
            changed = self._view.diff().paths
        except ToolError:
            changed = ()
        return Checker(
            self._ledger, self._current, self._on_host, changed, self._host.real, self._freshness.kept_in_copy
        )

    def _current(self, path: str) -> bytes | None:
        try:
            return self._view.fetch(path)
        except ToolError as error:
            if error.kind in (ErrorKind.PROTECTED_PATH, ErrorKind.TOO_LARGE, ErrorKind.PERMISSION_DENIED):
                raise
            return None

    def _on_host(self, path: str) -> bytes | None:
        found = self._host.read(path)
        return found[0] if found is not None else None


_LIMITS: dict[ErrorKind | None, LimitKind] = {
    ErrorKind.FILE_NOT_FOUND: "not_found",
    ErrorKind.DENIED: "denied",
    ErrorKind.TIMEOUT: "timeout",
}
_CUT: dict[str, LimitKind] = {"run_command": "cut_output", "list_dir": "cut_listing"}

_WORD = re.compile(r"[^\s'\"|;&<>(){}=,:]+")


def _named_files(text: Text, workdir: str) -> list[str]:
    """Paths of files, relative to the root, that a command or the lines of its output may name."""
    words = [word for word in _WORD.findall(text.command) if ("." in word or "/" in word) and "*" not in word]
    words += re.findall(r":([\w./-]+\.\w+)", text.command)  # git show REVISION:path
    folders = [workdir, *re.findall(r"\bcd\s+([\w./-]+)", text.command)]
    found: dict[str, None] = {}
    for word in [*words, *paths_in(text.lines)]:
        for folder in folders:
            path = posixpath.normpath(posixpath.join(folder, word.removeprefix("/workspace/")))
            if not path.startswith(("/", "..", "-")) and path != ".":
                found[path] = None
    return list(found)
