"""What can go wrong with one exchange, and what it means: try again, or tell the user.

A `Failure` carries what the server said in its own words. Servers agree on little: the same fact comes as a status,
as a code, as an event in the middle of a stream or only as a sentence, so each question below looks at all of them.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from time import time
from typing import Any

from codeagent.providers.encoding import decoded


class Kind(StrEnum):
    UNREACHABLE = "unreachable"  # no connection, so no request arrived
    SILENT = "silent"  # nothing came for longer than the idle timeout
    CUT = "cut"  # the answer ended before its terminal event
    STATUS = "status"  # an HTTP status of 300 or above
    EVENT = "event"  # an error inside an answer with status 200
    FOREIGN = "foreign"  # an answer that is not this API's, such as a web page


@dataclass(eq=False)
class Failure(Exception):
    """One exchange that gave no response. `retry_after` is in seconds; `should_retry` is the server's own word."""

    kind: Kind
    message: str
    status: int | None = None
    code: str = ""
    param: str = ""
    retry_after: float | None = None
    should_retry: bool | None = None

    def __str__(self) -> str:
        return self.message

    @property
    def words(self) -> str:
        """Everything that the server said, in lower case, to look for words in."""
        return f"{self.code} {self.param} {self.message}".lower()


def of_status(status: int, headers: Mapping[str, str], content: str) -> Failure:
    """From an HTTP answer of 300 or above. No redirection is followed: requests hold a key and the user's code."""
    message, code, param = _said(content)
    if 300 <= status < 400:
        message = f"it redirects to {headers.get('location', 'nowhere')}"
    told = headers.get("x-should-retry", "").lower()
    return Failure(
        Kind.STATUS,
        message or f"HTTP status {status}",
        status,
        code,
        param,
        retry_after(headers),
        {"true": True, "false": False}.get(told),
    )


def of_event(event: Mapping[str, Any]) -> Failure:
    """From an error inside a stream, or from a whole answer that is one; flat and nested forms."""
    message, code, param = _said(json.dumps(event))
    number = event.get("status") or next((int(word) for word in code.split() if word.isdecimal()), None)
    return Failure(Kind.EVENT, message or "the server reported an error", _status(number), code, param)


def _status(number: object) -> int | None:
    return number if isinstance(number, int) and 400 <= number < 600 else None


def _said(content: str) -> tuple[str, str, str]:
    """Message, code and parameter of an error body, in any of the forms that servers use."""
    try:
        body = decoded(content)
    except ValueError:
        return _sentence(content), "", ""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return _sentence(content), "", ""
    error = body.get("error")
    if isinstance(error, str):
        return _sentence(error), _word(body.get("code")), ""
    inner = error if isinstance(error, dict) else body
    message = inner.get("message") or inner.get("detail") or inner.get("error_message")
    kind = inner.get("type")
    code = " ".join(dict.fromkeys(_word(word) for word in (inner.get("code"), kind) if word and word != "error"))
    return _sentence(message if message is not None else content), code, _word(inner.get("param"))


def _word(value: object) -> str:
    return str(value) if isinstance(value, (str, int)) else ""


def _sentence(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if "<html" in text[:500].lower() or "<!doctype" in text[:500].lower():
        title = re.search(r"<title[^>]*>(.*?)</title>", text, re.IGNORECASE | re.DOTALL)
        text = f"a web page{': ' + title[1] if title else ''}"
    return " ".join(text.split())[:500]


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds that the server asks to wait: `retry-after-ms`, or `retry-after` in seconds or as an HTTP date."""
    milliseconds, plain = headers.get("retry-after-ms"), headers.get("retry-after")
    for value, unit in ((milliseconds, 1000), (plain, 1)):
        try:
            seconds = float(value or "") / unit
        except ValueError:
            continue
        if isfinite(seconds):
            return max(0.0, seconds)
    from email.utils import parsedate_to_datetime  # seldom needed, and slow to import

    try:
        return max(0.0, parsedate_to_datetime(plain or "").timestamp() - time())
    except (ValueError, TypeError, OverflowError):
        return None


# What it means -----------------------------------------------------------------------------------------

_CONTEXT = re.compile(
    r"context_length_exceeded|exceed_context_size|too_many_prompt_tokens|model_context_window_exceeded"
    r"|max(imum)? context (length|size|window)|prompt (is )?too long|prompt contains \d+ tokens"
    r"|exceeds? the (available )?(context|maximum number of tokens)|exceeds? context (limit|window|length|size)"
    r"|input (is )?too long|reduce the length of the (messages|prompt|input)|context window (is )?(full|exceeded)"
    r"|(longer|greater) than the (maximum model|(model's )?context) length|maximum prompt length is"
    r"|context window exceeds|exceeded model token limit|range of input length should be"
    r"|prompt token count of \d+ exceeds|configured context size"
    r"|exceeds the context|request_too_large|request too large|tokens? (in )?the (input|prompt) exceeds?"
)
_EXHAUSTED = re.compile(
    r"insufficient_quota|billing_hard_limit|billing_error|billing_not_active|insufficient[_ ](balance|funds|credits?)"
    r"|exceeded your current quota|credit balance is too low|(monthly|weekly) (usage |spend(ing)? )?limit"
    r"|out of credits|payment required|quota_exhausted"
)
_KEY_REFUSED = re.compile(
    r"invalid_api_key|incorrect api key|authentication_error|invalid x-api-key|account_deactivated"
)
_FATAL = re.compile(
    r"invalid_request|invalid_prompt|invalid_image|not_found|permission|unsupported|data_residency|content_policy"
    r"|content_filter|policy_violation"
)
_TRANSIENT = re.compile(r"overload|rate_limit|server_error|api_error|unavailable|timeout|timed out|try again")


def context_full(failure: Failure) -> bool:
    """The request is longer than the model's window."""
    return failure.status not in (401, 403) and (failure.status == 413 or _CONTEXT.search(failure.words) is not None)


def exhausted(failure: Failure) -> bool:
    """No credit left: waiting does not help, whatever the status says."""
    return failure.status == 402 or _EXHAUSTED.search(failure.words) is not None


def key_refused(failure: Failure) -> bool:
    return failure.status in (401, 403) or (
        failure.kind is Kind.EVENT and _KEY_REFUSED.search(failure.words) is not None
    )


def call_refused(failure: Failure) -> bool:
    """The server checked the model's call against the schema and threw the response away (Groq)."""
    return "tool_use_failed" in failure.words


def untrusted(failure: Failure) -> bool:
    """The server's certificate is not accepted: trying again gives the same certificate."""
    return failure.kind is Kind.UNREACHABLE and "certificate" in failure.words


def final(failure: Failure) -> bool:
    """Whether neither waiting nor another form of the same request helps."""
    return exhausted(failure) or key_refused(failure) or context_full(failure) or untrusted(failure)


def transient(failure: Failure) -> bool:
    """Whether the same request may succeed when it is sent again."""
    if final(failure):
        return False
    if failure.should_retry is not None:
        return failure.should_retry
    if failure.kind in (Kind.UNREACHABLE, Kind.SILENT, Kind.CUT) or call_refused(failure):
        return True
    if failure.status is not None:
        return failure.status in (408, 409, 429) or failure.status >= 500
    if failure.kind is Kind.EVENT:
        return _TRANSIENT.search(failure.words) is not None or _FATAL.search(failure.words) is None
    return False


def lacking(failure: Failure) -> bool:
    """Whether the server does not have what was asked of it, such as a newer endpoint: nothing that waiting, fewer
    tokens or credit would change. Some say so with status 200, some answer something else, some never answer."""
    if context_full(failure) or exhausted(failure):
        return False
    if failure.kind is Kind.EVENT:
        return _TRANSIENT.search(failure.words) is None
    return failure.kind is Kind.SILENT or failure.status == 501 or not transient(failure)
