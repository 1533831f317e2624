"""What class a command has: the strictest of what its grammar, the built-in tables and the user's rules say."""

from __future__ import annotations

from codeagent.approval.danger import Search
from codeagent.approval.flags import Refused
from codeagent.approval.grammar import Command, Redirect, Script, Unclear
from codeagent.approval.readonly import require_read_only
from codeagent.approval.rules import Rules, allows, denies, named
from codeagent.approval.seam import Classification, CommandClass
from codeagent.approval.shell import parse

NO_RULES = Rules()


def classify(script: str, rules: Rules = NO_RULES) -> Classification:
    """The class of a whole `sh -c` script. Pure: the same words always give the same answer.

    A script that an allow rule covers stays of class `ask` (it may write) and names the rule.
    """
    search = Search(script)
    try:
        understood, unclear = parse(script), ""
    except Unclear as reason:
        understood, unclear = Script((), ()), str(reason)
    commands = tuple(command.argv for command in understood.commands)
    if search.never:
        return Classification(CommandClass.FORBIDDEN, search.never, commands)
    for rule in rules.deny:
        if any(denies(rule, argv) for argv in search.commands):
            return Classification(
                CommandClass.FORBIDDEN, f"your rule denies `{named(rule)}`", commands, f"deny {named(rule)}"
            )
    if unclear:
        return Classification(CommandClass.ASK, f"not understood: {unclear}")
    return _judged(understood, commands, rules)


def _judged(script: Script, commands: tuple[tuple[str, ...], ...], rules: Rules) -> Classification:
    try:
        require_plain_redirects(script)
    except Refused as refusal:
        return Classification(CommandClass.ASK, str(refusal), commands)
    first_refusal, used = "", ""
    for command in script.commands:
        try:
            require_read_only(command)
        except Refused as refusal:
            first_refusal = first_refusal or str(refusal)
            rule = _allowing(command, rules)
            if not rule:
                return Classification(CommandClass.ASK, str(refusal), commands)
            used = used or rule
    if not first_refusal:
        return Classification(CommandClass.READ_ONLY, _only_reads(commands), commands)
    return Classification(CommandClass.ASK, f"{first_refusal}; your rule allows `{used}`", commands, f"allow {used}")


def _only_reads(commands: tuple[tuple[str, ...], ...]) -> str:
    names = list(dict.fromkeys(argv[0] for argv in commands))
    return f"{', '.join(names)} with these flags only {'read' if len(names) > 1 else 'reads'}"


def _allowing(command: Command, rules: Rules) -> str:
    """The allow rule for a command in which nothing expands; empty when there is none."""
    if any(word.glob is not None for word in command.words):
        return ""
    return next((named(rule) for rule in rules.allow if allows(rule, command.argv)), "")


def require_plain_redirects(script: Script) -> None:
    """Only `/dev/null`, duplicates of 1 and 2, and files that are read. Raises Refused."""
    for redirect in script.redirects:
        if not _plain(redirect):
            raise Refused(f"it redirects to {redirect.target.text}")


def _plain(redirect: Redirect) -> bool:
    target = redirect.target.text
    if redirect.operator == "<":
        # bash opens network connections for these names, and only bash does.
        return redirect.fd in ("", "0") and not target.startswith(("/dev/tcp", "/dev/udp"))
    if redirect.operator == ">&":
        return redirect.fd in ("", "1", "2")
    return redirect.fd in ("", "1", "2") and target == "/dev/null"
