"""A change made in the private copy, on its way back: as a patch for `git apply`, and by `codeagent apply`."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

from codeagent.sandbox.engine import Engine
from codeagent.sandbox.toolbox import Toolbox
from tests.applying.applied import Tree, make, tree
from tests.docker.codeagent_cli import Program
from tests.model_server import ModelServer, call, reply, text

OLD: Tree = {
    "a.py": (0o100644, b"x = 1\n"),
    "logo": (0o100644, b"\0\1\2" * 50),
    "old name": (0o100644, b"same\n" * 20),
    "run.sh": (0o100644, b"#!/bin/sh\n"),
    "gone": (0o100644, b"bye\n"),
    "to link": (0o100644, b"l\n"),
    "to file/x": (0o100644, b"x\n"),
    "to folder": (0o100644, b"f\n"),
    "crlf": (0o100644, b"a\r\nb\r\n"),
    "emptied": (0o100644, b"e\n"),
    "link": (0o120000, b"a.py"),
    ".gitignore": (0o100644, b"*.o\n"),
    "lines": (0o100644, b"".join(b"line %d\n" % number for number in range(1, 21))),
}
CHANGE = r"""
printf 'x = 2\n' > a.py; printf '\000\003' > logo; mv 'old name' 'new name'; chmod +x run.sh; rm gone
rm 'to link'; ln -s a.py 'to link'; rm -r 'to file'; echo now > 'to file'
rm 'to folder'; mkdir 'to folder'; echo i > 'to folder/inner'
printf 'a\r\nB\r\nno end' > crlf; : > emptied; ln -sf run.sh link; : > 'new empty'; chmod +x 'new empty'
mkdir 'tab	and
break' 'trail ' ; printf q > 'tab	and
break/qu"o\te'; : > 'trail /e'; printf '\377\r' > "$(printf 'caf\351')"; printf 'é' > 'é'; printf x > ' -rf *'
touch a.o; sed -i 's/^line 10$/theirs/' lines
"""


def test_what_the_agent_changed_comes_out_exactly(tmp_path: Path, engine: Engine, toolbox: Toolbox) -> None:
    program = Program(tmp_path, engine)
    repo = make(tmp_path / "repo", OLD)
    expected = shutil.copytree(repo, tmp_path / "expected", symlinks=True)
    by_git = shutil.copytree(repo, tmp_path / "by git", symlinks=True)
    subprocess.run(["sh", "-ec", CHANGE], cwd=expected, check=True)
    (expected / "a.o").unlink()
    arguments = {"command": f"set -e{CHANGE}", "workdir": None, "timeout_seconds": None, "writes": True}
    with ModelServer([reply(call("run_command", arguments, call_id="one")), reply(text("Done."))]) as server:
        ran = program.run("ask", "change", "--repo", str(repo), "--json", "--approve", "contained", server=server)
    assert (ran.code, tree(repo)) == (0, OLD)
    patch = subprocess.run(program.argv("diff"), env=program.environ, cwd=repo, capture_output=True, check=True)
    subprocess.run(["git", "apply", "-"], cwd=by_git, input=patch.stdout, check=True)
    assert tree(by_git) == tree(expected)
    assert program.run("apply", "--yes", cwd=repo).code == 0
    assert tree(repo) == tree(expected)
    assert program.run("apply", "--yes", "--reverse", cwd=repo).code == 0
    assert tree(repo) == OLD
    lines = repo / "lines"
    lines.write_text(lines.read_text().replace("line 8\n", "mine\n"))
    refused = program.run("apply", "--yes", cwd=repo)
    assert (refused.code, "lines: it was changed since the copy was made" in refused.err) == (1, True)
    assert program.run("apply", "--yes", "--3way", cwd=repo).code == 0
    merged = (expected / "lines").read_text().replace("line 8\n", "mine\n")
    assert tree(repo) == {**tree(expected), "lines": (0o100644, merged.encode())}
