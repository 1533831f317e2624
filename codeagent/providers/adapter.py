"""What the three APIs share: one exchange, what its failures teach, and the one retry layer.

A dialect knows the form of its API and nothing of connections; the adapter knows connections and no forms.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import TracebackType
from typing import Any, Protocol

from codeagent.conversation import Json, ToolCall, text_of
from codeagent.errors import ModelError
from codeagent.inference import Inference, Progress, Request, RetryNotice
from codeagent.providers.encoding import Shown, decoded
from codeagent.providers.explain import explained, host, without_key
from codeagent.providers.failures import Failure, Kind, final, lacking, of_event
from codeagent.providers.retry import Patience
from codeagent.providers.sse import EventStream
from codeagent.providers.text_calls import written_as_text
from codeagent.providers.transport import Body, Transport
from codeagent.settings import ProviderSettings

_LESSONS = 12
"""How many refusals in a row may teach something before one is taken for what it is."""
_COMPACTION_ATTEMPTS = 2
"""Nobody waits long for what can be done without."""
NO_COMPACTION = "the server did not compact the conversation; the program's own summary stands for it"
_END_SECONDS = 0.25
_TAIL_SECONDS = 2.0  # for what may still follow the reason why the model stopped, such as the usage


class Events:
    """The events of one streamed answer as JSON; None stands for `[DONE]`."""

    def __init__(self, stream: EventStream, body: Body) -> None:
        self._stream = stream
        self._body = body

    def __iter__(self) -> Iterator[Json | None]:
        for content in self._stream:
            if content.startswith("[DONE]"):
                yield None
            elif content.strip():
                yield _event(content)

    def tail(self) -> None:
        """What counts has arrived; what may still follow has little time."""
        self._body.end_within(_TAIL_SECONDS)


class Dialect(Protocol):
    """The form of one API, for one conversation."""

    @property
    def path(self) -> str:
        """Of the endpoint, below the base URL."""

    @property
    def compaction(self) -> Dialect | None:
        """How the API is asked to compact items; its response stands for those of the request. None: it cannot."""

    def body(self, request: Request) -> bytes: ...

    def read(self, events: Events, show: Shown) -> Inference:
        """The response out of its events; returns at the terminal one, raises Failure without it."""

    def read_whole(self, answer: Json) -> Inference:
        """The response out of the one object that a server without streaming sends."""

    def learn(self, failure: Failure) -> str:
        """What will be done differently next time, or nothing when the refusal teaches nothing new."""


Speak = Callable[[ProviderSettings], Dialect]
"""Makes the dialect for one provider and model."""


class Adapter:
    """A Provider (see `codeagent.inference`) for one dialect over one transport; closed by `with`."""

    def __init__(
        self,
        settings: ProviderSettings,
        window: int,
        speak: Speak,
        transport: Transport,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        self._sleep = sleep
        self._window = window
        self._speak = speak
        self._dialect = speak(settings)
        self._transport = transport
        self._reached = False
        self._compacts = True  # until the server shows that it does not

    @property
    def name(self) -> str:
        return self._settings.name

    @property
    def api(self) -> str:
        return self._settings.api

    @property
    def model(self) -> str:
        """Empty until the first request when none was named."""
        return self._settings.model

    @property
    def context_window(self) -> int:
        return self._window

    def warm_up(self) -> None:
        """Imports the SDK and opens the client, so that the first `infer` need not; may run in a thread."""
        self._transport.warm_up()

    def close(self) -> None:
        """Closes the connection; the provider may not be used any more."""
        self._transport.close()

    def __enter__(self) -> Adapter:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.close()

    def infer(self, request: Request, progress: Progress) -> Inference:
        patience = Patience(self._settings.retry_seconds, self._reached)
        try:
            return self._finished(self._persist(request, progress, patience), request)
        except Failure as failure:
            raise explained(failure, self._settings, patience.attempts) from failure

    def compact(self, request: Request, progress: Progress) -> Inference | None:
        dialect = self._dialect.compaction
        if dialect is None or not self._compacts or not self._settings.model:
            return None
        patience = Patience(self._settings.retry_seconds, self._reached, attempts=_COMPACTION_ATTEMPTS)
        try:
            return self._persist(request, _silently(progress), patience, dialect)
        except Failure as failure:
            self._compacts = not lacking(failure)
            said = without_key(failure.message, self._settings)
            progress(RetryNotice(patience.attempts, f"{NO_COMPACTION} ({said})", 0))
            return None

    def _persist(
        self, request: Request, progress: Progress, patience: Patience, compaction: Dialect | None = None
    ) -> Inference:
        """Exchanges, learning from refusals and waiting where that is right. Raises the Failure that was the last."""
        lessons = 0
        while True:
            try:
                return self._exchange(compaction or self._spoken(), request, progress)
            except Failure as failure:
                dialect = compaction or self._dialect
                lesson = dialect.learn(failure) if lessons < _LESSONS and not final(failure) else ""
                if lesson:
                    lessons += 1
                    progress(RetryNotice(patience.attempts + lessons, lesson, 0))
                    continue
                wait = patience.wait_after(failure)
                # A compaction comes whole or not at all: silence was long enough, and the next would be as long.
                if wait is None or (compaction is not None and failure.kind is Kind.SILENT):
                    raise
                reason = without_key(failure.message, self._settings)
                progress(RetryNotice(patience.attempts + lessons, reason, round(wait * 1000)))
                self._sleep(wait)

    def _spoken(self) -> Dialect:
        """The dialect, once it is known which model is asked."""
        if not self._settings.model:
            self._find_model()
        return self._dialect

    def _find_model(self) -> None:
        """Where no model was named: the only one that the server has."""
        try:
            listed = self._transport.get("/models").get("data")
        except Failure as failure:
            if failure.kind is not Kind.STATUS or final(failure):
                raise
            listed = None  # a server that does not list its model hardly reads its name
        names = [str(each["id"]) for each in listed or () if isinstance(each, dict) and each.get("id")]
        if len(names) > 1:
            some = ", ".join(names[:8]) + (", …" if len(names) > 8 else "")
            raise ModelError(
                f"{host(self._settings)} has several models: {some}.",
                f"Choose one with --model (/model in a chat), or set `model` in [providers.{self._settings.name}].",
            )
        self._settings = replace(self._settings, model=names[0] if names else "default")
        self._dialect = self._speak(self._settings)

    def _exchange(self, dialect: Dialect, request: Request, progress: Progress) -> Inference:
        with self._transport.post(dialect.path, dialect.body(request)) as body:
            self._reached = True
            show = Shown(progress)
            if body.content_type == "application/json":
                return _whole(dialect, b"".join(body.chunks()).decode("utf-8", "replace"), show)
            stream = EventStream(body.chunks())
            try:
                with _shape_checked():
                    inference = dialect.read(Events(stream, body), show)
            except Failure as failure:
                if failure.kind is Kind.CUT and stream.stray.strip():
                    return _whole(dialect, stream.stray, show)
                raise
            _drain(body)
            return inference

    def _finished(self, inference: Inference, request: Request) -> Inference:
        calls = any(isinstance(item, ToolCall) for item in inference.items)
        names = [tool.name for tool in request.tools]
        return replace(inference, text_call=not calls and written_as_text(text_of(inference.items), names))


def _silently(progress: Progress) -> Progress:
    """Passes on what is said about retries, and no text: what a compaction holds is no answer."""
    return lambda given: progress(given) if isinstance(given, RetryNotice) else None


def _whole(dialect: Dialect, content: str, show: Shown) -> Inference:
    """An answer that is no event stream: the whole response, an error, or something else altogether."""
    try:
        answer = decoded(content)
    except ValueError:
        raise Failure(Kind.FOREIGN, " ".join(content.split())[:200]) from None
    if not isinstance(answer, dict):
        raise Failure(Kind.FOREIGN, content[:200])
    if answer.get("error") and not answer.get("output"):
        raise of_event(answer)
    with _shape_checked():
        inference = dialect.read_whole(answer)
    show(text_of(inference.items))
    return inference


@contextmanager
def _shape_checked() -> Iterator[None]:
    """A field of a kind that the API does not have there is the server's fault, wherever it is stumbled over."""
    try:
        yield
    except (AttributeError, TypeError, ValueError, KeyError, RecursionError) as error:
        raise Failure(Kind.FOREIGN, f"a field of its answer is not of the form it should be ({error})") from error


def _event(content: str) -> dict[str, Any]:
    try:
        event = decoded(content)
    except ValueError:
        raise Failure(Kind.CUT, f"the stream holds an event that is not JSON: {content[:80]}") from None
    if not isinstance(event, dict):
        raise Failure(Kind.CUT, f"the stream holds an event that is no object: {content[:80]}")
    return event


def _drain(body: Body) -> None:
    """Reads the rest of a body, which is a few bytes or nothing, so that the connection can be used again."""
    body.end_within(_END_SECONDS)
    try:
        for _ in body.chunks():
            pass
    except Failure:
        return  # the response was complete; only the connection is lost
