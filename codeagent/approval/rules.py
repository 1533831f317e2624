"""The user's own rules: prefixes of an argv, matched word by word, never a command as one string."""

from __future__ import annotations

import posixpath
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from codeagent.approval.danger import Search
from codeagent.errors import UsageError

if TYPE_CHECKING:
    from codeagent.settings import Rule

Argv = tuple[str, ...]


class Rules(NamedTuple):
    """What the user's config allows without asking and what it forbids; the strictest wins."""

    allow: tuple[Rule, ...] = ()
    deny: tuple[Rule, ...] = ()


def allows(rule: Rule, argv: Argv) -> bool:
    return argv[: len(rule.prefix)] == rule.prefix


def denies(rule: Rule, argv: Argv) -> bool:
    """As `allows`, and a program is known by its last name too: `curl` also forbids `/usr/bin/curl`."""
    return allows(rule, argv) or allows(rule, (posixpath.basename(argv[0]), *argv[1:]))


def named(rule: Rule) -> str:
    """The rule's prefix as a person would type it."""
    return " ".join(rule.prefix)


def check_rules(rules: Sequence[Rule]) -> None:
    """Holds every rule against its own examples. Raises UsageError naming the first rule that fails."""
    for rule in rules:
        if not rule.prefix or not all(rule.prefix):
            raise UsageError(
                f"the approval rule {named(rule)!r} has an empty prefix or word",
                'Write the rule\'s prefix as a list of words, like ["npm", "test"].',
            )
        for expected, examples in ((True, rule.match), (False, rule.not_match)):
            for example in examples:
                if _covered(rule, example) is not expected:
                    raise UsageError(
                        f"the approval rule {named(rule)!r} {'does not match' if expected else 'matches'} "
                        f"its own example {example!r}",
                        "Correct the rule's prefix, or move the example to the other list.",
                    )


def _covered(rule: Rule, example: str) -> bool:
    return any(denies(rule, argv) for argv in Search(example).commands)
