"""Reads lines of one file, or a whole small one, from a tree that may change meanwhile."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from functools import partial
from typing import Any

from guest.encodings import UTF8, Encoding, detect
from guest.matches import close_matches
from guest.operations import Refusal, Reply
from guest.pages import PageReader
from guest.places import Place, components, decoded, encoded, locate, refusal_of
from guest.quoting import quoted
from guest.signatures import ALWAYS_BINARY, kind_of
from guest.tree import Tree, stamp

SAMPLE = 256 * 1024
"""By how much of a file its encoding is told, in bytes."""
CHUNK = 64 * 1024
"""Larger buffers are mapped and unmapped by the kernel each time, which takes longer than to read a small file."""
MAX_SCANNED = 256 << 20
"""A file larger than this is not read through, in bytes."""
MAX_FETCHED = 16 << 20


def read_file(tree: Tree, path: str, start: int | None, end: int | None) -> Reply:
    """One page: its facts, and the lines joined by LF as UTF-8."""
    first = 1 if start is None else start
    if first < 1 or (end is not None and end < first):
        raise Refusal("invalid_arguments", f"lines {first} to {end} are not a range; lines are counted from 1")
    with _place(tree, path) as place:
        page, encoding, steady = _steady_page(place, first, end)
        _check_start(page, first, place)
        notes = _notes(page, encoding, steady)
        if tree.ignored(place.path, False):
            notes.append("git ignores this file")
    fields: dict[str, Any] = {
        "path": decoded(place.path),
        "first": first,
        "count": len(page.lines),
        "omitted": sorted(page.omitted.items()),
        "total_lines": page.total_lines,
        "size": page.counts.size,
        "sha256": page.sha256,
        "encoding": encoding.codec,
        "notes": notes,
    }
    return fields, "\n".join(page.lines).encode("utf-8", "replace")


def fetch(tree: Tree, path: str) -> Reply:
    """A whole file as bytes, at most 16 MiB."""
    with _place(tree, path) as place:
        if place.stat.st_size > MAX_FETCHED:
            raise Refusal("too_large", f"{quoted(place.path)} has {sized(place.stat.st_size)}, more than 16 MiB")
        file, _found = _open(place)
        try:
            content = b"".join(_chunks(file, MAX_FETCHED + 1))
        finally:
            os.close(file)
    if len(content) > MAX_FETCHED:
        raise Refusal("too_large", f"{quoted(place.path)} has more than 16 MiB")
    return {"size": len(content)}, content


def sized(count: int) -> str:
    """A size for a person."""
    if count < 10_000:
        return f"{count:,} bytes"
    value, units = float(count), ("bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
    step = 0
    while value >= 1024 and step < len(units) - 1:
        value, step = value / 1024, step + 1
    return f"{value:.1f} {units[step]}"


def _place(tree: Tree, path: str) -> Place:
    """The regular file that `path` names, protected ones refused."""
    place = found(tree, path)
    try:
        _check_protected(tree, place)
        _check_regular(place)
    except BaseException:
        os.close(place.folder)
        raise
    return place


def found(tree: Tree, path: str) -> Place:
    """What a path names. What is missing in a protected folder is refused as protected: the folder is masked."""
    try:
        return locate(tree.root, path, partial(close_matches, tree))
    except Refusal as refused:
        names = components(encoded(path)) if refused.kind == "file_not_found" else []
        if names and b".." not in names and tree.protection.covers(b"/".join(names)):
            raise protected(b"/".join(names)) from None
        raise


def protected(path: bytes) -> Refusal:
    return Refusal("protected_path", f"{quoted(path)} is protected: it may hold secrets, and is empty for every tool")


def _check_protected(tree: Tree, place: Place) -> None:
    for path in (*place.via, place.path):
        if tree.protection.covers(path):
            raise protected(path)


def _check_regular(place: Place) -> None:
    mode, name = place.stat.st_mode, quoted(place.path)
    if stat.S_ISDIR(mode):
        raise Refusal("not_a_file", f"{name or '.'} is a folder; list_dir shows what is in it")
    if not stat.S_ISREG(mode):
        raise Refusal("not_a_file", f"{name} is a {_special(mode)}, which has no content to read")


def _special(mode: int) -> str:
    if stat.S_ISFIFO(mode):
        return "named pipe (FIFO)"
    return "socket" if stat.S_ISSOCK(mode) else "device"


def _open(place: Place) -> tuple[int, os.stat_result]:
    try:
        file = place.open()
    except OSError as error:
        raise refusal_of(error, place.path) from None
    found = os.fstat(file)
    if not stat.S_ISREG(found.st_mode):
        os.close(file)
        raise Refusal("not_a_file", f"{quoted(place.path)} is not a regular file any more")
    return file, found


def _steady_page(place: Place, first: int, end: int | None) -> tuple[PageReader, Encoding, bool]:
    """The page, and whether the file stayed the same while it was read; read again once if not."""
    for attempt in (1, 2):
        file, found = _open(place)
        try:
            page, encoding = _page(file, found.st_size, place, first, end)
            steady = stamp(found) == stamp(os.fstat(file)) and page.counts.size == found.st_size
        except OSError as error:
            raise refusal_of(error, place.path) from None
        finally:
            os.close(file)
        if steady or attempt == 2:
            return page, encoding, steady
    raise AssertionError("unreachable")


def _page(file: int, size: int, place: Place, first: int, end: int | None) -> tuple[PageReader, Encoding]:
    head = os.read(file, min(SAMPLE, size + 1))
    encoding = _text_encoding(head, place, size)
    if size > MAX_SCANNED:
        raise Refusal(
            "too_large",
            f"{quoted(place.path)} has {sized(size)}; read_file reads files of at most {sized(MAX_SCANNED)}; "
            "use grep -n, head -c or tail -c on it",
        )
    page = PageReader(encoding, first, end)
    page.feed(head)
    for chunk in _chunks(file, MAX_SCANNED):
        page.feed(chunk)
    page.feed(b"", final=True)
    return page, encoding


def _chunks(file: int, limit: int) -> Iterator[bytes]:
    """The rest of the file, up to about `limit` bytes, however fast it grows."""
    seen = 0
    while seen < limit and (chunk := os.read(file, CHUNK)):
        seen += len(chunk)
        yield chunk


def _text_encoding(head: bytes, place: Place, size: int) -> Encoding:
    if not head:
        return UTF8
    encoding = None if head.startswith(ALWAYS_BINARY) else detect(head, whole=len(head) >= size)
    if encoding is None:
        raise Refusal("binary_file", f"{quoted(place.path)} is not text: {kind_of(head)}, {sized(size)}")
    return encoding


def _check_start(page: PageReader, first: int, place: Place) -> None:
    total = page.total_lines
    if first > max(total, 1):
        lines = "1 line" if total == 1 else f"{total:,} lines"
        raise Refusal("invalid_arguments", f"line {first} is past the end: {quoted(place.path)} has {lines}")


def _notes(page: PageReader, encoding: Encoding, steady: bool) -> list[str]:
    counts, notes = page.counts, []
    if encoding.guessed:
        notes.append(f"not valid UTF-8; the encoding {encoding.codec} is a guess")
    elif encoding.title:
        notes.append(encoding.title)
    if page.replaced:
        some = "1 character" if page.replaced == 1 else f"{page.replaced} characters"
        notes.append(f"{some} of this page could not be decoded and stand as U+FFFD")
    if counts.crlf:
        every = counts.crlf == counts.feeds
        notes.append("lines end in CRLF" if every else f"{counts.crlf} of {counts.feeds} line ends are CRLF")
    if counts.size and counts.last != b"\n":
        notes.append("no newline at the end of the file")
    if not steady:
        notes.append("the file changed while it was read: read it again before relying on it")
    return notes
