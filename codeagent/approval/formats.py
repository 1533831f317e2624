"""The small languages that flags take as values: which values of them are known to be harmless.

Every placeholder that may stand in a format is written down, so that one that runs gpg (`%G?`, `%(signature)`), in
whatever spelling, or one that a later version adds, is not known. The regular expressions are matched against a
whole value. Written from git-log(1), git-for-each-ref(1), find(1), hexdump(1) and seq(1).
"""

from __future__ import annotations


def _text(placeholder: str) -> str:
    """Any text in which a placeholder, a further `%` or the end follows each `%`.

    Each `%` is looked at, also one that seems to stand for itself after another: where a column is padded, git takes
    the second of `%%` for the beginning of a placeholder.
    """
    return rf"(?s:[^%]|%(?={placeholder}|%|\Z))*"


_SPELT = r"n|x[0-9a-fA-F]{2}"
_OF_COMMIT = (
    rf"[-+ ]?(?:{_SPELT}|[HhTtPpdDSsfbBNem]|[ac][nNeElLdDrtiIsh]|g[dDsnNeE]|"
    r"C(?:red|green|blue|reset|\([^()%]*\))|w\([^()%]*\)|(?:>>|><|[<>])\|?\([^()%]*\)|"
    r"\((?:trailers|decorate|describe)(?::[^()]*)?\))"
)
_COMMIT_TEXT = _text(_OF_COMMIT)
_PRETTY = (
    r"oneline|short|medium|full|fuller|reference|email|mboxrd|raw|"
    # Any other name is one that a configuration gave to a format.
    rf"t?format:{_COMMIT_TEXT}|(?=[^%]*%){_COMMIT_TEXT}"
)
_AUTHORSHIP = "|".join(f"{who}(?:name|email|date)?" for who in ("author", "committer", "tagger"))
_OF_REF = (
    rf"(?:refname|objecttype|objectsize|objectname|deltabase|tree|parent|numparent|object|type|tag|{_AUTHORSHIP}|"
    r"creator|creatordate|subject|body|contents|trailers|raw|upstream|push|symref|flag|HEAD|worktreepath|ahead-behind|"
    r"is-base|describe)(?::[^()]*)?"
)
_LAYOUT_OF_REFS = r"(?:color|align|if)(?::[^()]*)?|then|else|end"
_ENTRY = (
    r"objectmode|objecttype|objectname|objectsize(?::padded|:disk)?|stage|eolinfo:(?:index|worktree)|eolattr|path|"
    r"deltabase|rest"
)

OF_COMMITS = {
    "--format": _PRETTY,
    "--pretty": _PRETTY,
    # The one that is left out, remerge, merges again, with the programs that attributes name, and writes objects.
    "--diff-merges": "off|none|on|m|first-parent|1|separate|combined|c|dense-combined|cc",
    "--encoding": r"[A-Za-z0-9][\w:.-]*",
    "--group": rf"author|committer|trailer:[\w-]+|format:{_COMMIT_TEXT}|(?=[^%]*%){_COMMIT_TEXT}",
}
OF_REFS = {
    # A `%` before anything but a bracket is itself, or a byte, and inside of the brackets strftime's.
    "--format": _text(rf"\((?:\*?{_OF_REF}|{_LAYOUT_OF_REFS})\)|[^(]"),
    "--sort": rf"-?(?:v:|version:)?\*?{_OF_REF}",
}
OF_ENTRIES = dict.fromkeys(("--format", "--batch", "--batch-check"), _text(rf"{_SPELT}|\((?:{_ENTRY})\)"))

_NUMBERED = r"[-+ #0']*\d*(?:\.\d+)?"
PRINTF_OF_FIND = _text(rf"{_NUMBERED}(?:[abcdDfFgGhHiklmMnpPsStuUyYZ]|[ABCTW][A-Za-z@+])")
OF_SEQ = dict.fromkeys(("-f", "--format"), _text(rf"{_NUMBERED}[aefgAEFG]"))
OF_HEXDUMP = {"-e": _text(rf"{_NUMBERED}(?:[cdiouxXeEfgGs]|_[cpu]|_[aA][dox])")}
