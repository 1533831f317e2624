"""Facts about a session, as they are stored and shown. Subscribers never answer and never change the run.

One frozen class an event type; the field names are the contract of the log and of `--json`.
The envelope (`type`, `time`, `session_id`, `turn`, `round`) is added where the event is recorded.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, ClassVar, Literal

LOG_FORMAT = 1
"""Raised when an older program could no longer read what a newer one writes."""


@dataclass(frozen=True, slots=True)
class SessionStarted:
    """`version` is the program's, `format` the log's (see docs/sessions.md).

    `message` is what the first turn is going to be about, null where nothing was asked yet; `patching` tells that the
    model is offered `apply_patch`; `verify` and `verify_repeat` are the verification that was asked for.
    """

    type: ClassVar[str] = "session_started"
    repo: str
    model: str
    provider: str
    image: str
    version: str
    format: int = LOG_FORMAT
    message: str | None = None
    patching: bool = False
    verify: str | None = None
    verify_repeat: int = 1


@dataclass(frozen=True, slots=True)
class SessionResumed:
    """A later process goes on with the session, with these choices from here on (see SessionStarted).

    `interrupted_calls` had no output in the log and were answered now; `damaged_lines` could not be read;
    `orphan_outputs` had no call in it and are left out, as are `unreadable_items` of responses.
    """

    type: ClassVar[str] = "session_resumed"
    repo: str
    model: str
    provider: str
    image: str
    version: str
    interrupted_calls: list[str]
    damaged_lines: int
    message: str | None = None
    patching: bool = False
    verify: str | None = None
    verify_repeat: int = 1
    orphan_outputs: int = 0
    unreadable_items: int = 0


@dataclass(frozen=True, slots=True)
class TurnStarted:
    type: ClassVar[str] = "turn_started"
    message: str


@dataclass(frozen=True, slots=True)
class ModelResponse:
    """`items` is the raw output, verbatim; `api`, `provider` and `model` say who wrote it and in which form."""

    type: ClassVar[str] = "model_response"
    status: Literal["completed", "incomplete", "failed"]
    finish: str
    usage: Mapping[str, int]
    text: str
    items: list[Any]
    api: str = ""
    provider: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class ToolCalled:
    type: ClassVar[str] = "tool_call"
    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class ApprovalRequested:
    """Only when a person is asked."""

    type: ClassVar[str] = "approval_requested"
    call_id: str
    command: str
    class_: str
    reason: str


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """Before every run_command and apply_patch, whoever decided."""

    type: ClassVar[str] = "approval_decided"
    call_id: str
    decision: Literal["allow", "deny", "stop"]
    by: Literal["class", "user", "grant", "rule", "flag", "no_terminal"]
    reason: str


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """`streams` tells stdout and stderr apart: `[["stdout", text], ["stderr", text], …]` in order."""

    type: ClassVar[str] = "tool_output"
    call_id: str
    status: Literal["ok", "error"]
    error_kind: str | None
    output: str
    duration_ms: int
    streams: list[list[str]] | None = None


@dataclass(frozen=True, slots=True)
class WorkspaceChanged:
    type: ClassVar[str] = "workspace_changed"
    paths: list[str]


@dataclass(frozen=True, slots=True)
class Compacted:
    """What is sent from here on is shorter; the log keeps everything.

    `cleared_calls` are the calls whose outputs were cleared now, `cut_calls` says of how many of them so many bytes
    are still sent; `summarised_rounds` is how many rounds, counted from the start of the conversation, are summarised
    by now. When some were summarised now, `summary` stands for them, beside the user's own messages (`message_bytes`
    of them at most) and beside what the API made of the rounds where it did: `compaction`, which is `{api, provider,
    model, items, usage}`, the items verbatim. `tokens_per_byte` is how the size of requests was estimated.
    """

    type: ClassVar[str] = "compacted"
    cleared_calls: list[str]
    summarised_rounds: int
    summary: str | None = None
    message_bytes: int = 0
    cut_calls: Mapping[str, int] = field(default_factory=dict)
    compaction: Mapping[str, Any] | None = None
    tokens_per_byte: float = 0.0


@dataclass(frozen=True, slots=True)
class Retried:
    type: ClassVar[str] = "retry"
    attempt: int
    reason: str
    delay_ms: int


@dataclass(frozen=True, slots=True)
class Verified:
    """`before` and `after` as `verification.record.Side` publishes them; `command` ran in `directory`.

    `diff_sha256` is the hash of the agent's whole diff, `notices` name files and lines of it to look at.
    `repository` is `{before, after, changed}`: the host's own tree as one hash at the start and at the end, and the
    paths that differ. `before_again` are further runs without the change, where the run with it is repeated.
    """

    type: ClassVar[str] = "verification"
    status: str
    reason: str
    before: Mapping[str, Any] | None
    after: Mapping[str, Any] | None
    tests_modified: list[str]
    command: str = ""
    image: str = ""
    remedy: str = ""
    directory: str = ""
    diff_sha256: str = ""
    notices: list[str] = field(default_factory=list)
    repository: Mapping[str, Any] = field(default_factory=dict)
    before_again: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class TurnEnded:
    """`limits` is what the model did not get to see (`{kind, call_id, subject}`); `unsupported` are sentences of the
    answer that claim passing tests which no recorded run shows; `misquoted` are places (`path:line`) that it cites
    with a text that was never in that file; `cited_sha256` holds for each citation the hash of its lines as they
    were returned (each ended by LF), empty where they were not; `cited_within` what tells them from others of the
    same text (`evidence.landmark.Landmark`), null where nothing does. `shown` says of this turn's commands which
    lines of which files their outputs showed, at which content: `{call_id: {path: {sha256, lines}}}`. `unchecked` is
    why no file could be looked at for `citations`, whose states then say only what had been returned, else empty.
    """

    type: ClassVar[str] = "turn_ended"
    outcome: str | None
    answer: str | None
    partial: str | None
    citations: list[Mapping[str, Any]]
    verification: Mapping[str, Any]
    rounds: int
    usage: Mapping[str, int]
    exit_code: int
    limits: list[Mapping[str, Any]] = field(default_factory=list)
    unsupported: list[str] = field(default_factory=list)
    misquoted: list[str] = field(default_factory=list)
    cited_sha256: list[str] = field(default_factory=list)
    shown: Mapping[str, Mapping[str, Mapping[str, str]]] = field(default_factory=dict)
    cited_within: list[list[int | str] | None] = field(default_factory=list)
    unchecked: str = ""


@dataclass(frozen=True, slots=True)
class Noted:
    """A message that the program added to the conversation (see `UserMessage.origin`), verbatim."""

    type: ClassVar[str] = "note"
    origin: Literal["program", "repository"]
    text: str


@dataclass(frozen=True, slots=True)
class GrantChanged:
    """A grant of this session was given or revoked at the prompt."""

    type: ClassVar[str] = "grant"
    action: Literal["given", "revoked"]
    kind: Literal["exact", "prefix"]
    command: str
    workdir: str


@dataclass(frozen=True, slots=True)
class Applied:
    """The session's change is in the real repository, or was taken back (`reverse`). `rest_before` and `rest_after`
    are one hash each over everything in it but `paths`: when they are equal, nothing else was written.
    """

    type: ClassVar[str] = "applied"
    reverse: bool
    paths: list[str]
    rest_before: str
    rest_after: str


Event = (
    SessionStarted
    | SessionResumed
    | TurnStarted
    | ModelResponse
    | ToolCalled
    | ApprovalRequested
    | ApprovalDecided
    | ToolFinished
    | WorkspaceChanged
    | Compacted
    | Retried
    | Verified
    | TurnEnded
    | Noted
    | GrantChanged
    | Applied
)

Emit = Callable[[Event], None]


def body(event: Event) -> dict[str, Any]:
    """The event's own fields under their published names (`class_` is `class`)."""
    kind: Any = type(event)
    return {
        published: value
        for name, published in _published(kind)
        if (value := getattr(event, name)) is not None or name != "streams"
    }


@cache
def _published(kind: Any) -> tuple[tuple[str, str], ...]:
    return tuple((each.name, each.name.rstrip("_")) for each in fields(kind))
