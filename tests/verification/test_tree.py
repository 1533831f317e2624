"""The untouched tree as a container lists it."""

from __future__ import annotations

from codeagent.sandbox.seam import Entry, EntryKind, FilePage, Listing
from codeagent.verification.tree import Tree, tree_of


class Pages:
    """A tree that is listed one entry a page."""

    def __init__(self, *entries: Entry) -> None:
        self.entries = entries

    def list_dir(self, path: str, depth: int, offset: int) -> Listing:
        return Listing(path, self.entries[offset : offset + 1], offset, len(self.entries), 0)

    def fetch(self, path: str) -> bytes:
        raise NotImplementedError

    def read_file(self, path: str, start_line: int | None, end_line: int | None) -> FilePage:
        raise NotImplementedError


def link(path: str, target: str) -> Entry:
    return Entry(path, EntryKind.SYMLINK, target=target)


def test_files_and_links_are_taken_from_all_pages_and_links_to_elsewhere_left_out() -> None:
    files = [Entry("a.py", EntryKind.FILE, 1), Entry("d", EntryKind.DIRECTORY), Entry("d/b.py", EntryKind.FILE, 1)]
    links = [link("d/up", "../a.py"), link("w", "/workspace/d"), link("out", "../../etc"), link("abs", "/etc")]
    assert tree_of(Pages(*files, *links, link("self", "."))) == Tree(
        frozenset({"a.py", "d/b.py"}), {"d/up": "a.py", "w": "d"}
    )
