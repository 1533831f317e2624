from __future__ import annotations

import os
import re
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pexpect
import pytest

from codeagent.ui.editor import commands_like, paths_like

pytestmark = pytest.mark.slow

SCRIPT = """
import sys
from pathlib import Path
from codeagent.ui.editor import Editor
editor = Editor(Path(sys.argv[1]), {"/help": "this list", "/diff": "the change"}, Path(sys.argv[2]))
while True:
    try:
        print("GOT " + repr(editor.read("shop · [/INST] \\x1b[31m")), flush=True)
    except KeyboardInterrupt:
        print("GOT interrupt", flush=True)
    except EOFError:
        print("GOT end", flush=True)
        break
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    root = tmp_path / "shop"
    (root / "src" / "main").mkdir(parents=True)
    for name in ("src/user_service.py", "src/user_cache.py", "src/a b.py", "src/\x1b[31m.py", ".env"):
        (root / name).write_text("")
    return root


@contextmanager
def editing(root: Path) -> Iterator[pexpect.spawn[str]]:
    history = root.parent / "history"
    env = {**os.environ, "TERM": "xterm", "PROMPT_TOOLKIT_NO_CPR": "1"}
    child = pexpect.spawn(
        sys.executable, ["-c", SCRIPT, str(root), str(history)], env=env, encoding="utf-8", timeout=60
    )
    try:
        prompted(child)
        yield child
    finally:
        child.close(force=True)


def prompted(child: pexpect.spawn[str]) -> None:
    """Waits until the editor reads: the terminal takes what comes earlier by its own rules."""
    child.expect(r">.*\x1b\[\?25h")


def got(child: pexpect.spawn[str], expected: str) -> None:
    child.expect_exact(f"GOT {expected}\r\n")
    if expected != "end":
        prompted(child)


def test_a_message_is_sent_by_enter_and_may_have_several_lines(root: Path) -> None:
    with editing(root) as child:
        child.send("why?\r")
        got(child, "'why?'")
        child.send("first\\\rsecond\x1b\rthird\r")
        got(child, "'first\\nsecond\\nthird'")
        child.send("\x1b[200~pasted\nlines\x1b[201~\r")
        got(child, "'pasted\\nlines'")
        child.send("\r  \rtext\r")
        got(child, "'  text'")


def test_earlier_messages_come_back_also_in_the_next_program(root: Path) -> None:
    with editing(root) as child:
        child.send("remember me\r")
        got(child, "'remember me'")
        child.send("\x1b[A\r")
        got(child, "'remember me'")
    with editing(root) as child:
        child.send("\x1b[A\r")
        got(child, "'remember me'")
    assert stat.S_IMODE((root.parent / "history").stat().st_mode) == 0o600


def test_tab_completes_commands_and_paths(root: Path) -> None:
    with editing(root) as child:
        child.send("/d")
        child.expect("the change")  # offered while typing
        child.send("\t\r")
        got(child, "'/diff'")
        child.send("look at src/user_s\t")
        child.expect("ervice.py")
        child.send("\r")
        got(child, "'look at src/user_service.py'")


def test_ctrl_c_drops_the_line_and_ctrl_d_ends(root: Path) -> None:
    with editing(root) as child:
        child.send("half a mess\x03")
        got(child, "interrupt")
        child.send("\x04")
        got(child, "end")


def test_the_status_line_is_inert(root: Path) -> None:
    with editing(root) as child:
        child.send("x\r")
        got(child, "'x'")
        child.send("\x04")
        child.expect(pexpect.EOF)
        assert "[/INST] \\x1b[31m" in re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", str(child.before))


def test_paths_stay_below_the_root_and_are_such_as_can_be_typed(root: Path) -> None:
    assert paths_like("s", root) == ["src/"]
    assert paths_like("src/", root) == ["src/main/", "src/user_cache.py", "src/user_service.py"]
    assert paths_like(".", root) == [".env"]
    assert paths_like("../", root) == paths_like("/", root) == paths_like("no/such", root) == []
    assert paths_like("src/\x00", root) == []


def test_commands_are_found_by_their_beginning() -> None:
    assert commands_like("/d", ["/help", "/diff"]) == ["/diff"]
