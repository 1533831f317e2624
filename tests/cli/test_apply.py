"""`codeagent apply`, as a process: at a terminal and without one."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pexpect
import pytest

from codeagent.applying.merge import keep_bases
from codeagent.events import SessionStarted, TurnStarted, Verified, WorkspaceChanged
from codeagent.session.store import Session
from tests.applying.applied import Tree, make, patch_between, put, tree
from tests.terminals import listening

pytestmark = pytest.mark.slow

OLD: Tree = {
    "a.py": (0o100644, b"x = 1\n"),
    ".git/HEAD": (0o100644, b"ref: refs/heads/main\n"),
    "logo": (0o100644, b"\0" * 99),
}
NEW: Tree = {
    **OLD,
    "a.py": (0o100644, b"x = 2\xff \x1b[2J\xe2\x80\xae\n"),
    "logo": (0o100644, bytes(range(256)) * 50),
    ".envrc": (0o100644, b"echo hi\n"),
}


@pytest.fixture
def repo(tmp_path: Path) -> Path:
    return make(tmp_path / "repo", OLD)


@pytest.fixture
def session(tmp_path: Path, repo: Path) -> Path:
    return stored(tmp_path, repo)


def stored(tmp_path: Path, repo: Path, patch: bytes | None = None) -> Path:
    with Session.create(tmp_path / "home") as made:
        made.emit(SessionStarted(str(repo.resolve()), "m", "p", "i", "v"))
        made.journal.turn = 1
        made.emit(TurnStarted("change it"))
        made.save_diff(patch or patch_between(OLD, NEW))
        keep_bases(repo, (made.folder / "diff.patch").read_bytes(), made.bases)
    return made.folder


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-c", "from codeagent.cli.main import main; main()", "apply", *arguments]


def environment(repo: Path) -> dict[str, str]:
    return {**os.environ, "CODEAGENT_HOME": str(repo.with_name("home")), "LANG": "C.UTF-8", "TERM": "xterm"}


def apply(repo: Path, *arguments: str) -> tuple[int, str, str]:
    done = subprocess.run(
        command(*arguments), cwd=repo, capture_output=True, env=environment(repo), stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout.decode(), done.stderr.decode()


def events(session: Path, kind: str) -> list[dict[str, Any]]:
    records = map(json.loads, (session / "events.jsonl").read_text().splitlines())
    return [record for record in records if record["type"] == kind]


def test_yes_applies_and_reverse_takes_back_with_everything_else_proven_untouched(repo: Path, session: Path) -> None:
    code, out, err = apply(repo, "--yes")
    assert (code, out, tree(repo)) == (0, "", NEW)
    shown, _, rest = err.partition("note: ")
    assert "-x = 1\n+x = 2\\xff \\x1b[2J\\u202e\n" in shown
    assert "Binary contents: 12,800 bytes in place of 99 bytes\n" in shown
    assert max(map(len, shown.splitlines())) < 110
    (first,) = events(session, "applied")
    assert rest == (
        ".envrc: other programs execute or obey a file of this name\n"
        f"Applied 3 files in {repo}. `codeagent apply --reverse` takes it back.\n"
        f"Everything else is untouched (sha256 {first['rest_before'][:16]} before and after).\n"
    )
    assert apply(repo, "--yes") == (0, "", f"The change is already in {repo}.\n")
    code, _, err = apply(repo, "--yes", "--reverse")
    assert (code, tree(repo)) == (0, OLD)
    assert f"Took back 3 files in {repo}.\n" in err
    assert "-x = 2\\xff \\x1b[2J\\u202e\n+x = 1\n" in err
    assert "Binary contents: 99 bytes in place of 12,800 bytes\n" in err
    assert "deleted file mode 100644\n" in err
    _, second = events(session, "applied")
    assert first["rest_before"] == first["rest_after"] == second["rest_before"] == second["rest_after"]
    assert [(one["reverse"], one["paths"]) for one in (first, second)] == [
        (False, [".envrc", "a.py", "logo"]),
        (True, [".envrc", "a.py", "logo"]),
    ]
    assert apply(repo, "--yes", "--reverse") == (0, "", f"The change is not in {repo}.\n")


def test_what_a_merge_names_takes_it_back(repo: Path, tmp_path: Path) -> None:
    lines = [b"line %d\n" % number for number in range(20)]
    old: Tree = {"lines": (0o100644, b"".join(lines))}
    patch = patch_between(old, {"lines": (0o100644, b"".join([b"agent\n", *lines[1:]]))})
    put(repo, old)
    folder = stored(tmp_path, repo, patch)
    put(repo, {"lines": (0o100644, b"".join([*lines[:2], b"mine\n", *lines[3:]]))})
    before = tree(repo)
    code, _, err = apply(repo, "--yes", "--3way", folder.name)
    (named,) = re.findall("`codeagent apply (.*)` takes it back", err)
    assert (code, named, tree(repo) == before) == (0, f"{folder.name} --reverse --3way", False)
    assert (apply(repo, "--yes", *named.split())[0], tree(repo)) == (0, before)


def test_without_a_terminal_nothing_happens_but_with_yes(repo: Path, session: Path) -> None:
    code, out, err = apply(repo)
    assert (code, out, tree(repo)) == (2, "", OLD)
    assert err == (
        "codeagent: error: There is no terminal to ask at.\n"
        "Look at `codeagent diff`, then use `codeagent apply --yes`.\n"
    )


def test_what_is_not_in_the_diff_is_named(repo: Path, session: Path) -> None:
    with Session.open(session) as opened:
        opened.emit(WorkspaceChanged([".envrc", "a.py", "huge\x1b.bin", "logo"]))
    code, _, err = apply(repo, "--yes")
    assert (code, err.splitlines()[0]) == (
        0,
        "note: huge\\x1b.bin has changed in the private copy, and is not in the diff",
    )


def test_files_that_changed_since_are_named_and_nothing_is_written(repo: Path, session: Path) -> None:
    (repo / "a.py").write_bytes(b"x = 3\n")
    (repo / ".envrc").write_bytes(b"mine\n")
    before = tree(repo)
    assert apply(repo, "--yes") == (
        1,
        "",
        "codeagent: error: The change does not fit the repository as it is now; nothing was written.\n"
        "  .envrc: there is a file of this name now\n"
        "  a.py: it was changed since the copy was made\n"
        "`--3way` merges where your changes and these do not touch. "
        "Resolve these files by hand (`codeagent diff` shows the change).\n",
    )
    assert tree(repo) == before
    assert events(session, "applied") == []


def at_terminal(repo: Path, *arguments: str) -> Any:
    argv = command(*arguments)
    return pexpect.spawn(argv[0], argv[1:], cwd=str(repo), env=environment(repo), timeout=60, dimensions=(40, 300))


def asked(child: Any) -> None:
    child.expect(re.escape("3 files"))
    child.expect(re.escape("[y/N]: "))
    listening(child)


def test_only_an_exact_answer_typed_after_the_question_counts(repo: Path, session: Path) -> None:
    child = at_terminal(repo)
    child.send("y\ry\r")  # before the question stands there
    for answer in ("yes", " y", "Y"):
        asked(child)
        child.sendline(answer)
    child.expect("Nothing was written")
    child.expect(pexpect.EOF)
    assert (child.wait(), tree(repo)) == (1, OLD)


@pytest.mark.parametrize(("answer", "code"), [("y\r", 0), ("n\r", 1), ("\r", 1), ("\x04", 1), ("\x03", 130)])
def test_the_answer_decides(repo: Path, session: Path, answer: str, code: int) -> None:
    child = at_terminal(repo)
    asked(child)
    child.send(answer)
    child.expect(pexpect.EOF)
    assert (b"Nothing was written." in child.before) == (code != 0)
    assert (child.wait(), tree(repo)) == (code, NEW if code == 0 else OLD)


def test_what_changes_between_the_question_and_the_answer_is_not_overwritten(repo: Path, session: Path) -> None:
    child = at_terminal(repo)
    asked(child)
    (repo / "a.py").write_bytes(b"x = 3\n")
    child.sendline("y")
    child.expect(r"a.py\s+was\s+changed\s+while\s+this\s+was\s+being\s+written;\s+nothing\s+was\s+changed\.")
    child.expect(pexpect.EOF)
    assert (child.wait(), tree(repo)) == (1, {**OLD, "a.py": (0o100644, b"x = 3\n")})


def test_a_second_one_in_the_same_repository_waits_for_no_answer(repo: Path, session: Path, tmp_path: Path) -> None:
    other = stored(tmp_path, repo)
    child = at_terminal(repo, session.name)
    asked(child)
    code, _, err = apply(repo, "--yes", other.name)
    assert (code, err.splitlines()[0], tree(repo)) == (
        2,
        f"codeagent: error: Another `codeagent apply` is at work in {repo}.",
        OLD,
    )
    code, _, err = apply(repo, "--yes", session.name)
    assert (code, "is in use by another codeagent" in err) == (2, True)
    child.sendline("y")
    child.expect(pexpect.EOF)
    assert (child.wait(), tree(repo)) == (0, NEW)


MANY: Tree = {f"f/{number}": (0o100644, b"old\n") for number in range(60)}
MANY_NEW: Tree = dict.fromkeys(MANY, (0o100644, b"new\n"))


# The interpreter tells of each operation on the file system before it happens.
SIGNALLED = """
import os, sys
number, times = int(sys.argv.pop(1)), int(sys.argv.pop(1))
seen = 0
def hook(event, _arguments):
    global seen
    seen += event == "os.rename"
    if event == "os.rename" and seen == 30:
        for _ in range(times):
            os.kill(os.getpid(), number)
sys.addaudithook(hook)
from codeagent.cli.main import main
main()
"""


def in_the_middle(repo: Path, tmp_path: Path, number: signal.Signals, times: int = 1) -> tuple[int, str]:
    """How an apply of many files ended that got a signal while it wrote them."""
    put(repo, MANY)
    with Session.create(tmp_path / "home") as made:
        made.emit(SessionStarted(str(repo.resolve()), "m", "p", "i", "v"))
        made.journal.turn = 1
        made.emit(TurnStarted("change them"))
        made.save_diff(patch_between(MANY, MANY_NEW))
    argv = [sys.executable, "-c", SIGNALLED, str(number.value), str(times), "apply", "--yes", made.id]
    done = subprocess.run(argv, cwd=repo, env=environment(repo), capture_output=True, text=True, input="")
    return done.returncode, done.stderr


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_while_it_writes_puts_everything_back(repo: Path, tmp_path: Path, number: signal.Signals) -> None:
    code, err = in_the_middle(repo, tmp_path, number, times=3)
    assert (code, err.splitlines()[-1]) == (130, "Stopped; everything is as it was.")
    assert tree(repo) == {**OLD, **MANY}


def test_after_a_kill_every_command_names_it_and_any_apply_puts_everything_back(repo: Path, tmp_path: Path) -> None:
    code, _ = in_the_middle(repo, tmp_path, signal.SIGKILL)
    assert code == -signal.SIGKILL
    broken = tree(repo)
    assert sum(path not in broken for path in MANY) <= 1
    for line in ("ask q", "fix q --verify x", "resume more", "doctor"):
        argv = [*command()[:-1], *line.split(), "--repo", str(repo)]
        done = subprocess.run(argv, cwd=repo, capture_output=True, text=True, env=environment(repo), input="")
        told = " ".join((done.stdout + done.stderr).split())
        assert "An earlier `codeagent apply` was killed" in told, line
        assert f"`codeagent apply --repo {repo}`" in told, line
        assert done.returncode == (1 if line == "doctor" else 2)
    assert tree(repo) == broken
    newer = stored(tmp_path, repo)
    code, _, err = apply(repo)
    assert (code, tree(repo)) == (2, {**OLD, **MANY})
    assert err.startswith(
        "note: An earlier `codeagent apply` was killed in the middle; what it had done was taken back"
    )
    assert apply(repo, "--yes", newer.name)[0] == 0
    assert tree(repo) == {**NEW, **MANY}


def verified(session: Path, status: str, patch: bytes, reason: str = "") -> None:
    with Session.open(session) as opened:
        opened.emit(Verified(status, reason, None, None, [], diff_sha256=hashlib.sha256(patch).hexdigest()))


@pytest.mark.parametrize(
    ("status", "of", "told"),
    [
        ("passed", "this", "Fix: verified (the command fails before the change and passes after it)"),
        ("failed", "this", "Fix: verification failed (it exits with 1\\x1b)"),
        (
            "passed",
            "an earlier one",
            "Fix: not verified (the change is not the one that the stored verification is about, "
            "whose status is passed)",
        ),
    ],
)
def test_the_verdict_is_told_with_the_change_it_is_about(
    repo: Path, session: Path, status: str, of: str, told: str
) -> None:
    patch = (session / "diff.patch").read_bytes()
    verified(
        session, status, patch if of == "this" else b"other", "it exits with 1\x1b" if status == "failed" else ""
    )
    argv = [*command()[:-1], "diff"]
    shown = subprocess.run(argv, cwd=repo, capture_output=True, env=environment(repo))
    assert (shown.returncode, shown.stdout, shown.stderr.decode()) == (0, patch, f"{told}\n")
    code, _, err = apply(repo, "--yes")
    assert (code, told in err.splitlines()) == (0, True)
    assert "Fix:" not in apply(repo, "--yes", "--reverse")[2]
