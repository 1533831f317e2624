"""The small languages inside arguments: sed scripts, find expressions, test and printf operands."""

from __future__ import annotations

import re
from collections.abc import Sequence

from codeagent.approval import formats
from codeagent.approval.flags import Parsed, Program, Refused, parse
from codeagent.approval.grammar import Word

# Without the delimiter inside where brackets are: implementations disagree on where `/[/]/` ends.
_REGEX = r"/(?:(?:[^/\\\n]|\\[^/\n])*|(?:[^/\\\n[]|\\[^\n[])*)/[IM]?"
_ADDRESS = rf"(?:\d+(?:~\d+)?|\$|{_REGEX})"
_SED_COMMAND = rf"[ \t]*(?:{_ADDRESS}(?:[ \t]*,[ \t]*(?:{_ADDRESS}|[+~]\d+))?[ \t]*)?!?[ \t]*"
_SED = Program(
    "-nErsuz -e! -l# --quiet --silent --regexp-extended --separate --unbuffered --null-data --posix --debug "
    "--expression= --line-length="
)


def sed(words: Sequence[Word]) -> None:
    """Only scripts of addresses with p, =, q and d, in which no file can be named and no program run."""
    parsed = parse(_SED, words)
    scripts = [value for name, value in parsed.options if name in ("-e", "--expression")]
    if not scripts:
        if not parsed.operands:
            raise Refused("the script is missing")
        script = parsed.operands[0]
        if script.glob is not None:
            raise Refused("the script is a pattern")
        scripts = [script.text]
    for script_text in scripts:
        _sed_script(script_text)


def _sed_script(script: str) -> None:
    at, open_braces, ended = 0, 0, True
    while at < len(script):
        if script[at] in " \t\n;":
            ended = ended or script[at] in "\n;"
            at += 1
        elif script[at] == "}" and open_braces:
            open_braces, at, ended = open_braces - 1, at + 1, False
        elif not ended:
            raise Refused(f"the sed script {script} is not only addresses with p, =, q or d")
        else:
            match = re.compile(_SED_COMMAND).match(script, at)
            at = match.end() if match else at
            command = script[at : at + 1]
            if command == "{":
                open_braces, ended = open_braces + 1, True
            elif command and command in "p=qd":
                ended = False
            else:
                raise Refused(f"the sed script {script} is not only addresses with p, =, q or d")
            at += 1
    if open_braces:
        raise Refused("a brace of the sed script is not closed")


_FIND_ALONE = frozenset(
    "-a -and -o -or -not ! ( ) , -daystart -depth -d -follow -mount -xdev -noleaf -nowarn -warn -empty -executable "
    "-readable -writable -false -true -nogroup -nouser -ls -print -print0 -prune -quit -ignore_readdir_race "
    "-noignore_readdir_race".split()
)
_FIND_VALUE = frozenset(
    "-maxdepth -mindepth -regextype -amin -anewer -atime -cmin -cnewer -ctime -fstype -gid -group -ilname -iname "
    "-inum -ipath -iregex -iwholename -links -lname -mmin -mtime -name -newer -path -perm -regex -samefile -size "
    "-type -uid -used -user -wholename -xtype -printf".split()
)
_FIND_NEWER = r"-newer[aBcm][aBcmt]"


def find(words: Sequence[Word]) -> None:
    """Starting points, then only tests and actions that print."""
    waiting = list(words)
    while waiting and waiting[0].text in ("-H", "-L", "-P", "-O0", "-O1", "-O2", "-O3"):
        waiting.pop(0)
    while waiting and not _starts_expression(waiting[0].text):
        waiting.pop(0)
    while waiting:
        word = waiting.pop(0)
        if word.glob is not None:
            raise Refused(f"the pattern {word.text} may become part of the expression")
        if word.text in _FIND_VALUE or re.fullmatch(_FIND_NEWER, word.text):
            if not waiting:
                raise Refused(f"{word.text} lacks its value")
            value = waiting.pop(0)
            if value.glob is not None:
                raise Refused(f"the pattern {value.text} may become part of the expression")
            if value.text.startswith("-") and not re.fullmatch(r"-[\w/=,+.]*", value.text):
                raise Refused(f"{value.text} stands where {word.text} takes its value")
            if word.text == "-printf" and not re.fullmatch(formats.PRINTF_OF_FIND, value.text):
                raise Refused(f"{value.text} is not known to be harmless as -printf")
            if value.text in _FIND_ACTING or value.text.startswith("-exec"):
                raise Refused(f"{value.text} is not known to be harmless")
        elif word.text not in _FIND_ALONE:
            raise Refused(f"{word.text} is not known to be harmless")


_FIND_ACTING = frozenset("-delete -ok -okdir -fls -fprint -fprint0 -fprintf -files0-from".split())


def _starts_expression(text: str) -> bool:
    return text.startswith("-") or text in ("(", ")", "!", ",")


_TEST_UNARY = frozenset("-b -c -d -e -f -g -h -k -L -n -N -O -G -p -r -s -S -t -u -w -x -z".split())
_TEST_NUMBERS = frozenset("-eq -ne -gt -ge -lt -le".split())
_TEST_OTHER = frozenset("! ( ) = == != < > -nt -ot -ef -a -o".split())


def test(words: Sequence[Word]) -> None:
    """`-v` and numbers that are not plain are refused: some shells evaluate subscripts in them."""
    for at, word in enumerate(words):
        if word.glob is not None:
            raise Refused(f"the pattern {word.text} may become several operands")
        text = word.text
        if text in _TEST_NUMBERS:
            around = [*words[max(at - 1, 0) : at], *words[at + 1 : at + 2]]
            if len(around) < 2 or not all(re.fullmatch(r"[-+]?\d+", side.text) for side in around):
                raise Refused(f"{text} compares what is not a plain number")
        elif text.startswith("-") and text not in _TEST_UNARY | _TEST_OTHER and not re.fullmatch(r"-\d*", text):
            raise Refused(f"{text} is not known to be harmless")


def bracket(words: Sequence[Word]) -> None:
    """`[`: test with a closing bracket."""
    if not words or words[-1].text != "]":
        raise Refused("] is missing")
    test(words[:-1])


_CONVERSION = r"%(?:%|[-+ #0]*\d*(?:\.\d+)?[bcdeEfgGiosuxXq])"
_HIDDEN_PERCENT = r"\\(?:0?45|x25|u0*25|U0*25)"


def printf(words: Sequence[Word]) -> None:
    """bash's `-v` and `%n` set variables, PATH among them; only common conversions pass."""
    if not words:
        raise Refused("the format is missing")
    form = words[1] if words[0].text == "--" and len(words) > 1 else words[0]
    if form.glob is not None or (form is words[0] and form.text.startswith("-")):
        raise Refused(f"the format {form.text} is not known to be harmless")
    if "%" in re.sub(_CONVERSION, "", form.text) or re.search(_HIDDEN_PERCENT, form.text):
        raise Refused(f"the format {form.text} is not known to be harmless")


def sleep(words: Sequence[Word]) -> None:
    if len(words) != 1 or not re.fullmatch(r"\d+(\.\d+)?[smhd]?", words[0].text):
        raise Refused("it takes one number")


def leave(words: Sequence[Word]) -> None:
    """`exit`, which at most names a code."""
    if len(words) > 1 or any(not re.fullmatch(r"\d{1,3}", word.text) for word in words):
        raise Refused("it takes one number")


def command(words: Sequence[Word]) -> None:
    """`command -v NAME` says what a name stands for; without -v or -V, command runs it."""
    if len(words) < 2 or words[0].text not in ("-v", "-V") or any(word.text[:1] == "-" for word in words[1:]):
        raise Refused("only `command -v NAME` is known to be harmless")
    if any(word.glob is not None for word in words):
        raise Refused("a pattern names the command")


_XXD_ALONE = frozenset("-a -b -C -d -e -E -i -p -ps -plain -postscript -u".split())
_XXD_VALUE = r"-[clgos]([-+]?(?:0x[0-9a-fA-F]+|\d+))?"


def xxd(words: Sequence[Word]) -> None:
    """xxd does not use getopt: it looks at the first letters of a word, and a second operand is overwritten."""
    waiting = list(words)
    while waiting and waiting[0].text.startswith("-") and waiting[0].text != "-":
        word = waiting.pop(0)
        if word.text in _XXD_ALONE:
            continue
        match = re.fullmatch(_XXD_VALUE, word.text)
        if not match:
            raise Refused(f"{word.text} is not known to be harmless")
        if match.group(1) is None and not (
            waiting and re.fullmatch(r"[-+]?(0x[0-9a-fA-F]+|\d+)", waiting.pop(0).text)
        ):
            raise Refused(f"{word.text} takes a number")
    if len(waiting) > 1:
        raise Refused(f"{waiting[1].text} would be written to")
    if any(word.glob is not None for word in waiting):
        raise Refused("a pattern may become several operands")


_PS_WORD = r"-[AaedfFlLwjmHT]+|[auxwfej]+|--forest|--no-headers|--headers"


def ps(words: Sequence[Word]) -> None:
    """The usual listings; formats are not judged."""
    waiting = list(words)
    while waiting:
        word = waiting.pop(0)
        if word.text in ("-o", "-p", "-u", "-C", "--sort", "-O"):
            if not waiting or not re.fullmatch(r"[\w,=%+.:-]+", waiting.pop(0).text):
                raise Refused(f"{word.text} lacks its value")
        elif word.glob is not None or not re.fullmatch(_PS_WORD, word.text):
            raise Refused(f"{word.text} is not known to be harmless")


def no_response_file(parsed: Parsed) -> None:
    """binutils read further options, a plugin to load among them, from a file named by `@FILE`.

    They do so before they look at any option, so that a word which stands as an option's value is no exception.
    """
    for text in (*(value for _, value in parsed.options), *(operand.text for operand in parsed.operands)):
        if text.startswith("@"):
            raise Refused(f"{text} names a file of further options")
    for operand in parsed.operands:
        if operand.glob == "":
            raise Refused(f"{operand.text} may name a file of further options")


def date_format(parsed: Parsed) -> None:
    """An operand that is not a format sets the clock."""
    for operand in parsed.operands:
        if not operand.text.startswith("+"):
            raise Refused(f"{operand.text} would set the clock")
