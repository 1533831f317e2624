"""The command line's parser. A wrong command line is an error like any other: one sentence, one remedy."""

from __future__ import annotations

import argparse
import re
from collections.abc import Iterable, Sequence
from typing import Any, NoReturn

from codeagent.errors import UsageError


class Parser(argparse.ArgumentParser):
    """Raises UsageError where argparse would print its usage and exit; its sub-parsers do the same.

    `usage_exit_code` is what such an error exits with. The first example of the epilog serves as the remedy.
    """

    usage_exit_code = UsageError.exit_code

    def __init__(self, *args: Any, **settings: Any) -> None:
        # A shortened flag would mean another one as soon as one is added.
        super().__init__(*args, **{"formatter_class": _Help, "allow_abbrev": False, **settings})

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> Any:
        """Words left over are refused here, by the command that they were said to, and not by the main parser."""
        found, left_over = super().parse_known_args(args, namespace)
        if left_over:
            self._refuse_unknown(left_over)
        return found, left_over

    def error(self, message: str) -> NoReturn:
        if wrong := re.match(r"argument (.+?): invalid choice: '(.*?)'", message, re.DOTALL):
            self._refuse_choice(*wrong.groups())
        if absent := re.match(r"the following arguments are required: (.+)", message):
            self._refuse_absence(absent[1])
        if absent := re.match(r"one of the arguments (.+) is required", message):
            self._refuse_absence(f"one of {', '.join(absent[1].split())}")
        if bare := re.match(r"argument (.+?): expected one argument", message):
            self._raise(self._said(f"{bare[1]} needs a value"), self._help_hint())
        self._raise(self._said(message.removeprefix("argument ")), self._help_hint())

    def _said(self, what: str) -> str:
        """By which command it is said; the program's own name stands before every error anyway."""
        return f"{self.prog}: {what}" if " " in self.prog else what[:1].upper() + what[1:]

    def _refuse_unknown(self, words: Sequence[str]) -> NoReturn:
        flags = [word for word in words if word.startswith("-")]
        if not flags:
            example = self._example()
            remedy = f"Put quotes around what belongs together. {example}" if '"' in example else self._help_hint()
            self._raise(f"{self.prog} was given more words than it takes: {' '.join(words)}", remedy)
        flag = flags[0].partition("=")[0]
        known = [name for action in self._actions for name in action.option_strings if name.startswith("--")]
        self._raise(f"{self.prog} has no flag {flag}", _perhaps(flag, known) or self._help_hint())

    def _refuse_choice(self, name: str, given: str) -> NoReturn:
        choices = self._choices_of(name)
        remedy = f"{_perhaps(given, choices)} It is one of: {', '.join(choices)}."
        said = f"{name} cannot be {given!r}" if name.startswith("-") else f"there is no {name.lower()} {given!r}"
        self._raise(self._said(said), remedy.strip())

    def _refuse_absence(self, names: str) -> NoReturn:
        if choices := self._choices_of(names):
            article = "an" if names[0] in "AEIOUaeiou" else "a"
            names = f"{article} {names.lower()}: {', '.join(choices)}"
        self._raise(f"{self.prog} needs {names}", self._example())

    def _choices_of(self, name: str) -> list[str]:
        """Of the argument that argparse calls so in its messages."""
        found = (one.choices for one in self._actions if name in (one.metavar, one.dest, *one.option_strings))
        return [str(choice) for choices in found for choice in choices or ()]

    def _example(self) -> str:
        """The first example of the help, where there is one."""
        shown = re.search(r"^examples:\n +(.+?)(?: {3,}.*)?$", self.epilog or "", re.MULTILINE)
        return f"For example: {shown[1]}" if shown else self._help_hint()

    def _help_hint(self) -> str:
        return f"`{self.prog} --help` shows how it is used."

    def _raise(self, sentence: str, remedy: str) -> NoReturn:
        error = UsageError(sentence if sentence.endswith(".") else f"{sentence}.", remedy)
        error.exit_code = self.usage_exit_code
        raise error


def _perhaps(given: str, known: Iterable[str]) -> str:
    import difflib

    by_name = {name.lstrip("-"): name for name in known}  # dashes alone make nothing alike
    near = difflib.get_close_matches(given.lstrip("-"), by_name, n=1, cutoff=0.6)
    return f"Did you mean {by_name[near[0]]}?" if near else ""


_EXAMPLE = re.compile(r"(  \S.*?) {2,}(\S.*)")


class _Help(argparse.HelpFormatter):
    """Folds every text, epilogs by the line; examples stay whole, and what is said beside one goes below it where
    the screen is too narrow for both."""

    def _fill_text(self, text: str, width: int, indent: str) -> str:  # noqa: ARG002 -- argparse's; always empty here
        return "\n".join(row for line in text.splitlines() for row in _rows(line, width))

    def _format_usage(self, *parts: Any) -> str:
        usage = super()._format_usage(*parts)
        if all(len(line) <= self._width for line in usage.splitlines()):
            return usage
        # argparse sets the flags in below the command's name, whatever room that leaves for them.
        named = f"usage: {self._prog}"
        flags = re.sub(r"\[-[^]]*\]", lambda flag: flag[0].replace(" ", "\0"), usage.removeprefix(named))
        rows = self._split_lines(flags, self._width - 2)
        return "\n  ".join([named, *rows]).replace("\0", " ") + "\n\n"

    def _split_lines(self, text: str, width: int) -> list[str]:
        from codeagent.ui.folding import fold

        return fold(" ".join(text.split()), width)


def _rows(line: str, width: int) -> list[str]:
    from codeagent.ui.folding import fold
    from codeagent.ui.inert import cells

    if not line.startswith("  "):
        return fold(line, width)
    if cells(line) <= width or not (example := _EXAMPLE.fullmatch(line)):
        return [line]
    return [example[1], *(" " * 6 + row for row in fold(example[2], width - 6))]
