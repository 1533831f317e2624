"""Files of a check that the text of a configuration or of a test mentions, in whatever language it is written.

A second look beside `reach`, which follows what the command starts: `tox.ini`, a justfile, `CMakeLists.txt` and their
like are not followed, so any word of theirs that is the path of a file counts, if the file is named as a check's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from posixpath import basename, dirname, join, normpath, splitext

from codeagent.verification.names import is_configuration, is_test, named_as_check, subject
from codeagent.verification.tree import Tree

_WORD = re.compile(r"[\w.@+-]+(?:/[\w.@+-]+)*")
_ELSEWHERE = re.compile(
    r"(?:^|/)(?:\.[^/]*|node_modules|vendor|venv|site-packages)/|(?:^|[-.])lock\b|^dockerfile|(?:^|/)setup\.py$", re.I
)
_COMMANDS = ("scripts", "tasks")
"""Of a JSON file, what else it mentions is the program: `bin`, `main`, `files`."""
_MOST_FILES, _MOST_TESTS = 60, 200
_MOST_CHARACTERS = 200_000


def mentioned(command: str, read: Callable[[str], str | None], tree: Tree) -> set[str]:
    """The files that are named as a check's and that the command, a configuration, a test or one of them mentions."""
    # What has a test of its own is the program.
    tested = {subject(path) for path in tree.files if is_test(basename(path))}
    checks = {path for path in tree.files if named_as_check(path) and _stem(path) not in tested}
    configurations = sorted(path for path in tree.files if is_configuration(path) and not _ELSEWHERE.search(path))
    waiting = configurations[:_MOST_FILES]
    if any(not is_test(path) for path in checks):
        waiting += sorted(path for path in tree.files if is_test(path))[:_MOST_TESTS]
    spelt = {form: path for path in checks for form in _spellings(path)}
    found = {spelt[word] for word in _words(command) if word in spelt}
    waiting += sorted(found)
    seen: set[str] = set()
    while checks and waiting and len(seen) < 2 * _MOST_FILES + _MOST_TESTS:
        path = waiting.pop()
        if path not in seen:
            seen.add(path)
            words = _words(_text_of(path, read))
            more = (checks & {name for word in words for name in (word, normpath(join(dirname(path), word)))}) - found
            found |= more
            waiting += sorted(more)
    return found


def _text_of(path: str, read: Callable[[str], str | None]) -> str:
    text = (read(path) or "")[:_MOST_CHARACTERS]
    return json.dumps([object_of(text).get(key) for key in _COMMANDS]) if path.endswith(".json") else text


def _words(text: str) -> set[str]:
    return {word.removeprefix("./") for word in _WORD.findall(text)}


def _spellings(path: str) -> Iterator[str]:
    """How a script within a command may write it (`-c "import checks.run"`, `-e "require('./verify')"`)."""
    stem = splitext(path)[0]
    yield from (path, stem, stem.replace("/", "."))


def _stem(path: str) -> str:
    return basename(path).partition(".")[0].lower()


def object_of(text: str) -> dict[str, object]:
    """A JSON object; an empty one for anything else."""
    try:
        found = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
