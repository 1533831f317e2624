from __future__ import annotations

import io
import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from codeagent.ui.answer import print_answer, rendered
from codeagent.ui.citations import marked
from codeagent.ui.report.answer import answer_html
from tests.ui.records import HOSTILE
from tests.ui.screens import OWN_SEQUENCES, PtyScreen


def test_off_a_terminal_the_text_is_exact() -> None:
    out = io.StringIO()
    print_answer(f"# Title\n\n{'long ' * 60}\x1b[31m[/INST]\n", out, {})
    assert out.getvalue() == f"# Title\n\n{'long ' * 60}\x1b[31m[/INST]\n"


def test_a_missing_last_newline_is_added() -> None:
    out = io.StringIO()
    print_answer("answer", out, {})
    assert out.getvalue() == "answer\n"


def test_on_a_terminal_markdown_is_rendered_and_code_is_kept() -> None:
    text = "# Cause\n\n`Map<String, User>` is &lt;b&gt; **bold** <script>x</script>\n\n```java\nreturn x[0];\n```\n"
    assert rendered(text, 80, colour=False) == (
        "Cause\n\nMap<String, User> is &lt;b&gt; bold <script>x</script>\n\n  return x[0];\n"
    )


def test_a_line_of_code_is_never_broken_or_cut() -> None:
    line = "docker run --rm " + "--volume /somewhere:/elsewhere " * 3 + "image"
    assert rendered(f"Run:\n\n```sh\n{line}\nls\n```\n", 40, colour=False) == f"Run:\n\n  {line}\n  ls\n"
    listed = rendered(f"- so:\n\n  ```sh\n  {line}\n  ```\n- > ```\n  > {line}\n  > ```\n", 40, colour=False)
    assert listed == f" • so:\n     {line}\n • ▌   {line}\n"
    told = rendered("To look at it again, run `git diff --stat` here.", 30, colour=False)
    assert told == "To look at it again, run\ngit diff --stat here.\n"


NAMES = [
    "pkg/__init__.py:2",
    "__main__.py",
    "a*b*c",
    "*file*",
    "_name_",
    "__all__",
    "2**3 + 4**5",
    "src/**/*.py and tests/**/*.py",
    "f(*args, **kwargs) and g(**a,**b)",
    "handlers[name](event)",
    "~/a~~b~~c",
    "**a**.py:3",
]


@pytest.mark.parametrize("name", NAMES)
def test_names_are_shown_as_they_were_typed(name: str) -> None:
    assert rendered(f"in {name} and `{name}`", 120, colour=False) == f"in {name} and {name}\n"
    assert answer_html(f"in {name}", [], 1) == f"<p>in {name}</p>\n"


def test_whole_words_may_be_bold_and_a_cited_path_within_keeps_its_mark() -> None:
    cited = [{"path": "pkg/__init__.py", "start_line": 2, "end_line": 2, "state": "read"}]
    text = "**Cause**: **`pkg/__init__.py:2`**: see pkg/__init__.py:2 (**note**) 这是**重要**的"
    shown = rendered(text, 120, colour=False, mark=lambda part: marked(part, cited))
    assert shown == "Cause: pkg/__init__.py:2 ✓: see pkg/__init__.py:2 ✓ (note) 这是重要的\n"
    link = '<a class="cite seen" href="#cite-1-0">pkg/__init__.py:2</a>'
    assert answer_html(text, cited, 1) == (
        f"<p><strong>Cause</strong>: <strong><code>{link}</code></strong>: see {link} "
        "(<strong>note</strong>) 这是<strong>重要</strong>的</p>\n"
    )


def test_links_show_where_they_lead_and_escape_sequences_do_nothing() -> None:
    with PtyScreen() as pty:
        print_answer(f"[click](http://evil/x)\n\n{HOSTILE}", pty.stream, {"TERM": "xterm"})
        sent = pty.sent
    left = OWN_SEQUENCES.sub("", sent)
    assert "[click](http://evil/x)" in left
    assert [one for one in left if not one.isprintable() and one not in "\r\n"] == []


@pytest.mark.parametrize("text", ["[/]", "[/INST]", "[bold", "[link=file:///x]a[/link]", ":smile: [red]x[/red]"])
def test_what_looks_like_markup_is_text(text: str) -> None:
    assert rendered(text, 80, colour=False) == text + "\n"


@pytest.mark.parametrize("width", [0, 1, 5, 20])
def test_tiny_widths_do_not_crash(width: int) -> None:
    assert rendered("# a\n\n| a | b |\n|---|---|\n| 你好 | 😀 |\n\n- x\n- y\n", width, colour=True)


def test_a_dumb_terminal_gets_inert_text() -> None:
    with PtyScreen() as pty:
        print_answer("# T\n\x1b[31mx", pty.stream, {"TERM": "dumb"})
        assert pty.shown() == ["# T", "\\x1b[31mx"]


def test_a_pipe_that_is_closed_is_no_error() -> None:
    script = "import sys; from codeagent.ui.answer import print_answer; print_answer('x' * 10**6, sys.stdout)"
    shell = f'{sys.executable} -c "$0" | head -c 1; echo " ${{PIPESTATUS[0]}}"'
    ran = subprocess.run(
        ["bash", "-c", shell, script], capture_output=True, text=True, timeout=60, env={**os.environ, "TERM": "xterm"}
    )
    assert (ran.stdout, ran.stderr) == ("x 0\n", "")


MARKDOWN = st.lists(
    st.one_of(
        st.text(max_size=12),
        st.sampled_from(
            [
                *"#-*_`>|\\\n\t你😀",
                "```",
                "~~~",
                "\n\n",
                "[a](b)",
                "![i](u)",
                "<b>",
                "&amp;",
                "1.",
                "---",
                ":---",
                "\x1b[31m",
            ]
        ),
    ),
    max_size=30,
).map(" ".join)


@pytest.mark.slow
@given(MARKDOWN, st.integers(0, 120), st.booleans())
@settings(max_examples=200, deadline=None)
def test_any_text_can_be_rendered_and_nothing_in_it_acts(text: str, width: int, colour: bool) -> None:
    left = OWN_SEQUENCES.sub("", rendered(text, width, colour=colour))
    assert [
        one for one in left if not one.isprintable() and one not in "\n\u200c\u200d\u3000\xa0" and one.isascii()
    ] == []
