"""Bytes to a server and back. Two ways: the `openai` SDK, and the HTTP client that it brings, for other APIs.

Both are given a body that is already encoded and give the response unread, so that the cost of a request does not
grow with what is done to its items on the way. Neither is imported before it is needed.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol
from urllib.parse import parse_qsl, urlsplit, urlunsplit

from codeagent.conversation import Json
from codeagent.providers.encoding import decoded
from codeagent.providers.failures import Failure, Kind, of_status
from codeagent.providers.options import Options
from codeagent.providers.sdk import import_openai, without_trio
from codeagent.settings import ProviderSettings

if TYPE_CHECKING:
    import httpx2
    import openai
    from openai._types import RequestOptions

_CONNECT_SECONDS = 10.0
_NO_KEY = "none"


class Transport(Protocol):
    """Sends one body. `post` raises Failure when no answer with a status below 300 came."""

    def warm_up(self) -> None:
        """Imports and builds what the first `post` needs; half a second, done once."""

    def post(self, path: str, body: bytes) -> Body: ...

    def get(self, path: str) -> Json:
        """A JSON object from the server. Raises Failure."""

    def close(self) -> None:
        """Closes what was opened; nothing when nothing was."""


class Body:
    """The body of an answer, as it arrives. Leaving the `with` gives up what was not read."""

    def __init__(self, response: httpx2.Response, silent_after: float) -> None:
        self._response = response
        self._silent_after = silent_after
        self._ender: threading.Timer | None = None
        self._chunks = self._read()

    @property
    def content_type(self) -> str:
        return str(self._response.headers.get("content-type", "")).split(";")[0].strip().lower()

    def chunks(self) -> Iterator[bytes]:
        """What was not read yet. Raises Failure when nothing came for too long or the connection was cut."""
        return self._chunks

    def _read(self) -> Iterator[bytes]:
        import httpx2

        try:
            yield from self._response.iter_bytes()
        except httpx2.TimeoutException as error:
            message = f"the server sent nothing for {self._silent_after:g} s"
            raise Failure(Kind.SILENT, message) from error
        except (httpx2.HTTPError, httpx2.StreamError) as error:
            raise Failure(Kind.CUT, f"the connection was cut: {_cause(error)}") from error

    def end_within(self, seconds: float) -> None:
        """Everything that counts has arrived: the server has this long to end the body by itself.

        A body that was read to its end leaves the connection open for the next request, which saves a TLS handshake
        a round. Some servers never end it.
        """
        stream = self._response.extensions.get("network_stream")
        sock = stream.get_extra_info("socket") if stream is not None else None
        if self._ender is None and isinstance(sock, socket.socket):
            # Not the method of SSLSocket: it would drop the TLS layer under the thread that reads.
            self._ender = threading.Timer(seconds, _shut, (sock,))
            self._ender.daemon = True
            self._ender.start()

    def __enter__(self) -> Body:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        if self._ender is not None:
            self._ender.cancel()
        self._response.close()


def _shut(sock: socket.socket) -> None:
    try:
        socket.socket.shutdown(sock, socket.SHUT_RDWR)
    except OSError:
        return  # closed by the other side in the meantime


class SdkTransport:
    """Through the `openai` SDK: its authentication, proxies, certificates and connection pool; not its retries."""

    def __init__(self, settings: ProviderSettings, options: Options, base_url: str) -> None:
        self._settings = settings
        self._options = options
        self._base_url = base_url

    def warm_up(self) -> None:
        _ = self._client

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> openai.OpenAI:
        url = urlsplit(self._base_url)
        with without_trio():
            client: openai.OpenAI = import_openai()(
                base_url=urlunsplit(url._replace(query="")),
                api_key=self._settings.api_key or _NO_KEY,
                max_retries=0,
                timeout=_timeout(self._settings.idle_timeout_seconds),
                default_query=dict(parse_qsl(url.query)) or None,
            )
        if not (url.hostname or "").endswith("openai.com"):
            # The SDK reads these from the environment; they are nobody else's business.
            client.organization = client.project = None
        return client

    def post(self, path: str, body: bytes) -> Body:
        with self._failures():
            response = self._client.post(
                path, cast_to=_response_type(), content=body, options=self._request_options(), stream=True
            )
        return Body(response, self._settings.idle_timeout_seconds)

    def get(self, path: str) -> Json:
        with self._failures():
            response = self._client.get(path, cast_to=_response_type(), options=self._request_options())
        return _object(response)

    @contextmanager
    def _failures(self) -> Iterator[None]:
        """Exceptions of the SDK as Failure."""
        import httpx2
        import openai

        try:
            yield
        except openai.APIStatusError as error:
            raise of_status(error.status_code, error.response.headers, error.response.text) from error
        except openai.APIConnectionError as error:  # a timeout is one, too
            raise _no_answer(error.__cause__ or error, self._settings) from error
        except httpx2.HTTPError as error:  # while the body of an error status was read
            raise Failure(Kind.CUT, f"the connection was cut: {_cause(error)}") from error

    def _request_options(self) -> RequestOptions:
        return {"headers": self._headers(), "follow_redirects": False}

    def _headers(self) -> dict[str, Any]:
        import openai

        headers: dict[str, Any] = {
            "Content-Type": "application/json",
            "Accept": "text/event-stream, application/json",
        }
        if not self._settings.api_key or self._options.key_header:
            headers["Authorization"] = openai.Omit()
        if self._settings.api_key and self._options.key_header:
            headers[self._options.key_header] = self._settings.api_key
        return {**headers, **self._settings.headers}


class PlainTransport:
    """Through `httpx2` alone. `headers` carry the key and the version of the API."""

    def __init__(self, settings: ProviderSettings, base_url: str, headers: Mapping[str, str]) -> None:
        self._settings = settings
        self._base_url = base_url.rstrip("/")
        self._headers = {
            "content-type": "application/json",
            "accept": "text/event-stream",
            "user-agent": "codeagent",
            **headers,
            **settings.headers,
        }

    def warm_up(self) -> None:
        _ = self._client

    def close(self) -> None:
        if "_client" in self.__dict__:
            self._client.close()

    @cached_property
    def _client(self) -> httpx2.Client:
        import httpx2

        with without_trio():
            return httpx2.Client(timeout=_timeout(self._settings.idle_timeout_seconds))

    def post(self, path: str, body: bytes) -> Body:
        return Body(self._send("POST", path, body), self._settings.idle_timeout_seconds)

    def get(self, path: str) -> Json:
        response = self._send("GET", path, None)
        with Body(response, self._settings.idle_timeout_seconds):
            response.read()
            return _object(response)

    def _send(self, method: str, path: str, body: bytes | None) -> httpx2.Response:
        import httpx2

        try:
            request = self._client.build_request(method, self._base_url + path, content=body, headers=self._headers)
            response = self._client.send(request, stream=True)
            if response.status_code >= 300:
                response.read()
                raise of_status(response.status_code, response.headers, response.text)
        except (httpx2.HTTPError, httpx2.InvalidURL) as error:
            raise _no_answer(error, self._settings) from error
        return response


def _response_type() -> type[httpx2.Response]:
    import httpx2

    return httpx2.Response


def _object(response: httpx2.Response) -> Json:
    try:
        content = decoded(response.text)
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise Failure(Kind.FOREIGN, " ".join(response.text.split())[:200])
    return content


def _timeout(idle_seconds: float) -> httpx2.Timeout:
    import httpx2

    return httpx2.Timeout(idle_seconds, connect=min(_CONNECT_SECONDS, idle_seconds))


def _no_answer(error: BaseException, settings: ProviderSettings) -> Failure:
    import httpx2

    if isinstance(error, httpx2.ReadTimeout):
        return Failure(Kind.SILENT, f"the server sent nothing for {settings.idle_timeout_seconds:g} s")
    if isinstance(error, (httpx2.ConnectError, httpx2.ConnectTimeout, httpx2.ProxyError, httpx2.InvalidURL)):
        return Failure(Kind.UNREACHABLE, _cause(error))
    return Failure(Kind.CUT, f"the connection was cut: {_cause(error)}")


def _cause(error: BaseException) -> str:
    """The reason that the system gave, without addresses of objects or the request."""
    reason = str(error)
    inner: BaseException | None = error
    while inner is not None:
        if isinstance(inner, OSError) and inner.strerror:
            reason = inner.strerror
        elif str(inner):
            reason = str(inner)
        inner = inner.__cause__ or inner.__context__
    return " ".join(reason.split())[:200] or type(error).__name__
