"""jq's filters: a small reader that knows each name in a filter, and where a name is none of jq's functions.

jq neither writes nor runs anything; but a filter may load modules and print the environment (jq(1), MODULES and
`$ENV`). So every function in it must be one that only computes, or be defined in the filter itself. A `~/.jq` that
jq loads by itself can do no more than a filter can.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from codeagent.approval.flags import Program, Refused, parse
from codeagent.approval.grammar import Word

_JQ = Program(
    "-rncesSMCajR --raw-output --null-input --compact-output --slurp --sort-keys --monochrome-output "
    "--color-output --ascii-output --join-output --raw-input --exit-status --tab --indent= --unbuffered --stream "
    "--seq --raw-output0"
)
_TWO_VALUES = ("--arg", "--argjson", "--slurpfile", "--rawfile")
_KNOWN = frozenset(
    "if then elif else end as def reduce foreach try catch label break and or not null true false empty error add "
    "all any flatten range floor sqrt pow log exp log2 log10 exp2 exp10 pow10 abs ceil round trunc fabs rint "
    "nearbyint cbrt significand drem ldexp scalb scalbln logb gamma lgamma lgamma_r tgamma frexp modf fma fmin fmax "
    "fmod fdim copysign hypot expm1 log1p sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh erf "
    "erfc j0 j1 jn y0 y1 yn nextafter nexttoward length utf8bytelength keys keys_unsorted values has in map "
    "map_values path del delpaths getpath setpath paths leaf_paths pick to_entries from_entries with_entries select "
    "recurse recurse_down walk transpose first last nth limit skip until while repeat inside contains startswith "
    "endswith ltrimstr rtrimstr trimstr trim ltrim rtrim combinations join ascii ascii_downcase ascii_upcase "
    "explode implode split splits sub gsub test match capture scan index rindex indices tostring tonumber toboolean "
    "tojson fromjson toarray type infinite nan isinfinite isfinite isnan isnormal isempty isvalid sort sort_by "
    "group_by min max min_by max_by unique unique_by reverse bsearch arrays objects iterables booleans numbers "
    "normals finites strings nulls scalars scalars_or_empty tostream fromstream truncate_stream todate fromdate now "
    "mktime gmtime localtime strftime strflocaltime strptime date dateadd datesub todateiso8601 fromdateiso8601 "
    "dateiso8601 format input inputs input_filename input_line_number debug stderr halt halt_error remainder IN "
    "INDEX JOIN builtins have_literal_numbers have_decnum".split()
)
# Not even as a name that the filter defines, which holds in a part of it only.
_LOADING = frozenset("import include env modulemeta get_search_list get_jq_origin get_prog_origin".split())
_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_TOKEN = re.compile(
    rf"""(?P<blank>[ \t\n]+|\#[^\n\\]*(?=\n|\Z))  # newer versions go on with a comment behind a backslash
    |(?P<name>(?:{_NAME}::)*{_NAME})
    |(?P<number>(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][-+]?\d+)?)
    |\.\.|\.{_NAME}|@[A-Za-z0-9_]+
    |[]["(){{}}.|,;:=<>+*/%?!$-]""",
    re.VERBOSE | re.ASCII,
)
_IN_STRING = re.compile(r'(?:[^"\\]|\\[^(])*')
_CLOSING = {"(": ")", "[": "]", "{": "}"}


def jq(words: Sequence[Word]) -> None:
    """A filter written in the command, then files. Raises Refused."""
    plain: list[Word] = []
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word.text == "--":
            raise Refused("-- is read otherwise by each version")
        if word.text in _TWO_VALUES:
            if len(waiting) < 2 or any(value.glob is not None or value.text[:1] == "-" for value in waiting[:2]):
                raise Refused(f"{word.text} lacks its values")
            del waiting[:2]
        else:
            plain.append(word)
    parsed = parse(_JQ, plain)
    if not parsed.operands:
        raise Refused("the filter is missing")
    source = parsed.operands[0]
    if source.glob is not None:
        raise Refused("the filter is a pattern")
    _Filter(source.text).read()


class _Filter:
    """`expected` are the brackets that are to be closed, innermost last; a `"` for a string around a `\\(`."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.expected: list[str] = []
        self.before = ("", "")
        self.names_parameters = False
        self.defined: set[str] = set()

    def read(self) -> None:
        while self.at < len(self.text):
            token = _TOKEN.match(self.text, self.at)
            if token is None:
                raise Refused(f"the filter has a {self.text[self.at]} that is not understood")
            self.at = token.end()
            if token["blank"] is None:
                self._take(token[0], token["name"] is not None)
                self.before = (self.before[1], token[0])
        if self.expected:
            raise Refused("a bracket of the filter is not closed")

    def _take(self, symbol: str, is_name: bool) -> None:
        if is_name:
            self._name(symbol)
        elif symbol == '"':
            self._rest_of_string()
        elif symbol in _CLOSING:
            self.expected.append(_CLOSING[symbol])
            self.names_parameters = symbol == "(" and self.before[0] == "def"
        elif symbol in _CLOSING.values():
            self._close(symbol)

    def _close(self, bracket: str) -> None:
        self.names_parameters = False
        expected = self.expected.pop() if self.expected else ""
        if expected == '"' and bracket == ")":
            self._rest_of_string()
        elif expected != bracket:
            raise Refused(f"the filter has a {bracket} that closes nothing")

    def _rest_of_string(self) -> None:
        piece = _IN_STRING.match(self.text, self.at)
        self.at = piece.end() if piece else self.at
        if self.text.startswith("\\(", self.at):
            self.expected.append('"')
            self.at += 2
        elif self.text.startswith('"', self.at):
            self.at += 1
        else:
            raise Refused("a string of the filter is not closed")

    def _name(self, name: str) -> None:
        """Whether a name is a variable, a key of an object, what the filter defines, or a function that is known."""
        last = self.before[1]
        if last == "$":
            # jq's own variables, the environment among them, begin otherwise.
            known = name[0].islower()
        elif self.expected[-1:] == ["}"] and last in ("{", ","):
            known = True
        else:
            if (last == "def" or self.names_parameters) and name not in _LOADING:
                self.defined.add(name)
            known = name in _KNOWN or name in self.defined
        if not known:
            raise Refused(f"the filter uses {name}")
