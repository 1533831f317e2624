"""A git patch as it reads backwards: what is shown before a change is taken back."""

from __future__ import annotations

import re
from collections.abc import Iterator

from codeagent.patches import split_lines

_RANGES = re.compile(rb"@@ -(\d+(?:,\d+)?) \+(\d+(?:,\d+)?) @@")
_BLOBS = re.compile(rb"index ([0-9a-f]+)\.\.([0-9a-f]+)")
_PAIRS = ((b"old mode ", b"new mode "), (b"rename from ", b"rename to "), (b"--- ", b"+++ "))
"""Lines of a header that follow each other and whose values change places."""
_OTHER = {b"new file mode ": b"deleted file mode ", b"deleted file mode ": b"new file mode "}


def backwards(patch: bytes) -> bytes:
    """The patch that undoes `patch`, file by file in the same order; what is no git patch stays as it is."""
    lines = split_lines(patch)
    starts = [number for number, line in enumerate(lines) if line.startswith(b"diff --git ")]
    ends = [*starts[1:], len(lines)]
    shown = lines[: starts[0] if starts else None]
    for start, end in zip(starts, ends, strict=False):
        shown += _file(lines[start:end])
    return b"".join(shown)


def _file(lines: list[bytes]) -> Iterator[bytes]:
    body = next((at for at, line in enumerate(lines) if line.startswith((b"@@ ", b"GIT binary "))), len(lines))
    yield from _header(lines[:body])
    if body < len(lines) and lines[body].startswith(b"GIT "):
        yield lines[body]
        yield from _binaries(lines[body + 1 :])
    else:
        yield from _hunks(lines[body:])


def _header(lines: list[bytes]) -> Iterator[bytes]:
    values = {name: line[len(name) :] for line in lines for pair in _PAIRS for name in pair if line.startswith(name)}
    values = {name: values.get(other, b"") for pair in _PAIRS for name, other in (pair, pair[::-1])}
    for line in lines:
        if line.startswith(b"diff --git ") and values[b"rename to "]:
            old, new = (values[name].rstrip(b"\n") for name in (b"rename from ", b"rename to "))
            yield b"diff --git %s %s\n" % (_below(b"a/", old), _below(b"b/", new))
        elif name := next((name for name in values if line.startswith(name)), b""):
            value = values[name]
            if name in (b"--- ", b"+++ "):
                was, now = (b"b/", b"a/") if name == b"--- " else (b"a/", b"b/")
                value = re.sub(rb'^("?)' + was, rb"\1" + now, value)
            yield name + value
        elif name := next((name for name in _OTHER if line.startswith(name)), b""):
            yield _OTHER[name] + line[len(name) :]
        else:
            yield _BLOBS.sub(rb"index \2..\1", line)


def _below(side: bytes, name: bytes) -> bytes:
    return b'"' + side + name[1:] if name.startswith(b'"') else side + name


def _hunks(lines: list[bytes]) -> Iterator[bytes]:
    """Lines that go come before lines that come, as everywhere in a diff."""
    going: list[bytes] = []
    coming: list[bytes] = []
    last: list[bytes] = []
    for line in lines:
        # Within a hunk no line begins with `@`: each has its sign.
        match line[:1]:
            case b"+":
                going.append(b"-" + line[1:])
                last = going
            case b"-":
                coming.append(b"+" + line[1:])
                last = coming
            case b"\\" if last:
                last.append(line)
            case _:
                yield from (*going, *coming)
                going, coming, last = [], [], []
                yield _RANGES.sub(rb"@@ -\2 +\1 @@", line) if line.startswith(b"@@") else line
    yield from (*going, *coming)


def _binaries(lines: list[bytes]) -> Iterator[bytes]:
    """The contents before and after, each up to an empty line."""
    end = lines.index(b"\n") + 1 if b"\n" in lines else len(lines)
    yield from (*lines[end:], *lines[:end])
