"""Patches in git's own form, as values: parsed, turned round, and applied to bytes, exact to the byte.

The form is that of `git diff` (git-diff(1), "Generating patch text with -p"; binary parts as in git's
apply.c: base85 lines of zlib data, literal or delta). Nothing here touches a file.
"""

from __future__ import annotations

import base64
import hashlib
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

SYMLINK = 0o120000
MAX_BINARY = 64 << 20

_HUNK = re.compile(rb"@@ -(\d+)(?:,(\d+))? \+(\d+)(?:,(\d+))? @@")
_ESCAPES = {b"n": b"\n", b"t": b"\t", b"r": b"\r", b"a": b"\a", b"b": b"\b", b"f": b"\f", b"v": b"\v"}


class PatchError(Exception):
    """The patch cannot be read, or does not fit; says which path and which hunk."""


@dataclass(frozen=True, slots=True)
class Hunk:
    """Lines with their line ends (the last may have none). `start` counts lines from 1 in the old file."""

    start: int
    old: tuple[bytes, ...]
    new: tuple[bytes, ...]
    new_start: int


@dataclass(frozen=True, slots=True)
class Binary:
    """New content, whole (`literal`) or as instructions on the old content (`delta`)."""

    delta: bool
    payload: bytes


@dataclass(frozen=True, slots=True)
class FilePatch:
    """What happens to one file. A path is None where there is no file; modes are git's, 0o100644 and the like.

    `old_blob` and `new_blob` are git's names of the contents (see `is_blob`), as far as the patch gives them.
    """

    old_path: str | None
    new_path: str | None
    old_mode: int | None = None
    new_mode: int | None = None
    hunks: tuple[Hunk, ...] = ()
    forward: Binary | None = None
    backward: Binary | None = None
    copied: bool = False
    old_blob: str = ""
    new_blob: str = ""

    @property
    def path(self) -> str:
        return self.new_path or self.old_path or ""

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that applying it creates, changes or removes."""
        touched = (self.new_path,) if self.copied else (self.old_path, self.new_path)
        return tuple(dict.fromkeys(path for path in touched if path is not None))


def parse(patch: bytes) -> list[FilePatch]:
    """All files of a patch. Raises PatchError."""
    lines = split_lines(patch)
    starts = [number for number, line in enumerate(lines) if line.startswith(b"diff --git ")]
    if not starts:
        if patch.strip():
            raise PatchError("this is not a git patch: no line begins with `diff --git`")
        return []
    return [_file(lines[start:end]) for start, end in zip(starts, [*starts[1:], len(lines)], strict=True)]


def split_lines(content: bytes) -> list[bytes]:
    """Lines with their line ends; LF only, as git counts."""
    parts = content.split(b"\n")
    return [part + b"\n" for part in parts[:-1]] + ([parts[-1]] if parts[-1] else [])


def apply(patch: FilePatch, content: bytes | None, *, anywhere: bool = False) -> bytes | None:
    """The file's new content, None when it is deleted. `content` is None when there is no old file.

    `anywhere` lets a hunk move to the one place where all its old lines stand; without it they must stand
    at their line. Raises PatchError when something does not fit.
    """
    if (content is None) != (patch.old_path is None):
        raise PatchError(f"{patch.path}: the file {'does not exist' if content is None else 'exists already'}")
    old = content or b""
    if patch.forward is not None:
        new = _delta(old, patch.forward.payload, patch.path) if patch.forward.delta else patch.forward.payload
    else:
        new = _apply_hunks(patch, old, anywhere)
    if patch.new_path is None:
        if new:
            raise PatchError(f"{patch.path}: the file to delete holds more than the patch removes")
        return None
    return new


def reverse(patch: FilePatch) -> FilePatch:
    """The patch that takes this one back."""
    return replace(
        patch,
        old_path=patch.new_path,
        new_path=None if patch.copied else patch.old_path,
        old_mode=patch.new_mode,
        new_mode=patch.old_mode,
        hunks=tuple(Hunk(hunk.new_start, hunk.new, hunk.old, hunk.start) for hunk in patch.hunks),
        forward=patch.backward,
        backward=patch.forward,
        copied=False,
        old_blob=patch.new_blob,
        new_blob=patch.old_blob,
    )


def is_blob(content: bytes, blob: str) -> bool:
    """Whether `blob`, whole or its beginning, is the name that git gives to this content (gitformat, "blob").

    More than 40 digits are a name in a repository of the SHA-256 format.
    """
    digest = hashlib.new("sha256" if len(blob) > 40 else "sha1", usedforsecurity=False)
    digest.update(b"blob %d\0" % len(content))
    digest.update(content)
    return bool(blob) and digest.hexdigest().startswith(blob)


# --- reading ---------------------------------------------------------------------------------------------


def _file(lines: Sequence[bytes]) -> FilePatch:
    """One section, from its `diff --git` line on."""
    header: dict[bytes, bytes] = {}
    at = 1
    while at < len(lines) and not lines[at].startswith((b"@@ ", b"GIT binary patch", b"Binary files ")):
        key, value = _header(lines[at])
        header.setdefault(key, value)
        at += 1
    old_name, new_name = _names(lines[0], header)
    old_mode, new_mode = _modes(header)
    if at < len(lines) and lines[at].startswith(b"Binary files "):
        raise PatchError(f"{new_name}: the patch says that a binary file differs, but not how")
    binaries = _binaries(lines[at + 1 :], new_name) if at < len(lines) and lines[at].startswith(b"GIT") else []
    return FilePatch(
        old_path=None if b"new file mode" in header else old_name,
        new_path=None if b"deleted file mode" in header else new_name,
        old_mode=old_mode,
        new_mode=new_mode,
        hunks=() if binaries else tuple(_hunks(lines[at:], new_name)),
        forward=binaries[0] if binaries else None,
        backward=binaries[1] if len(binaries) > 1 else None,
        copied=b"copy to" in header,
        **_blobs(header),
    )


_KEYS = (
    b"old mode",
    b"new mode",
    b"new file mode",
    b"deleted file mode",
    b"rename from",
    b"rename to",
    b"copy from",
    b"copy to",
    b"index",
    b"---",
    b"+++",
)


def _header(line: bytes) -> tuple[bytes, bytes]:
    for key in _KEYS:
        if line.startswith(key + b" "):
            return key, line[len(key) + 1 :].rstrip(b"\n")
    return b"", line


def _names(first: bytes, header: dict[bytes, bytes]) -> tuple[str, str]:
    """The old and the new path, from the line that says them without doubt."""
    for old, new in ((b"rename from", b"rename to"), (b"copy from", b"copy to")):
        if new in header:
            return _path(header[old]), _path(header[new])
    names = [
        _path(header[key].split(b"\t")[0], 2)
        for key in (b"---", b"+++")
        if header.get(key, b"/dev/null") != b"/dev/null"
    ]
    if names:
        return names[0], names[-1]
    rest = first[len(b"diff --git ") :].rstrip(b"\n")
    if rest.startswith(b'"'):
        name = _path(rest[: _end_of_quoted(rest)], 2)
    else:
        # `a/NAME b/NAME` with the same name twice: it is cut in the middle, whatever blanks it holds.
        name = os.fsdecode(rest[2 : len(rest) // 2])
        if rest != b"a/%b b/%b" % (os.fsencode(name), os.fsencode(name)):
            raise PatchError(f"the names in `{os.fsdecode(first).strip()}` cannot be told apart")
    return name, name


def _path(name: bytes, strip: int = 0) -> str:
    if name.startswith(b'"'):
        name = re.sub(rb"\\([0-7]{3}|.)", _unescaped, name[1:-1], flags=re.DOTALL)
    path = os.fsdecode(name[strip:])
    if not path or path.startswith("/") or "\0" in path or ".." in path.split("/"):
        raise PatchError(f"the path {path!r} in the patch does not lie inside the repository")
    return path


def _unescaped(match: re.Match[bytes]) -> bytes:
    code = match[1]
    return bytes([int(code, 8) & 255]) if len(code) == 3 else _ESCAPES.get(code, code)


def _end_of_quoted(text: bytes) -> int:
    match = re.match(rb'"(?:[^"\\]|\\.)*"', text, re.DOTALL)
    if match is None:
        raise PatchError("a quoted name in the patch has no end")
    return match.end()


def _modes(header: dict[bytes, bytes]) -> tuple[int | None, int | None]:
    try:
        if b"new file mode" in header:
            return None, int(header[b"new file mode"], 8)
        if b"deleted file mode" in header:
            return int(header[b"deleted file mode"], 8), None
        if b"old mode" in header:
            return int(header[b"old mode"], 8), int(header[b"new mode"], 8)
        kept = header.get(b"index", b"").partition(b" ")[2]
        return (int(kept, 8), int(kept, 8)) if kept else (None, None)
    except (ValueError, KeyError):
        raise PatchError("a mode in the patch is not a number") from None


def _blobs(header: dict[bytes, bytes]) -> dict[str, str]:
    match = re.match(rb"([0-9a-f]{7,64})\.\.([0-9a-f]{7,64})", header.get(b"index", b""))
    if match is None:
        return {}
    old, new = (name.decode() if name.strip(b"0") else "" for name in match.groups())
    return {"old_blob": old, "new_blob": new}


def _hunks(lines: Sequence[bytes], name: str) -> Iterator[Hunk]:
    at = 0
    while at < len(lines) and lines[at].startswith(b"@@ "):
        match = _HUNK.match(lines[at])
        if match is None:
            raise PatchError(f"{name}: the hunk header {lines[at]!r} cannot be read")
        counts = int(match[2] or 1), int(match[4] or 1)
        old: list[bytes] = []
        new: list[bytes] = []
        at += 1
        while at < len(lines) and (len(old), len(new)) != counts:
            sign, text = lines[at][:1], lines[at][1:]
            at += 1
            if at < len(lines) and lines[at].startswith(b"\\"):  # "No newline at end of file"
                text = text.removesuffix(b"\n")
                at += 1
            if sign not in (b" ", b"-", b"+"):
                raise PatchError(f"{name}: a line in a hunk begins with {sign!r}")
            if sign != b"+":
                old.append(text)
            if sign != b"-":
                new.append(text)
        if (len(old), len(new)) != counts:
            raise PatchError(f"{name}: a hunk is cut short")
        yield Hunk(int(match[1]), tuple(old), tuple(new), int(match[3]))


def _binaries(lines: Sequence[bytes], name: str) -> list[Binary]:
    """The forward part and, where there is one, the backward part."""
    found: list[Binary] = []
    at = 0
    while at < len(lines) and (match := re.fullmatch(rb"(literal|delta) (\d+)\n", lines[at])):
        at += 1
        end = next((n for n in range(at, len(lines)) if lines[n] == b"\n"), len(lines))
        found.append(Binary(match[1] == b"delta", _inflated(lines[at:end], int(match[2]), name)))
        at = end + 1
    if not found:
        raise PatchError(f"{name}: the binary part cannot be read")
    return found


def _inflated(lines: Sequence[bytes], size: int, name: str) -> bytes:
    if size > MAX_BINARY:
        raise PatchError(f"{name}: the binary part is larger than {MAX_BINARY >> 20} MiB")
    try:
        packed = b"".join(_base85(line.rstrip(b"\n")) for line in lines)
        payload = zlib.decompressobj().decompress(packed, size + 1)
    except (ValueError, zlib.error, IndexError):
        raise PatchError(f"{name}: the binary part is damaged") from None
    if len(payload) != size:
        raise PatchError(f"{name}: the binary part has {len(payload)} bytes, not {size}")
    return payload


def _base85(line: bytes) -> bytes:
    letter = line[0]
    length = letter - 64 if letter <= ord("Z") else letter - 70  # A-Z are 1-26, a-z are 27-52
    return base64.b85decode(line[1:])[:length]


# --- applying --------------------------------------------------------------------------------------------


def _apply_hunks(patch: FilePatch, old: bytes, anywhere: bool) -> bytes:
    lines = split_lines(old)
    new: list[bytes] = []
    at = 0
    for number, hunk in enumerate(patch.hunks, 1):
        # A hunk without old lines stands *after* its line; with some, it begins *at* it.
        start = _place(lines, hunk, at, anywhere)
        if start is None:
            raise PatchError(f"{patch.path}: hunk {number} of {len(patch.hunks)} does not fit at line {hunk.start}")
        new += lines[at:start]
        new += hunk.new
        at = start + len(hunk.old)
    return b"".join(new + lines[at:])


def _place(lines: Sequence[bytes], hunk: Hunk, first: int, anywhere: bool) -> int | None:
    stated = hunk.start - 1 if hunk.old else hunk.start

    def fits(at: int) -> bool:
        return first <= at <= len(lines) and tuple(lines[at : at + len(hunk.old)]) == hunk.old

    if fits(stated) or not anywhere or not hunk.old:
        return stated if fits(stated) else None
    places = [at for at in range(first, len(lines) - len(hunk.old) + 1) if fits(at)]
    return places[0] if len(places) == 1 else None


def _delta(old: bytes, delta: bytes, name: str) -> bytes:
    """Git's delta: two sizes, then instructions that copy from the old content or insert."""
    try:
        size, at = _varint(delta, 0)
        result_size, at = _varint(delta, at)
        new = bytearray()
        while at < len(delta):
            instruction, at = delta[at], at + 1
            if instruction & 0x80:
                offset, at = _scattered(delta, at, instruction, 4)
                length, at = _scattered(delta, at, instruction >> 4, 3)
                new += old[offset : offset + (length or 0x10000)]
            else:
                new += delta[at : at + instruction]
                at += instruction
    except IndexError:
        raise PatchError(f"{name}: the binary part is damaged") from None
    if size != len(old) or result_size != len(new):
        raise PatchError(f"{name}: the binary part does not fit the file")
    return bytes(new)


def _varint(delta: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = delta[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if not byte & 0x80:
            return value, at


def _scattered(delta: bytes, at: int, present: int, count: int) -> tuple[int, int]:
    """A little-endian number of which only the bytes named in `present` are there."""
    value = 0
    for byte in range(count):
        if present >> byte & 1:
            value |= delta[at] << (8 * byte)
            at += 1
    return value, at
