"""The live view of a run, on stderr: one line a call that fills in as it runs, and a footer.

`Terminal.record` is a subscriber of event records; `hint` and `steps` take what is only for the eye. The
answer alone goes to stdout. All text from outside passes `codeagent.ui.inert` before it is shown.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from threading import Event, RLock, Thread
from types import TracebackType
from typing import Any, Self, TextIO

from codeagent.inference import RetryNotice, TextDelta
from codeagent.settings import Price, SandboxSettings
from codeagent.ui import ending, wording
from codeagent.ui.answer import print_answer
from codeagent.ui.calls import Call, call_of, columns, finish, finished, unfinished
from codeagent.ui.inert import cells, inert, inert_line
from codeagent.ui.screen import Line, Screen
from codeagent.ui.turn import MODEL, SANDBOX, Step, Turn
from codeagent.ui.verified import run_line

_TICK_SECONDS = 0.1
_PATIENCE_SECONDS = 0.5  # anything slower shows that it is alive
_PLAIN_STEP_SECONDS = 10.0  # off a terminal, progress is a new line, so it comes rarely
_SHORT_TEXT_LINES = 4
_VERBOSE_OUTPUT_LINES = 40
_WAITING = {"offline": "working by fixed rules"}
DEFAULT_IMAGE = SandboxSettings().image


class Terminal:
    """Shows one run, or many turns of a chat. May be told things from several threads.

    `out` takes the answer, None when stdout belongs to `--json`. With `live`, lines are redrawn where `err` can do
    that, but not while something else is printed to the same terminal. `quiet` leaves the answer, the count of
    its citations, errors and the two lines at the end; `verbose` adds outputs, decisions and whole texts.
    """

    def __init__(
        self,
        out: TextIO | None,
        err: TextIO,
        *,
        live: bool = True,
        quiet: bool = False,
        verbose: bool = False,
        no_color: bool = False,
        price: Price | None = None,
        environ: Mapping[str, str] = os.environ,
    ) -> None:
        self.hints = True
        """Whether the end of a turn says how to go on; a chat says it at its own end."""
        self.changed = False
        """Whether the session holds a change; a session that is taken up may bring one along."""
        self._out = out
        self._quiet = quiet
        self._verbose = verbose
        self._no_color = no_color
        self._environ = environ
        self._screen = Screen(err, environ, live=live, no_color=no_color)
        self._turn = Turn(price, time.monotonic())
        self._lock = RLock()
        self._over = Event()
        self._began: float | None = None
        self._has_model = True
        self._image = ""  # the session's, where it is not the default one
        self._ticker: Thread | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Takes the block off the screen and ends the ticker. May be called twice."""
        self._over.set()
        with self._lock:
            self._turn.forget_running()
            self._screen.write([])

    # -- what happened ---------------------------------------------------------------------------

    def record(self, record: Mapping[str, Any]) -> None:
        """Shows one event record; types that it does not know are left alone."""
        show = getattr(self, f"_on_{record.get('type')}", None)
        if show is not None:
            with self._lock:
                self._turn.round = int(record.get("round") or self._turn.round)
                show(record)

    def hint(self, hint: TextDelta | RetryNotice) -> None:
        """Text as it streams in; a retry makes what was shown of the response void."""
        with self._lock:
            if not isinstance(hint, TextDelta):
                self._turn.preview.clear()
            elif self._screen.live and not self._quiet:
                self._turn.preview.add(hint.text)

    def steps(self, what: str, done: int, total: int) -> None:
        """Progress of something slow (`codeagent.sandbox.seam.Steps`); an empty `what` says that it is over."""
        with self._lock:
            now = time.monotonic()
            step = self._turn.step(inert_line(what), done, total, now)
            if self._screen.live:
                self._start_ticking()
                self._draw()
            elif step is None or self._quiet:
                return
            elif now - step.started >= _PATIENCE_SECONDS and now - step.told >= _PLAIN_STEP_SECONDS:
                step.told = now
                self._say([(step.text(), "")])

    def begin_turn(self) -> None:
        """The turn's time counts from now: what is done before its first event is a part of it."""
        with self._lock:
            self._began = time.monotonic()
            self._turn = Turn(self._turn.price, self._began)

    def begin_round(self, api: str) -> None:
        """What comes next is a response over `api`; until the first, a turn waits for its sandbox."""
        with self._lock:
            self._take_up()
            self._turn.waiting_for, self._turn.thinking_since = _WAITING.get(api, MODEL), time.monotonic()
            self._draw()

    def charge(self, price: Price | None) -> None:
        """What the cost of the next turns is computed with; None where nothing is known."""
        with self._lock:
            self._turn.price = price

    def step_aside(self) -> None:
        """Takes the block off the screen, for an error that is told before the turn's end."""
        with self._lock:
            self._screen.write([])
            self._turn.asking = True

    def note(self, text: str, style: str = "", hang: int = 0) -> None:
        """Sentences of the program's own, a line each, for example which provider was chosen."""
        with self._lock:
            lines = inert(text).splitlines()
            self._say(*(piece for line in lines for piece in self._screen.wrapped(line, style, hang)))

    def verbatim(self, text: str, style: str = "") -> None:
        """One line as it is, tabs and all, however long."""
        with self._lock:
            self._say([(inert(text), style)])

    # -- one method an event type ----------------------------------------------------------------

    def _on_session_started(self, record: Mapping[str, Any]) -> None:
        self._has_model = record.get("provider") != "offline"
        who = dict.fromkeys(str(record[name]) for name in ("provider", "model") if record.get(name))
        self._image = "" if record.get("image") == DEFAULT_IMAGE else str(record.get("image"))
        image = [f"image {self._image}"] if self._image else []
        said = [self._path(str(record.get("repo"))), " ".join(who), *image, f"session {record.get('session_id')}"]
        self._say(*self._screen.wrapped(inert_line(self._screen.dot.join(said))))

    def _path(self, path: str) -> str:
        """Below the home directory as shells write it; off a terminal as it is."""
        home = self._environ.get("HOME", "").rstrip("/") if self._screen.live else ""
        return f"~{path[len(home) :]}" if home and path.startswith(f"{home}/") else path

    def _on_session_resumed(self, record: Mapping[str, Any]) -> None:
        self._on_session_started(record)
        for sentence in wording.repairs(record):
            self._say(*self._screen.wrapped(sentence, "warn"))

    def _on_turn_started(self, _record: Mapping[str, Any]) -> None:
        now = time.monotonic()
        self._turn = Turn(self._turn.price, self._began or now, running=True, thinking_since=now, waiting_for=SANDBOX)
        self._start_ticking()
        self._draw()

    def _on_model_response(self, record: Mapping[str, Any]) -> None:
        self._take_up()
        self._say_text()
        self._turn.respond(record.get("usage") or {}, inert(str(record.get("text") or "")))
        if record.get("status") != "completed":
            word = inert_line(f"response {record.get('status')}: {record.get('finish')}")
            self._say([(word, "warn")])
        self._draw()

    def _take_up(self) -> None:
        """A turn that is taken up again, after an interruption, has no start of its own."""
        if not self._turn.running:
            began = self._began or time.monotonic()
            self._turn = Turn(self._turn.price, began, running=True, round=self._turn.round)
            self._start_ticking()

    def _on_tool_call(self, record: Mapping[str, Any]) -> None:
        self._say_text()
        call = call_of(record, time.monotonic())
        self._turn.calls[call.call_id] = call
        self._draw()

    def _on_approval_requested(self, _record: Mapping[str, Any]) -> None:
        # The prompt writes to the same screen: nothing else may until it is answered.
        self._screen.write([])
        self._turn.asking = True

    def _on_approval_decided(self, record: Mapping[str, Any]) -> None:
        self._turn.asking = False
        if call := self._turn.calls.get(str(record.get("call_id"))):
            call.started = time.monotonic()
        told = record.get("decision") != "allow" and record.get("by") != "user"
        if told or self._verbose:
            said = f"{record.get('decision')} by {record.get('by')}: {record.get('reason') or 'no reason given'}"
            self._say([("  " + inert_line(said), "warn" if told else "dim")])
        self._draw()

    def _on_tool_output(self, record: Mapping[str, Any]) -> None:
        self._turn.asking = False
        call = self._turn.calls.get(str(record.get("call_id")))
        if call is None:
            return
        finish(call, record)
        lines = [line for done in self._turn.take_finished() for line in finished(done, self._screen)]
        if self._verbose:
            lines.extend(self._output(str(record.get("output") or "")))
        if not self._turn.calls:
            self._turn.thinking_since = time.monotonic()
        lines.extend(self._turn.afterwards)
        self._turn.afterwards.clear()
        self._say(*lines)

    def _on_retry(self, record: Mapping[str, Any]) -> None:
        self._turn.preview.clear()
        delay = float(record.get("delay_ms") or 0) / 1000
        soon = f" in {delay:.1f}s" if delay else ""
        said = f"retry {record.get('attempt')}{soon}: {record.get('reason')}"
        self._say([(inert_line(said), "warn")])

    def _on_compacted(self, record: Mapping[str, Any]) -> None:
        cleared, summarised = len(record.get("cleared_calls") or ()), int(record.get("summarised_rounds") or 0)
        compaction = record.get("compaction") or {}
        self._turn.spend(compaction.get("usage") or {})
        said = f"context: {wording.counted(cleared, 'old output')} cleared"
        if record.get("summary"):
            how = "compacted by the API" if compaction else "summarised"
            said += f", {wording.counted(summarised, 'round')} {how}"
        self._say([(said, "dim")])

    def _on_note(self, record: Mapping[str, Any]) -> None:
        text = str(record.get("text") or "")
        if self._verbose:
            self._say(*[[("note: " + line, "dim")] for line in inert(text).splitlines() or [""]])
            return
        if record.get("origin") == "repository" and self._has_model:  # the program's own ask the model for something
            size = wording.size(len(text.encode("utf-8", "replace")))
            told = f"note: the model was given the repository's own instructions ({size}, untrusted)"
            self._say(*self._screen.wrapped(inert_line(told), hang=2))

    def _on_workspace_changed(self, record: Mapping[str, Any]) -> None:
        paths = [inert_line(str(path)) for path in record.get("paths") or ()]
        self.changed = bool(paths)
        lines = self._screen.wrapped(f"  changed in the private copy: {', '.join(paths) or 'nothing'}", hang=2)
        if self._turn.calls:
            self._turn.afterwards.extend(lines)  # the call that did it is about to end
        else:
            self._say(*lines)

    def _on_verification(self, record: Mapping[str, Any]) -> None:
        self._turn.step("", 0, 0, time.monotonic())
        if self._verbose:
            for when in ("before", "after"):
                if run := record.get(when):
                    said = f"{when} the change: {run_line(run)}"
                    self._say([(inert_line(said), "dim")], *self._output(str(run.get("output_tail") or "")))

    def _on_turn_ended(self, record: Mapping[str, Any]) -> None:
        self._say_text(final=True)
        self._turn.end(record)
        footer = self._turn.footers(time.monotonic(), self._screen.dot)[0]
        unanswered = [line for call in self._turn.calls.values() for line in unfinished(call, self._screen)]
        self._turn.forget_running()
        self._began = None
        self._say(*unanswered)
        self._screen.write([])
        try:
            if record.get("answer"):
                self._print_answer(record)
        finally:  # an answer that cannot be written, on a full disk, does not take the facts with it
            for line in self._ending(record, footer):
                self._screen.write([line])

    # -- lines -----------------------------------------------------------------------------------

    def _print_answer(self, record: Mapping[str, Any]) -> None:
        if self._out is None:
            return
        apart: list[Line] = [[("", "")]] if self._screen.live and not self._quiet else []
        self._screen.write(apart)
        print_answer(
            str(record["answer"]),
            self._out,
            self._environ,
            no_color=self._no_color,
            citations=record.get("citations") or (),
        )
        self._screen.write(apart)

    def _ending(self, record: Mapping[str, Any], footer: str) -> list[Line]:
        """What stands under the answer; the two facts always, each on its own line."""
        above = ending.citations(record)  # also what explains the marks in the answer
        below: list[str] = []
        if not self._quiet:
            above += ending.limits(record)
            below = [*ending.verified(record), footer]
            if self.hints:
                below += ending.next_steps(record, changed=self.changed, image=self._image)
            else:
                below += ending.next_step_here(record, image=self._image)
        faint_above, faint_below = ([(inert_line(text), "dim") for text in texts] for texts in (above, below))
        told = [*ending.partial(record), *faint_above, *ending.facts(record), *faint_below]
        return [line for text, style in told for line in self._screen.wrapped(text, style)]

    def _output(self, text: str) -> list[Line]:
        lines = inert(text).splitlines()
        shown: list[Line] = [[("    | " + line, "dim")] for line in lines[:_VERBOSE_OUTPUT_LINES]]
        if len(lines) > _VERBOSE_OUTPUT_LINES:
            left = len(lines) - _VERBOSE_OUTPUT_LINES
            shown.append([(f"    | ({wording.counted(left, 'line')} more)", "dim")])
        return shown

    def _say_text(self, *, final: bool = False) -> None:
        """What the model said beside its calls; the last text is the answer, which has its own place."""
        lines = self._turn.take_text().strip().splitlines()
        if final or not lines:
            return
        shown = lines if self._verbose else lines[:_SHORT_TEXT_LINES]
        more = [f"({wording.counted(len(lines) - len(shown), 'line')} more)"] if len(shown) < len(lines) else []
        self._say(*[[("  " + line, "dim")] for line in shown + more])

    # -- drawing ---------------------------------------------------------------------------------

    def _say(self, *lines: Line) -> None:
        """Lines for good. During a prompt they wait for the answer."""
        if self._quiet:
            return
        self._turn.waiting_lines.extend(lines)
        self._draw()

    def _draw(self) -> None:
        if self._quiet or self._turn.asking:
            return
        lines, self._turn.waiting_lines = self._turn.waiting_lines, []
        self._screen.write(lines, self._block() if self._screen.live else ())

    def _block(self) -> list[Line]:
        turn, now = self._turn, time.monotonic()
        if not turn.running:
            step = turn.current_step
            return [self._stepping(step, now)] if step else []
        block = turn.preview.lines(self._screen.width - 2, self._screen.height // 3, colour=self._screen.colour)
        block.extend(self._running(call, now) for call in turn.calls.values())
        if step := turn.current_step:
            block.append(self._stepping(step, now))
        footers = turn.footers(now, self._screen.dot)
        if turn.thinking_since is not None and not (turn.current_step and turn.waiting_for == SANDBOX):
            longest = [f"{turn.waiting_for}{self._screen.dot}{footer}" for footer in footers[:2]]
            return [*block, self._spinning(self._fitting([*longest, *footers[1:]]), turn.thinking_since, now)]
        return [*block, [("  " + self._fitting(footers), "dim")]]

    def _fitting(self, forms: Sequence[str]) -> str:
        """The first form that the screen is wide enough for, beside a spinner; the last where none is."""
        return next((form for form in forms if cells(form) + 2 <= self._screen.width), forms[-1])

    def _running(self, call: Call, now: float) -> Line:
        if call.finished:
            return finished(call, self._screen)[0]
        waited = now - call.started
        status = self._frame(now) if waited >= _PATIENCE_SECONDS else ""
        return columns(call, wording.duration(waited) if status else "", "", status, "name", self._screen)

    def _stepping(self, step: Step, now: float) -> Line:
        waited = now - step.started
        took = f"{self._screen.dot}{wording.duration(waited)}" if waited >= _PATIENCE_SECONDS else ""
        return self._spinning(step.text() + took, step.started, now)

    def _spinning(self, text: str, since: float, now: float) -> Line:
        frame = self._frame(now) if now - since >= _PATIENCE_SECONDS else " "
        return [(f"{frame} ", "name"), (text, "dim")]

    def _frame(self, now: float) -> str:
        return self._screen.spinner[int(now / _TICK_SECONDS) % len(self._screen.spinner)]

    def _start_ticking(self) -> None:
        if self._screen.live and not self._quiet and self._ticker is None:
            self._ticker = Thread(target=self._tick, name="codeagent-screen", daemon=True)
            self._ticker.start()

    def _tick(self) -> None:
        while not self._over.wait(_TICK_SECONDS):
            with self._lock:
                if not self._over.is_set() and (self._turn.running or self._turn.current_step):
                    self._draw()
