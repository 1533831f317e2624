"""apply_patch: creates, changes, moves and deletes files in the private copy, all or nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from codeagent import patches
from codeagent.errors import ErrorKind, ToolError
from codeagent.inference import ToolSpec
from codeagent.sandbox.seam import FileChange, Sandbox
from codeagent.tools.patch_places import check_folders, placed
from codeagent.tools.patch_text import Addition, Deletion, Operation, Update, failed, parse, updated
from codeagent.tools.paths import quoted, unquoted
from codeagent.tools.result import ToolResult

SPEC = ToolSpec(
    "apply_patch",
    "Changes files in a private copy of the repository, all or nothing. The patch: `*** Begin Patch`, any number of "
    "`*** Add File: PATH` (lines after `+`), `*** Delete File: PATH`, `*** Update File: PATH` (then perhaps "
    "`*** Move to: PATH`, then hunks: `@@ LINE` to look after, context lines after a blank, `-` removed, `+` added), "
    "`*** End Patch`. Context must match. A `git diff` is taken too.",
    {
        "type": "object",
        "additionalProperties": False,
        "required": ["patch"],
        "properties": {"patch": {"type": "string"}},
    },
)


def check(sandbox: Sandbox, arguments: Mapping[str, Any]) -> None:
    """Whether the patch fits the files as they are now. Raises ToolError as `run` would, and changes nothing."""
    changes = _worked_out(sandbox, arguments).changes()
    written = {change.path for change in changes if change.content is not None}
    for change in changes:
        check_folders(sandbox, change.path, written)


def run(sandbox: Sandbox, arguments: Mapping[str, Any]) -> ToolResult:
    """Carries out one call. ToolError(patch_failed) names what does not fit; then nothing was changed."""
    work = _worked_out(sandbox, arguments)
    if not sandbox.has_copy:
        # The copy is made of the files as they are by then: what it holds counts, not what was just read.
        sandbox.store(())
        work = _worked_out(sandbox, arguments)
    sandbox.store(work.changes())
    return ToolResult("\n".join(work.done))


def _worked_out(sandbox: Sandbox, arguments: Mapping[str, Any]) -> _Work:
    patch = arguments["patch"]
    work = _Work(sandbox)
    if re.search(r"^diff --git ", patch, re.MULTILINE):
        work.take_git_patch(patch)
    else:
        for operation in parse(patch):
            work.take(operation)
    return work


def _named(written: str) -> str:
    """The path that the patch writes, quoted or not."""
    return placed(unquoted(written))


@dataclass(slots=True)
class _File:
    """A file while a patch is worked out. `mode_of` is the path whose mode it takes over."""

    content: bytes | None
    mode: int | None = None
    mode_of: str | None = None


@dataclass(slots=True)
class _Work:
    """What the files will be: each is fetched once, and later parts of the patch see what earlier ones did."""

    sandbox: Sandbox
    files: dict[str, _File] = field(default_factory=dict)
    existed: dict[str, bool] = field(default_factory=dict)
    done: list[str] = field(default_factory=list)

    def changes(self) -> list[FileChange]:
        """New and changed files first: a moved one takes over its mode from where it was."""
        kept = [(path, file) for path, file in self.files.items() if file.content is not None or self.existed[path]]
        kept.sort(key=lambda item: item[1].content is None)
        return [FileChange(path, file.content, file.mode, file.mode_of) for path, file in kept]

    def take(self, operation: Operation) -> None:
        match operation:
            case Addition():
                self._add(_named(operation.path), "".join(f"{line}\n" for line in operation.lines).encode())
            case Deletion():
                self._delete(_named(operation.path))
            case Update():
                self._update(operation)

    def take_git_patch(self, patch: str) -> None:
        try:
            for one in patches.parse(patch.encode("utf-8", "surrogateescape")):
                self._take_git_file(one)
        except patches.PatchError as error:
            raise failed(str(error)) from None

    def _take_git_file(self, one: patches.FilePatch) -> None:
        old_path = None if one.old_path is None else placed(one.old_path)
        new_path = None if one.new_path is None else placed(one.new_path)
        content = patches.apply(one, None if old_path is None else self._content(old_path), anywhere=True)
        if old_path is not None and old_path != new_path and not one.copied:
            self.files[old_path] = _File(None)
        if new_path is not None:
            if old_path != new_path:
                self._check_free(new_path)
            mode = one.new_mode if one.new_mode != one.old_mode else None
            taken = old_path if old_path != new_path else None
            self.files[new_path] = _File(content, mode, taken)
        self.done.append(f"changed {quoted(one.path)}")

    def _add(self, path: str, content: bytes) -> None:
        self._check_free(path)
        self.files[path] = _File(content)
        self.done.append(f"added {quoted(path)}")

    def _delete(self, path: str) -> None:
        self._content(path)
        self.files[path] = _File(None)
        self.done.append(f"deleted {quoted(path)}")

    def _update(self, update: Update) -> None:
        path = _named(update.path)
        raw = self._content(path)
        text, encoding = self._decoded(path, raw)
        new, made = updated(update, text)
        try:
            content = raw if new == text else new.encode(encoding)
        except UnicodeEncodeError:
            raise failed(f"{quoted(path)} is written in {encoding}, which cannot hold all of the new text") from None
        spans = ", ".join(f"{first}-{last}" if last >= first else f"after {first - 1}" for first, last in made)
        lines = f": lines {spans}" if spans else ""
        if update.move_to is None:
            self.files[path] = _File(content, self.files[path].mode, self.files[path].mode_of)
            self.done.append(f"updated {quoted(path)}{lines}")
            return
        target = _named(update.move_to)
        self._check_free(target)
        self.files[target] = _File(content, mode_of=path)
        self.files[path] = _File(None)
        self.done.append(f"moved {quoted(path)} to {quoted(target)}{lines}")

    def _decoded(self, path: str, raw: bytes) -> tuple[str, str]:
        try:
            return raw.decode("utf-8"), "utf-8"
        except UnicodeDecodeError:
            encoding = self.sandbox.read_file(path, None, None).encoding
        try:
            text = raw.decode(encoding)
            if text.encode(encoding) == raw:
                return text, encoding
        except UnicodeError:
            pass
        raise failed(f"{quoted(path)} cannot be changed by a patch: it does not decode as {encoding} without a loss")

    def _content(self, path: str) -> bytes:
        """What the file holds by now; it must exist."""
        if path not in self.files:
            self.files[path] = _File(self.sandbox.fetch(path))
            self.existed[path] = True
        content = self.files[path].content
        if content is None:
            raise failed(f"{quoted(path)} was deleted or moved earlier in the patch")
        return content

    def _check_free(self, path: str) -> None:
        if path not in self.files:
            try:
                self.sandbox.fetch(path)
            except ToolError as error:
                if error.kind is not ErrorKind.FILE_NOT_FOUND:
                    raise
                self.existed[path] = False
                return
        elif self.files[path].content is None:
            return
        raise failed(f"{quoted(path)} exists already")
