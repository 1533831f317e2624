"""The operations on files, as the host calls them."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from threading import Lock
from typing import Any

from guest.baseline import Baseline
from guest.copying import Copier, Plan
from guest.diffing import Comparison
from guest.listing import list_dir
from guest.operations import Handler, Refusal, Reply, Root
from guest.places import decoded
from guest.protection import Protection
from guest.reading import fetch, read_file
from guest.receiving import forget, receive, upload_folder
from guest.scanning import Scanner
from guest.storing import Change, Store, sync
from guest.tree import Git, Tree

GIT_FOLDER, SOURCE_FOLDER, BASELINE_FOLDER = "git", "source", "baseline"
"""Further folders that the host names: the git directory when it lies outside of the root, the repository beside a
copy that is being made, and what the copy is compared with."""


class Files:
    """The tree that the operations work on. The host says what is in it that matters, before any other call."""

    def __init__(self) -> None:
        self._tree: Tree | None = None
        self._scanner: Scanner | None = None
        self._baseline: Baseline | None = None
        self._paths: dict[str, str] = {}
        self._writing = Lock()

    def operations(self) -> dict[str, Handler]:
        """By the names that the host calls them."""
        return {
            "prepare_files": self.prepare,
            "read_file": self.read_file,
            "list_dir": self.list_dir,
            "fetch": self.fetch,
            "scan": self.scan,
            "copy": self.copy,
            "receive": self.receive,
            "diff": self.diff,
            "tree_hash": self.tree_hash,
            "store": self.store,
            "sync": self.sync,
            "tracked": self.tracked,
        }

    def tree(self) -> Tree:
        if self._tree is None:
            raise Refusal("sandbox_failed", "the files are not prepared")
        return self._tree

    def prepare(self, root: Root, _args: dict[str, Any], body: bytes) -> Reply:
        """Body: JSON with these keys.

        `protect`: [[regular expression, protects], …]; `masked`: paths that are protected by name or not; `mounted`:
        paths that must be covered by a mount; `prefix` and `above` ([[folder, text of its ignore file], …]): see
        `Git`; `folders`: {name: absolute path}, see above.
        """
        given = json.loads(body)
        self._paths = given["folders"]
        above = tuple((_bytes(base), _bytes(text)) for base, text in given["above"])
        git = Git(self._folder(GIT_FOLDER) if GIT_FOLDER in self._paths else None, _bytes(given["prefix"]), above)
        protection = Protection(
            [(regex, protects) for regex, protects in given["protect"]], [_bytes(path) for path in given["masked"]]
        )
        self._tree = Tree(root.fd, git, protection)
        self._scanner = Scanner(self._tree, [_bytes(path) for path in given["mounted"]])
        return {}, b""

    def read_file(self, _root: Root, args: dict[str, Any], _body: bytes) -> Reply:
        return read_file(self.tree(), args["path"], args.get("start"), args.get("end"))

    def list_dir(self, _root: Root, args: dict[str, Any], _body: bytes) -> Reply:
        return list_dir(self.tree(), args["path"], args.get("depth", 1), args.get("offset", 0))

    def fetch(self, _root: Root, args: dict[str, Any], _body: bytes) -> Reply:
        return fetch(self.tree(), args["path"])

    # The private copy. `copy` runs in a container of its own, the others where the baseline is read-only.

    def copy(self, root: Root, _args: dict[str, Any], body: bytes) -> Reply:
        """Body: see `copying.Plan`. The reply's body tells the progress, see `Copier.steps`."""
        prepared = self.tree()
        baseline = self._folder(BASELINE_FOLDER)
        source = Tree(self._folder(SOURCE_FOLDER), prepared.git, prepared.protection)
        copier = Copier(source, root.fd, baseline, Plan.of(json.loads(body)))
        fields: dict[str, Any] = {}

        def steps() -> Iterator[bytes]:
            yield from copier.steps()
            forget(baseline)
            fields.update(files=copier.files, size=copier.size, skipped=copier.skipped)

        return fields, steps()

    def receive(self, _root: Root, args: dict[str, Any], body: bytes) -> Reply:
        """A part of the repository from a host whose files the engine does not see; `copy` follows.

        `into` names another folder for what does not belong to the repository.
        """
        into = args["into"]
        folder = self._folder(into) if into else upload_folder(self._folder(BASELINE_FOLDER))
        receive(folder, body)
        return {}, b""

    def diff(self, root: Root, args: dict[str, Any], _body: bytes) -> Reply:
        """Body: JSON `{paths, notes, ignored}` on one line, then the patch."""
        with self._writing:
            comparison = Comparison(root.fd, self._opened_baseline(), self.tree().protection, args["hash"])
            patch = comparison.patch()
        found = {
            "paths": [decoded(path) for path in comparison.paths],
            "notes": comparison.notes,
            "ignored": comparison.ignored,
        }
        return {}, json.dumps(found).encode("ascii") + b"\n" + patch

    def tree_hash(self, root: Root, _args: dict[str, Any], _body: bytes) -> Reply:
        """See `Comparison.tree_hash`."""
        with self._writing:
            comparison = Comparison(root.fd, self._opened_baseline(), self.tree().protection)
            return {"sha256": comparison.tree_hash()}, b""

    def store(self, root: Root, _args: dict[str, Any], body: bytes) -> Reply:
        """Body: JSON `[[path, size or null, mode or null, mode_of or null], …]` on one line, then the contents."""
        with self._writing:
            Store(root.fd, self.tree().protection).apply(_changes(body))
        return {}, b""

    def sync(self, root: Root, _args: dict[str, Any], body: bytes) -> Reply:
        """Body: one change, as `store` takes it."""
        (change,) = _changes(body)
        with self._writing:
            return {"state": sync(root.fd, self.tree().protection, self._opened_baseline(), change)}, b""

    def _opened_baseline(self) -> Baseline:
        if self._baseline is None:
            self._baseline = Baseline.open(self._folder(BASELINE_FOLDER))
        return self._baseline

    def _folder(self, name: str) -> int:
        try:
            return os.open(self._paths[name], os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except (KeyError, OSError):
            raise Refusal("sandbox_failed", f"the folder {name} is not in this container") from None

    def scan(self, _root: Root, _args: dict[str, Any], _body: bytes) -> Reply:
        """Which protected things lie in the tree, and whether the masks are all in place."""
        if self._scanner is None:
            raise Refusal("sandbox_failed", "the files are not prepared")
        return self._scanner.reply()

    def steady(self, state: int) -> bool:
        """Whether what is protected, and the masks, are still as when `scan` named this state."""
        return self._scanner is not None and self._scanner.state() == state

    def tracked(self, _root: Root, _args: dict[str, Any], body: bytes) -> Reply:
        """Body: JSON list of paths; returns, in the same form, those that git tracks."""
        tree = self.tree()
        return {}, json.dumps([path for path in json.loads(body) if tree.tracks(_bytes(path))]).encode("ascii")


def _changes(body: bytes) -> list[Change]:
    head, _, contents = body.partition(b"\n")
    changes, place = [], 0
    for path, size, mode, mode_of in json.loads(head):
        content = None if size is None else contents[place : place + size]
        changes.append(Change(path, content, mode, mode_of))
        place += size or 0
    return changes


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refusal("invalid_arguments", "a path holds half of a surrogate pair") from None
