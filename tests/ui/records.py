"""Sessions as they are stored, for what shows them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Record = dict[str, Any]

SERVICE = "src/main/java/com/example/UserService.java"
READ_OUTPUT = (
    f"{SERVICE}: lines 10-14 of 40, sha256 3f2a\n"
    "10\tpublic User findById(String id) {\n11\t    User cached = cache.get(id);\n"
    "12\t    if (cached == null) {\n13\t        return null;\n14\t    }\n"
)


class Recorder:
    """Writes records with an envelope whose time goes on by `step` ms with each of them."""

    def __init__(self, step: int = 40) -> None:
        self.records: list[Record] = []
        self.turn = 1
        self.round = 0
        self._ms = 0
        self._step = step

    def add(self, type_: str, **fields: Any) -> None:
        self._ms += self._step
        minutes, ms = divmod(self._ms, 60_000)
        time = f"2026-03-01T{9 + minutes // 60:02d}:{minutes % 60:02d}:{ms // 1000:02d}.{ms % 1000:03d}+00:00"
        envelope = {"type": type_, "time": time, "session_id": "20260301-090000-abcde"}
        self.records.append({**envelope, "turn": self.turn, "round": self.round, **fields})

    def respond(self, text: str = "", sent: int = 5_000, cached: int = 3_000, out: int = 120) -> None:
        self.round += 1
        usage = {"input_tokens": sent, "cached_input_tokens": cached, "output_tokens": out}
        self.add("model_response", status="completed", finish="completed", usage=usage, text=text, items=[])

    def call(self, call_id: str, name: str, **arguments: Any) -> None:
        self.add("tool_call", call_id=call_id, name=name, arguments=json.dumps(arguments))

    def output(self, call_id: str, output: str, duration_ms: int = 12, error_kind: str | None = None) -> None:
        status = "ok" if error_kind is None else "error"
        self.add(
            "tool_output",
            call_id=call_id,
            status=status,
            error_kind=error_kind,
            output=output,
            duration_ms=duration_ms,
        )

    def start(self, message: str, repo: str = "/home/me/user-service") -> None:
        if not self.records:
            facts = {"repo": repo, "model": "gpt-5.6", "provider": "openai", "image": "codeagent-sandbox"}
            self.add("session_started", **facts, version="0.1.0")
        self.add("turn_started", message=message)

    def end(self, outcome: str | None = "answered", **fields: Any) -> None:
        ended: Record = {
            "outcome": outcome,
            "answer": None,
            "partial": None,
            "citations": [],
            "verification": {"status": "not_requested"},
            "rounds": self.round,
            "usage": {"input_tokens": 14_400, "cached_input_tokens": 10_000, "output_tokens": 440},
            "exit_code": 0,
        }
        self.add("turn_ended", **{**ended, **fields})


def citation(path: str, start: int, end: int, state: str = "read", calls: tuple[str, ...] = ()) -> Record:
    return {"path": path, "start_line": start, "end_line": end, "state": state, "call_ids": list(calls)}


def answered_session() -> list[Record]:
    """Reads, a missing file, an approved command, a change, a verification, an answer with citations."""
    log = Recorder()
    log.start("why does UserService return null for a known user?")
    log.respond("I will look at the service first.")
    log.call("c1", "read_file", path=SERVICE, start_line=10, end_line=14)
    log.call("c2", "read_file", path="src/Missing.java", start_line=None, end_line=None)
    log.output("c1", READ_OUTPUT)
    log.output("c2", "error: file_not_found: there is no src/Missing.java", 3, "file_not_found")
    log.add("retry", attempt=1, reason="429 too many requests", delay_ms=1500)
    log.respond()
    log.call("c3", "run_command", command="rg -n 'return null' src", workdir=None, timeout_seconds=None, writes=False)
    log.add("approval_decided", call_id="c3", decision="allow", by="class", reason="read-only")
    log.output(
        "c3",
        f"[exit code 0; 0.02 s; cwd /workspace]\n{SERVICE}:13:        return null;\nsrch/Cache.java:7:return null;\n",
        20,
    )
    log.call(
        "c4", "apply_patch", patch=f"--- a/{SERVICE}\n+++ b/{SERVICE}\n@@ -13 +13 @@\n-return null;\n+load(id);\n"
    )
    log.add("approval_requested", call_id="c4", command="…", **{"class": "ask"}, reason="it writes")
    log.add("approval_decided", call_id="c4", decision="allow", by="user", reason="")
    log.add("workspace_changed", paths=[SERVICE])
    log.output("c4", "patched 1 file", 45)
    run = {"exit_code": 1, "duration_ms": 1830, "tests": 12, "output_tail": "1 failed, 11 passed", "runs": 1}
    passed = {**run, "exit_code": 0, "output_tail": "12 passed"}
    record = {
        "status": "passed",
        "reason": "",
        "before": run,
        "after": passed,
        "tests_modified": [],
        "command": "make test",
        "directory": "/workspace",
        "image": "sha256:" + "c" * 64,
        "diff_sha256": "d" * 64,
        "repository": {"before": "e" * 64, "after": "e" * 64, "changed": []},
    }
    log.respond("final")
    log.add("verification", **record)
    log.end(
        answer=(
            "# Cause\n\nThe cache is asked first, and a miss ends the search: "
            f"`{SERVICE}:12-13` returns `null`.\n\n```java\nreturn null;\n```\n\n"
            f"Nothing else returns it, see {SERVICE}:99.\n\n"
            "| Where | What |\n| --- | --- |\n| 缓存 | `List<String>` |\n"
        ),
        citations=[
            citation(SERVICE, 12, 13, calls=("c1", "c3")),
            citation(SERVICE, 99, 99, "unread"),
        ],
        verification=record,
    )
    return log.records


HOSTILE = (
    "<script>document.title='pwned'</script><img src=x onerror=\"document.title='pwned'\">"
    "</script></style></pre>--><svg onload=document.title='pwned'>[/INST] [link=file:///x]a[/link] [bold"
    "\x1b[31m\x1b]8;;http://evil\x07 \u202e\u2028 😀 你 &lt;b&gt; javascript:alert(1) \udce9 ${x} `x`"
)


def hostile_session() -> list[Record]:
    """The same hostile text in every field that comes from outside, and an output of a megabyte."""
    log = Recorder()
    log.start(HOSTILE, repo=HOSTILE)
    log.respond(HOSTILE)
    log.call(HOSTILE, HOSTILE, path=HOSTILE)
    log.add("approval_requested", call_id=HOSTILE, command=HOSTILE, **{"class": HOSTILE}, reason=HOSTILE)
    log.add("approval_decided", call_id=HOSTILE, decision="deny", by="rule", reason=HOSTILE)
    log.output(HOSTILE, HOSTILE, error_kind=HOSTILE)
    log.call("big", "run_command", command=HOSTILE * 50)
    log.output("big", (HOSTILE + "\n") * 5_000)
    log.add("retry", attempt=1, reason=HOSTILE, delay_ms=5)
    log.add("note", origin="repository", text=HOSTILE)
    log.add("note", origin="program", text=HOSTILE)
    log.add("workspace_changed", paths=[HOSTILE])
    made = {"api": HOSTILE, "items": [HOSTILE], "usage": {HOSTILE: 1}}
    log.add("compacted", cleared_calls=[HOSTILE], summarised_rounds=2, summary=HOSTILE, compaction=made)
    log.add("grant", action="given", kind="exact", command=HOSTILE, workdir=HOSTILE)
    log.add(HOSTILE, anything=HOSTILE)
    run = {"exit_code": 1, "duration_ms": 10, "tests": None, "output_tail": HOSTILE, "runs": 1}
    record = {
        "status": "not_run",
        "reason": HOSTILE,
        "before": run,
        "after": run,
        "tests_modified": [HOSTILE],
        "command": HOSTILE,
        "directory": HOSTILE,
        "image": HOSTILE,
        "diff_sha256": HOSTILE,
        "remedy": HOSTILE,
        "notices": [HOSTILE],
        "repository": {"before": HOSTILE, "after": "", "changed": [HOSTILE]},
    }
    log.add("verification", **record)
    answer = (
        f"{HOSTILE}\n\n[click](javascript:alert(1)) ![i](http://evil/x.png) <http://evil>\n\n[r]: http://evil\n\n[r]"
    )
    citations = [citation(HOSTILE, 1, 2, HOSTILE, ("big",)), citation('"><script>', 1, 1, "missing")]
    log.end(answer=answer, partial=HOSTILE, citations=citations, verification=record)
    return log.records


def long_session(events: int) -> Iterator[Record]:
    """`events` records of reads and searches with outputs of about 1.5 KB."""
    log = Recorder(step=25)
    log.start("a long one")
    output = "\n".join(f"{number}\tint value{number} = {number}; // some text" for number in range(1, 40))
    for number in range((events - 3) // 2):
        log.call(f"c{number}", "read_file", path=f"src/file{number}.c", start_line=1, end_line=40)
        failed = "file_not_found" if number % 50 == 0 else None
        log.output(f"c{number}", f"src/file{number}.c: lines 1-40\n{output}", 8, failed)
    log.end(answer="Done.")
    yield from log.records
