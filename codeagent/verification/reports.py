"""Reports in JUnit's XML form that a check writes into the tree: where they lie, and what they count.

They are read from the container in which the command ran, and only those that this run wrote: the tree may hold
reports of earlier runs.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from posixpath import normpath
from threading import Event as Flag

from codeagent.errors import ToolError
from codeagent.sandbox.seam import Command, Sandbox
from codeagent.verification.record import TestCount
from codeagent.verification.runners import added
from codeagent.verification.summaries import junit_xml

Reports = Mapping[str, bytes]
"""Path to content."""

_OPTION = re.compile(r"--?[\w-]*(?:junit|xunit)[\w-]*")
_USUAL = (
    (re.compile(r"\bgradlew?\b"), "build/test-results"),
    (re.compile(r"\bmvnw?\b"), "target/surefire-reports"),
    (re.compile(r"\bmvnw?\b"), "target/failsafe-reports"),
)
_MOST = 400
_SECONDS = 20.0


def named_reports(command: str) -> list[str]:
    """Paths that the command's own words give for a report (`--junitxml=PATH`, `--log-junit PATH`)."""
    try:
        words = shlex.split(command)
    except ValueError:
        return []
    found = []
    for word, after in zip(words, [*words[1:], ""], strict=True):
        option, _, value = word.partition("=")
        if _OPTION.fullmatch(option) and (path := value or after).endswith(".xml") and not path.startswith("/"):
            found.append(normpath(path))
    return found


def read_reports(sandbox: Sandbox, command: str) -> Reports:
    """The reports that stand in the tree now, at the places where this command puts them."""
    paths = named_reports(command)
    folders = [folder for program, folder in _USUAL if program.search(command)]
    if folders:
        paths += _below(sandbox, folders)
    found = {}
    for path in paths[:_MOST]:
        try:
            found[path] = sandbox.fetch(path)
        except ToolError:
            continue
    return found


def count_reports(before: Reports, after: Reports) -> TestCount | None:
    """What the reports count that are new or have changed; None when there are none."""
    written = [content for path, content in sorted(after.items()) if before.get(path) != content]
    counts = [junit_xml(content.decode("utf-8", "replace")) for content in written]
    return added([count for count in counts if count is not None])


def _below(sandbox: Sandbox, folders: list[str]) -> list[str]:
    """XML files in such folders of the tree's modules, listed by the shell, which every image has."""
    places = [
        f"{top}{folder}{deep}" for folder in folders for top in ("", "*/", "*/*/") for deep in ("/*.xml", "/*/*.xml")
    ]
    script = f'for file in {" ".join(places)}; do [ -f "$file" ] && echo "$file"; done; :'
    try:
        result = sandbox.run(Command("verification-reports", script, timeout_seconds=_SECONDS), Flag())
    except ToolError:
        return []
    return "".join(text for stream, text in result.segments if stream == "stdout").splitlines()
