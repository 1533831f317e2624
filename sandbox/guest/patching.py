"""Writes patches in git's form, exact to the byte (git-diff(1), "Generating patch text with -p"; git's diff.c)."""

from __future__ import annotations

import base64
import hashlib
import zlib
from collections.abc import Iterator
from dataclasses import dataclass

from guest.linediff import Block, changed_blocks
from guest.quoting import ESCAPES

CONTEXT = 3
MAX_TEXT = 8 << 20
"""A larger file is written as a binary patch: whole, and without comparing lines."""
BINARY_LINE = 52


@dataclass(frozen=True, slots=True)
class Side:
    """A file before or after: git's mode (0o100644, 0o100755, 0o120000) and its content."""

    mode: int
    content: bytes


def file_patch(path: bytes, old: Side | None, new: Side | None, hash_name: str = "sha1") -> Iterator[bytes]:
    """The patch of one path. A change of type is a deletion and a creation, as git writes it."""
    if old is not None and new is not None and old.mode & 0o170000 != new.mode & 0o170000:
        yield from file_patch(path, old, None, hash_name)
        yield from file_patch(path, None, new, hash_name)
        return
    if old == new:
        return
    yield b"diff --git %s %s\n" % (_name(b"a/", path), _name(b"b/", path))
    yield from _modes(old, new)
    before, after = old.content if old else b"", new.content if new else b""
    if old is not None and new is not None and before == after:
        return
    yield _index(old, new, hash_name)
    if before == after:
        return  # an empty file comes or goes
    if b"\0" in before or b"\0" in after or max(len(before), len(after)) > MAX_TEXT:
        yield b"GIT binary patch\n"
        yield from _literal(after)
        yield from _literal(before)
        return
    yield b"--- %s\n" % (_marked(b"a/", path) if old else b"/dev/null")
    yield b"+++ %s\n" % (_marked(b"b/", path) if new else b"/dev/null")
    yield from _hunks(_lines(before), _lines(after))


def _modes(old: Side | None, new: Side | None) -> Iterator[bytes]:
    if old is None and new is not None:
        yield b"new file mode %06o\n" % new.mode
    elif new is None and old is not None:
        yield b"deleted file mode %06o\n" % old.mode
    elif old is not None and new is not None and old.mode != new.mode:
        yield b"old mode %06o\nnew mode %06o\n" % (old.mode, new.mode)


def _index(old: Side | None, new: Side | None, hash_name: str) -> bytes:
    """git takes a binary patch only with whole hashes."""

    def blob(side: Side | None) -> str:
        digest = hashlib.new(hash_name, usedforsecurity=False)
        if side is None:
            return "0" * (digest.digest_size * 2)
        digest.update(b"blob %d\0" % len(side.content))
        digest.update(side.content)
        return digest.hexdigest()

    mode = f" {old.mode:06o}" if old and new and old.mode == new.mode else ""
    return f"index {blob(old)}..{blob(new)}{mode}\n".encode("ascii")


def _name(side: bytes, path: bytes) -> bytes:
    """A path as git writes it: in C quotes where a byte is special, not ASCII, or a control.

    Names with a blank at an end, or before a slash or `b/`, are quoted too: git takes that for the place where the
    second name of a `diff --git` line begins, and reads no name in its own patches then (apply.c, git_header_name).
    """
    clear = not (path[:1] == b" " or path[-1:] == b" " or b" /" in path or b" b/" in path)
    if clear and all(32 <= byte < 127 and byte not in b'"\\' for byte in path):
        return side + path

    def shown(byte: int) -> str:
        if byte in ESCAPES:
            return ESCAPES[byte]
        return chr(byte) if 32 <= byte < 127 else f"\\{byte:03o}"

    return b'"' + side + "".join(map(shown, path)).encode("ascii") + b'"'


def _marked(side: bytes, path: bytes) -> bytes:
    """The same after `---` and `+++`, where a tab ends a name that holds blanks."""
    name = _name(side, path)
    return name + b"\t" if b" " in path and not name.startswith(b'"') else name


def _lines(content: bytes) -> list[bytes]:
    """Lines with their line feeds; the last may have none."""
    lines = [line + b"\n" for line in content.split(b"\n")]
    last = lines.pop()
    return [*lines, last[:-1]] if last != b"\n" else lines


def _hunks(old: list[bytes], new: list[bytes]) -> Iterator[bytes]:
    for blocks in _neighbours(changed_blocks(old, new)):
        first, last = blocks[0], blocks[-1]
        before = min(CONTEXT, first[0])
        after = min(CONTEXT, len(old) - last[1])
        spans = (first[0] - before, last[1] + after, first[2] - before, last[3] + after)
        yield b"@@ -%s +%s @@\n" % (_span(spans[0], spans[1]), _span(spans[2], spans[3]))
        at = spans[0]
        for start, end, new_start, new_end in blocks:
            yield from (_line(b" ", line) for line in old[at:start])
            yield from (_line(b"-", line) for line in old[start:end])
            yield from (_line(b"+", line) for line in new[new_start:new_end])
            at = end
        yield from (_line(b" ", line) for line in old[at : spans[1]])


def _neighbours(blocks: list[Block]) -> Iterator[list[Block]]:
    """Blocks whose contexts touch share a hunk."""
    group: list[Block] = []
    for block in blocks:
        if group and block[0] - group[-1][1] > 2 * CONTEXT:
            yield group
            group = []
        group.append(block)
    if group:
        yield group


def _span(start: int, end: int) -> bytes:
    """A hunk's range; an empty one names the line before it."""
    count = end - start
    return b"%d" % (start + 1) if count == 1 else b"%d,%d" % (start + 1 if count else start, count)


def _line(sign: bytes, line: bytes) -> bytes:
    return sign + line if line.endswith(b"\n") else sign + line + b"\n\\ No newline at end of file\n"


def _literal(content: bytes) -> Iterator[bytes]:
    yield b"literal %d\n" % len(content)
    packed = zlib.compress(content)
    for start in range(0, len(packed), BINARY_LINE):
        chunk = packed[start : start + BINARY_LINE]
        length = len(chunk)
        letter = bytes([length + 64 if length <= 26 else length + 70])  # A-Z are 1 to 26, a-z are 27 to 52
        yield letter + base64.b85encode(chunk, pad=True) + b"\n"
    yield b"\n"
