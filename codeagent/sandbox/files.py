"""The file operations of a guest, called over its channel. What the guest says is checked, never believed."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from itertools import repeat
from typing import Any, Protocol, TypeVar

from codeagent.errors import ErrorKind, ToolError
from codeagent.sandbox.seam import Entry, EntryKind, FileLine, FilePage, Listing

PAGE_LINES = 2_000
PAGE_BYTES = 64 * 1024
PAGE_ENTRIES = 1_000
MAX_FETCHED = 16 << 20

Answer = TypeVar("Answer")


class Calls(Protocol):
    """The part of `Channel` that is needed here."""

    def call(
        self, op: str, args: Mapping[str, Any], body: bytes = b"", on_body: Callable[[bytes], None] | None = None
    ) -> tuple[dict[str, Any], bytes]: ...


class Malformed(Exception):
    """The guest's answer has not the promised form."""


def read_file(channel: Calls, path: str, start_line: int | None, end_line: int | None) -> FilePage:
    """One page of lines. ToolError as the guest refuses."""
    return _checked(_page, *channel.call("read_file", {"path": path, "start": start_line, "end": end_line}))


def list_dir(channel: Calls, path: str, depth: int, offset: int) -> Listing:
    """One page of entries. ToolError as the guest refuses."""
    return _checked(_listing, *channel.call("list_dir", {"path": path, "depth": depth, "offset": offset}))


def fetch(channel: Calls, path: str) -> bytes:
    """A whole file, at most 16 MiB. ToolError as the guest refuses."""
    content = channel.call("fetch", {"path": path})[1]
    if len(content) > MAX_FETCHED:
        raise _broken()
    return content


@dataclass(frozen=True, slots=True)
class Preparation:
    """What a guest is told about its tree, before anything else.

    `protect` are the protected patterns as regular expressions, `masked` paths that count as protected whatever
    their name, `mounted` paths that must be covered by a mount; `prefix` and `above` (folder, text of its ignore
    file) place a mounted sub-folder in its work tree; `folders` are further ones that the guest needs, by name (see
    `sandbox/guest/files.py`).
    """

    protect: Sequence[tuple[str, bool]] = ()
    masked: Sequence[str] = ()
    mounted: Sequence[str] = ()
    prefix: str = ""
    above: Sequence[tuple[str, str]] = ()
    folders: Mapping[str, str] = field(default_factory=dict)


def prepare(channel: Calls, preparation: Preparation) -> None:
    """Tells the guest about its tree."""
    channel.call("prepare_files", {}, json.dumps(asdict(preparation)).encode("ascii"))


@dataclass(frozen=True, slots=True)
class Scan:
    """What a guest finds in its tree now: protected things, git directories, and masks that are not in place."""

    protected: frozenset[str]
    gits: frozenset[str]
    lost: tuple[str, ...]
    complete: bool
    state: int
    """Names what was found: calls may ask for being carried out only while it is still so."""


def scan(channel: Calls) -> Scan:
    """Looks again; costs little when nothing has changed."""
    return _checked(_scan, *channel.call("scan", {}))


def _scan(fields: dict[str, Any], body: bytes) -> Scan:
    found = _json(body)
    return Scan(
        frozenset(_texts(found["protected"])),
        frozenset(_texts(found["gits"])),
        _texts(fields["lost"]),
        fields["complete"] is True,
        _number(fields["state"]),
    )


def tracked(channel: Calls, paths: Iterable[str]) -> list[str]:
    """Those of `paths` that git tracks."""
    asked = list(paths)
    reply = channel.call("tracked", {}, json.dumps(asked).encode("ascii"))[1]
    found = _json(reply)
    return [path for path in asked if path in set(_texts(found))]


def _checked(read: Callable[[dict[str, Any], bytes], Answer], fields: dict[str, Any], body: bytes) -> Answer:
    try:
        return read(fields, body)
    except (Malformed, KeyError, ValueError, TypeError):
        raise _broken() from None


def _broken() -> ToolError:
    return ToolError(ErrorKind.SANDBOX_FAILED, "the container gave an answer that makes no sense")


def _page(fields: dict[str, Any], body: bytes) -> FilePage:
    count, first, omitted = _number(fields["count"]), _number(fields["first"]), dict(_pairs(fields["omitted"]))
    texts = body.decode("utf-8").split("\n") if count else []
    if len(texts) != count or count > PAGE_LINES or len(body) > PAGE_BYTES:
        raise Malformed
    numbers = range(first, first + count)
    # As `FileLine(…)` for each, in a third of the time.
    rows = zip(numbers, texts, map(omitted.get, range(count), repeat(0, count)), strict=True)
    lines = tuple(map(tuple.__new__, repeat(FileLine), rows))
    return FilePage(
        path=_text(fields["path"]),
        lines=lines,
        total_lines=_number(fields["total_lines"]),
        size=_number(fields["size"]),
        sha256=_text(fields["sha256"])[:64],
        encoding=_text(fields["encoding"])[:40],
        notes=_texts(fields["notes"]),
    )


def _listing(fields: dict[str, Any], body: bytes) -> Listing:
    entries = _json(body)
    if not isinstance(entries, list) or len(entries) > PAGE_ENTRIES:
        raise Malformed
    return Listing(
        path=_text(fields["path"]),
        entries=tuple(_entry(*entry) for entry in entries),
        offset=_number(fields["offset"]),
        total=_number(fields["total"]),
        ignored=_number(fields["ignored"]),
        notes=_texts(fields["notes"]),
        counted=fields["counted"] is True,
    )


def _entry(path: Any, kind: Any, size: Any, target: Any, protected: Any) -> Entry:
    return Entry(
        path=_text(path),
        kind=EntryKind(kind),
        size=None if size is None else _number(size),
        target=None if target is None else _text(target),
        protected=protected is True,
    )


def _json(body: bytes) -> Any:
    try:
        return json.loads(body)
    except RecursionError:
        raise Malformed from None


def _number(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 1 << 63:
        raise Malformed
    return value


def _text(value: Any) -> str:
    if not isinstance(value, str) or len(value) > PAGE_BYTES:
        raise Malformed
    return value


def _texts(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list):
        raise Malformed
    return tuple(map(_text, value))


def _pairs(value: Any) -> list[tuple[int, int]]:
    return [(_number(place), _number(count)) for place, count in value]
