"""The gate before every command: rules and modes first, a person where they leave it open.

Nothing else in the program asks whether a command may run. Every question gets exactly one answer, and every
answer is an event.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from codeagent.approval.classify import classify
from codeagent.approval.prefixes import Prefix, covered, named_files, offered_prefix
from codeagent.approval.rules import Rules
from codeagent.approval.seam import Approval, Classification, CommandClass, Review
from codeagent.errors import ErrorKind, Interrupted, ToolError
from codeagent.events import ApprovalDecided, ApprovalRequested, Emit, GrantChanged
from codeagent.settings import ApproveMode

DENIALS_THAT_STOP = 3

Digest = Callable[[str], str | None]
"""Content hash of a file, by its path relative to the repository's root; None when it is not a readable file."""


def digest_by(fetch: Callable[[str], bytes]) -> Digest:
    """Digests of what `fetch` returns whole; it raises ToolError for what is no file, or too large a one."""

    def digest(path: str) -> str | None:
        try:
            return hashlib.sha256(fetch(path)).hexdigest()
        except ToolError as error:
            # What is too large to be compared never counts as unchanged.
            return secrets.token_hex() if error.kind is ErrorKind.TOO_LARGE else None

    return digest


@dataclass(frozen=True, slots=True)
class Question:
    """What a person is asked. `prefix` is empty where none may be offered; `covers` are commands of this session
    that it would have covered; `denied` counts how often in a row this very command was denied before."""

    review: Review
    prefix: Prefix = ()
    covers: tuple[str, ...] = ()
    denied: int = 0


@dataclass(frozen=True, slots=True)
class Answer:
    """`once`, `exact` and `prefix` allow; `no` may carry a reason for the model; `stop` ends the turn."""

    kind: Literal["once", "exact", "prefix", "no", "stop"]
    reason: str = ""


Ask = Callable[[Question], Answer]
"""Puts one question to a person; raises Interrupted when they interrupt."""


@dataclass(frozen=True, slots=True)
class Grant:
    """What a person allowed for the rest of this session.

    An exact grant is bound to the command, its directory and the content of the repository's files that it
    names (`files`: path and hash, None for what is no file); a prefix grant to the first words of its commands.
    Neither covers a command that may write when it was given for one that could not.
    """

    kind: Literal["exact", "prefix"]
    command: str
    workdir: str = ""
    prefix: Prefix = ()
    writable: bool = False
    files: tuple[tuple[str, str | None], ...] = ()


class Gate:
    """Answers reviews for one session; call it from the main thread. Without `ask`, there is no terminal."""

    def __init__(
        self, mode: ApproveMode, *, emit: Emit, ask: Ask | None, digest: Digest, rules: Rules | None = None
    ) -> None:
        self._mode = mode
        self._emit = emit
        self._ask = ask
        self._digest = digest
        self._rules = rules or Rules()
        self._grants: list[Grant] = []
        self._asked_before: dict[str, None] = {}
        self._denied = ("", 0)

    def classify(self, script: str) -> Classification:
        """The class of a command under this session's rules."""
        return classify(script, self._rules)

    @property
    def grants(self) -> tuple[Grant, ...]:
        return tuple(self._grants)

    def revoke(self, grant: Grant) -> None:
        """Takes a grant back; the next such command is asked for again."""
        self._grants.remove(grant)
        self._emit(GrantChanged("revoked", grant.kind, grant.command, grant.workdir))

    def __call__(self, review: Review) -> Approval:
        """The one answer to `review`. Raises Interrupted when the person at the prompt interrupts.

        What a person would be asked and what cannot be carried out stays undecided: ToolError, from its check.
        """
        try:
            approval = self._decided(review) or self._asked(review, self._ask)
        except Interrupted:
            self._emit(ApprovalDecided(review.call_id, "stop", "user", "interrupted at the prompt"))
            raise
        self._emit(ApprovalDecided(review.call_id, approval.decision, approval.by, approval.reason))
        return approval

    def _decided(self, review: Review) -> Approval | None:
        """The answer of class, rules, flags and grants; None when it takes a person."""
        found = review.classification
        if found.class_ is CommandClass.FORBIDDEN:
            return Approval("deny", "rule" if found.rule else "class", f"this command is forbidden: {found.reason}")
        if found.class_ is CommandClass.READ_ONLY:
            return Approval("allow", "class", found.reason)
        if found.rule:
            return Approval("allow", "rule", found.rule)
        if self._mode in ("contained", "all"):
            return Approval("allow", "flag", f"--approve {self._mode}")
        if self._mode == "read-only":
            return Approval(
                "deny", "flag", f"--approve read-only denies whatever is not known to only read ({found.reason})"
            )
        if any(self._grants_review(grant, review) for grant in self._grants):
            return Approval("allow", "grant", "allowed earlier in this session")
        return None

    def _asked(self, review: Review, ask: Ask | None) -> Approval:
        if ask is None:
            return Approval(
                "deny",
                "no_terminal",
                "there is no terminal to ask for approval; --approve contained would allow it "
                f"({review.classification.reason})",
            )
        review.check()
        found = review.classification
        self._emit(ApprovalRequested(review.call_id, review.subject, found.class_.label, found.reason))
        question = self._question(review)
        answer = ask(question)
        if review.tool == "run_command":
            self._asked_before[review.subject] = None
        if answer.kind == "no":
            return self._denial(review, answer.reason)
        self._denied = ("", 0)
        if answer.kind == "stop":
            return Approval("stop", "user", answer.reason or "the user stopped the turn")
        if answer.kind != "once":
            self._grant(review, question.prefix if answer.kind == "prefix" else ())
        return Approval("allow", "user", answer.reason)

    def _question(self, review: Review) -> Question:
        prefix = offered_prefix(review.subject) if review.tool == "run_command" else ()
        covers = tuple(past for past in self._asked_before if prefix and covered(prefix, past))
        return Question(review, prefix, covers, self._denied[1] if self._denied[0] == review.subject else 0)

    def _denial(self, review: Review, reason: str) -> Approval:
        sentence = f"the user denied this call: {reason}" if reason else "the user denied this call"
        count = self._denied[1] + 1 if self._denied[0] == review.subject else 1
        self._denied = (review.subject, count)
        if count >= DENIALS_THAT_STOP:
            self._denied = ("", 0)
            return Approval("stop", "user", f"{sentence} (the same call, {count} times in a row)")
        return Approval("deny", "user", sentence)

    # Grants

    def _grant(self, review: Review, prefix: Prefix) -> None:
        """A grant of `prefix`, or, without one, of exactly this."""
        if prefix:
            grant = Grant("prefix", " ".join(prefix), "", prefix, review.writable)
        else:
            files = self._files(review)
            grant = Grant("exact", review.subject, review.workdir, (), review.writable, files)
        if grant not in self._grants:
            self._grants.append(grant)
        self._emit(GrantChanged("given", grant.kind, grant.command, grant.workdir))

    def _files(self, review: Review) -> tuple[tuple[str, str | None], ...]:
        if review.tool != "run_command":
            return ()
        return tuple((path, self._digest(path)) for path in named_files(review.subject, review.workdir))

    def _grants_review(self, grant: Grant, review: Review) -> bool:
        if review.writable and not grant.writable:
            return False
        if grant.kind == "prefix":
            return review.tool == "run_command" and covered(grant.prefix, review.subject)
        if (grant.command, grant.workdir) != (review.subject, review.workdir):
            return False
        return grant.files == self._files(review)
