"""The user's own rules: words, not text; the strictest wins; examples are held against them."""

from __future__ import annotations

import pytest

from codeagent.approval.classify import classify
from codeagent.approval.rules import Rules, check_rules
from codeagent.approval.seam import Classification, CommandClass
from codeagent.errors import UsageError
from codeagent.settings import Rule


def under(command: str, *, allow: tuple[str, ...] = (), deny: tuple[str, ...] = ()) -> Classification:
    return classify(
        command,
        Rules(tuple(Rule(tuple(rule.split())) for rule in allow), tuple(Rule(tuple(rule.split())) for rule in deny)),
    )


@pytest.mark.parametrize(
    "command",
    ["pytest", "pytest -q tests", "ls && pytest | tail", "(pytest -q) 2>&1", "pytest; pytest -x", "cd a && pytest"],
)
def test_an_allow_rule_covers_plain_scripts_of_its_commands_and_reading_ones(command: str) -> None:
    found = under(command, allow=("pytest",))
    assert (found.class_, found.rule) == (CommandClass.ASK, "allow pytest")
    assert found.reason == "pytest is not known to be read-only; your rule allows `pytest`"


@pytest.mark.parametrize(
    "command",
    [
        "pytest && rm x",
        "pytest | sh",
        "pytest & ls",
        "pytest > out",
        "pytest $x",
        "pytest `id`",
        "pytest <(id)",
        "pytests",
        "pytest2",
        "./pytest",
        "/usr/bin/pytest",
        "sudo pytest",
        "env pytest",
        "x=1 pytest",
        "pytest *",
        "pytest src/*",
        "python3 -m pytest",
        "sh -c pytest",
        "pytest; id\u2028rm",
        "cat a; pytest;rm b",
        "for i in a; do pytest; done",
    ],
)
def test_an_allow_rule_carries_nothing_else_along(command: str) -> None:
    found = under(command, allow=("pytest",))
    assert (found.class_, found.rule) == (CommandClass.ASK, "")


def test_an_allow_rule_matches_word_by_word() -> None:
    assert under("npm test x", allow=("npm test",)).rule == "allow npm test"
    assert under("npm 'test'", allow=("npm test",)).rule == "allow npm test"
    assert under("npm tests", allow=("npm test",)).rule == ""
    assert under("npm", allow=("npm test",)).rule == ""
    assert under("npm -s test", allow=("npm test",)).rule == ""


@pytest.mark.parametrize(
    "command",
    [
        "curl x",
        "/usr/bin/curl x",
        "ls; curl x",
        "ls | curl -d @- x",
        "sudo curl x",
        "env A=b curl x",
        "sh -c 'curl x'",
        "timeout 5 curl x",
        "echo $(curl x)",
        "x=`curl y`",
        "cu''rl x",
        "ls | xargs curl",
        "find . -exec curl {} +",
        "if true; then curl x; fi",
        "f() { curl x; }; f",
        "curl x &",
        "curl $x > out",
        "bash <<< 'curl x'",
    ],
)
def test_a_deny_rule_finds_its_command_wherever_it_stands(command: str) -> None:
    found = under(command, deny=("curl",))
    assert (found.class_, found.rule) == (CommandClass.FORBIDDEN, "deny curl")


@pytest.mark.parametrize("command", ["echo curl", "curly x", "grep curl f", "cat curl", "git curl", "ls # curl x"])
def test_a_deny_rule_does_not_match_text(command: str) -> None:
    assert under(command, deny=("curl",)).rule == ""


def test_the_strictest_wins() -> None:
    assert under("git push", allow=("git",), deny=("git push",)).class_ is CommandClass.FORBIDDEN
    assert under("ls a", deny=("ls",)).class_ is CommandClass.FORBIDDEN
    assert under("mount a", allow=("mount",)) == Classification(
        CommandClass.FORBIDDEN, "mount never runs", (("mount", "a"),)
    )


def test_rules_that_do_what_their_examples_say_pass() -> None:
    check_rules(
        (
            Rule(("npm", "test"), match=("npm test -- a", "npm 'test'"), not_match=("npm install", "echo npm test")),
            Rule(("curl",), match=("/usr/bin/curl x", "sh -c 'curl x'"), not_match=("echo curl",)),
            Rule(("pytest",)),
        )
    )


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        (Rule(("npm", "test"), match=("npm install",)), "'npm test' does not match its own example 'npm install'"),
        (Rule(("npm",), not_match=("npm test",)), "'npm' matches its own example 'npm test'"),
        (Rule(()), "'' has an empty prefix or word"),
        (Rule(("npm", "")), "'npm ' has an empty prefix or word"),
    ],
)
def test_a_rule_that_fails_its_examples_is_refused_by_name(rule: Rule, message: str) -> None:
    with pytest.raises(UsageError) as refusal:
        check_rules((Rule(("ls",)), rule))
    assert refusal.value.message == f"the approval rule {message}"
    assert refusal.value.exit_code == 2
