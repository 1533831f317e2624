"""The operations on files, as the host calls them. All but `prepare_files` only read."""

from __future__ import annotations

import json
from typing import Any

from guest.listing import list_dir
from guest.operations import Handler, Refusal, Reply, Root
from guest.protection import Protection
from guest.reading import fetch, read_file
from guest.scanning import Scanner
from guest.tree import Git, Tree

Above = tuple[tuple[bytes, bytes], ...]

GIT_FOLDER = "git"
"""The name under which the host has the git directory opened when it lies outside of the root."""


class Files:
    """The tree that the operations work on, made at the first call from what the host said at start:

    `protect`: [[regular expression, protects], …] and `prefix`: see `Git`.
    """

    def __init__(self) -> None:
        self._tree: Tree | None = None
        self._scanner: Scanner | None = None

    def tree(self, root: Root) -> Tree:
        if self._tree is None:
            self._tree = self._make(root)
        return self._tree

    def _make(self, root: Root, above: Above = ()) -> Tree:
        given = root.settings
        git = Git(root.folders.get(GIT_FOLDER), _bytes(given.get("prefix", "")), above)
        return Tree(root.fd, git, Protection([(regex, protects) for regex, protects in given.get("protect", ())]))

    def scanner(self, root: Root) -> Scanner:
        if self._scanner is None:
            self._scanner = Scanner(self.tree(root))
        return self._scanner

    def prepare(self, root: Root, _args: dict[str, Any], body: bytes) -> Reply:
        """What is too long for the start. Body: JSON `{masks: [path, …], above: [[folder, ignore file], …]}`."""
        given = json.loads(body)
        self._tree = self._make(root, tuple((_bytes(base), _bytes(text)) for base, text in given["above"]))
        self._scanner = Scanner(self._tree, [_bytes(path) for path in given["masks"]])
        return {}, b""

    def read_file(self, root: Root, args: dict[str, Any], _body: bytes) -> Reply:
        return read_file(self.tree(root), args["path"], args.get("start"), args.get("end"))

    def list_dir(self, root: Root, args: dict[str, Any], _body: bytes) -> Reply:
        return list_dir(self.tree(root), args["path"], args.get("depth", 1), args.get("offset", 0))

    def fetch(self, root: Root, args: dict[str, Any], _body: bytes) -> Reply:
        return fetch(self.tree(root), args["path"])

    def scan(self, root: Root, _args: dict[str, Any], _body: bytes) -> Reply:
        """Which protected things lie in the tree, and whether the masks are all in place."""
        return self.scanner(root).reply()

    def tracked(self, root: Root, _args: dict[str, Any], body: bytes) -> Reply:
        """Body: JSON list of paths; returns, in the same form, those that git tracks."""
        tree = self.tree(root)
        return {}, json.dumps([path for path in json.loads(body) if tree.tracks(_bytes(path))]).encode("ascii")


def _bytes(text: str) -> bytes:
    try:
        return text.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:
        raise Refusal("invalid_arguments", "a path holds half of a surrogate pair") from None


_FILES = Files()  # the guest is one process with one root

OPERATIONS: dict[str, Handler] = {
    "prepare_files": _FILES.prepare,
    "read_file": _FILES.read_file,
    "list_dir": _FILES.list_dir,
    "fetch": _FILES.fetch,
    "scan": _FILES.scan,
    "tracked": _FILES.tracked,
}
