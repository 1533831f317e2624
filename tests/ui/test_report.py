"""What the page says, read as HTML; what it does in a browser is in test_report_browser.py."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser

import pytest

from codeagent.session.tell import markdown, trace
from codeagent.ui.inert import inert
from codeagent.ui.report import render_html
from codeagent.ui.report.cited import cited_lines
from codeagent.ui.report.story import read_story
from tests.ui.records import HOSTILE, SERVICE, Recorder, answered_session, citation, hostile_session

ALLOWED_TAGS = set(
    "html head meta title style body main header section article p span dl div dt dd h1 h2 h3 blockquote details "
    "summary pre code table thead tbody tr th td button input b a noscript script strong em s ul ol li hr br".split()
)


class Elements(HTMLParser):
    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: set[str] = set()
        self.attributes: set[tuple[str, str]] = set()
        self.texts: list[str] = []
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.attributes.update((name, value or "") for name, value in attrs)

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_a_hostile_session_adds_no_element_and_no_attribute_of_its_own() -> None:
    page = Elements(render_html(hostile_session(), f"+{HOSTILE}".encode("utf-8", "surrogateescape")))
    assert page.tags <= ALLOWED_TAGS
    names = {name for name, _ in page.attributes}
    assert {name for name in names if name.startswith("on") or name in ("src", "style", "srcset")} == set()
    assert {value for name, value in page.attributes if name == "href"} <= {"#cite-1-0", "#cite-1-1"}


def test_the_page_refers_to_nothing_outside_itself() -> None:
    html = render_html(answered_session())
    markup = re.sub(r"<script type=\"application/json\".*?</script>", "", html, flags=re.DOTALL)
    assert not re.findall(r"(?:src|href)\s*=\s*[\"'](?!#)|url\(|@import|https?:", markup)


def test_the_rows_in_the_page_cannot_end_their_script_element() -> None:
    html = render_html(hostile_session())
    data = re.findall(r'<script type="application/json"[^>]*>(.*?)</script>', html, flags=re.DOTALL)
    assert len(data) == 3  # the rows, and two pieces of their texts
    assert not [part for part in data if "<" in part]
    rows, *pieces = (json.loads(part) for part in data)
    assert [row[1] for row in rows][:2] == ["question", "model response"]
    label, piece, place = rows[0][-1][0]
    assert (label, pieces[piece][place]) == ("question", inert(HOSTILE))


def test_the_answer_its_citations_and_the_lines_that_the_model_saw() -> None:
    html = render_html(answered_session())
    assert f'<code><a class="cite seen" href="#cite-1-0">{SERVICE}:12-13</a></code>' in html
    assert f'<a class="cite unseen" href="#cite-1-1">{SERVICE}:99</a>.' in html
    assert "<pre>    12      if (cached == null) {\n    13          return null;</pre>" in html
    assert "No output of a tool shows these lines." in html
    assert "1 of 2 citations: lines were seen by the tools." in html


def test_both_facts_stand_apart_and_both_outputs_of_the_verification_are_there() -> None:
    html = render_html(answered_session())
    assert '<p class="fact ">Loop: answered after 3 rounds</p>' in html
    assert '<p class="fact good">Fix: verified (the command fails before the change and passes after it)</p>' in html
    assert "1 failed, 11 passed" in html
    assert "exit 0, 1.83s, 12 tests<" in html


def test_a_diff_is_shown_to_the_byte_and_marked_by_line() -> None:
    html = render_html(answered_session(), b"--- a/x\n+++ b/x\n@@ -1 +1 @@\n-caf\xe9 <b>\n+\xe4\xbd\xa0\n same\n")
    assert '<span class="del">-caf\\xe9 &lt;b&gt;</span>\n<span class="add">+你</span>\n same\n' in html


def test_a_session_that_was_cut_off_is_told_as_far_as_it_went() -> None:
    html = render_html(answered_session()[:4])
    assert "This turn has no recorded end." in html
    rows = json.loads(re.findall(r'id="rows">(.*?)</script>', html, flags=re.DOTALL)[0])
    assert [row[7] for row in rows if row[1] == "read_file"] == ["no output"]


def test_nothing_at_all_still_gives_a_page() -> None:
    assert "<title>session — codeagent</title>" in render_html([])


def test_records_of_a_wrong_shape_do_not_stop_the_page() -> None:
    odd: list[dict[str, object]] = [
        {"type": "turn_started", "message": None, "turn": "x", "time": 5},
        {"type": "tool_output", "call_id": None, "duration_ms": "soon", "output": 7},
        {"type": "model_response", "usage": None, "text": None},
        {"type": "approval_decided"},
        {"type": "turn_ended", "outcome": "someday", "citations": ["x", 5], "answer": "a", "usage": None},
        {"type": 5},
        {},
    ]
    assert "Loop: someday after 0 rounds" in render_html(odd)


@pytest.mark.slow
def test_texts_beyond_the_limit_are_counted_not_embedded() -> None:
    log = Recorder()
    log.start("big")
    for number in range(30):
        log.call(f"c{number}", "run_command", command="cat big")
        log.output(f"c{number}", "x" * (2 << 20))
    html = render_html(log.records)
    assert len(html) < 50 << 20
    assert "texts were left out of this page." in html


def test_lines_are_found_in_numbered_and_in_searched_output() -> None:
    outputs = {
        "read": ("read_file", "a/b.py: lines 1-3 of 3\n1\tone\n 2\ttwo\n3\tthree"),
        "grep": ("run_command", "exit code 0\na/b.py:7:seven: 7\n./a/b.py:8:eight\nother.py:9:nine\na/b.py-6-six"),
    }
    assert cited_lines(citation("a/b.py", 2, 3, calls=("read",)), outputs) == [(2, "two"), (3, "three")]
    assert cited_lines(citation("a/b.py", 6, 9, calls=("grep", "gone")), outputs) == [
        (6, "six"),
        (7, "seven: 7"),
        (8, "eight"),
    ]


def test_a_response_takes_the_time_since_what_was_before_it_ended() -> None:
    log = Recorder(step=100)
    log.start("q")
    log.call("c1", "run_command", command="sleep 1")
    log.output("c1", "[exit code 0; 1 s; cwd /workspace]", 1000)
    log.respond("x")
    rows = {row.title: (row.at, row.took) for row in read_story(log.records).rows}
    assert rows == {"question": (0, 0), "run_command": (100, 1000), "model response": (300, 100)}


def test_what_limited_an_answer_and_who_allowed_what_is_told() -> None:
    log = Recorder()
    log.start("q")
    for call_id, by in (("c1", "class"), ("c2", "user"), ("c3", "no_terminal")):
        log.call(call_id, "run_command", command="make")
        log.add(
            "approval_decided", call_id=call_id, decision="allow" if by != "no_terminal" else "deny", by=by, reason=""
        )
        log.output(call_id, "x")
    log.end(
        answer="Done.", limits=[{"kind": "denied", "call_id": "c3", "subject": "make"}], unsupported=["All pass."]
    )
    texts = Elements(render_html(log.records)).texts
    assert (
        "No evidence cited.\nUnsupported claim (no recorded run shows it): All pass.\n"
        "What limited the answer (1 call):\n  denied: make"
    ) in texts
    assert [row.decided for row in read_story(log.records).rows if row.kind == "command"] == [
        "",
        "allowed by the user",
        "denied as nobody could be asked",
    ]


def test_what_an_answer_rests_on_and_what_not_stand_under_headings_of_their_own() -> None:
    log = Recorder()
    log.start("q")
    limits = [{"kind": "denied", "call_id": "c3", "subject": "make"}]
    log.end(answer="See a.py:1.", citations=[citation("a.py", 1, 1)], limits=limits)
    caveat = "That says that the lines were seen, not that the claim is true."
    assert (
        f"### What it rests on\n\n```\n1 of 1 citation: lines were seen by the tools. {caveat}\n```\n\n"
        "### What it does not rest on\n\n```\nWhat limited the answer (1 call):\n  denied: make\n```\n\n"
    ) in markdown(read_story(log.records), None)
    bare = Recorder()
    bare.start("q")
    bare.end(answer="Done.")
    assert "What it rests on" not in markdown(read_story(bare.records), None)


def test_the_whole_record_of_a_verification_is_told_in_every_form() -> None:
    story = read_story(answered_session())
    page = "\n".join(Elements(render_html(answered_session())).texts)
    told = ("\n".join(trace(story, full=False)), markdown(story, None), page)
    for form in told:
        for part in (
            f"Check: make test (in /workspace of image sha256:{'c' * 64})",
            "Before the change: exit 1, 1.83s, 12 tests",
            "With the change: exit 0, 1.83s, 12 tests",
            f"Change: diff with SHA-256 {'d' * 64}",
            f"Your repository: untouched (state {'e' * 64} before and after)",
            "1 failed, 11 passed",
        ):
            assert part in form


def test_a_trace_tells_a_long_command_by_its_beginning_and_whole_when_asked() -> None:
    log = Recorder()
    log.start("q")
    log.call("c", "run_command", command="rg " + "x" * 600)
    log.output("c", "[exit code 0; 0.02 s; cwd /workspace]")
    story = read_story(log.records)
    for full, told in ((False, f"run_command rg {'x' * 116}…  ok"), (True, f"run_command rg {'x' * 600}  ok")):
        assert [line for line in trace(story, full=full) if told in line]
