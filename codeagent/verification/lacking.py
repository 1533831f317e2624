"""What a runner lacked when it came to no test, in its own words: modules, packages, plugins, programs.

Read only from runs in which no test ran: a test that fails because something is missing is a failing test.
"""

from __future__ import annotations

import re

_MOST_NAMED = 4


def lacked(text: str) -> str:
    """What was missing, as a clause that names it; empty when the text says nothing of the kind."""
    for pattern, clause in _LACKED:
        if names := list(dict.fromkeys(pattern.findall(text))):
            more = f" and {len(names) - _MOST_NAMED} more" if len(names) > _MOST_NAMED else ""
            return clause.format(", ".join(names[:_MOST_NAMED]) + more)
    return ""


_LACKED = tuple(
    (re.compile(pattern, re.MULTILINE), clause)
    for pattern, clause in (
        (
            r"(?:ModuleNotFoundError|Error importing plugin \"[^\"\n]*\"): No module named '([^'\n]+)'",
            "python found no module {0}",
        ),
        (r"^pytest: error: unrecognized arguments: (.+)$", "pytest has no plugin for {0}"),
        (r"^ERROR: Missing required plugins: (.+)$", "pytest has no plugin {0}"),
        (r"FileNotFoundError: \[Errno 2\] No such file or directory: '([^'/.\n]+)'", "python found no program {0}"),
        # What begins with a dot or a slash is a file of the repository.
        (r"\bCannot find (?:module|package) '([^'./\n][^'\n]*)'", "node found no module {0}"),
        (r"\bFailed to resolve import \"([^\"./\n][^\"\n]*)\" from ", "node found no module {0}"),
        (r"\bspawn ([^\s/]+) ENOENT\b", "node found no program {0}"),
        (r"\bpackage ([\w.]+) does not exist$", "java found no package {0}"),
        (r"\bPlugin ([\w.:-]+) or one of its dependencies could not be resolved", "maven could not get {0}"),
        (r"\bCould not (?:find|transfer) artifact ([\w.:-]+) ", "maven could not get {0}"),
        (r"\bthe artifact ([\w.:-]+) has not been downloaded", "maven could not get {0}"),
        (r"^ *> Could not (?:resolve|find|download) ([\w.:-]+?)\.?(?: \(.*)?$", "gradle could not get {0}"),
        (r"\bNoClassDefFoundError: ([\w/$.]+)", "java found no class {0}"),
        (r"\bno required module provides package ([^\s;:]+)", "go found no package {0}"),
        (r"\bcannot find (?:package|module providing package) \"?([^\s\":]+)", "go found no package {0}"),
        (r"\bpackage (\S+) is not in (?:GOROOT|std)\b", "go found no package {0}"),
        (r"(\S+@\S+): Get \"?https?://", "go could not get {0}"),
        (r"^go: download (\S+) .*: toolchain not available$", "go could not get {0}"),
        (r"exec: \"([^\"\n]+)\": executable file not found", "go found no program {0}"),
        (r"^error: no matching package named `([^`\n]+)` found", "cargo could not get {0}"),
        (r"\bfailed to (?:download|get) `([^`\n]+)`", "cargo could not get {0}"),
        (r"\bcan't find crate for `([^`\n]+)`", "cargo found no crate {0}"),
    )
)
"""The first that is in a text tells; the earlier ones are the more exact."""
