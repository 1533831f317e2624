"""Finds the places that an answer cites: `path:line`, `path:start-end`, and the ways people write them.

Only what can be a file of the repository is a citation; times, addresses, URLs, versions and ports are not. The
parser does not know the repository: `looks_like_file` says which names count without being found there.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Literal

from codeagent.evidence.landmark import Landmark

State = Literal["read", "moved", "unread", "own_change", "missing", "stale"]


@dataclass(frozen=True, slots=True)
class Citation:
    """A cited place and what the record says of it (the states are those of the published contract).

    `path` is relative to the repository's root. `call_ids` are the calls that returned the lines, `sha256` is that of
    their text as it was returned (each line ended by LF), empty where it was not; `within` finds them again.
    """

    path: str
    start_line: int
    end_line: int
    state: State
    call_ids: tuple[str, ...] = ()
    sha256: str = ""
    within: Landmark | None = None

    def published(self) -> dict[str, Any]:
        """The form in the final event, which gives the hashes apart."""
        return {
            "path": self.path,
            "start_line": self.start_line,
            "end_line": self.end_line,
            "state": self.state,
            "call_ids": list(self.call_ids),
        }


@dataclass(frozen=True, slots=True)
class Mention:
    """A place as it is written. `paths` are the readings of the name, the likeliest first; `quote` is the text
    that is said to stand there, empty for none; `at` is where in the answer it begins."""

    paths: tuple[str, ...]
    start_line: int
    end_line: int
    quote: str = ""
    at: int = 0


SUFFIXES = frozenset(
    """
    py pyi pyx ipynb java kt kts groovy gradle scala clj js mjs cjs jsx ts tsx mts cts vue svelte c h cc cpp
    cxx hpp hh hxx m mm cs fs vb go rs rb erb php pl pm lua r jl swift dart ex exs erl hs ml mli zig nim v sv
    vhd sol sql graphql proto thrift sh bash zsh fish ps1 bat cmd mk cmake ninja bazel bzl nix tf hcl md mdx
    rst adoc txt text tex csv tsv json json5 jsonl yaml yml toml ini cfg conf properties env xml xsd xsl
    html htm xhtml css scss sass less svg lock patch diff log plist service template tmpl j2 jinja tpl ejs hbs
    pug asm s ld map
    """.split()
)
PLAIN_NAMES = frozenset(
    """
    Makefile GNUmakefile Dockerfile Containerfile Jenkinsfile Vagrantfile Rakefile Gemfile Procfile Brewfile
    Justfile LICENSE README CHANGELOG CHANGES NOTICE AUTHORS CODEOWNERS BUILD WORKSPACE
    """.split()
)
_HOST_ENDINGS = frozenset("com org net io dev app local localhost cn de fr uk eu edu gov".split())

_DIGITS = r"[0-9]{1,7}"
_RANGE = rf"{_DIGITS}(?:\s?[-–—~]\s?L?{_DIGITS})?"
_CONTROL = r"\x00-\x08\x0e-\x1f\x7f-\x9f"
_SEQUENCE = rf"\x1b\[[0-?]{{0,40}}[ -/]{{0,4}}[@-~]|\x1b\][^\s{_CONTROL}]{{0,200}}\x07|\x1b[()]|[{_CONTROL}]"
"""What moves a terminal may stand in the name of a file, and is a part of it, brackets and all."""
_NAME = rf"[^\s{_CONTROL}" + r"`'\"<>|*?:;,，。；：、！？（）【】「」『』《》“”‘’(){}\[\]=#&^%!]"
_BRACKETED = rf"[\[({{](?={_NAME}*[\])}}][\w/.-])|(?<=\w)[\])}}](?=[\w/.-])"
_PATH = rf"(?:[A-Za-z]:[\\/])?(?:{_NAME}|{_SEQUENCE}|{_BRACKETED}){{1,250}}"
_L = rf"L(?={_DIGITS}(?!\d|[./_]*[A-Za-z/]|-(?!L\d)[A-Za-z]))"  # not the name of a file, L0.py
_PLACE = re.compile(
    rf"(?<![A-Za-z0-9_./\\-])(?P<path>{_PATH})"
    rf"(?:[`*_\"'”’)\]]{{0,3}}\s?(?:[:：]\s?L?(?P<colon>{_RANGE})|[#]L?(?P<hash>{_RANGE})"
    rf"|\s?[(（,，]?\s?(?:at\s|on\s|in\s|near\s)?(?:lines?|Zeilen?|lignes?|l[íi]neas?|{_L})"
    rf"\s?(?P<word>{_RANGE})"
    rf"|\s?[(（,，的]?\s?第\s?(?P<chinese>{_RANGE})\s?(?:行|至|到))"
    r")(?P<column>:[0-9]+(?![0-9]))?(?![0-9A-Za-z_%]|[.:][0-9])"
)
_SPACED = re.compile(rf"`(?P<path>[^`\n:]*[^`\n:\s] [^`\n:]*\.[A-Za-z0-9]{{1,8}}):(?P<colon>{_RANGE})`")
_MORE = re.compile(
    rf"\s?(?:,|;|，|、|；|/|\band\b|\bor\b|\bund\b|\bet\b|\by\b|&|和|及|与)\s?:?L?(?P<more>{_RANGE})"
    r"(?=$|[`)\]}）】,;，、；。.:：\"'”]|\s*$|\s(?:and|or|und|et|y|&|和)\s|\s?[–—(（]|\s*\n|[\u3400-\u9fff])(?![.:][0-9])"
)
_URL = re.compile(r"\b[A-Za-z][A-Za-z0-9+.-]*://[^\s<>`\"'）)】]+")
_QUOTE = re.compile(
    r"[`*_]{0,3}+(?:[)\]）】][`*_]{0,2}(?=\s?[:：—–]))?\s{0,2}(?:[:：—–-]\s{0,2})?(?:"
    r"``(?P<a>[^\n]{2,400}?)``|`(?P<b>[^`\n]{2,400})`|\"(?P<c>[^\"\n]{2,400})\""
    r"|“(?P<d>[^”\n]{2,400})”|「(?P<e>[^」\n]{2,400})」|『(?P<f>[^』\n]{2,400})』)"
)
_QUOTED_BEFORE = re.compile(
    r"(?<![0-9][:：])(?<![0-9][:：—–-]\s)(?<![0-9]\s)(?:``(?P<a>[^\n]{2,400}?)``|(?<!`)`(?P<b>[^`\n]{2,400})`)"
    r"\s?[(（【\[]\s?(?:(?:at|in|see)\s)?[`*_]{0,2}\Z"
)
_STATEMENT = re.compile(
    r"\b(?:return|raise|throw|if|elif|else|for|while|assert|import|yield|except|catch|case)\b"
    r"|\s(?:[-+*/%<>!=&|^]=?|==|&&|\|\||:=|\*\*|//)\s|[;{]\s*\Z"
)
"""What tells a line of code from a name or a command, which may say what the line is about."""
_WINDOW = 420

_ENDLESS = re.compile(r"[^\s0-9]{600,}")
_PATH_LENGTH = 260


def mentions(answer: str) -> list[Mention]:
    """Every place that the answer names, in order; the same place with the same quote once."""
    text = _URL.sub(lambda match: " " * len(match.group()), answer)
    # A place ends in a number: of very long words without any, only the end can name one.
    text = _ENDLESS.sub(lambda match: " " * (len(match.group()) - _PATH_LENGTH) + match.group()[-_PATH_LENGTH:], text)
    found: dict[tuple[object, ...], Mention] = {}
    for mention in _all(text):
        key = (mention.paths[0], mention.start_line, mention.end_line)
        known = found.get(key)
        if known is None or (mention.quote and not known.quote):
            found[key] = mention
    return sorted(found.values(), key=lambda mention: mention.at)


def _all(text: str) -> Iterator[Mention]:
    taken: list[tuple[int, int]] = []
    for match in _SPACED.finditer(text):
        taken.append(match.span())
        yield from _mentions(text, match, match["colon"])
    for match in _PLACE.finditer(text):
        if any(start <= match.start() < end for start, end in taken):
            continue
        place = match["colon"] or match["hash"] or match["word"] or match["chinese"]
        yield from _mentions(text, match, place)


def _mentions(text: str, match: re.Match[str], place: str) -> Iterator[Mention]:
    paths = readings(match["path"])
    if not paths:
        return
    places, end = [place], match.end()
    while more := _MORE.match(text, end):
        places.append(more["more"])
        end = more.end()
    quote = _quote(text, match.start(), end) if len(places) == 1 else ""
    for one in places:
        numbers = [int(number) for number in re.findall(_DIGITS, one)]
        start, last = numbers[0], numbers[-1]
        yield Mention(paths, start, last, quote, match.start())


def _quote(text: str, start: int, end: int) -> str:
    """The text that is quoted right behind a place, or right before one in brackets."""
    match = _QUOTE.match(text, end)
    if quote := _group(match):
        return quote
    before = _group(_QUOTED_BEFORE.search(text[max(0, start - _WINDOW) : start]))
    return before if _STATEMENT.search(before) else ""


def _group(match: re.Match[str] | None) -> str:
    return next((quote.strip() for quote in match.groups() if quote), "") if match else ""


def readings(written: str) -> tuple[str, ...]:
    """The paths that a written name can mean, the likeliest first; none when it cannot be a file."""
    path = written.replace("\\", "/").strip("*")
    if path.endswith("_"):  # emphasis, as names of files do not end so; at the beginning alone it is a name's own
        path = path.strip("*_")
    path = re.sub(r"^(?:\./)+", "", path).removeprefix("/workspace/")
    if not path or path.endswith("/") or not re.search(r"[^\W\d_]", path):
        return ()
    forms = [path]
    if path[:2] in ("a/", "b/"):
        forms.append(path[2:])
    if not path.isascii() and not re.search(rf"[{_CONTROL}]", path):
        # In text without spaces between words, the name begins where the Latin letters do.
        latin = re.search(r"(?<![\x21-\x7e])\w[\x21-\x7e]*$", path, re.ASCII)
        if latin:
            forms.append(latin.group())
    return tuple(dict.fromkeys(form for form in forms if form))


def looks_like_file(path: str) -> bool:
    """Whether a name that is not in the repository was still meant as a file of it."""
    name = path.rpartition("/")[2]
    stem, dot, suffix = name.rpartition(".")
    if path.startswith(("/", "~")) or re.match(r"[A-Za-z]:/", path) or ".." in path.split("/"):
        return bool(dot) and suffix.lower() in SUFFIXES
    if "@" in path and "/" not in path:
        return False
    if name in PLAIN_NAMES:
        return True
    if not dot or (not stem and "/" not in path):
        return False
    if suffix.lower() in SUFFIXES:
        return True
    return "/" in path and suffix.isalpha() and len(suffix) <= 8 and suffix.lower() not in _HOST_ENDINGS
