"""A scripted model server over real HTTP, for Responses, Chat Completions and Messages.

    with ModelServer([
        reply(thought("hm"), call("read_file", {"path": "a.py"}, call_id="c1")),
        lambda request: reply(text(f"It says {request.outputs['c1']}")),
    ]) as server:
        ...  # base_url=server.url; server.requests holds what was asked

It rejects with 400 what a real server rejects (`tests.model_rules`), and fails the test on leaving the `with`
when a request was rejected, when an earlier request is no longer a prefix of a later one, or when more was
asked than the script holds. Scripted failures (`status`, `hang`, `cut`, `raw_sse`) are not rejections.
"""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from socketserver import TCPServer
from types import TracebackType
from typing import Any, Literal

from tests.model_forms import Reply, compacted, frames, whole
from tests.model_memory import Memory, Rejection
from tests.model_rules import prefix_fault, rejection
from tests.model_script import (
    Api,
    Cut,
    Entry,
    Hang,
    RawSse,
    Received,
    Scripted,
    Status,
    call,
    cut,
    hang,
    raw_sse,
    refusal,
    reply,
    status,
    text,
    thought,
)

__all__ = [
    "ModelServer",
    "Received",
    "Rejection",
    "call",
    "cut",
    "hang",
    "raw_sse",
    "refusal",
    "reply",
    "status",
    "text",
    "thought",
]


class ModelServer:
    """See the module. All arguments but the script are about how strict it is.

    `prefix`: `append_only` (the default); `compacted` lets the conversation's items change, which is counted in
    `prefix_changes`, but neither instructions nor tools; `free` checks nothing. `rules` are further checks, each
    `(api, body) -> Rejection | None`; their rejections fail the test only with `rejections="fail"` (the default),
    while `"allow"` counts all of them in `rejected`. `models` and `key` make it answer 404 and 401.

    `/responses/compact` takes nothing of the script and is listed in `compactions`, not in `requests`. `compacts`
    says what it answers: True compacts, False is a server without it, an entry is that.
    """

    def __init__(
        self,
        script: Sequence[Scripted] | Callable[[Received], Entry] = (),
        *,
        prefix: Literal["append_only", "compacted", "free"] = "append_only",
        rules: Iterable[Callable[[str, dict[str, Any]], Rejection | None]] = (),
        rejections: Literal["fail", "allow"] = "fail",
        models: Iterable[str] | None = None,
        key: str | None = None,
        compacts: bool | Entry | Callable[[Received], bool | Entry] = True,
    ) -> None:
        self.requests: list[Received] = []
        self.compactions: list[Received] = []
        self.rejected: list[str] = []
        self.faults: list[str] = []
        self.prefix_changes = 0
        self.connections = 0
        self.memory = Memory()
        self._script = script
        self._used = 0
        self._prefix = prefix
        self._rules = tuple(rules)
        self._rejections = rejections
        self.models = None if models is None else list(models)
        self._key = key
        self._compacts = compacts
        self._earlier: dict[tuple[str, str], Received] = {}
        self._lock = threading.Lock()
        self.closing = threading.Event()
        owner = self

        class Connection(_Connection):
            server_of = owner

        self._http = _Quiet(("127.0.0.1", 0), Connection)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def root(self) -> str:
        """Without `/v1`."""
        return f"http://127.0.0.1:{self._http.server_address[1]}"

    @property
    def url(self) -> str:
        """The base URL, with `/v1`."""
        return f"{self.root}/v1"

    @property
    def left(self) -> int:
        """How many entries of the script were not used."""
        return 0 if callable(self._script) else len(self._script) - self._used

    def forget(self) -> None:
        """A new conversation begins: what was asked before is not its prefix."""
        with self._lock:
            self._earlier.clear()

    def forget_responses(self) -> None:
        """Stored responses are gone, as after their retention time."""
        with self._lock:
            self.memory.stored.clear()

    def check(self) -> None:
        """Raise AssertionError when a request was wrong so far."""
        assert not self.faults, "\n".join(self.faults)

    def __enter__(self) -> ModelServer:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None
    ) -> None:
        self.closing.set()
        self._http.shutdown()
        self._http.server_close()
        if kind is None:
            self.check()

    # What a connection asks for ------------------------------------------------------------------------

    def admit(self, received: Received) -> Entry:
        """The answer to a request; notes what is wrong with it."""
        with self._lock:
            self.requests.append(received)
            refused = self._refused(received)
            if refused is not None:
                return refused
            self._compare(received)
            entry = self._next()
        return entry(received) if callable(entry) else entry

    def admit_compaction(self, received: Received) -> Entry | dict[str, Any]:
        """The answer to a request for a compaction: an object where it is one."""
        with self._lock:
            self.compactions.append(received)
            compacts = self._compacts(received) if callable(self._compacts) else self._compacts
            if compacts is False:
                return Status(404, {}, {"detail": "Not Found"})
            refused = self._refused(received, "compact")
            if refused is not None:
                return refused
            return compacted(received.body, self.memory) if compacts is True else compacts

    def forget_compactions(self) -> None:
        """What earlier compactions hold can no longer be read, as after a change of keys."""
        with self._lock:
            self.memory.compacted.clear()

    def _next(self) -> Scripted:
        if callable(self._script):
            return self._script
        if self._used >= len(self._script):
            self.faults.append(f"request {len(self.requests)} came after the end of the script")
            return Status(400, {}, {"error": {"message": "the script is over", "code": "script_over"}})
        self._used += 1
        return self._script[self._used - 1]

    def _refused(self, received: Received, rules: str = "") -> Status | None:
        keys = (received.headers.get("authorization", "").removeprefix("Bearer "), received.headers.get("x-api-key"))
        if self._key is not None and self._key not in keys:
            message = f"Incorrect API key provided: {keys[0][:7]}***"
            return Status(401, {}, {"error": {"message": message, "code": "invalid_api_key", "type": "auth"}})
        model = received.body.get("model")
        if self.models is not None and model not in self.models:
            error = {"message": f"The model `{model}` does not exist", "code": "model_not_found"}
            return Status(404, {}, {"type": "error", "error": {**error, "type": "not_found_error"}})
        rules = rules or received.api
        wrong = rejection(rules, received.body, received.headers, self.memory)
        if wrong is None:
            wrong = next((r for rule in self._rules if (r := rule(rules, received.body))), None)
        if wrong is None:
            return None
        self.rejected.append(wrong.message)
        if self._rejections == "fail":
            self.faults.append(f"request {len(self.requests)} was rejected: {wrong.message}")
        return Status(wrong.status, {}, wrong.body(received.api))

    def _compare(self, received: Received) -> None:
        key = (received.api, str(received.body.get("prompt_cache_key", "")))
        if received.body.get("previous_response_id"):
            return  # what is sent is not the whole conversation
        earlier = self._earlier.get(key)
        self._earlier[key] = received
        if earlier is None or self._prefix == "free":
            return
        fault, in_items = prefix_fault(received.api, earlier.body, received.body)
        if fault is None:
            return
        self.prefix_changes += 1
        if self._prefix == "append_only" or not in_items:
            self.faults.append(f"request {len(self.requests)}: {fault}")


def _no_constant(name: str) -> None:
    raise ValueError(f"{name} is not JSON")


class _Quiet(ThreadingHTTPServer):
    daemon_threads = True

    def server_bind(self) -> None:
        """Without asking for this machine's name, which may take long and which nothing here uses."""
        TCPServer.server_bind(self)

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that leaves is part of many tests; anything else is a fault of the server's own."""
        error = sys.exception()
        if not isinstance(error, (ConnectionError, TimeoutError)):
            super().handle_error(request, client_address)


class _Connection(BaseHTTPRequestHandler):
    """One keep-alive connection."""

    server_of: ModelServer
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True

    def setup(self) -> None:
        super().setup()
        self.server_of.connections += 1

    def log_message(self, format: str, *args: Any) -> None:
        """Silent: the test reads `server.requests`."""

    def do_GET(self) -> None:
        models = self.server_of.models
        if self.path.endswith("/models") and models is not None:
            content = json.dumps({"object": "list", "data": [{"id": name, "object": "model"} for name in models]})
            self._plain(200, content.encode(), {"content-type": "application/json"})
        else:
            self._error(Status(404, {}, {"error": {"message": "Not Found"}}))

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length", 0))
        raw = self.rfile.read(length)
        if len(raw) < length:  # whoever asked was killed half-way through
            self.close_connection = True
            return
        ends: dict[str, Api] = {
            "/responses": "responses",
            "/responses/compact": "responses",
            "/chat/completions": "chat",
            "/messages": "messages",
        }
        path = self.path.split("?")[0]
        api = next((api for end, api in ends.items() if path.endswith(end)), None)
        if api is None:
            self._error(Status(404, {}, {"error": {"message": f"no such path {path}"}}))
            return
        try:
            body = json.loads(raw.decode("utf-8"), parse_constant=_no_constant)
        except ValueError as error:
            self.server_of.faults.append(f"a body that is not JSON: {error}")
            self._error(Status(400, {}, {"error": {"message": "We could not parse the JSON body of your request."}}))
            return
        headers = {key.lower(): value for key, value in self.headers.items()}
        received = Received(api, path, headers, raw, body)
        try:
            compacting = path.endswith("/compact")
            entry = self.server_of.admit_compaction(received) if compacting else self.server_of.admit(received)
            if isinstance(entry, dict):
                self._plain(200, json.dumps(entry).encode(), {"content-type": "application/json"})
            else:
                self._answer(received, entry)
        except (BrokenPipeError, ConnectionResetError, ConnectionAbortedError):
            self.close_connection = True

    def _answer(self, received: Received, entry: Entry) -> None:
        memory = self.server_of.memory
        if isinstance(entry, Status):
            self._error(entry)
        elif isinstance(entry, RawSse):
            self._start(entry.content_type)
            self._chunk(entry.content)
            self._end(entry.abort)
        elif isinstance(entry, Reply) and not received.body.get("stream"):
            content = json.dumps(whole(received.api, received.body, entry, memory)).encode()
            self._plain(200, content, {"content-type": "application/json"})
        elif isinstance(entry, Reply):
            self._start("text/event-stream")
            for frame in frames(received.api, received.body, entry, memory):
                if entry.pace:
                    time.sleep(entry.pace)
                self._chunk(frame)
            self._end(False)
        elif isinstance(entry, Cut):
            self._start("text/event-stream")
            self._chunk(b"".join(self._part(received, entry.reply, entry.after)[: entry.after]))
            self._end(not entry.clean)
        else:
            self._hang(received, entry)

    def _part(self, received: Received, reply: Reply, after: int) -> list[bytes]:
        """The frames of a reply of which only the first `after` are sent; a part is not remembered as issued."""
        memory = self.server_of.memory
        events = frames(received.api, received.body, reply, memory.scratch())
        return events if after < len(events) else frames(received.api, received.body, reply, memory)

    def _hang(self, received: Received, entry: Hang) -> None:
        sent = 1 << 30 if entry.resume else entry.after
        events = self._part(received, entry.reply, sent) if entry.reply else []
        if entry.reply is not None:
            self._start("text/event-stream")
            self._chunk(b"".join(events[: entry.after]))
        deadline = time.monotonic() + entry.seconds
        while not self.server_of.closing.is_set() and (left := deadline - time.monotonic()) > 0:
            if self.server_of.closing.wait(min(left, entry.comment_every or 0.1)):
                break
            if entry.comment_every is not None:
                self._chunk(b": still here\n\n")
            elif self._left():
                break
        if entry.resume:
            for event in events[entry.after :]:
                self._chunk(event)
            self._end(False)
        else:
            self._end(True)

    def _left(self) -> bool:
        """Whether the client closed its side."""
        self.connection.setblocking(False)
        try:
            return not self.connection.recv(1, socket.MSG_PEEK)
        except BlockingIOError:
            return False
        except OSError:
            return True
        finally:
            self.connection.setblocking(True)

    def _start(self, content_type: str) -> None:
        self.send_response(200)
        self.send_header("content-type", content_type)
        self.send_header("transfer-encoding", "chunked")
        self.end_headers()

    def _chunk(self, content: bytes) -> None:
        if content:
            self.wfile.write(f"{len(content):x}\r\n".encode() + content + b"\r\n")
            self.wfile.flush()

    def _end(self, abort: bool) -> None:
        if abort:
            self.close_connection = True
            self.connection.shutdown(socket.SHUT_RDWR)
        else:
            self.wfile.write(b"0\r\n\r\n")

    def _error(self, entry: Status) -> None:
        default = {"error": {"message": f"scripted {entry.code}", "type": "scripted"}}
        body = default if entry.body is None else entry.body
        content = body.encode() if isinstance(body, str) else json.dumps(body).encode()
        kind = "text/html" if isinstance(body, str) else "application/json"
        self._plain(entry.code, content, {"content-type": kind, **entry.headers})

    def _plain(self, code: int, content: bytes, headers: Mapping[str, str]) -> None:
        self.send_response(code)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("content-length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)
