"""The little of make that tells what a target's run loads: included files, and the recipes that it comes to."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

_ASSIGNMENT = re.compile(r"^\s*(?:export\s+|override\s+)*([\w.-]+)\s*(\?|\+|:{1,3})?=\s*(.*)$")
_FOR_TARGETS = re.compile(r"^[^\t#=:]+:\s*(?:(?:export|override|private)\s+)*([\w.-]+)\s*(\?|\+|:{1,3})?=\s*(.*)$")
_DEFINE = re.compile(r"^define[ \t]+([\w.-]+)")
_SUFFIXES = re.compile(r"\.(\w+)\.(\w+)")
_INCLUDE = re.compile(r"^ *(?:-include|sinclude|include)\s+(.*)$")
_RULE = re.compile(r"^([^\t#=][^=]*?)\s*::?(?!=)\s*([^;#]*)(?:;(.*))?$")
_REFERENCE = re.compile(r"\$[({]([^(){}$]*)[)}]|\$(\w)|`[^`]*`")
_DEEP = 8
_LONGEST_VALUE, _LONGEST_TEXT = 2_000, 20_000
"""Variables that multiply each other end here."""


@dataclass
class Makefile:
    """What was read so far, from one file and those that it includes. Of a condition, all branches count."""

    variables: dict[str, str] = field(default_factory=dict)
    prerequisites: dict[str, list[str]] = field(default_factory=dict)
    recipes: dict[str, list[str]] = field(default_factory=dict)
    first: str = ""
    given: Mapping[str, str] = field(default_factory=dict)
    """Variables of make's own command line, which no file changes."""

    def __post_init__(self) -> None:
        self.variables |= self.given

    def read(self, text: str) -> list[str]:
        """Takes a file's text; returns the names that it includes, unknown parts of them as `*`."""
        included: list[str] = []
        targets: list[str] = []
        lines = iter(text.replace("\\\n", " ").split("\n"))
        for line in lines:
            if match := _DEFINE.match(line):
                self._assign(match[1], "", "\n".join(takewhile(lambda each: not each.startswith("endef"), lines)))
            elif line.startswith("\t"):
                for target in targets:
                    self.recipes.setdefault(target, []).append(line.lstrip("\t @+-"))
            elif match := _INCLUDE.match(line):
                included += self.expanded(match[1].partition("#")[0]).split()
            elif match := _ASSIGNMENT.match(line) or _FOR_TARGETS.match(line):
                self._assign(match[1], match[2] or "", match[3].partition("#")[0].strip())
            elif match := _RULE.match(line):
                targets, needed = self.expanded(match[1]).split(), self.expanded(match[2]).split()
                if len(targets) == 1 and (suffixes := _SUFFIXES.fullmatch(targets[0])):
                    # The old way to write a pattern.
                    targets, needed = [f"%.{suffixes[2]}"], [f"%.{suffixes[1]}"]
                self._rule(targets, needed, match[3])
        return included

    def _assign(self, name: str, kind: str, value: str) -> None:
        if name in self.given:
            return
        if kind == "+":
            value = f"{self.variables.get(name, '')} {value}"
        if kind != "?" or name not in self.variables:
            self.variables[name] = value[:_LONGEST_VALUE]

    def _rule(self, targets: Sequence[str], needed: Sequence[str], recipe: str | None) -> None:
        self.first = self.first or next((target for target in targets if target[:1] != "."), "")
        for target in targets:
            self.prerequisites.setdefault(target, []).extend(needed)
            if recipe:
                self.recipes.setdefault(target, []).append(recipe.strip().lstrip("@+-"))

    def made(self, targets: Sequence[str]) -> list[str]:
        """The targets with a recipe that making `targets` (none: the first) comes to, pattern rules too."""
        waiting = list(targets) or [self.first]
        waiting += [target for target in self.recipes if "%" in target or target == ".DEFAULT"]
        seen: dict[str, None] = {}
        while waiting:
            target = waiting.pop()
            if target not in seen:
                seen[target] = None
                waiting += self.prerequisites.get(target, [])
        return [target for target in seen if target in self.recipes]

    def run_by(self, targets: Sequence[str]) -> Iterator[str]:
        """The shell lines of these recipes, and of whatever is called to give a variable its value."""
        for target in self.made(targets):
            for line in self.recipes[target]:
                yield self.expanded(line.replace("$$", "\0")).replace("\0", "$")
        for value in self.variables.values():
            for called in re.findall(r"\$\(shell\s+([^()]*)\)", value):
                yield self.expanded(called)

    def expanded(self, text: str) -> str:
        """Text with its variables replaced; what is not known is `*`."""
        for _ in range(_DEEP):
            text, count = _REFERENCE.subn(self._value, text[:_LONGEST_TEXT])
            if not count:
                break
        return text[:_LONGEST_TEXT]

    def _value(self, match: re.Match[str]) -> str:
        name = match[1] or match[2] or ""
        if name in self.variables:
            return self.variables[name]
        if name.startswith("wildcard "):
            return name.removeprefix("wildcard ")
        if name == "MAKE":
            return "make"
        if name in ("CURDIR", "PWD"):
            return "."
        function, _, given = name.partition(" ")
        arguments = given.split(",")
        if function == "call" and arguments[0] in self.variables:
            return re.sub(
                r"\$[({]?([1-9])[)}]?",
                lambda found: arguments[int(found[1])] if int(found[1]) < len(arguments) else "",
                self.variables[arguments[0]],
            )
        if function == "patsubst" and len(arguments) == 3:
            return arguments[1].strip().replace("%", "*")
        if function in ("addprefix", "addsuffix") and len(arguments) == 2:
            fixed = arguments[0].strip()
            return " ".join(
                fixed + word if function == "addprefix" else word + fixed for word in arguments[1].split()
            )
        if replaced := re.search(r":[^=]*=(\S*)$", name):
            return replaced[1].replace("%", "*") if "%" in replaced[1] else f"*{replaced[1]}"
        return "*"
